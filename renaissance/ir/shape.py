"""Shape arithmetic: broadcasting and axes, with errors in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from renaissance.errors import ArgumentError, ShapeError
from renaissance.ir.node import Shape


def size(shape: Shape) -> int:
    """Number of elements."""
    return math.prod(shape)


def broadcast(op: str, *shapes: Shape) -> Shape:
    """The common shape by NumPy's rule: align at the right, an axis of size 1 stretches."""
    rank = max(len(s) for s in shapes)
    result = [1] * rank
    for shape in shapes:
        for axis, n in enumerate(shape, rank - len(shape)):
            if n != 1:
                if result[axis] not in (1, n):
                    text = " and ".join(str(s) for s in shapes)
                    raise ShapeError(f"{op}: shapes {text} do not broadcast: axis {axis - rank} has sizes {result[axis]} and {n}")
                result[axis] = n
    return tuple(result)


def axis_index(op: str, axis: int, rank: int, argument: str = "axis") -> int:
    """`axis` counted from the front; out of range raises ArgumentError."""
    if not isinstance(axis, int) or isinstance(axis, bool) or not -max(rank, 1) <= axis < max(rank, 1):
        raise ArgumentError(f"{op}: {argument} must be an int from {-rank} to {rank - 1}, got {axis!r}")
    return axis % rank if rank else 0


def axes_indices(op: str, axis: int | Sequence[int] | None, rank: int, argument: str = "axis") -> tuple[int, ...]:
    """Sorted axes counted from the front; None means all; repeats raise ArgumentError."""
    if axis is None:
        return tuple(range(rank))
    wanted = (axis,) if isinstance(axis, int) else tuple(axis)
    found = sorted(axis_index(op, a, rank, argument) for a in wanted)
    if len(set(found)) != len(found):
        raise ArgumentError(f"{op}: {argument} names an axis twice: {tuple(wanted)}")
    return tuple(found) if rank else ()


def row_strides(shape: Shape) -> tuple[int, ...]:
    """Strides in elements of a dense row-major array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))
