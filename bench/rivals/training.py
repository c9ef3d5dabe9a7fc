"""Training in PyTorch of the networks that the rows measure: model, optimizer, one batch of random data, and the step over it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from bench.rivals import network, perceptron
from bench.shapes import NETWORKS, PERCEPTRONS

NAMES = (*PERCEPTRONS, *NETWORKS)
MODES = ("eager", "compile", "autotune")


def training_step(net: nn.Module, updater: torch.optim.Optimizer, *, mode: str, bf16: bool,
                  smoothing: float) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A function (images, labels) -> loss that does one whole step.

    The compiled modes compile forward pass and loss together: measured quicker than compiling the model alone, and than
    compiling the optimizer as well.
    """
    def forward(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            return F.cross_entropy(net(x), y, label_smoothing=smoothing)

    if mode == "compile":
        forward = torch.compile(forward)
    elif mode == "autotune":
        forward = torch.compile(forward, mode="max-autotune")

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        updater.zero_grad(set_to_none=True)
        loss = forward(x, y)
        loss.backward()
        updater.step()
        return loss.detach()

    return step


@dataclass(frozen=True)
class Training:
    """A network in training; x and y are the images and labels of a batch."""

    net: nn.Module
    updater: torch.optim.Optimizer
    smoothing: float
    x: torch.Tensor
    y: torch.Tensor

    def step(self, *, mode: str, bf16: bool) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """A function (images, labels) -> loss that does one whole step."""
        return training_step(self.net, self.updater, mode=mode, bf16=bf16, smoothing=self.smoothing)


def training(name: str, batch: int | None, *, fused: bool = True) -> Training:
    """The training of a network by its name, with its own batch size unless another is given.

    fused  the quickest form PyTorch has of the optimizer, otherwise what a user gets by default
    """
    if name in PERCEPTRONS:
        shape = PERCEPTRONS[name]
        shape = dataclasses.replace(shape, batch=batch or shape.batch)
        net = perceptron.model(shape)
        return Training(net, perceptron.optimizer(shape, net, fused=fused), shape.smoothing, *perceptron.batch(shape))
    shape = NETWORKS[name]
    shape = dataclasses.replace(shape, batch=batch or shape.batch)
    net = network.model(name)
    return Training(net, network.optimizer(net, fused=fused), shape.smoothing, *network.batch(shape))
