"""Convolutions of spread images, with zeros between their elements, as convolutions of the images themselves.

Places of the result that are apart by a multiple of the spread meet the same taps: each such class is a convolution with those
taps alone, and the classes are put in turn along each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renaissance.compile.side_by_side import classes_of
from renaissance.ir.dtype import DType
from renaissance.ops.classes import Class
from renaissance.ops.convolution import Geometry, convolved, nothing
from renaissance.ops.movement import concat, pad, reshape
from renaissance.ops.value import Value


def interleaved(x: Value, w: Value, geometry: Geometry, windows: Sequence[int], out_dtype: DType) -> Any:
    """The convolution of a spread image with stride 1."""
    return _in_turn(x, w, classes_of(geometry, windows), [], windows, geometry.groups, out_dtype)


def _in_turn(x: Value, w: Value, axes: list[list[Class]], chosen: list[Class], windows: Sequence[int], groups: int,
             out_dtype: DType) -> Any:
    """The result whose first axes are restricted to the chosen classes; the others' classes are put in turn."""
    axis = len(chosen)
    if axis == 3:
        return _of_class(x, w, chosen, groups, out_dtype)
    parts = [_in_turn(x, w, axes, [*chosen, k], windows, groups, out_dtype) for k in axes[axis]]
    if len(parts) == 1:
        return parts[0]
    most = axes[axis][0].places
    lead = parts[0].shape[:1 + axis]
    columns = []
    for part in parts:
        widths = [(0, 0)] * 5
        widths[1 + axis] = (0, most - part.shape[1 + axis])
        columns.append(reshape(pad(part, tuple(widths)), (*lead, most, 1, *part.shape[2 + axis:])))
    whole = concat(columns, axis=2 + axis)
    whole = reshape(whole, (*lead, most * len(parts), *parts[0].shape[2 + axis:]))
    return whole[(slice(None),) * (1 + axis) + (slice(0, windows[axis]),)]


def _of_class(x: Value, w: Value, chosen: Sequence[Class], groups: int, out_dtype: DType) -> Any:
    """The places of one class of each axis: a convolution with the taps they meet."""
    shape = (x.shape[0], *(k.places for k in chosen), w.shape[0])
    if 0 in shape or any(k.taps == 0 for k in chosen):
        return nothing(x, shape, out_dtype)
    met = tuple(slice(k.first_tap, k.first_tap + (k.taps - 1) * k.step + 1, k.step) for k in chosen)
    padding = []
    for k, n in zip(chosen, x.shape[1:4]):
        padding.append((-k.start, k.places - 1 + (k.taps - 1) * k.dilation + k.start - (n - 1)))
    geometry = Geometry(tuple(k.taps for k in chosen), (1, 1, 1), tuple(padding),  # type: ignore[arg-type]
                        tuple(k.dilation for k in chosen), groups)  # type: ignore[arg-type]
    return convolved(x, w[(slice(None), slice(None), *met)], geometry, out_dtype)


def spread(x: Any, by: Sequence[int]) -> Any:
    """The image with by - 1 zeros between neighbours along each spatial axis."""
    for axis, step in enumerate(by, 1):
        if step > 1:
            lead, n, tail = x.shape[:axis], x.shape[axis], x.shape[axis + 1:]
            column = reshape(x, (*lead, n, 1, *tail))
            widths = [(0, 0)] * column.ndim
            widths[axis + 1] = (0, step - 1)
            wide = reshape(pad(column, tuple(widths)), (*lead, n * step, *tail))
            x = wide[(slice(None),) * axis + (slice(0, (n - 1) * step + 1),)]
    return x
