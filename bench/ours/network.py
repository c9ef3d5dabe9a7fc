"""The convolutional networks of the rows in Renaissance, with their optimizer and their data."""

from __future__ import annotations

import numpy as np

import renaissance as rn
from bench.shapes import NETWORKS, Network
from renaissance import models, nn, optim


def unbiased(net: nn.Module) -> nn.Module:
    """The network without biases of its convolutions: batch norm takes them out again and adds its own."""
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            layer.bias = None
    return net


def model(name: str) -> nn.Module:
    """The network of a row, its weights at random."""
    match name:
        case "vgg16bn_cifar":
            return unbiased(models.vgg16_bn(num_classes=10, grid=1, hidden=512))
        case "vgg16bn_224":
            return unbiased(models.vgg16_bn())
        case "resnet50":
            return models.resnet50()
        case "mobilenetv2":
            return models.mobilenet_v2(dropout=0.0)
    raise ValueError(f"there is no network {name!r}; choose from {', '.join(NETWORKS)}")


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
