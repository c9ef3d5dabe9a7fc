"""The multilayer perceptrons of the rows `mlp` and `tinymlp`, with their optimizers, gradients and data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import renaissance as rn
from bench.shapes import Perceptron
from renaissance import nn, optim


def model(shape: Perceptron) -> nn.Sequential:
    """Linear layers with a ReLU after each but the last."""
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in zip(shape.widths, shape.widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def optimizer(shape: Perceptron, net: nn.Module) -> optim.Optimizer:
    """The row's optimizer."""
    if shape.weight_decay:
        return optim.AdamW(net.parameters(), lr=1e-3, weight_decay=shape.weight_decay)
    return optim.Adam(net.parameters(), lr=1e-3)


def gradients(net: nn.Module, *, precision: str, smoothing: float) -> Callable:
    """A function (images, labels) -> gradients of the loss, not compiled yet."""
    def step(x: rn.Tensor, y: rn.Tensor) -> list[rn.Tensor | None]:
        with rn.precision(precision):
            loss = nn.functional.cross_entropy(net(x), y, label_smoothing=smoothing)
        for p in net.parameters():
            p.grad = None
        loss.backward()
        return [p.grad for p in net.parameters()]

    return step


def batch(shape: Perceptron) -> tuple[rn.Tensor, rn.Tensor]:
    """One batch of random inputs and labels."""
    random = np.random.default_rng(0)
    x = random.standard_normal((shape.batch, shape.widths[0]), np.float32)
    return rn.tensor(x), rn.tensor(random.integers(0, shape.widths[-1], shape.batch))
