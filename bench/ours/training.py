"""Training of the networks that the rows measure: model, optimizer, one batch of random data, and the step over it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import renaissance as rn
from bench.ours import network, perceptron
from bench.shapes import NETWORKS, PERCEPTRONS
from renaissance import nn, optim

NAMES = (*PERCEPTRONS, *NETWORKS)


def training_step(net: nn.Module, updater: optim.Optimizer, *, precision: str, smoothing: float) -> Callable:
    """A function (images, labels) -> loss that does one whole step, not compiled yet."""
    def step(x: rn.Tensor, y: rn.Tensor) -> rn.Tensor:
        with rn.precision(precision):
            loss = nn.functional.cross_entropy(net(x), y, label_smoothing=smoothing)
        updater.zero_grad()
        loss.backward()
        updater.step()
        return loss

    return step


@dataclass(frozen=True)
class Training:
    """A network in training; x and y are the images and labels of a batch."""

    net: nn.Module
    updater: optim.Optimizer
    smoothing: float
    x: rn.Tensor
    y: rn.Tensor

    def step(self, precision: str) -> Callable:
        """A function (images, labels) -> loss that does one whole step, not compiled yet."""
        return training_step(self.net, self.updater, precision=precision, smoothing=self.smoothing)


def training(name: str, batch: int | None) -> Training:
    """The training of a network by its name, with its own batch size unless another is given."""
    if name in PERCEPTRONS:
        shape = PERCEPTRONS[name]
        shape = dataclasses.replace(shape, batch=batch or shape.batch)
        net = perceptron.model(shape)
        return Training(net, perceptron.optimizer(shape, net), shape.smoothing, *perceptron.batch(shape))
    shape = NETWORKS[name]
    shape = dataclasses.replace(shape, batch=batch or shape.batch)
    net = network.model(name)
    return Training(net, network.optimizer(net), shape.smoothing, *network.batch(shape))
