"""The convolutional networks of the rows in Renaissance, with their optimizer and their data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import renaissance as rn
from bench.shapes import Network
from renaissance import models, nn, optim


def _vgg16_bn(**settings: int) -> nn.Module:
    """VGG whose convolutions have no bias: batch norm takes it out again and adds its own."""
    net = models.vgg16_bn(**settings)
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            layer.bias = None
    return net


BUILDERS: dict[str, Callable[[], nn.Module]] = {
    "vgg16bn_cifar": lambda: _vgg16_bn(num_classes=10, grid=1, hidden=512),
    "vgg16bn_224": _vgg16_bn,
    "resnet50": models.resnet50,
    "mobilenetv2": lambda: models.mobilenet_v2(dropout=0.0),
}


def model(name: str) -> nn.Module:
    """The network of a row, its weights at random."""
    return BUILDERS[name]()


def optimizer(net: nn.Module) -> optim.Optimizer:
    """The rows' optimizer."""
    return optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, nesterov=True)


def images(shape: Network, count: int) -> rn.Tensor:
    """(count, 3, size, size) random numbers."""
    return rn.tensor(np.random.default_rng(0).standard_normal((count, 3, shape.size, shape.size), np.float32))


def batch(shape: Network) -> tuple[rn.Tensor, rn.Tensor]:
    """One batch of random images and labels."""
    labels = np.random.default_rng(1).integers(0, shape.widths[-1], shape.batch)
    return images(shape, shape.batch), rn.tensor(labels)
