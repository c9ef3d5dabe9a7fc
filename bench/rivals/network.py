"""The convolutional networks of the rows in PyTorch, with their optimizer and their data: channels last throughout."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from bench.layers import MOBILENETV2, RESNET50, VGG16
from bench.shapes import NETWORKS, Network


def vgg16_bn(widths: tuple[int, ...]) -> nn.Sequential:
    """VGG with 16 layers and batch norm; `widths` are those of its fully connected layers."""
    layers: list[nn.Module] = []
    channels = 3
    for stage in VGG16:
        for filters in stage:
            layers += [nn.Conv2d(channels, filters, 3, padding=1, bias=False), nn.BatchNorm2d(filters), nn.ReLU(inplace=True)]
            channels = filters
        layers.append(nn.MaxPool2d(2, 2))
    layers.append(nn.Flatten())
    for inputs, outputs in zip(widths[:-2], widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU(inplace=True), nn.Dropout(0.5)]
    return nn.Sequential(*layers, nn.Linear(*widths[-2:]))


class Bottleneck(nn.Module):
    """A 3x3 convolution between two of 1x1, beside a shortcut; `inner` channels within, four times as many come out."""

    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        outer = 4 * inner
        self.narrow, self.norm1 = nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv, self.norm2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner)
        self.widen, self.norm3 = nn.Conv2d(inner, outer, 1, bias=False), nn.BatchNorm2d(outer)
        self.shortcut = nn.Identity() if stride == 1 and channels == outer else nn.Sequential(
            nn.Conv2d(channels, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.narrow(x)), inplace=True)
        y = F.relu(self.norm2(self.conv(y)), inplace=True)
        return F.relu(self.norm3(self.widen(y)) + self.shortcut(x), inplace=True)


def resnet50() -> nn.Sequential:
    """ResNet with 50 layers."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                               nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for inner, blocks, stride in RESNET50:
        for block in range(blocks):
            layers.append(Bottleneck(channels, inner, stride if block == 0 else 1))
            channels = 4 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def norm_relu6(channels: int) -> tuple[nn.Module, nn.Module]:
    """Batch norm and ReLU up to 6."""
    return nn.BatchNorm2d(channels), nn.ReLU6(inplace=True)


class InvertedResidual(nn.Module):
    """A 1x1 convolution that widens, a depthwise one, and one that narrows; added to the input where the shapes agree."""

    def __init__(self, channels: int, filters: int, stride: int, widening: int) -> None:
        super().__init__()
        wide = channels * widening
        self.adds = stride == 1 and channels == filters
        widen = [nn.Conv2d(channels, wide, 1, bias=False), *norm_relu6(wide)] if widening > 1 else []
        self.layers = nn.Sequential(
            *widen, nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), *norm_relu6(wide),
            nn.Conv2d(wide, filters, 1, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


def mobilenetv2() -> nn.Sequential:
    """MobileNetV2 without dropout."""
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), *norm_relu6(32)]
    channels = 32
    for widening, filters, blocks, stride in MOBILENETV2:
        for block in range(blocks):
            layers.append(InvertedResidual(channels, filters, stride if block == 0 else 1, widening))
            channels = filters
    layers += [nn.Conv2d(channels, 1280, 1, bias=False), *norm_relu6(1280), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(1280, 1000))


BUILDERS: dict[str, Callable[[], nn.Module]] = {
    "vgg16bn_cifar": lambda: vgg16_bn(NETWORKS["vgg16bn_cifar"].widths),
    "vgg16bn_224": lambda: vgg16_bn(NETWORKS["vgg16bn_224"].widths),
    "resnet50": resnet50,
    "mobilenetv2": mobilenetv2,
}


def model(name: str) -> nn.Module:
    """The network of a row, its weights at random."""
    return BUILDERS[name]().to(memory_format=torch.channels_last)


def optimizer(net: nn.Module, *, fused: bool) -> torch.optim.Optimizer:
    """The rows' optimizer: `fused` is the quickest PyTorch has, otherwise what a user gets by default."""
    return torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, nesterov=True, fused=fused or None)


def images(shape: Network, count: int) -> torch.Tensor:
    """(count, 3, size, size) random numbers."""
    return torch.randn(count, 3, shape.size, shape.size).to(memory_format=torch.channels_last)


def batch(shape: Network) -> tuple[torch.Tensor, torch.Tensor]:
    """One batch of random images and labels."""
    return images(shape, shape.batch), torch.randint(0, shape.widths[-1], (shape.batch,))
