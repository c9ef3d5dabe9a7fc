"""One row for each optimizer and option, and the small model they are tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import renaissance as rn
from renaissance import nn, optim

from . import plain

SIZES = (6, 5, 3)


@dataclass(frozen=True)
class OptimCase:
    """An optimizer under test: its class, its plain rule, and the hyperparameters both are given."""

    name: str
    kind: Callable[..., Any]
    rule: Callable[..., Any]
    hyper: dict[str, Any] = field(default_factory=dict)

    def make(self, params: Any, **more: Any) -> Any:
        return self.kind(params, **self.hyper, **more)

    def plain(self) -> plain.PlainOptimizer:
        return plain.PlainOptimizer(self.rule, **self.hyper)


def row(name: str, kind: Any, rule: Any, **hyper: Any) -> OptimCase:
    return OptimCase(name, kind, rule, hyper)


TABLE = (
    row("sgd", optim.SGD, plain.sgd, lr=0.1),
    row("sgd, momentum", optim.SGD, plain.sgd, lr=0.1, momentum=0.9),
    row("sgd, dampening", optim.SGD, plain.sgd, lr=0.1, momentum=0.9, dampening=0.4),
    row("sgd, nesterov", optim.SGD, plain.sgd, lr=0.1, momentum=0.8, nesterov=True),
    row("sgd, weight decay", optim.SGD, plain.sgd, lr=0.1, weight_decay=0.1),
    row("sgd, maximize", optim.SGD, plain.sgd, lr=0.05, maximize=True),
    row("sgd, all", optim.SGD, plain.sgd, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1, maximize=True),
    row("adam", optim.Adam, plain.adam, lr=0.01, eps=1e-4),
    row("adam, betas", optim.Adam, plain.adam, lr=0.01, betas=(0.5, 0.9), eps=1e-4),
    row("adam, weight decay", optim.Adam, plain.adam, lr=0.01, eps=1e-4, weight_decay=0.1),
    row("adam, amsgrad", optim.Adam, plain.adam, lr=0.01, betas=(0.9, 0.5), eps=1e-4, amsgrad=True),
    row("adam, maximize", optim.Adam, plain.adam, lr=0.01, eps=1e-4, maximize=True),
    row("adamw", optim.AdamW, plain.adamw, lr=0.01, eps=1e-4, weight_decay=0.1),
    row("adamw, amsgrad", optim.AdamW, plain.adamw, lr=0.01, betas=(0.9, 0.5), eps=1e-4, weight_decay=0.1, amsgrad=True),
    row("adamw, maximize", optim.AdamW, plain.adamw, lr=0.01, eps=1e-4, maximize=True),
    row("lars", optim.LARS, plain.lars, lr=1.0, trust_coefficient=0.02),
    row("lars, weight decay", optim.LARS, plain.lars, lr=1.0, momentum=0.5, weight_decay=0.1, trust_coefficient=0.02, eps=1e-3),
)


def model(dtype: str = "float32", seed: int = 0) -> nn.Sequential:
    """Two affine layers with tanh between."""
    rn.seed(seed)
    made = nn.Sequential(nn.Linear(SIZES[0], SIZES[1]), nn.Tanh(), nn.Linear(SIZES[1], SIZES[2]))
    if dtype != "float32":
        for layer in (made[0], made[2]):
            layer.weight, layer.bias = (nn.Parameter(p.detach().astype(dtype)) for p in (layer.weight, layer.bias))
    return made


def batch(step: int, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of a step."""
    rng = np.random.default_rng([77, step])
    return rng.standard_normal((4, SIZES[0])).astype(dtype), rng.standard_normal((4, SIZES[2])).astype(dtype)


def arrays(module: Any) -> list[np.ndarray]:
    return [p.numpy().copy() for p in module.parameters()]


def stepper(module: Any, optimizer: Any, compiled: bool) -> Callable[[int], float]:
    """A function that takes training step i."""

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.mse_loss(module(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = rn.compile(step) if compiled else step
    dtype = next(module.parameters()).dtype.name
    return lambda i: run(*map(rn.tensor, batch(i, dtype))).item()


def plain_gradients(p: list[np.ndarray], i: int, dtype: str = "float32") -> list[np.ndarray]:
    """Gradients of step i's loss, in float64, by hand."""
    x, y = (a.astype(np.float64) for a in batch(i, dtype))
    h = np.tanh(x @ p[0].T + p[1])
    d = 2 * (h @ p[2].T + p[3] - y) / y.size
    back = d @ p[2] * (1 - h**2)
    return [back.T @ x, back.sum(0), d.T @ h, d.sum(0)]
