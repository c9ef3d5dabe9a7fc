"""The multilayer perceptrons of the rows `mlp` and `tinymlp` in PyTorch, with their optimizers and data."""

from __future__ import annotations

import torch
from torch import nn

from bench.shapes import Perceptron


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


def batch(shape: Perceptron) -> tuple[torch.Tensor, torch.Tensor]:
    """One batch of random inputs and labels."""
    return torch.randn(shape.batch, shape.widths[0]), torch.randint(0, shape.widths[-1], (shape.batch,))
