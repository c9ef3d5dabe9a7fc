"""MobileNetV2: blocks that widen, filter each channel on its own, and narrow again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renaissance import nn
from renaissance.models import initial
from renaissance.models.blocks import ConvNorm, Layer, divisible

# Of each stage: factor of widening, channels, blocks, stride of the first. Table 2.
_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class InvertedResidual(nn.Module):
    """A 1x1 convolution that widens, a depthwise 3x3 one, and a 1x1 one that narrows; added to x where shapes agree.

    y = f(x), or x + f(x) at stride 1 with as many channels made as seen

    inp, oup      channels seen and made
    stride        of the depthwise convolution
    expand_ratio  factor of widening; 1: no first convolution
    norm_layer    normalisation, made for a number of channels; None: BatchNorm2d
    x             (N, inp, H, W);  returns (N, oup, H / stride, W / stride)
    raises        what Conv2d raises
    source        Sandler et al. 2018, arXiv:1801.04381, figure 4
    """

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: int, norm_layer: Layer | None = None):
        super().__init__()
        self.adds = stride == 1 and inp == oup
        hidden = round(inp * expand_ratio)
        shared: dict[str, Any] = {"norm": norm_layer, "activation": nn.ReLU6}
        layers: list[nn.Module] = [] if expand_ratio == 1 else [ConvNorm(inp, hidden, 1, **shared)]
        layers += [ConvNorm(hidden, hidden, 3, stride, groups=hidden, **shared), nn.Conv2d(hidden, oup, 1, bias=False),
                   (norm_layer or nn.BatchNorm2d)(oup)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2(nn.Module):
    """A strided convolution, seven stages of inverted residuals, a 1x1 convolution, the mean over all places, an affine map.

    y = W dropout(mean(conv(stages(x))))

    num_classes                features of the output
    width_mult                 factor on the channels of all layers
    inverted_residual_setting  of each stage: factor of widening, channels, blocks, stride; None: those of the paper
    round_nearest              channels are rounded to multiples of this
    norm_layer                 normalisation, made for a number of channels; None: BatchNorm2d
    dropout                    probability, before the affine map
    x                          (N, 3, H, W);  returns (N, num_classes)
    raises                     what the layers raise
    source                     Sandler et al. 2018, arXiv:1801.04381; torchvision, mobilenetv2
    """

    def __init__(self, num_classes: int = 1000, width_mult: float = 1.0,
                 inverted_residual_setting: Sequence[Sequence[int]] | None = None, round_nearest: int = 8,
                 norm_layer: Layer | None = None, dropout: float = 0.2):
        super().__init__()
        shared: dict[str, Any] = {"norm": norm_layer, "activation": nn.ReLU6}
        seen = divisible(32 * width_mult, round_nearest)
        layers: list[nn.Module] = [ConvNorm(3, seen, 3, 2, **shared)]
        for widening, channels, blocks, stride in inverted_residual_setting or _STAGES:
            made = divisible(channels * width_mult, round_nearest)
            for i in range(blocks):
                layers.append(InvertedResidual(seen, made, stride if i == 0 else 1, widening, norm_layer))
                seen = made
        last = divisible(1280 * max(1.0, width_mult), round_nearest)
        self.features = nn.Sequential(*layers, ConvNorm(seen, last, 1, **shared))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, num_classes))
        initial.rectified(self)
        initial.narrow(self)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def mobilenet_v2(**settings: Any) -> MobileNetV2:
    """MobileNetV2; settings are those of MobileNetV2.

    3,504,872 parameters, images of 224 x 224

    returns  MobileNetV2
    raises   as MobileNetV2
    source   Sandler et al. 2018, arXiv:1801.04381, table 2
    """
    return MobileNetV2(**settings)
