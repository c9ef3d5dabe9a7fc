"""Gradients of random programs, in float64, along a random direction: the change of the loss."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import renaissance as rn

from .grow import numbered_program
from .program import Program, Run

_WIDE = {"float32": "float64", "bfloat16": "float64", "float16": "float64"}


def widened(program: Program) -> Program:
    """The program with every float a float64, and gradients asked for of all its float inputs."""
    inputs = tuple(dataclasses.replace(x, dtype=_WIDE.get(x.dtype, x.dtype), role="argument", values="normal" if "float" in x.dtype else x.values)
                   for x in program.inputs)
    steps = tuple(dataclasses.replace(s, settings=tuple(_WIDE.get(v, v) if isinstance(v, str) else v for v in s.settings))
                  for s in program.steps if s.name != "copy_")
    return Program(inputs, steps, (), program.losses, "grad", "fp32")


def check_gradient(program: Program, number: int) -> bool:
    """Compare with central differences; False where the loss is no number, or bends or jumps too much for them."""
    program = widened(program)
    rng = np.random.default_rng(number)
    arrays = {i: x.array() for i, x in enumerate(program.inputs) if x.dtype == "float64"}
    directions = {i: rng.standard_normal(a.shape) for i, a in arrays.items()}

    def run(step: float) -> list[np.ndarray]:
        return Run(program, calls=1, given={i: np.asarray(a + step * directions[i]) for i, a in arrays.items()}).results()

    with np.errstate(all="ignore"):
        loss, *gradients = run(0.0)
        inner = sum(float((g * d).sum()) for g, d in zip(gradients, directions.values(), strict=True))
        changes = [(float(run(h)[0]) - float(run(-h)[0])) / (2 * h) for h in (1e-5, 2e-6, 4e-7)]
    scale = max(1.0, abs(inner), *map(abs, changes))
    if not np.isfinite(loss) or max(changes) - min(changes) > 1e-5 * scale or not abs(inner) < 1e6:
        return False
    assert inner == pytest.approx(changes[1], abs=1e-4 * scale)
    return True


def _with_losses(numbers):
    """Those whose gradient is the derivative of all they do."""
    def fits(program):
        return program.losses and not {"copy_", "detach"} & {s.name for s in program.steps}

    return [n for n in numbers if fits(numbered_program(n))]


def test_gradients_of_some():
    assert sum(check_gradient(numbered_program(n), n) for n in _with_losses(range(40))[:12]) >= 4


@pytest.mark.slow
def test_gradients_of_many(request):
    for number in _with_losses(range(100, 100 + request.config.getoption("--graphs"))):
        try:
            check_gradient(numbered_program(number), number)
        except rn.errors.DTypeError:  # what was of one dtype is no more, with some floats wider
            continue
