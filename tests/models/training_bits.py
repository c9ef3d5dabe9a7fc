"""Two training steps of a small model of the table, as a program: prints a digest of all its state afterwards.

Usage: python -m tests.models.training_bits NAME PRECISION FORM, FORM being compiled, uncompiled, or realised: uncompiled, the
outputs of some modules, chosen at random, looked at on the way.
"""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any

import numpy as np

import renaissance as rn
from renaissance import models, nn, optim

from .table import SMALL, drawn


def realising(seed: int) -> None:
    """From now on half of all modules, at random, have their outputs computed as soon as they are called."""
    draw, call = random.Random(seed), nn.Module.__call__

    def looked_at(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        y = call(module, *args, **kwargs)
        if isinstance(y, rn.Tensor) and draw.random() < 0.5:
            rn.realize(y)
        return y

    nn.Module.__call__ = looked_at  # type: ignore[method-assign]


def loss_of(y: Any) -> Any:
    """A loss that depends on every result of a model."""
    parts = [v for v in (y if isinstance(y, tuple) else (y,)) if v is not None]
    return sum((part.astype("float32") * rn.tensor(drawn("outputs", part.shape).astype(np.float32))).sum() for part in parts)


def main(name: str, precision: str, form: str) -> None:
    """Train and print."""
    case = next(case for case in SMALL if case.name == name)
    rn.seed(3)
    model = case.make(models)
    optimizer = optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4, nesterov=True)
    x = rn.tensor(drawn("inputs", case.shape).astype(np.float32))

    def step(x: rn.Tensor) -> rn.Tensor:
        with rn.precision(precision):
            loss = loss_of(model(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if form == "realised":
        realising(7)
    step = rn.compile(step) if form == "compiled" else step
    losses = [step(x).item() for _ in range(2)]
    digest = hashlib.sha256(np.array(losses).tobytes())
    for value in model.state_dict().values():
        digest.update(np.ascontiguousarray(value.numpy()).tobytes())
    assert np.isfinite(losses).all(), losses
    print(digest.hexdigest())


if __name__ == "__main__":
    main(*sys.argv[1:])
