"""Windows: every run of neighbouring elements, as views; all by one movement, a shift along an axis by the place on another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from renaissance.errors import ArgumentError, ShapeError
from renaissance.ir import shape as sh
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Op, Shape
from renaissance.ops.movement import broadcast_to, reshape
from renaissance.ops.value import Value, apply, need_tensor


def _infer(inputs: tuple[Node, ...], axis: int, along: int, step: int, start: int, length: int) -> tuple[Shape, DType]:
    x = inputs[0]
    rank = len(x.shape)
    if axis == along or not (0 <= axis < rank and 0 <= along < rank) or length < 0:
        raise ShapeError(f"shear: needs two different axes of {rank} and a length, got {axis}, {along} and {length}")
    return (*x.shape[:axis], length, *x.shape[axis + 1:]), x.dtype


def _reference(arrays: Any, axis: int, along: int, step: int, start: int, length: int, out: tuple[Shape, DType]) -> Any:
    x = np.moveaxis(arrays[0], (axis, along), (0, 1))
    y = np.zeros((length, *x.shape[1:]), x.dtype)
    for r in range(x.shape[1]):
        shift = start + step * r
        first, last = max(0, -shift), min(length, x.shape[0] - shift)
        if first < last:
            y[first:last, r] = x[first + shift:last + shift, r]
    return np.moveaxis(y, (0, 1), (axis, along))


def _vjp(ct: Value, out: Value, inputs: tuple[Value, ...], axis: int, along: int, step: int, start: int,
         length: int) -> tuple[Value, ...]:
    """Shifted back."""
    return (apply(SHEAR, (ct,), (axis, along, -step, -start, inputs[0].shape[axis])),)


# y[..., i, ..., r, ...] = x[..., i + step r + start, ..., r, ...] for i on `axis` and r on `along`, 0 where that is outside.
SHEAR = Op("shear", "movement", _infer, _reference, _vjp, ("axis", "along", "step", "start", "length"))


def windows(x: Any, sizes: int | Sequence[int], strides: int | Sequence[int] | None = None,
            dilations: int | Sequence[int] | None = None) -> Any:
    """All windows of the last axes, as a view: where they overlap, elements are seen several times.

    y[..., p_1 ... p_k, r_1 ... r_k] = x[..., p_1 s_1 + r_1 d_1, ..., p_k s_k + r_k d_k]

    x          (..., L_1 ... L_k)
    sizes      R_1 ... R_k, in elements; an int for the last axis alone
    strides    s: from one window to the next, one for all or one for each axis; None: 1
    dilations  d: between neighbours in a window, likewise; None: 1
    returns    (..., P_1 ... P_k, R_1 ... R_k), P = floor((L - d (R - 1) - 1) / s) + 1; dtype of x
    raises     ArgumentError unless all are ints, at least 1; ShapeError when a window is longer than its axis
    source     NumPy, lib.stride_tricks.sliding_window_view; PyTorch, unfold
    """
    need_tensor("windows", x)
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    count = len(sizes)
    strides, dilations = ((1 if given is None else given,) * count if given is None or isinstance(given, int) else tuple(given)
                          for given in (strides, dilations))
    if not len(sizes) == len(strides) == len(dilations) <= x.ndim:
        raise ArgumentError(f"windows: sizes, strides and dilations must be as many, at most {x.ndim}; got {sizes}, {strides} "
                            f"and {dilations}")
    if not all(sh.is_index(n) and n >= 1 for n in (*sizes, *strides, *dilations)):
        raise ArgumentError(f"windows: sizes, strides and dilations must be ints, at least 1; got {sizes}, {strides} and "
                            f"{dilations}")
    lead = x.ndim - count
    reach = [d * (r - 1) + 1 for r, d in zip(sizes, dilations)]
    if any(span > n for span, n in zip(reach, x.shape[lead:])):
        raise ShapeError(f"windows: windows that reach over {tuple(reach)} elements do not fit into the axes {x.shape[lead:]}")
    y = x  # axis by axis, so that the gradient adds up one axis of the windows before it spreads along the next
    for axis, (r, s, d, span) in enumerate(zip(sizes, strides, dilations, reach), lead):
        y = broadcast_to(reshape(y, (*y.shape, 1)), (*y.shape, r))
        y = apply(SHEAR, (y,), (axis, y.ndim - 1, d, 0, x.shape[axis] - span + 1))
        y = y[(slice(None),) * axis + (slice(None, None, s),)]
    return y
