"""SqueezeNet: few channels seen by 3x3 convolutions."""

from __future__ import annotations

from typing import Any

from renaissance import nn
from renaissance.errors import ArgumentError
from renaissance.ops.movement import concat

# First convolution (channels, kernel), then fires (channels squeezed, expanded) and pooling.
_LAYERS: dict[str, tuple[tuple[int, int], tuple[tuple[int, int] | None, ...]]] = {
    "1_0": ((96, 7), (None, (16, 64), (16, 64), (32, 128), None, (32, 128), (48, 192), (48, 192), (64, 256), None, (64, 256))),
    "1_1": ((64, 3), (None, (16, 64), (16, 64), None, (32, 128), (32, 128), None, (48, 192), (48, 192), (64, 256), (64, 256))),
}


class Fire(nn.Module):
    """A 1x1 convolution to few channels, then a 1x1 and a 3x3 convolution of them side by side.

    y = [relu(expand_1(s)), relu(expand_3(s))], s = relu(squeeze(x))

    inplanes                          channels of x
    squeeze_planes                    channels between
    expand1x1_planes, expand3x3_planes  channels made by each
    x                                 (N, inplanes, H, W);  returns (N, expand1x1_planes + expand3x3_planes, H, W)
    raises                            what Conv2d raises
    source                            Iandola et al. 2016, arXiv:1602.07360, figure 1
    """

    def __init__(self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int):
        super().__init__()
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, 1)
        self.squeeze_activation = nn.ReLU()
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, 1)
        self.expand1x1_activation = nn.ReLU()
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, 3, padding=1)
        self.expand3x3_activation = nn.ReLU()

    def forward(self, x: Any) -> Any:
        x = self.squeeze_activation(self.squeeze(x))
        return concat([self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], axis=1)


class SqueezeNet(nn.Module):
    """A strided convolution, fires with pooling between, a 1x1 convolution to classes, and the mean over all places.

    y = mean(relu(conv(dropout(fires(relu(conv(x)))))))

    version      '1_0' or '1_1'
    num_classes  features of the output
    dropout      probability, before the last convolution
    x            (N, 3, H, W), sizes at least 21 (1_0) or 17 (1_1);  returns (N, num_classes)
    raises       ArgumentError for another version; what the layers raise
    source       Iandola et al. 2016, arXiv:1602.07360; torchvision, squeezenet
    """

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5):
        super().__init__()
        if version not in _LAYERS:
            raise ArgumentError(f"SqueezeNet: version must be '1_0' or '1_1', got {version!r}")
        (channels, kernel), rows = _LAYERS[version]
        layers: list[nn.Module] = [nn.Conv2d(3, channels, kernel, 2), nn.ReLU()]
        for row in rows:
            if row is None:
                layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
                continue
            layers.append(Fire(channels, row[0], row[1], row[1]))
            channels = 2 * row[1]
        last = nn.Conv2d(channels, num_classes, 1)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(dropout), last, nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1)))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                if m is last:
                    nn.init.normal_(m.weight, 0.0, 0.01)
                else:
                    nn.init.kaiming_uniform_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.features(x)).flatten(1)


def squeezenet1_0(**settings: Any) -> SqueezeNet:
    """SqueezeNet 1.0; settings are those of SqueezeNet.

    1,248,424 parameters, images of 224 x 224

    returns  SqueezeNet
    raises   as SqueezeNet
    source   Iandola et al. 2016, arXiv:1602.07360, table 1
    """
    return SqueezeNet("1_0", **settings)


def squeezenet1_1(**settings: Any) -> SqueezeNet:
    """SqueezeNet 1.1, with less than half the work of 1.0; settings are those of SqueezeNet.

    1,235,496 parameters, images of 224 x 224

    returns  SqueezeNet
    raises   as SqueezeNet
    source   Iandola et al. 2016, arXiv:1602.07360, and their release of version 1.1
    """
    return SqueezeNet("1_1", **settings)
