"""ResNets for images of 32 x 32, with three narrow stages."""

from __future__ import annotations

from typing import Any

from renaissance import nn
from renaissance.models import initial
from renaissance.models.resnet import BasicBlock
from renaissance.ops.movement import pad


class PaddedShortcut(nn.Module):
    """Every second place along both axes, with channels of zeros before and after: a shortcut without parameters.

    y[n, c, p, q] = x[n, c - extra, 2 p, 2 q], 0 for other channels

    extra    channels added on each side
    x        (N, C, H, W);  returns (N, C + 2 extra, ceil(H / 2), ceil(W / 2))
    raises   nothing
    source   He et al. 2015, arXiv:1512.03385, option A
    """

    def __init__(self, extra: int):
        super().__init__()
        self.extra = extra

    def forward(self, x: Any) -> Any:
        return pad(x[:, :, ::2, ::2], ((0, 0), (self.extra, self.extra), (0, 0), (0, 0)))


class CifarResNet(nn.Module):
    """A 3x3 convolution, three stages of basic blocks with 16, 32 and 64 channels, the mean over all places, an affine map.

    y = W mean(stage_3(stage_2(stage_1(conv(x)))))

    depth        blocks of each stage: 6 depth + 2 layers in all
    num_classes  features of the output
    x            (N, 3, H, W), usually 32 x 32;  returns (N, num_classes)
    raises       at the call what the layers raise
    source       He et al. 2015, arXiv:1512.03385, section 4.2
    """

    def __init__(self, depth: int, num_classes: int = 10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU()
        seen = 16
        for i in range(3):
            planes = 16 << i
            first = BasicBlock(seen, planes) if i == 0 else BasicBlock(seen, planes, 2, PaddedShortcut((planes - seen) // 2))
            setattr(self, f"layer{i + 1}", nn.Sequential(first, *(BasicBlock(planes, planes) for _ in range(1, depth))))
            seen = planes
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(seen, num_classes)
        initial.rectified(self)

    def forward(self, x: Any) -> Any:
        x = self.relu(self.bn1(self.conv1(x)))
        return self.fc(self.avgpool(self.layer3(self.layer2(self.layer1(x)))).flatten(1))


def resnet20(**settings: Any) -> CifarResNet:
    """ResNet with 20 layers for small images; settings are those of CifarResNet.

    269,722 parameters, images of 32 x 32

    returns  CifarResNet
    raises   as CifarResNet
    source   He et al. 2015, arXiv:1512.03385, table 6
    """
    return CifarResNet(3, **settings)


def resnet32(**settings: Any) -> CifarResNet:
    """ResNet with 32 layers for small images; settings are those of CifarResNet.

    464,154 parameters, images of 32 x 32

    returns  CifarResNet
    raises   as CifarResNet
    source   He et al. 2015, arXiv:1512.03385, table 6
    """
    return CifarResNet(5, **settings)


def resnet44(**settings: Any) -> CifarResNet:
    """ResNet with 44 layers for small images; settings are those of CifarResNet.

    658,586 parameters, images of 32 x 32

    returns  CifarResNet
    raises   as CifarResNet
    source   He et al. 2015, arXiv:1512.03385, table 6
    """
    return CifarResNet(7, **settings)


def resnet56(**settings: Any) -> CifarResNet:
    """ResNet with 56 layers for small images; settings are those of CifarResNet.

    853,018 parameters, images of 32 x 32

    returns  CifarResNet
    raises   as CifarResNet
    source   He et al. 2015, arXiv:1512.03385, table 6
    """
    return CifarResNet(9, **settings)
