"""Shape arithmetic: broadcasting and axes, with errors in plain words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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


def is_index(x: object) -> bool:
    """Whether `x` is a whole number that can be a position or a size: an int or NumPy's integer, but no bool."""
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def axis_index(op: str, axis: int, rank: int, argument: str = "axis") -> int:
    """`axis` counted from the front; out of range raises ArgumentError."""
    if not is_index(axis) or not -max(rank, 1) <= axis < max(rank, 1):
        raise ArgumentError(f"{op}: {argument} must be an int from {-rank} to {rank - 1}, got {axis!r}")
    return int(axis) % rank if rank else 0


def sizes(op: str, shape: Any) -> Shape:
    """A shape given as an int or a sequence of ints; anything else, and negative sizes, raise ShapeError."""
    given = (shape,) if is_index(shape) else tuple(shape) if isinstance(shape, (tuple, list)) else None
    if given is None or not all(is_index(n) and n >= 0 for n in given):
        raise ShapeError(f"{op}: a shape is an int or a tuple of ints that are not negative, got {shape!r}")
    return tuple(int(n) for n in given)


def axes_indices(op: str, axis: Any, rank: int, argument: str = "axis") -> tuple[int, ...]:
    """Sorted axes counted from the front; None means all; repeats raise ArgumentError."""
    if axis is None:
        return tuple(range(rank))
    wanted = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
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
