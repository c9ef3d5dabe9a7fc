"""ShuffleNetV2: half of the channels pass by each block, and channels change places after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renaissance import nn
from renaissance.errors import ArgumentError
from renaissance.ops.convolution import channels_first, channels_last
from renaissance.ops.movement import concat


def channel_shuffle(x: Any, groups: int) -> Any:
    """Channels of `groups` runs in turn.

    y[n, c groups + g] = x[n, g (C / groups) + c]

    x        (N, C, H, W)
    groups   divides C
    returns  the same shape
    raises   ShapeError where it does not divide
    source   Zhang et al. 2017, arXiv:1707.01083
    """
    last = channels_last(x)
    turned = last.reshape(*last.shape[:3], groups, x.shape[1] // groups).transpose(3, 4)
    return channels_first(turned.reshape(*last.shape))


def _pointwise(seen: int, made: int) -> list[nn.Module]:
    return [nn.Conv2d(seen, made, 1, bias=False), nn.BatchNorm2d(made), nn.ReLU()]


def _depthwise(channels: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False), nn.BatchNorm2d(channels)]


class InvertedResidual(nn.Module):
    """A 1x1, a depthwise 3x3 and a 1x1 convolution beside the other half of the channels, or beside a strided branch.

    y = shuffle([x_1, f(x_2)]), or shuffle([g(x), f(x)]) at stride 2

    inp, oup  channels seen and made; equal at stride 1
    stride    of the depthwise convolutions
    x         (N, inp, H, W);  returns (N, oup, H / stride, W / stride)
    raises    ArgumentError at stride 1 unless channels agree; what Conv2d raises
    source    Ma et al. 2018, arXiv:1807.11164, figure 3 c and d
    """

    def __init__(self, inp: int, oup: int, stride: int):
        super().__init__()
        half = oup // 2
        if stride == 1 and inp != 2 * half:
            raise ArgumentError(f"InvertedResidual: at stride 1, inp {inp} must be oup {oup}, and even")
        self.stride = stride
        self.branch1 = nn.Sequential(*([] if stride == 1 else [*_depthwise(inp, stride), *_pointwise(inp, half)]))
        self.branch2 = nn.Sequential(*_pointwise(half if stride == 1 else inp, half), *_depthwise(half, stride),
                                     *_pointwise(half, half))

    def forward(self, x: Any) -> Any:
        if self.stride == 1:
            half = x.shape[1] // 2
            first, second = x[:, :half], self.branch2(x[:, half:])
        else:
            first, second = self.branch1(x), self.branch2(x)
        return channel_shuffle(concat([first, second], axis=1), 2)


class ShuffleNetV2(nn.Module):
    """A strided convolution, pooling, three stages, a 1x1 convolution, the mean over all places, and an affine map.

    y = W mean(conv(stages(pool(conv(x)))))

    stages_repeats       blocks of each of the three stages
    stages_out_channels  channels of the first convolution, of each stage, and of the last convolution
    num_classes          features of the output
    x                    (N, 3, H, W);  returns (N, num_classes)
    raises               ArgumentError unless there are three numbers of blocks and five of channels; what the layers raise
    source               Ma et al. 2018, arXiv:1807.11164; torchvision, shufflenetv2
    """

    def __init__(self, stages_repeats: Sequence[int], stages_out_channels: Sequence[int], num_classes: int = 1000):
        super().__init__()
        if len(stages_repeats) != 3 or len(stages_out_channels) != 5:
            raise ArgumentError(f"ShuffleNetV2: takes 3 numbers of blocks and 5 of channels, got {stages_repeats!r} and "
                                f"{stages_out_channels!r}")
        seen = stages_out_channels[0]
        self.conv1 = nn.Sequential(nn.Conv2d(3, seen, 3, 2, 1, bias=False), nn.BatchNorm2d(seen), nn.ReLU())
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for i, (blocks, made) in enumerate(zip(stages_repeats, stages_out_channels[1:])):
            rest = (InvertedResidual(made, made, 1) for _ in range(1, blocks))
            setattr(self, f"stage{i + 2}", nn.Sequential(InvertedResidual(seen, made, 2), *rest))
            seen = made
        self.conv5 = nn.Sequential(*_pointwise(seen, stages_out_channels[-1]))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(stages_out_channels[-1], num_classes)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.conv1(x))
        x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
        return self.fc(self.avgpool(x).flatten(1))


def shufflenet_v2_x0_5(**settings: Any) -> ShuffleNetV2:
    """ShuffleNetV2 with half the channels; settings are those of ShuffleNetV2.

    1,366,792 parameters, images of 224 x 224

    returns  ShuffleNetV2
    raises   as ShuffleNetV2
    source   Ma et al. 2018, arXiv:1807.11164, table 5
    """
    return ShuffleNetV2((4, 8, 4), (24, 48, 96, 192, 1024), **settings)


def shufflenet_v2_x1_0(**settings: Any) -> ShuffleNetV2:
    """ShuffleNetV2; settings are those of ShuffleNetV2.

    2,278,604 parameters, images of 224 x 224

    returns  ShuffleNetV2
    raises   as ShuffleNetV2
    source   Ma et al. 2018, arXiv:1807.11164, table 5
    """
    return ShuffleNetV2((4, 8, 4), (24, 116, 232, 464, 1024), **settings)
