"""Indexing by tensors, and checks that values lie where they must."""

from __future__ import annotations

from typing import Any

import numpy as np

from renaissance.errors import ArgumentError, DTypeError, ShapeError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Op, Shape, node
from renaissance.ops.elementwise import add, astype, equal, greater_equal, less, lit, logical_and, where
from renaissance.ops.movement import broadcast_to, reshape
from renaissance.ops.value import IOTA, Value, apply, method, need_tensor


def _infer_take(inputs: tuple[Node, ...]) -> tuple[Shape, DType]:
    x, index = inputs
    if len(x.shape) != 1 or index.dtype is not dt.int64:
        raise ShapeError(f"take: the primitive takes a 1-d tensor and int64 indices, got {x.shape} and {index.dtype.name}")
    return index.shape, x.dtype


def _vjp_take(ct: Value, out: Value, inputs: tuple[Value, ...]) -> tuple[Value | None, ...]:
    """Add every cotangent to the element it was read from, in order of position."""
    x, index = inputs
    n = index.size
    zeros = lit(0, Value(node(IOTA, (), (x.size, ct.dtype))))
    summed = apply(SCATTER, (reshape(zeros, (x.size, 1)), reshape(index, (n,)), reshape(ct, (n, 1))), ("sum",))
    return (reshape(summed, x.shape), None)


def _infer_check(inputs: tuple[Node, ...], message: str) -> tuple[Shape, DType]:
    value, condition = inputs
    if condition.dtype is not dt.bool_ or condition.shape != value.shape:
        raise ShapeError(f"check: condition must be bool of shape {value.shape}, got {condition.dtype.name} {condition.shape}")
    return value.shape, value.dtype


def _infer_scatter(inputs: tuple[Node, ...], combine: str) -> tuple[Shape, DType]:
    init, index, value = inputs
    if len(init.shape) != 2 or value.shape != (*index.shape, init.shape[1]) or len(index.shape) != 1:
        raise ShapeError(f"scatter: takes (R, N), (M,) and (M, N), got {init.shape}, {index.shape}, {value.shape}")
    if value.dtype is not init.dtype:
        raise DTypeError(f"scatter: value must have the dtype of init, {init.dtype.name}, got {value.dtype.name}; cast it")
    return init.shape, init.dtype


def _reference_scatter(arrays: Any, combine: str, out: Any) -> Any:
    init, index, value = arrays
    result = init.copy()
    if combine == "sum":
        np.add.at(result, index, value)
    else:
        for i, row in zip(index, value):
            result[i] = row
    return result


def _vjp_scatter(ct: Value, out: Value, inputs: tuple[Value, ...], combine: str) -> tuple[Value | None, ...]:
    """A sum passes the cotangent to both; its rows are read back through the index."""
    if combine != "sum":
        raise ArgumentError(f"scatter: no gradient for combine={combine!r}; supported is 'sum'")
    init, index, value = inputs
    return (ct, None, take(ct, index, axis=0))


TAKE = Op("take", "gather", _infer_take, lambda a, out: a[0][a[1]], _vjp_take)
CHECK = Op("check", "scalar", _infer_check, lambda a, message, out: a[0],
           lambda ct, out, inputs, message: (ct, None), ("message",))
SCATTER = Op("scatter", "scatter", _infer_scatter, _reference_scatter, _vjp_scatter, ("combine",))


def check(value: Any, condition: Any, message: str) -> Any:
    """`value` itself; running raises the error named at the start of `message` unless the condition holds everywhere.

    value      any shape
    condition  shape of value, bool
    message    'RangeError: ...': class name of an error and its text
    returns    value
    raises     ShapeError when shapes differ
    source     definition
    """
    return apply(CHECK, (value, condition), (message,))


def checked_index(op: str, index: Any, size: int, argument: str = "index") -> Any:
    """int64 indices from 0 to size - 1: negative ones count from the end, others outside raise RangeError at run time."""
    need_tensor(op, index, argument)
    if not index.dtype.is_integer:
        raise DTypeError(f"{op}: {argument} must be integers, got {index.dtype.name}")
    wide = astype(index, dt.int64)
    least = 0 if index.dtype.kind == "u" else -size  # an unsigned number too large for int64 has become negative
    inside = logical_and(greater_equal(wide, lit(least, wide)), less(wide, lit(size, wide)))
    safe = where(inside, wide, lit(0, wide))  # kernels run to their end before the error is raised: they must not read outside
    wide = check(safe, inside, f"RangeError: {op}: {argument} must be from {least} to {size - 1}")
    return where(less(wide, lit(0, wide)), add(wide, lit(size, wide)), wide)


def arange_like(n: int, dtype: DType, handle: type[Value] = Value) -> Any:
    """0, 1, ..., n-1 as a node of the program."""
    return handle(node(IOTA, (), (n, dtype)))


@method()
def take(x: Any, indices: Any, axis: int | None = None) -> Any:
    """Pick slices along an axis by position.

    y[..., i, ...] = x[..., indices[i], ...]

    x        any shape
    indices  integers of any shape, each from -n to n - 1
    axis     which axis of size n; None only for 1-d x
    returns  the axis replaced by the shape of indices, dtype of x
    raises   RangeError at run time for an index outside; DTypeError unless indices are integers
    source   array API standard, take
    """
    need_tensor("take", x)
    need_tensor("take", indices, "indices")
    if axis is None and x.ndim != 1:
        raise ArgumentError(f"take: axis must be given for shape {x.shape}; only 1-d tensors have one axis to mean")
    a = sh.axis_index("take", 0 if axis is None else axis, x.ndim)
    n, lead, tail = x.shape[a], sh.size(x.shape[:a]), sh.size(x.shape[a + 1:])
    chosen = checked_index("take", indices, n)
    shape = (lead, chosen.size, tail)
    rows = broadcast_to(reshape(arange_like(lead, dt.int64), (lead, 1, 1)), shape)
    columns = broadcast_to(reshape(arange_like(tail, dt.int64), (1, 1, tail)), shape)
    at = (rows * lit(n, rows) + broadcast_to(reshape(chosen, (1, chosen.size, 1)), shape)) * lit(tail, rows) + columns
    picked = apply(TAKE, (reshape(x, (x.size,)), at))
    return reshape(picked, (*x.shape[:a], *indices.shape, *x.shape[a + 1:]))


def gather_inside(x: Any, index: Any) -> Any:
    """Elements of a 1-d tensor by position, where the caller has made sure that each lies inside: nothing is checked."""
    return apply(TAKE, (x, index))


@method()
def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Any:
    """Pick single elements along an axis, a position for each place.

    y[..., i, ...] = x[..., indices[..., i, ...], ...]

    x        (..., n, ...)
    indices  integers, shape of x outside `axis`
    axis     which
    returns  shape of indices, dtype of x
    raises   ShapeError when shapes differ outside axis; RangeError at run time for an index outside
    source   array API standard, take_along_axis
    """
    need_tensor("take_along_axis", x)
    need_tensor("take_along_axis", indices, "indices")
    a = sh.axis_index("take_along_axis", axis, x.ndim)
    if indices.ndim != x.ndim or indices.shape[:a] + indices.shape[a + 1:] != x.shape[:a] + x.shape[a + 1:]:
        raise ShapeError(f"take_along_axis: indices must have the shape of x {x.shape} outside axis {a}, got {indices.shape}")
    chosen = checked_index("take_along_axis", indices, x.shape[a])
    at = lit(0, chosen)
    for i, (n, stride) in enumerate(zip(x.shape, sh.row_strides(x.shape))):
        if i == a:
            part = chosen
        else:
            part = broadcast_to(reshape(arange_like(n, dt.int64), tuple(n if j == i else 1 for j in range(x.ndim))), chosen.shape)
        at = at + part * lit(stride, part)
    return apply(TAKE, (reshape(x, (x.size,)), at))


def one_hot(x: Any, num_classes: int) -> Any:
    """Whether each class is the given one.

    y[..., c] = (x[...] == c)

    x            integers, any shape
    num_classes  C
    returns      (*x.shape, C) bool; a row without a match is all False
    raises       DTypeError unless x is integer
    source       PyTorch, torch.nn.functional.one_hot (there int64, and out-of-range values raise)
    """
    need_tensor("one_hot", x)
    if not x.dtype.is_integer:
        raise DTypeError(f"one_hot: x must be integers, got {x.dtype.name}")
    if not sh.is_index(num_classes) or num_classes < 0:
        raise ArgumentError(f"one_hot: num_classes must be an int that is not negative, got {num_classes!r}")
    if num_classes - 1 > x.dtype.largest:
        x = astype(x, dt.int64)
    shape = (*x.shape, num_classes)
    classes = broadcast_to(reshape(x.handle(node(IOTA, (), (num_classes, x.dtype))), (1,) * x.ndim + (num_classes,)), shape)
    return equal(broadcast_to(reshape(x, (*x.shape, 1)), shape), classes)


def scatter_rows(init: Any, index: Any, value: Any, combine: str = "sum") -> Any:
    """Write rows to the places an index names, in order of position.

    y = init; then y[index[i]] += value[i] ('sum') or y[index[i]] = value[i] ('last'), i = 0, 1, ...

    init     (R, N)
    index    (M,) integers from -R to R - 1
    value    (M, N), dtype of init
    combine  'sum' or 'last'
    returns  (R, N)
    raises   RangeError at run time for an index outside; ArgumentError for another combine; ShapeError or DTypeError when shapes
             or dtypes differ
    source   definition: duplicates add up in order, or the last write wins
    """
    if combine not in ("sum", "last"):
        raise ArgumentError(f"scatter_rows: combine must be 'sum' or 'last', got {combine!r}")
    need_tensor("scatter_rows", init, "init")
    need_tensor("scatter_rows", value, "value")
    return apply(SCATTER, (init, checked_index("scatter_rows", index, init.shape[0]), value), (combine,))


