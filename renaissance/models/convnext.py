"""ConvNeXt: depthwise 7x7 convolutions and affine maps of channels, with layer norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from renaissance import nn
from renaissance.errors import ArgumentError
from renaissance.models.blocks import StochasticDepth
from renaissance.ops.convolution import channels_first, channels_last
from renaissance.tensor import full


class CNBlockConfig(NamedTuple):
    """A stage: channels of its blocks, channels after it (None: it is the last), and blocks."""

    input_channels: int
    out_channels: int | None
    num_layers: int


class LayerNorm2d(nn.LayerNorm):
    """Gives the channels of each place mean 0 and variance 1; x is (N, C, H, W), otherwise as LayerNorm."""

    def forward(self, x: Any) -> Any:
        return channels_first(super().forward(channels_last(x)))


class ChannelsLast(nn.Module):
    """(N, C, ...) as (N, ..., C)."""

    def forward(self, x: Any) -> Any:
        return channels_last(x)


class ChannelsFirst(nn.Module):
    """(N, ..., C) as (N, C, ...)."""

    def forward(self, x: Any) -> Any:
        return channels_first(x)


class CNBlock(nn.Module):
    """A depthwise 7x7 convolution, layer norm, and two affine maps of the channels of each place with GELU between.

    y = x + depth(scale f(x))

    dim                    channels
    layer_scale            first value of the scale of each channel
    stochastic_depth_prob  probability that a sample skips the block
    x                      (N, dim, H, W);  returns the same shape
    raises                 what the layers raise
    source                 Liu et al. 2022, arXiv:2201.03545, figure 4
    """

    def __init__(self, dim: int, layer_scale: float, stochastic_depth_prob: float):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, 7, padding=3, groups=dim), ChannelsLast(), nn.LayerNorm(dim, eps=1e-6),
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), ChannelsFirst(),
        )
        self.layer_scale = nn.Parameter(full((dim, 1, 1), layer_scale))
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob)

    def forward(self, x: Any) -> Any:
        return self.stochastic_depth(self.layer_scale * self.block(x)) + x


class ConvNeXt(nn.Module):
    """A 4x4 convolution with stride 4, stages of blocks with strided 2x2 convolutions between, the mean, and an affine map.

    y = W norm(mean(stages(norm(conv(x)))))

    block_setting          a CNBlockConfig for each stage
    stochastic_depth_prob  block i of n (from 0) is skipped with i / (n - 1) of this probability
    layer_scale            first value of the scale of each channel of a block
    num_classes            features of the output
    x                      (N, 3, H, W), sizes at least 32;  returns (N, num_classes)
    raises                 ArgumentError without stages; what the layers raise
    source                 Liu et al. 2022, arXiv:2201.03545; torchvision, convnext
    """

    def __init__(self, block_setting: Sequence[CNBlockConfig], stochastic_depth_prob: float = 0.0, layer_scale: float = 1e-6,
                 num_classes: int = 1000):
        super().__init__()
        if not block_setting:
            raise ArgumentError("ConvNeXt: block_setting must hold at least one stage")
        first, last = block_setting[0].input_channels, block_setting[-1]
        layers: list[nn.Module] = [nn.Sequential(nn.Conv2d(3, first, 4, 4), LayerNorm2d(first, eps=1e-6))]
        total, at = sum(stage.num_layers for stage in block_setting), 0
        for stage in block_setting:
            probabilities = [stochastic_depth_prob * i / max(1, total - 1) for i in range(at, at + stage.num_layers)]
            at += stage.num_layers
            layers.append(nn.Sequential(*(CNBlock(stage.input_channels, layer_scale, p) for p in probabilities)))
            if stage.out_channels is not None:
                layers.append(nn.Sequential(LayerNorm2d(stage.input_channels, eps=1e-6),
                                            nn.Conv2d(stage.input_channels, stage.out_channels, 2, 2)))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        channels = last.input_channels if last.out_channels is None else last.out_channels
        self.classifier = nn.Sequential(LayerNorm2d(channels, eps=1e-6), nn.Flatten(1), nn.Linear(channels, num_classes))
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(m.weight, std=0.02)
                nn.init.zeros_(m.bias)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.avgpool(self.features(x)))


def convnext_tiny(*, stochastic_depth_prob: float = 0.1, **settings: Any) -> ConvNeXt:
    """ConvNeXt, tiny; further settings are those of ConvNeXt.

    28,589,128 parameters, images of 224 x 224

    stochastic_depth_prob  probability that the last block is skipped
    returns                ConvNeXt
    raises                 as ConvNeXt
    source                 Liu et al. 2022, arXiv:2201.03545, table 9
    """
    rows = (CNBlockConfig(96, 192, 3), CNBlockConfig(192, 384, 3), CNBlockConfig(384, 768, 9), CNBlockConfig(768, None, 3))
    return ConvNeXt(rows, stochastic_depth_prob, **settings)
