"""Finding the op that made a NaN: programs run op by op, each value looked at before the next is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from renaissance import engine
from renaissance.errors import NonFiniteError
from renaissance.ir.node import Node, topological
from renaissance.ops.composed import COMPOSED, inlined
from renaissance.ops.value import SCALAR, observe
from renaissance.runtime.reference import array_at, evaluate
from renaissance.tensor import Tensor, user_line

Lines = dict[Node, str]


def _known(n: Node) -> bool:
    return n.data is not None


def _written_out(root: Node, known: dict[Node, Node]) -> list[Node]:
    """The nodes of a value that holds no composed node itself, or those a composed node stands for, inputs first."""
    inputs = {i: i for i in root.inputs}
    out = inlined([root], inputs)[0] if root.op is COMPOSED else root
    known[root] = out
    return topological([out], lambda n: n in inputs)


def first_non_finite(roots: Sequence[Node], lines: Lines) -> str | None:
    """Where the first value that is not finite comes from, of everything `roots` depend on.

    lines    source lines of nodes
    returns  op, dtype, shape and line of the first op that makes a non-finite value of finite ones; None if there is none
    """
    order = topological(roots, _known)
    values: dict[Node, Any] = {}
    for n in order:
        if _known(n):
            values[n] = n.dtype.numpy.type(n.data) if n.op is SCALAR else array_at(n.data.address, n)
    for n in order:
        if n in values:
            continue
        stands_for: dict[Node, Node] = {}
        for inner in _written_out(n, stands_for):
            if inner in values:
                continue
            values.update(evaluate([inner], {i: values[i] for i in inner.inputs}))
            if inner.dtype.is_float and not _finite(values[inner]) and all(_finite(values[i]) for i in inner.inputs):
                return f"{inner.op.name} of {inner.dtype.name}{list(inner.shape)}{_at(n, lines)}"
        values[n] = values[stands_for[n]]
    return None


def _finite(value: Any) -> bool:
    return bool(np.all(np.isfinite(np.asarray(value, np.float64)))) if np.asarray(value).dtype.kind not in "biu" else True


def _at(n: Node, lines: Lines) -> str:
    return f" at {lines[n]}" if n in lines else ""


@contextmanager
def noting_lines() -> Iterator[Lines]:
    """Inside, the source line of every op made is noted."""
    lines: Lines = {}

    def note(n: Node) -> None:
        lines.setdefault(n, user_line())

    observe(note)
    try:
        yield lines
    finally:
        observe(None)


@contextmanager
def debug_nans() -> Iterator[None]:
    """Inside, programs run op by op, and the first NaN or infinity made of finite values raises, before any state is written.

    Compiled functions run uncompiled; their bits are the same. Slow: for finding a fault.

    raises  NonFiniteError naming op, dtype, shape and source line
    source  definition
    """
    with noting_lines() as lines:
        def inspect(roots: Sequence[Node]) -> None:
            found = first_non_finite(roots, lines)
            if found is not None:
                raise NonFiniteError(f"not finite: first made by {found}")

        before, engine.inspector = engine.inspector, inspect
        try:
            yield
        finally:
            engine.inspector = before


def why_not_finite(make: Any) -> str | None:
    """Where the first non-finite value in what `make()` builds comes from; nothing is run or changed."""
    with noting_lines() as lines:
        value = make()
    return first_non_finite([value.node], lines) if isinstance(value, Tensor) else None
