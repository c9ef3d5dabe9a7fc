"""U-Net: down to coarse features, up again beside the fine ones."""

from __future__ import annotations

from typing import Any

from renaissance import nn
from renaissance.errors import ArgumentError, ShapeError
from renaissance.models import initial
from renaissance.ops.movement import concat


def double(seen: int, made: int) -> nn.Sequential:
    """Two 3x3 convolutions that keep sizes, each with batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(seen, made, 3, padding=1, bias=False), nn.BatchNorm2d(made), nn.ReLU(),
        nn.Conv2d(made, made, 3, padding=1, bias=False), nn.BatchNorm2d(made), nn.ReLU(),
    )


class UNet(nn.Module):
    """Convolutions and pooling to coarse places, transposed convolutions back, and at each size the features from the way down.

    y = W decode_1([up(... decode_d([up(bottleneck), skip_d])), skip_1])

    in_channels  of the images
    num_classes  channels of the output
    width        channels at the finest places; twice as many at each coarser size
    depth        how often sizes are halved
    x            (N, in_channels, H, W), sizes multiples of 2^depth;  returns (N, num_classes, H, W)
    raises       ArgumentError for a depth below 1; ShapeError at the call for other sizes
    source       Ronneberger et al. 2015, arXiv:1505.04597; with padding, and batch norm after each convolution
    """

    def __init__(self, in_channels: int = 3, num_classes: int = 2, *, width: int = 64, depth: int = 4):
        super().__init__()
        if depth < 1:
            raise ArgumentError(f"UNet: depth must be at least 1, got {depth}")
        self.depth = depth
        self.pool = nn.MaxPool2d(2)
        seen = in_channels
        for i in range(depth + 1):
            setattr(self, f"encode{i + 1}", double(seen, width << i))
            seen = width << i
        for i in reversed(range(depth)):
            made = width << i
            setattr(self, f"up{i + 1}", nn.ConvTranspose2d(2 * made, made, 2, 2))
            setattr(self, f"decode{i + 1}", double(2 * made, made))
        self.head = nn.Conv2d(width, num_classes, 1)
        initial.rectified(self)

    def forward(self, x: Any) -> Any:
        if any(n % (1 << self.depth) for n in x.shape[-2:]):
            raise ShapeError(f"UNet: height and width must be multiples of {1 << self.depth}, got shape {x.shape}")
        skips = []
        for i in range(1, self.depth + 1):
            x = getattr(self, f"encode{i}")(x)
            skips.append(x)
            x = self.pool(x)
        x = getattr(self, f"encode{self.depth + 1}")(x)
        for i in reversed(range(1, self.depth + 1)):
            x = concat([getattr(self, f"up{i}")(x), skips.pop()], axis=1)
            x = getattr(self, f"decode{i}")(x)
        return self.head(x)


def unet(**settings: Any) -> UNet:
    """U-Net for segmentation; settings are those of UNet.

    31,037,698 parameters, images of 512 x 512

    returns  UNet
    raises   as UNet
    source   Ronneberger et al. 2015, arXiv:1505.04597, figure 1
    """
    return UNet(**settings)
