"""ResNet: blocks that add to what they get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from renaissance import nn
from renaissance.errors import ArgumentError
from renaissance.models import initial
from renaissance.models.blocks import Layer


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut.

    y = relu(x + f(x)), or relu(downsample(x) + f(x))

    inplanes, planes    channels seen and made
    stride              of the first convolution
    downsample          module of the shortcut; None: identity
    groups, base_width  1 and 64: nothing else is supported here
    dilation            1, likewise
    norm_layer          normalisation, made for a number of channels; None: BatchNorm2d
    x                   (N, inplanes, H, W);  returns (N, planes, H / stride, W / stride)
    raises              ArgumentError for groups, widths and dilations other than these
    source              He et al. 2015, arXiv:1512.03385, figure 5 left
    """

    expansion: ClassVar[int] = 1

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None, groups: int = 1,
                 base_width: int = 64, dilation: int = 1, norm_layer: Layer | None = None):
        super().__init__()
        if (groups, base_width, dilation) != (1, 64, 1):
            raise ArgumentError(f"BasicBlock: takes groups=1, base_width=64, dilation=1, got {groups}, {base_width}, {dilation}")
        norm = norm_layer or nn.BatchNorm2d
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = norm(planes)
        self.downsample = downsample

    def forward(self, x: Any) -> Any:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 convolutions, beside a shortcut; the stride lies in the 3x3 convolution.

    y = relu(x + f(x)), or relu(downsample(x) + f(x))

    inplanes, planes    channels seen; a quarter of those made
    stride              of the 3x3 convolution
    downsample          module of the shortcut; None: identity
    groups, base_width  of the 3x3 convolution: planes base_width / 64 channels in each group
    dilation            of the 3x3 convolution
    norm_layer          normalisation, made for a number of channels; None: BatchNorm2d
    x                   (N, inplanes, H, W);  returns (N, 4 planes, H / stride, W / stride)
    raises              what Conv2d raises
    source              He et al. 2015, arXiv:1512.03385, figure 5 right; the stride: torchvision, resnet
    """

    expansion: ClassVar[int] = 4

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None, groups: int = 1,
                 base_width: int = 64, dilation: int = 1, norm_layer: Layer | None = None):
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = nn.Conv2d(inplanes, width, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, dilation, dilation, groups, bias=False)
        self.bn2 = norm(width)
        self.conv3 = nn.Conv2d(width, planes * self.expansion, 1, bias=False)
        self.bn3 = norm(planes * self.expansion)
        self.relu = nn.ReLU()
        self.downsample = downsample

    def forward(self, x: Any) -> Any:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """A 7x7 convolution, pooling, four stages of blocks, the mean over all places, and an affine map.

    y = W mean(stage_4(... stage_1(pool(conv(x)))))

    block                         BasicBlock or Bottleneck
    layers                        blocks of each of the four stages
    num_classes                   features of the output
    zero_init_residual            True: blocks start as the identity
    groups, width_per_group       of the 3x3 convolutions of bottlenecks (ResNeXt, wide ResNet)
    replace_stride_with_dilation  for stages 2 to 4, whether to keep sizes and dilate instead
    norm_layer                    normalisation, made for a number of channels; None: BatchNorm2d
    x                             (N, 3, H, W);  returns (N, num_classes)
    raises                        ArgumentError unless there are four stages and three choices of dilation; what the block raises
    source                        He et al. 2015, arXiv:1512.03385; torchvision, resnet
    """

    def __init__(self, block: type[BasicBlock | Bottleneck], layers: Sequence[int], num_classes: int = 1000,
                 zero_init_residual: bool = False, groups: int = 1, width_per_group: int = 64,
                 replace_stride_with_dilation: Sequence[bool] | None = None, norm_layer: Layer | None = None):
        super().__init__()
        dilated = (False, *(replace_stride_with_dilation or (False, False, False)))
        if len(dilated) != 4 or len(layers) != 4:
            raise ArgumentError(f"ResNet: takes 4 numbers of layers and 3 choices of dilation, got {layers!r} and "
                                f"{replace_stride_with_dilation!r}")
        norm = norm_layer or nn.BatchNorm2d
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = norm(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        seen, dilation = 64, 1
        for i, (depth, keeps) in enumerate(zip(layers, dilated)):
            planes, stride, before = 64 << i, 1 if i == 0 or keeps else 2, dilation
            dilation *= 2 if keeps else 1
            shared = {"groups": groups, "base_width": width_per_group, "norm_layer": norm}
            made = planes * block.expansion
            downsample = None
            if stride != 1 or seen != made:
                downsample = nn.Sequential(nn.Conv2d(seen, made, 1, stride, bias=False), norm(made))
            first = block(seen, planes, stride, downsample, dilation=before, **shared)
            rest = (block(made, planes, dilation=dilation, **shared) for _ in range(1, depth))
            setattr(self, f"layer{i + 1}", nn.Sequential(first, *rest))
            seen = made
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(seen, num_classes)
        initial.rectified(self)
        if zero_init_residual:
            for m in self.modules():
                if isinstance(m, (BasicBlock, Bottleneck)):
                    nn.init.zeros_(m.bn2.weight if isinstance(m, BasicBlock) else m.bn3.weight)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def resnet18(**settings: Any) -> ResNet:
    """ResNet with 18 layers; settings are those of ResNet.

    11,689,512 parameters, images of 224 x 224

    returns  ResNet
    raises   as ResNet
    source   He et al. 2015, arXiv:1512.03385, table 1
    """
    return ResNet(BasicBlock, (2, 2, 2, 2), **settings)


def resnet34(**settings: Any) -> ResNet:
    """ResNet with 34 layers; settings are those of ResNet.

    21,797,672 parameters, images of 224 x 224

    returns  ResNet
    raises   as ResNet
    source   He et al. 2015, arXiv:1512.03385, table 1
    """
    return ResNet(BasicBlock, (3, 4, 6, 3), **settings)


def resnet50(**settings: Any) -> ResNet:
    """ResNet with 50 layers; settings are those of ResNet.

    25,557,032 parameters, images of 224 x 224

    returns  ResNet
    raises   as ResNet
    source   He et al. 2015, arXiv:1512.03385, table 1
    """
    return ResNet(Bottleneck, (3, 4, 6, 3), **settings)


def resnet101(**settings: Any) -> ResNet:
    """ResNet with 101 layers; settings are those of ResNet.

    44,549,160 parameters, images of 224 x 224

    returns  ResNet
    raises   as ResNet
    source   He et al. 2015, arXiv:1512.03385, table 1
    """
    return ResNet(Bottleneck, (3, 4, 23, 3), **settings)


def resnet152(**settings: Any) -> ResNet:
    """ResNet with 152 layers; settings are those of ResNet.

    60,192,808 parameters, images of 224 x 224

    returns  ResNet
    raises   as ResNet
    source   He et al. 2015, arXiv:1512.03385, table 1
    """
    return ResNet(Bottleneck, (3, 8, 36, 3), **settings)
