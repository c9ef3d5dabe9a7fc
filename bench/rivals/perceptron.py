"""The multilayer perceptrons of the rows `mlp` and `tinymlp` in PyTorch, with their optimizers and their training step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from bench.shapes import Perceptron

MODES = ("eager", "compile", "autotune")


def model(shape: Perceptron) -> nn.Sequential:
    """Linear layers with a ReLU after each but the last."""
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in zip(shape.widths, shape.widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def optimizer(shape: Perceptron, net: nn.Module, *, fused: bool) -> torch.optim.Optimizer:
    """The row's optimizer: `fused` is the quickest PyTorch has, otherwise what a user gets by default."""
    chosen = torch.optim.AdamW if shape.weight_decay else torch.optim.Adam
    return chosen(net.parameters(), lr=1e-3, weight_decay=shape.weight_decay, fused=fused or None)


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
