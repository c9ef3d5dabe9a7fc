"""The check of one random program: all ways to run it give the bits of running it node by node."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from renaissance import engine, errors

from .nearness import assert_same
from .node_by_node import node_by_node
from .poison import poisoned
from .program import Program, Run

OVERWRITTEN = "overwritten"  # what the error says when a gradient needs values that copy_ overwrote: no fault


def check(program: Program, number: int = 0, *, everywhere: bool = False) -> None:
    """Run a program in all ways; number picks the values that are computed early.

    everywhere  also with other numbers of threads, and for narrower vectors
    """
    with np.errstate(all="ignore"):
        try:
            with node_by_node():
                expected: list[np.ndarray] | None = Run(program).results()
        except errors.GradientError as e:
            if OVERWRITTEN in str(e):
                return
            raise
        except errors.NonFiniteError:  # clipping met a gradient that is no number
            expected = None
        early = frozenset(np.flatnonzero(np.random.default_rng(number).random(100) < 0.4).tolist())
        _compare(Run(program), expected, "uncompiled")
        _compare(Run(program, early), expected, "some values computed early")
        _compare(Run(program, compiled=True), expected, "compiled")
        if everywhere:
            for threads in (1, 3, 7):
                with machine(threads=threads):
                    _compare(Run(program), expected, f"{threads} threads")
            if not has_narrow_products(program):
                for isa in narrower(engine.host_target().isa):
                    with machine(isa=isa):
                        _compare(Run(program), expected, isa)


def _compare(run: Run, expected: list[np.ndarray] | None, how: str) -> None:
    if expected is None:
        with pytest.raises(errors.NonFiniteError), poisoned():
            run.results()
        return
    with poisoned():
        got = run.results()
    assert len(got) == len(expected)
    for i, (a, b) in enumerate(zip(got, expected)):
        assert_same(a, b, f"{how}: result {i}")


def narrower(isa: str) -> tuple[str, ...]:
    """The instruction sets with narrower vectors."""
    order = ("avx512", "avx2", "sse")
    return order[order.index(isa) + 1:]


def has_narrow_products(program: Program) -> bool:
    """Whether there may be products of bfloat16 matrices: their bits depend on the Target."""
    narrow = program.precision == "bf16" or any(x.dtype == "bfloat16" for x in program.inputs) or any(
        "bfloat16" in s.settings for s in program.steps)
    return narrow and any(s.name.startswith(("matmul", "linear")) for s in program.steps)


@contextlib.contextmanager
def machine(threads: int | None = None, isa: str | None = None) -> Iterator[None]:
    """Inside, programs are made for so many threads, or for narrower vectors."""
    settings, target = engine.settings, engine.host_target()
    if threads is not None:
        changed = dataclasses.replace(settings(), threads=threads)
        engine.settings = lambda: changed
    if isa is not None and isa != target.isa:
        engine._target = target.restricted(isa)
    engine._programs.clear()
    try:
        yield
    finally:
        engine.settings, engine._target = settings, target
        engine._programs.clear()
