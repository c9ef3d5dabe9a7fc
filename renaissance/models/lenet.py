"""LeNet-5."""

from __future__ import annotations

from typing import Any

from renaissance import nn


class LeNet(nn.Module):
    """Two convolutions with pooling, then three affine maps; with ReLU and the largest of each window, as it is used today.

    61,706 parameters for ten classes of grey images of 28 x 28

    num_classes  features of the output
    in_channels  of the images
    x            (N, in_channels, 28, 28), or (N, 28, 28) for one channel;  returns (N, num_classes)
    raises       ShapeError at the call for another size
    source       LeCun et al. 1998, figure 2
    """

    def __init__(self, num_classes: int = 10, in_channels: int = 1):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(16 * 5 * 5, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, num_classes),
        )

    def forward(self, x: Any) -> Any:
        return self.classifier(self.features(x if x.ndim == 4 else x.reshape(x.shape[0], 1, *x.shape[1:])))


def lenet(**settings: Any) -> LeNet:
    """LeNet-5 for digits; settings are those of LeNet.

    61,706 parameters, images of 28 x 28

    returns  LeNet
    raises   nothing
    source   LeCun et al. 1998
    """
    return LeNet(**settings)
