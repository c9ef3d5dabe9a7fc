"""Models that torchvision lacks, and VGG with small affine maps, in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


def lenet() -> nn.Module:
    features = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2))
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    return Chain(features, classifier)


class Chain(nn.Module):
    """Features, means over a grid unless it is 0, classifier."""

    def __init__(self, features: nn.Module, classifier: nn.Module, grid: int = 0):
        super().__init__()
        self.features, self.classifier, self.grid = features, classifier, grid

    def forward(self, x: Any) -> Any:
        x = self.features(x)
        return self.classifier(F.adaptive_avg_pool2d(x, self.grid).flatten(1) if self.grid else x)


class vgg:
    """Stands for the module of that name."""

    @staticmethod
    def stages(channels: Any, depths: Any, batch_norm: bool) -> nn.Sequential:
        layers, seen = [], 3
        for made, depth in zip(channels, depths):
            for _ in range(depth):
                layers += [nn.Conv2d(seen, made, 3, padding=1)] + [nn.BatchNorm2d(made)] * batch_norm + [nn.ReLU()]
                seen = made
            layers += [nn.MaxPool2d(2, 2)]
        return nn.Sequential(*layers)

    @staticmethod
    def VGG(features: nn.Module, num_classes: int, *, dropout: float, channels: int, grid: int, hidden: int) -> nn.Module:
        classifier = nn.Sequential(nn.Linear(channels * grid**2, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, hidden),
                                   nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, num_classes))
        return Chain(features, classifier, grid)


class Block(nn.Module):
    """A basic block with a shortcut that takes every second place and adds channels of zeros."""

    def __init__(self, seen: int, made: int):
        super().__init__()
        self.stride, self.extra = 1 if seen == made else 2, (made - seen) // 2
        self.conv1 = nn.Conv2d(seen, made, 3, self.stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(made)
        self.conv2 = nn.Conv2d(made, made, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(made)

    def forward(self, x: Any) -> Any:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, self.extra, self.extra)))


class CifarResNet(nn.Module):
    """Of small images."""

    def __init__(self, depth: int):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*[Block(16, 16) for _ in range(depth)])
        self.layer2 = nn.Sequential(Block(16, 32), *[Block(32, 32) for _ in range(depth - 1)])
        self.layer3 = nn.Sequential(Block(32, 64), *[Block(64, 64) for _ in range(depth - 1)])
        self.fc = nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.fc(x.mean((2, 3)))


class resnet_cifar:
    """Stands for the module of that name."""

    CifarResNet = CifarResNet


def resnet20() -> nn.Module:
    return CifarResNet(3)


def resnet32() -> nn.Module:
    return CifarResNet(5)


def resnet44() -> nn.Module:
    return CifarResNet(7)


def resnet56() -> nn.Module:
    return CifarResNet(9)


def _double(seen: int, made: int) -> nn.Sequential:
    def single(n: int) -> list[nn.Module]:
        return [nn.Conv2d(n, made, 3, 1, 1, bias=False), nn.BatchNorm2d(made), nn.ReLU()]

    return nn.Sequential(*single(seen), *single(made))


class UNet(nn.Module):
    """The way down, then up."""

    def __init__(self, width: int, depth: int, num_classes: int):
        super().__init__()
        self.depth = depth
        widths = [width * 2**i for i in range(depth + 1)]
        for i, (seen, made) in enumerate(zip([3, *widths], widths), 1):
            self.add_module(f"encode{i}", _double(seen, made))
        for i in range(depth, 0, -1):
            self.add_module(f"up{i}", nn.ConvTranspose2d(widths[i], widths[i - 1], 2, 2))
            self.add_module(f"decode{i}", _double(widths[i], widths[i - 1]))
        self.head = nn.Conv2d(width, num_classes, 1)

    def forward(self, x: Any) -> Any:
        kept = {}
        for i in range(1, self.depth + 1):
            kept[i] = self.get_submodule(f"encode{i}")(x)
            x = F.max_pool2d(kept[i], 2)
        x = self.get_submodule(f"encode{self.depth + 1}")(x)
        for i in range(self.depth, 0, -1):
            x = self.get_submodule(f"decode{i}")(torch.cat([self.get_submodule(f"up{i}")(x), kept[i]], 1))
        return self.head(x)


def unet(num_classes: int = 2, width: int = 64, depth: int = 4) -> nn.Module:
    return UNet(width, depth, num_classes)
