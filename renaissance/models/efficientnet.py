"""EfficientNet: inverted residuals with gates, scaled in width and depth together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from renaissance import nn
from renaissance.errors import ArgumentError
from renaissance.models import initial
from renaissance.models.blocks import ConvNorm, Layer, SqueezeExcitation, StochasticDepth, divisible


class MBConvConfig(NamedTuple):
    """A stage of table 1 of the paper.

    expand_ratio                   factor of widening
    kernel, stride                 of the depthwise convolution; stride only in the first block
    input_channels, out_channels   seen and made, before width_mult
    num_layers                     blocks, before depth_mult
    width_mult, depth_mult         factors on channels and blocks
    """

    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    width_mult: float = 1.0
    depth_mult: float = 1.0

    def channels(self) -> tuple[int, int]:
        """Channels seen and made: multiples of 8."""
        return divisible(self.input_channels * self.width_mult), divisible(self.out_channels * self.width_mult)

    def depth(self) -> int:
        """Blocks, rounded up."""
        return math.ceil(self.num_layers * self.depth_mult)


class MBConv(nn.Module):
    """A 1x1 convolution that widens, a depthwise one, a gate, and a 1x1 convolution that narrows; added to x where shapes agree.

    y = f(x), or x + depth(f(x)) at stride 1 with as many channels made as seen

    seen, made             channels
    expand_ratio           factor of widening
    kernel, stride         of the depthwise convolution
    stochastic_depth_prob  probability that a sample skips the block
    norm_layer             normalisation, made for a number of channels
    x                      (N, seen, H, W);  returns (N, made, H / stride, W / stride)
    raises                 what the layers raise
    source                 Tan, Le 2019, arXiv:1905.11946, section 4
    """

    def __init__(self, seen: int, made: int, expand_ratio: float, kernel: int, stride: int, stochastic_depth_prob: float,
                 norm_layer: Layer):
        super().__init__()
        self.adds = stride == 1 and seen == made
        shared: dict[str, Any] = {"norm": norm_layer, "activation": nn.SiLU}
        between = divisible(seen * expand_ratio)
        layers: list[nn.Module] = [] if between == seen else [ConvNorm(seen, between, 1, **shared)]
        layers += [ConvNorm(between, between, kernel, stride, groups=between, **shared),
                   SqueezeExcitation(between, max(1, seen // 4), nn.SiLU),
                   ConvNorm(between, made, 1, norm=norm_layer, activation=None)]
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob)

    def forward(self, x: Any) -> Any:
        return self.stochastic_depth(self.block(x)) + x if self.adds else self.block(x)


class EfficientNet(nn.Module):
    """A strided convolution, stages of MBConv, a 1x1 convolution, the mean over all places, and an affine map.

    y = W dropout(mean(conv(stages(x))))

    inverted_residual_setting  an MBConvConfig for each stage
    dropout                    probability, before the affine map
    stochastic_depth_prob      block i of n is skipped with i / n of this probability
    num_classes                features of the output
    norm_layer                 normalisation, made for a number of channels; None: BatchNorm2d
    last_channel               channels of the last convolution; None: four times those it sees
    x                          (N, 3, H, W);  returns (N, num_classes)
    raises                     ArgumentError without stages; what the layers raise
    source                     Tan, Le 2019, arXiv:1905.11946; torchvision, efficientnet
    """

    def __init__(self, inverted_residual_setting: Sequence[MBConvConfig], dropout: float, stochastic_depth_prob: float = 0.2,
                 num_classes: int = 1000, norm_layer: Layer | None = None, last_channel: int | None = None):
        super().__init__()
        if not inverted_residual_setting:
            raise ArgumentError("EfficientNet: inverted_residual_setting must hold at least one stage")
        norm = norm_layer or nn.BatchNorm2d
        ends: dict[str, Any] = {"norm": norm, "activation": nn.SiLU}
        layers: list[nn.Module] = [ConvNorm(3, inverted_residual_setting[0].channels()[0], 3, 2, **ends)]
        total, at = sum(cnf.depth() for cnf in inverted_residual_setting), 0
        made = 0
        for cnf in inverted_residual_setting:
            (seen, made), stage = cnf.channels(), []
            for i in range(cnf.depth()):
                stage.append(MBConv(made if i else seen, made, cnf.expand_ratio, cnf.kernel, 1 if i else cnf.stride,
                                    stochastic_depth_prob * at / total, norm))
                at += 1
            layers.append(nn.Sequential(*stage))
        last = 4 * made if last_channel is None else last_channel
        self.features = nn.Sequential(*layers, ConvNorm(made, last, 1, **ends))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, num_classes))
        initial.rectified(self)
        bound = 1 / math.sqrt(num_classes)
        nn.init.uniform_(self.classifier[1].weight, -bound, bound)
        nn.init.zeros_(self.classifier[1].bias)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def _scaled(width_mult: float, depth_mult: float) -> list[MBConvConfig]:
    """The stages of B0, table 1, with factors on channels and blocks."""
    rows = ((1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3), (6, 5, 1, 80, 112, 3),
            (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1))
    return [MBConvConfig(*row, width_mult, depth_mult) for row in rows]


def efficientnet_b0(*, dropout: float = 0.2, **settings: Any) -> EfficientNet:
    """EfficientNet B0; further settings are those of EfficientNet.

    5,288,548 parameters, images of 224 x 224

    dropout  probability, before the affine map
    returns  EfficientNet
    raises   as EfficientNet
    source   Tan, Le 2019, arXiv:1905.11946, table 1
    """
    return EfficientNet(_scaled(1.0, 1.0), dropout, **settings)
