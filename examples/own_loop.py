"""A loop of one's own: a model class, a compiled training step with clipping, a compiled evaluation, on two spirals.

Usage: python examples/own_loop.py [--steps N]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import renaissance as rn
from renaissance import nn, optim

F = nn.functional


class Net(nn.Module):
    """Two hidden layers, the second around a shortcut."""

    def __init__(self, width: int):
        super().__init__()
        self.first = nn.Linear(2, width)
        self.second = nn.Linear(width, width)
        self.last = nn.Linear(width, 2)

    def forward(self, x: rn.Tensor) -> rn.Tensor:
        h = F.silu(self.first(x))
        return self.last(h + F.silu(self.second(h)))


def spirals(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, 2) of two interleaved spirals, and which of them each belongs to."""
    which, t = rng.integers(0, 2, n), 3 * np.pi * np.sqrt(rng.random(n))
    points = np.stack([t * np.cos(t + np.pi * which), t * np.sin(t + np.pi * which)], axis=1) / 10
    return (points + rng.normal(0, 0.02, (n, 2))).astype(np.float32), which


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, print the loss now and then, and return the accuracy on new points."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    steps = parser.parse_args(arguments).steps

    rn.seed(0)
    model = Net(width=64)
    optimizer = optim.AdamW(model.parameters(), lr=optim.Cosine(1e-2, total_steps=steps, warmup_steps=steps // 20))

    @rn.compile
    def train_step(x, y):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    @rn.compile
    def accuracy(x, y):
        with rn.no_grad():
            return rn.mean(model(x).argmax(-1) == y)

    rng = np.random.default_rng(0)
    for step in range(steps):
        loss = train_step(*spirals(256, rng))
        if step % max(1, steps // 10) == 0:
            print(f"step {step:5}  loss {loss.item():.4f}  lr {optimizer.lr(optimizer.param_groups[0]):.4f}")
    share = accuracy(*spirals(2000, rng)).item()
    print(f"accuracy on new points: {100 * share:.1f} %")
    return share


if __name__ == "__main__":
    main()
