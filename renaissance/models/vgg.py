"""VGG: stacks of 3x3 convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renaissance import nn
from renaissance.models import initial

# Channels of each stage, and how many convolutions it has: columns A, B, D and E of table 1.
_CHANNELS = (64, 128, 256, 512, 512)
_DEPTHS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def stages(channels: Sequence[int], depths: Sequence[int], batch_norm: bool = False) -> nn.Sequential:
    """Stages of 3x3 convolutions, each with ReLU (after batch norm, where wanted) and with pooling by two at its end.

    channels    of each stage
    depths      convolutions of each stage
    batch_norm  whether one follows each convolution
    returns     Sequential of (N, 3, H, W) -> (N, channels[-1], H / 2^stages, W / 2^stages)
    """
    layers: list[nn.Module] = []
    seen = 3
    for made, depth in zip(channels, depths):
        for _ in range(depth):
            layers += [nn.Conv2d(seen, made, 3, padding=1), *([nn.BatchNorm2d(made)] if batch_norm else []), nn.ReLU()]
            seen = made
        layers.append(nn.MaxPool2d(2, 2))
    return nn.Sequential(*layers)


class VGG(nn.Module):
    """Convolutions, means over a grid of cells, and three affine maps with dropout.

    y = W_3 relu(W_2 relu(W_1 pool(features(x))))

    features      module with (N, channels, h, w) as output
    num_classes   features of the output
    init_weights  False leaves the layers' own first values
    dropout       probability
    channels      of what features gives
    grid          cells along each axis that are kept before the affine maps; 1 for images of 32 x 32
    hidden        features of the affine maps between; 512 is usual for images of 32 x 32
    x             (N, 3, H, W), sizes at least 32;  returns (N, num_classes)
    raises        at the call what the layers raise
    source        Simonyan, Zisserman 2014, arXiv:1409.1556; torchvision, vgg
    """

    def __init__(self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5, *,
                 channels: int = 512, grid: int = 7, hidden: int = 4096):
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((grid, grid))
        self.classifier = nn.Sequential(
            nn.Linear(channels * grid * grid, hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden, num_classes),
        )
        if init_weights:
            initial.rectified(self)
            initial.narrow(self)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def _vgg(depth: int, batch_norm: bool, settings: dict[str, Any]) -> VGG:
    return VGG(stages(_CHANNELS, _DEPTHS[depth], batch_norm), **settings)


def vgg11(**settings: Any) -> VGG:
    """VGG with 11 layers; settings are those of VGG.

    132,863,336 parameters, images of 224 x 224

    returns  VGG
    raises   as VGG
    source   Simonyan, Zisserman 2014, arXiv:1409.1556, column A
    """
    return _vgg(11, False, settings)


def vgg11_bn(**settings: Any) -> VGG:
    """VGG with 11 layers and batch norm; settings are those of VGG.

    132,868,840 parameters, images of 224 x 224

    returns  VGG
    raises   as VGG
    source   Simonyan, Zisserman 2014, arXiv:1409.1556, column A
    """
    return _vgg(11, True, settings)


def vgg13(**settings: Any) -> VGG:
    """VGG with 13 layers; settings are those of VGG.

    133,047,848 parameters, images of 224 x 224

    returns  VGG
    raises   as VGG
    source   Simonyan, Zisserman 2014, arXiv:1409.1556, column B
    """
    return _vgg(13, False, settings)


def vgg13_bn(**settings: Any) -> VGG:
    """VGG with 13 layers and batch norm; settings are those of VGG.

    133,053,736 parameters, images of 224 x 224

    returns  VGG
    raises   as VGG
    source   Simonyan, Zisserman 2014, arXiv:1409.1556, column B
    """
    return _vgg(13, True, settings)


def vgg16(**settings: Any) -> VGG:
    """VGG with 16 layers; settings are those of VGG.

    138,357,544 parameters, images of 224 x 224

    returns  VGG
    raises   as VGG
    source   Simonyan, Zisserman 2014, arXiv:1409.1556, column D
    """
    return _vgg(16, False, settings)


def vgg16_bn(**settings: Any) -> VGG:
    """VGG with 16 layers and batch norm; settings are those of VGG.

    138,365,992 parameters, images of 224 x 224

    returns  VGG
    raises   as VGG
    source   Simonyan, Zisserman 2014, arXiv:1409.1556, column D
    """
    return _vgg(16, True, settings)


def vgg19(**settings: Any) -> VGG:
    """VGG with 19 layers; settings are those of VGG.

    143,667,240 parameters, images of 224 x 224

    returns  VGG
    raises   as VGG
    source   Simonyan, Zisserman 2014, arXiv:1409.1556, column E
    """
    return _vgg(19, False, settings)


def vgg19_bn(**settings: Any) -> VGG:
    """VGG with 19 layers and batch norm; settings are those of VGG.

    143,678,248 parameters, images of 224 x 224

    returns  VGG
    raises   as VGG
    source   Simonyan, Zisserman 2014, arXiv:1409.1556, column E
    """
    return _vgg(19, True, settings)
