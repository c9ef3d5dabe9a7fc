"""Inception v3: convolutions of several shapes side by side."""

from __future__ import annotations

from typing import Any, NamedTuple

from renaissance import nn
from renaissance.nn import functional as F
from renaissance.ops.movement import concat

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, which other models take off
_TALL: dict[str, Any] = {"kernel_size": (7, 1), "padding": (3, 0)}
_WIDE: dict[str, Any] = {"kernel_size": (1, 7), "padding": (0, 3)}


class InceptionOutputs(NamedTuple):
    """Classes, and those guessed half way in training."""

    logits: Any
    aux_logits: Any


class BasicConv2d(nn.Module):
    """A convolution without bias, batch norm and ReLU.

    y = relu(norm(conv(x)))

    in_channels, out_channels  channels seen and made
    settings                   further arguments of Conv2d
    x                          (N, in_channels, H, W);  returns (N, out_channels, P, Q)
    raises                     what Conv2d raises
    source                     Szegedy et al. 2015, arXiv:1512.00567
    """

    def __init__(self, in_channels: int, out_channels: int, **settings: Any):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **settings)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Any) -> Any:
        return F.relu(self.bn(self.conv(x)))


def _smoothed(x: Any) -> Any:
    return F.avg_pool2d(x, 3, 1, 1)


class InceptionA(nn.Module):
    """1x1, 5x5 and two 3x3 convolutions, and means, side by side: figure 5 of the paper."""

    def __init__(self, in_channels: int, pool_features: int):
        super().__init__()
        self.branch1x1 = BasicConv2d(in_channels, 64, kernel_size=1)
        self.branch5x5_1 = BasicConv2d(in_channels, 48, kernel_size=1)
        self.branch5x5_2 = BasicConv2d(48, 64, kernel_size=5, padding=2)
        self.branch3x3dbl_1 = BasicConv2d(in_channels, 64, kernel_size=1)
        self.branch3x3dbl_2 = BasicConv2d(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = BasicConv2d(96, 96, kernel_size=3, padding=1)
        self.branch_pool = BasicConv2d(in_channels, pool_features, kernel_size=1)

    def forward(self, x: Any) -> Any:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return concat([self.branch1x1(x), self.branch5x5_2(self.branch5x5_1(x)), double, self.branch_pool(_smoothed(x))], axis=1)


class InceptionB(nn.Module):
    """Strided 3x3 convolutions and maxima side by side: halves sizes."""

    def __init__(self, in_channels: int):
        super().__init__()
        self.branch3x3 = BasicConv2d(in_channels, 384, kernel_size=3, stride=2)
        self.branch3x3dbl_1 = BasicConv2d(in_channels, 64, kernel_size=1)
        self.branch3x3dbl_2 = BasicConv2d(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = BasicConv2d(96, 96, kernel_size=3, stride=2)

    def forward(self, x: Any) -> Any:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return concat([self.branch3x3(x), double, F.max_pool2d(x, 3, 2)], axis=1)


class InceptionC(nn.Module):
    """7x7 convolutions as pairs of 1x7 and 7x1: figure 6 of the paper."""

    def __init__(self, in_channels: int, channels_7x7: int):
        super().__init__()
        c = channels_7x7
        self.branch1x1 = BasicConv2d(in_channels, 192, kernel_size=1)
        self.branch7x7_1 = BasicConv2d(in_channels, c, kernel_size=1)
        self.branch7x7_2 = BasicConv2d(c, c, **_WIDE)
        self.branch7x7_3 = BasicConv2d(c, 192, **_TALL)
        self.branch7x7dbl_1 = BasicConv2d(in_channels, c, kernel_size=1)
        self.branch7x7dbl_2 = BasicConv2d(c, c, **_TALL)
        self.branch7x7dbl_3 = BasicConv2d(c, c, **_WIDE)
        self.branch7x7dbl_4 = BasicConv2d(c, c, **_TALL)
        self.branch7x7dbl_5 = BasicConv2d(c, 192, **_WIDE)
        self.branch_pool = BasicConv2d(in_channels, 192, kernel_size=1)

    def forward(self, x: Any) -> Any:
        single = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        return concat([self.branch1x1(x), single, double, self.branch_pool(_smoothed(x))], axis=1)


class InceptionD(nn.Module):
    """Strided 3x3 convolutions, one after a 7x7 one, and maxima side by side: halves sizes."""

    def __init__(self, in_channels: int):
        super().__init__()
        self.branch3x3_1 = BasicConv2d(in_channels, 192, kernel_size=1)
        self.branch3x3_2 = BasicConv2d(192, 320, kernel_size=3, stride=2)
        self.branch7x7x3_1 = BasicConv2d(in_channels, 192, kernel_size=1)
        self.branch7x7x3_2 = BasicConv2d(192, 192, **_WIDE)
        self.branch7x7x3_3 = BasicConv2d(192, 192, **_TALL)
        self.branch7x7x3_4 = BasicConv2d(192, 192, kernel_size=3, stride=2)

    def forward(self, x: Any) -> Any:
        long = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return concat([self.branch3x3_2(self.branch3x3_1(x)), long, F.max_pool2d(x, 3, 2)], axis=1)


class InceptionE(nn.Module):
    """3x3 convolutions split into 1x3 and 3x1 side by side: figure 7 of the paper."""

    def __init__(self, in_channels: int):
        super().__init__()
        wide: dict[str, Any] = {"kernel_size": (1, 3), "padding": (0, 1)}
        tall: dict[str, Any] = {"kernel_size": (3, 1), "padding": (1, 0)}
        self.branch1x1 = BasicConv2d(in_channels, 320, kernel_size=1)
        self.branch3x3_1 = BasicConv2d(in_channels, 384, kernel_size=1)
        self.branch3x3_2a = BasicConv2d(384, 384, **wide)
        self.branch3x3_2b = BasicConv2d(384, 384, **tall)
        self.branch3x3dbl_1 = BasicConv2d(in_channels, 448, kernel_size=1)
        self.branch3x3dbl_2 = BasicConv2d(448, 384, kernel_size=3, padding=1)
        self.branch3x3dbl_3a = BasicConv2d(384, 384, **wide)
        self.branch3x3dbl_3b = BasicConv2d(384, 384, **tall)
        self.branch_pool = BasicConv2d(in_channels, 192, kernel_size=1)

    def forward(self, x: Any) -> Any:
        single = self.branch3x3_1(x)
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        return concat([self.branch1x1(x), self.branch3x3_2a(single), self.branch3x3_2b(single), self.branch3x3dbl_3a(double),
                       self.branch3x3dbl_3b(double), self.branch_pool(_smoothed(x))], axis=1)


class InceptionAux(nn.Module):
    """Classes guessed half way, for training: means, two convolutions, the mean over all places, and an affine map."""

    def __init__(self, in_channels: int, num_classes: int):
        super().__init__()
        self.conv0 = BasicConv2d(in_channels, 128, kernel_size=1)
        self.conv1 = BasicConv2d(128, 768, kernel_size=5)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(768, num_classes)

    def forward(self, x: Any) -> Any:
        x = self.conv1(self.conv0(F.avg_pool2d(x, 5, 3)))
        return self.fc(self.avgpool(x).flatten(1))


class Inception3(nn.Module):
    """Convolutions and pooling, eleven blocks of convolutions side by side, the mean over all places, and an affine map.

    y = W dropout(mean(blocks(stem(x))))

    num_classes      features of the output
    aux_logits       whether training also gives the classes guessed after the eighth block
    transform_input  True: x is normalised with ImageNet's mean and deviation, and is brought to mean and deviation 0.5
    init_weights     False leaves the layers' own first values
    dropout          probability, before the affine map
    x                (N, 3, H, W), sizes at least 75, usually 299
    returns          (N, num_classes); in training with aux_logits: InceptionOutputs of two of these
    raises           at the call what the layers raise
    source           Szegedy et al. 2015, arXiv:1512.00567; torchvision, inception
    """

    def __init__(self, num_classes: int = 1000, aux_logits: bool = True, transform_input: bool = False, *,
                 init_weights: bool = True, dropout: float = 0.5):
        super().__init__()
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.Conv2d_1a_3x3 = BasicConv2d(3, 32, kernel_size=3, stride=2)
        self.Conv2d_2a_3x3 = BasicConv2d(32, 32, kernel_size=3)
        self.Conv2d_2b_3x3 = BasicConv2d(32, 64, kernel_size=3, padding=1)
        self.maxpool1 = nn.MaxPool2d(3, 2)
        self.Conv2d_3b_1x1 = BasicConv2d(64, 80, kernel_size=1)
        self.Conv2d_4a_3x3 = BasicConv2d(80, 192, kernel_size=3)
        self.maxpool2 = nn.MaxPool2d(3, 2)
        self.Mixed_5b = InceptionA(192, pool_features=32)
        self.Mixed_5c = InceptionA(256, pool_features=64)
        self.Mixed_5d = InceptionA(288, pool_features=64)
        self.Mixed_6a = InceptionB(288)
        self.Mixed_6b = InceptionC(768, channels_7x7=128)
        self.Mixed_6c = InceptionC(768, channels_7x7=160)
        self.Mixed_6d = InceptionC(768, channels_7x7=160)
        self.Mixed_6e = InceptionC(768, channels_7x7=192)
        self.AuxLogits = InceptionAux(768, num_classes) if aux_logits else None
        self.Mixed_7a = InceptionD(768)
        self.Mixed_7b = InceptionE(1280)
        self.Mixed_7c = InceptionE(2048)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(2048, num_classes)
        if init_weights:
            for m in self.modules():
                if isinstance(m, (nn.Conv2d, nn.Linear)):
                    guess = self.AuxLogits is not None and m is self.AuxLogits.fc
                    nn.init.trunc_normal_(m.weight, std=0.001 if guess else 0.1)

    def forward(self, x: Any) -> Any:
        if self.transform_input:
            x = concat([x[:, i:i + 1] * (s / 0.5) + (m - 0.5) / 0.5 for i, (m, s) in enumerate(zip(_MEAN, _STD))], axis=1)
        x = self.maxpool1(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))))
        x = self.maxpool2(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)))
        x = self.Mixed_6a(self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(x))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(x))))
        aux = self.AuxLogits(x) if self.AuxLogits is not None and self.training else None
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        logits = self.fc(self.dropout(self.avgpool(x)).flatten(1))
        return logits if aux is None else InceptionOutputs(logits, aux)


def inception_v3(**settings: Any) -> Inception3:
    """Inception v3; settings are those of Inception3.

    27,161,264 parameters, images of 299 x 299

    returns  Inception3
    raises   as Inception3
    source   Szegedy et al. 2015, arXiv:1512.00567, table 1
    """
    return Inception3(**settings)
