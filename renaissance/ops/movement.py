"""Movement: ops that say where elements are found and compute nothing. The compiler turns them into index maps."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from renaissance.errors import ArgumentError, DTypeError, RangeError, ShapeError
from renaissance.ir import shape as sh
from renaissance.ir.dtype import DType, promote
from renaissance.ir.node import Node, Op, Shape
from renaissance.ops.value import Value, apply, method, need_tensor

# ---- records -----------------------------------------------------------------------------------------------------------


def _infer_reshape(inputs: tuple[Node, ...], shape: Shape) -> tuple[Shape, DType]:
    if sh.size(shape) != sh.size(inputs[0].shape):
        raise ShapeError(f"reshape: cannot make {shape} ({sh.size(shape)} elements) of {inputs[0].shape} "
                         f"({sh.size(inputs[0].shape)} elements)")
    return shape, inputs[0].dtype


def _infer_permute(inputs: tuple[Node, ...], axes: tuple[int, ...]) -> tuple[Shape, DType]:
    x = inputs[0]
    if sorted(axes) != list(range(len(x.shape))):
        raise ArgumentError(f"permute: axes must name each of the {len(x.shape)} axes once, got {axes}")
    return tuple(x.shape[a] for a in axes), x.dtype


def _infer_expand(inputs: tuple[Node, ...], shape: Shape) -> tuple[Shape, DType]:
    x = inputs[0]
    if len(shape) != len(x.shape) or any(m not in (1, n) for m, n in zip(x.shape, shape)):
        raise ShapeError(f"expand: cannot stretch {x.shape} to {shape}: only axes of size 1 stretch")
    return shape, x.dtype


def _infer_pad(inputs: tuple[Node, ...], widths: tuple[tuple[int, int], ...], value: bytes) -> tuple[Shape, DType]:
    x = inputs[0]
    if len(widths) != len(x.shape) or any(lo < 0 or hi < 0 for lo, hi in widths):
        raise ShapeError(f"pad: widths must be {len(x.shape)} pairs of non-negative ints for shape {x.shape}, got {widths}")
    return tuple(n + lo + hi for n, (lo, hi) in zip(x.shape, widths)), x.dtype


def _infer_slice(inputs: tuple[Node, ...], starts: Shape, stops: Shape, steps: Shape) -> tuple[Shape, DType]:
    x = inputs[0]
    return tuple(len(range(*t)) for t in zip(starts, stops, steps)), x.dtype


def _infer_concat(inputs: tuple[Node, ...], axis: int) -> tuple[Shape, DType]:
    first = inputs[0]
    for i, x in enumerate(inputs[1:], 1):
        if x.dtype is not first.dtype:
            raise DTypeError(f"concat: input {i} has dtype {x.dtype.name}, input 0 has {first.dtype.name}; cast one of them")
        if len(x.shape) != len(first.shape) or x.shape[:axis] + x.shape[axis + 1:] != first.shape[:axis] + first.shape[axis + 1:]:
            raise ShapeError(f"concat: shapes must agree outside axis {axis}: input 0 has {first.shape}, input {i} has {x.shape}")
    return (*first.shape[:axis], sum(x.shape[axis] for x in inputs), *first.shape[axis + 1:]), first.dtype


def _slices(starts: Shape, stops: Shape, steps: Shape) -> tuple[slice, ...]:
    return tuple(slice(a, None if b < 0 else b, s) for a, b, s in zip(starts, stops, steps))


def _vjp_expand(ct: Value, out: Value, inputs: tuple[Value, ...], shape: Shape) -> tuple[Value, ...]:
    x = inputs[0]
    axes = tuple(a for a, (m, n) in enumerate(zip(x.shape, shape)) if m == 1 and n != 1)
    return (reshape(ct.sum(axis=axes), x.shape),)


def _vjp_slice(ct: Value, out: Value, inputs: tuple[Value, ...], starts: Shape, stops: Shape, steps: Shape) -> tuple[Value, ...]:
    """Spread steps with zeros, turn negative steps round, pad what was cut off."""
    x = inputs[0]
    widths = []
    for axis, (start, step, kept, n) in enumerate(zip(starts, steps, out.shape, x.shape)):
        if step < 0:
            ct = flip(ct, axis=axis)
            start = start + (kept - 1) * step
        if abs(step) > 1 and kept > 1:
            ct = _dilate(ct, axis, abs(step))
        length = ct.shape[axis]
        first = start if kept else 0
        widths.append((first, n - first - length))
    return (pad(ct, tuple(widths)),)


def _dilate(x: Value, axis: int, step: int) -> Value:
    """Put step - 1 zeros between neighbours along an axis."""
    n = x.shape[axis]
    lead, tail = x.shape[:axis], x.shape[axis + 1:]
    column = reshape(x, (*lead, n, 1, *tail))
    widths = [(0, 0)] * column.ndim
    widths[axis + 1] = (0, step - 1)
    spread = reshape(pad(column, tuple(widths)), (*lead, n * step, *tail))
    return spread[(slice(None),) * axis + (slice(0, (n - 1) * step + 1),)]


def _vjp_concat(ct: Value, out: Value, inputs: tuple[Value, ...], axis: int) -> tuple[Value, ...]:
    ends = list(itertools.accumulate(x.shape[axis] for x in inputs))
    lead = (slice(None),) * axis
    return tuple(ct[(*lead, slice(end - x.shape[axis], end))] for x, end in zip(inputs, ends))


RESHAPE = Op("reshape", "movement", _infer_reshape, lambda a, shape, out: a[0].reshape(shape),
             lambda ct, out, inputs, shape: (reshape(ct, inputs[0].shape),), ("shape",))
PERMUTE = Op("permute", "movement", _infer_permute, lambda a, axes, out: np.transpose(a[0], axes),
             lambda ct, out, inputs, axes: (permute_dims(ct, tuple(np.argsort(axes).tolist())),), ("axes",))
EXPAND = Op("expand", "movement", _infer_expand, lambda a, shape, out: np.broadcast_to(a[0], shape), _vjp_expand, ("shape",))
PAD = Op("pad", "movement", _infer_pad,
         lambda a, widths, value, out: np.pad(a[0], widths, constant_values=np.frombuffer(value, out[1].numpy)[0]),
         lambda ct, out, inputs, widths, value: (ct[tuple(slice(lo, lo + n) for (lo, _), n in zip(widths, inputs[0].shape))],),
         ("widths", "value"))
SLICE = Op("slice", "movement", _infer_slice, lambda a, starts, stops, steps, out: a[0][_slices(starts, stops, steps)],
           _vjp_slice, ("starts", "stops", "steps"))
CONCAT = Op("concat", "movement", _infer_concat, lambda a, axis, out: np.concatenate(a, axis), _vjp_concat, ("axis",))


# ---- functions ---------------------------------------------------------------------------------------------------------


def _int_tuple(op: str, argument: str, value: Any) -> tuple[int, ...]:
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not all(map(sh.is_index, items)):
        raise ArgumentError(f"{op}: {argument} must be ints, got {value!r}")
    return tuple(int(i) for i in items)


@method()
def reshape(x: Any, *shape: Any) -> Any:
    """Give the elements another shape, in row-major order; one size may be -1.

    y[i] = x[j] where i and j have the same row-major position

    x        any shape
    shape    ints, or one tuple of ints
    returns  (*shape), dtype of x
    raises   ShapeError unless the sizes agree
    source   array API standard, reshape
    """
    need_tensor("reshape", x)
    wanted = _int_tuple("reshape", "shape", shape[0] if len(shape) == 1 else shape)
    if wanted.count(-1) == 1:
        rest = sh.size(tuple(n for n in wanted if n != -1))
        if rest == 0 or x.size % rest:
            raise ShapeError(f"reshape: cannot infer -1 in {wanted} from {x.shape} ({x.size} elements)")
        wanted = tuple(x.size // rest if n == -1 else n for n in wanted)
    if any(n < 0 for n in wanted):
        raise ShapeError(f"reshape: sizes must be non-negative with at most one -1, got {wanted}")
    return x if wanted == x.shape else apply(RESHAPE, (x,), (wanted,))


@method()
def permute_dims(x: Any, axes: Sequence[int]) -> Any:
    """Reorder the axes.

    y[i_axes[0], i_axes[1], ...] = x[i_0, i_1, ...]

    x        (n_0, ..., n_{r-1})
    axes     r ints, each axis once
    returns  (n_axes[0], ...), dtype of x
    raises   ArgumentError unless axes is a permutation
    source   array API standard, permute_dims
    """
    need_tensor("permute_dims", x)
    order = tuple(sh.axis_index("permute_dims", a, x.ndim, "axes") for a in _int_tuple("permute_dims", "axes", axes))
    return x if order == tuple(range(x.ndim)) and len(order) == x.ndim else apply(PERMUTE, (x,), (order,))


@method()
def transpose(x: Any, dim0: int, dim1: int) -> Any:
    """Swap two axes.

    y[..., i, ..., j, ...] = x[..., j, ..., i, ...]

    x           (..., n_dim0, ..., n_dim1, ...)
    dim0, dim1  the two axes
    returns     the same with the two axes exchanged
    raises      ArgumentError when an axis is out of range
    source      PyTorch, transpose; NumPy, swapaxes
    """
    need_tensor("transpose", x)
    a, b = sh.axis_index("transpose", dim0, x.ndim, "dim0"), sh.axis_index("transpose", dim1, x.ndim, "dim1")
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return permute_dims(x, order)


def matrix_transpose(x: Any) -> Any:
    """Swap the last two axes.

    y[..., i, j] = x[..., j, i]

    x        (..., M, N)
    returns  (..., N, M)
    raises   ShapeError below two axes
    source   array API standard, matrix_transpose
    """
    need_tensor("matrix_transpose", x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: x must have at least 2 axes, got shape {x.shape}")
    return transpose(x, -1, -2)


@method()
def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """Stretch axes of size 1, and add leading axes, to reach a shape.

    y[..., i, ...] = x[..., 0, ...] along stretched axes

    x        any shape that broadcasts to `shape`
    shape    ints
    returns  (*shape), dtype of x
    raises   ShapeError when it does not broadcast
    source   array API standard, broadcast_to
    """
    need_tensor("broadcast_to", x)
    wanted = _int_tuple("broadcast_to", "shape", shape)
    if x.shape == wanted:
        return x
    if len(wanted) < x.ndim or sh.broadcast("broadcast_to", x.shape, wanted) != wanted:
        raise ShapeError(f"broadcast_to: {x.shape} does not broadcast to {wanted}")
    return apply(EXPAND, (reshape(x, (1,) * (len(wanted) - x.ndim) + x.shape),), (wanted,))


@method()
def expand_dims(x: Any, axis: int) -> Any:
    """Add an axis of size 1.

    y[..., 0, ...] = x[..., ...]

    x        rank r
    axis     position of the new axis in the result, -r-1 to r
    returns  rank r + 1
    raises   ArgumentError when out of range
    source   array API standard, expand_dims
    """
    need_tensor("expand_dims", x)
    a = sh.axis_index("expand_dims", axis, x.ndim + 1)
    return reshape(x, (*x.shape[:a], 1, *x.shape[a:]))


@method("unsqueeze")
def _unsqueeze(x: Any, dim: int) -> Any:
    """Add an axis of size 1: PyTorch's name for expand_dims."""
    return expand_dims(x, dim)


@method()
def squeeze(x: Any, axis: int | tuple[int, ...] | None = None) -> Any:
    """Remove axes of size 1.

    y[..., ...] = x[..., 0, ...]

    x        any shape
    axis     which; None: all of size 1
    returns  the shape without them
    raises   ShapeError when a named axis is not of size 1
    source   array API standard, squeeze; None as in NumPy
    """
    need_tensor("squeeze", x)
    ones = tuple(a for a, n in enumerate(x.shape) if n == 1)
    axes = ones if axis is None else sh.axes_indices("squeeze", axis, x.ndim)
    if any(x.shape[a] != 1 for a in axes):
        raise ShapeError(f"squeeze: axis {axis} of shape {x.shape} is not of size 1")
    return reshape(x, tuple(n for a, n in enumerate(x.shape) if a not in axes))


@method()
def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Merge neighbouring axes into one.

    y[..., k, ...] = x[..., i, j, ...], k the row-major position of (i, j, ...)

    x          any shape
    start_dim  first merged axis
    end_dim    last merged axis
    returns    (..., product of the merged, ...)
    raises     ArgumentError when an axis is out of range or start_dim comes after end_dim
    source     PyTorch, flatten
    """
    need_tensor("flatten", x)
    if x.ndim == 0:
        return reshape(x, (1,))
    a, b = sh.axis_index("flatten", start_dim, x.ndim, "start_dim"), sh.axis_index("flatten", end_dim, x.ndim, "end_dim")
    if a > b:
        raise ArgumentError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim} for shape {x.shape}")
    return reshape(x, (*x.shape[:a], sh.size(x.shape[a:b + 1]), *x.shape[b + 1:]))


def pad(x: Any, widths: Sequence[tuple[int, int]], value: float = 0) -> Any:
    """Put a constant around the elements.

    y[i] = x[i - before] inside, else value

    x        (n_0, ..., n_{r-1})
    widths   r pairs (before, after), in elements
    value    the constant
    returns  (n_0 + before_0 + after_0, ...), dtype of x
    raises   ShapeError unless there is one non-negative pair for each axis
    source   NumPy, pad with mode 'constant'
    """
    need_tensor("pad", x)
    try:
        pairs = tuple(_int_tuple("pad", "widths", (lo, hi)) for lo, hi in widths)
    except (TypeError, ValueError):
        raise ShapeError(f"pad: widths must be {x.ndim} pairs of ints for shape {x.shape}, got {widths!r}") from None
    if not any(lo or hi for lo, hi in pairs) and len(pairs) == x.ndim:
        return x
    return apply(PAD, (x,), (pairs, np.asarray(value).astype(x.dtype.numpy).tobytes()))


@method()
def flip(x: Any, axis: int | tuple[int, ...] | None = None) -> Any:
    """Reverse the order along axes.

    y[..., i, ...] = x[..., n - 1 - i, ...]

    x        any shape
    axis     which; None: all
    returns  shape and dtype of x
    raises   ArgumentError when an axis is out of range
    source   array API standard, flip
    """
    need_tensor("flip", x)
    axes = sh.axes_indices("flip", axis, x.ndim)
    turned = tuple(a in axes for a in range(x.ndim))
    starts = tuple(n - 1 if t else 0 for n, t in zip(x.shape, turned))
    stops = tuple(-1 if t else n for n, t in zip(x.shape, turned))
    return apply(SLICE, (x,), (starts, stops, tuple(-1 if t else 1 for t in turned))) if x.size else x


def concat(values: Sequence[Any], axis: int = 0) -> Any:
    """Join tensors along an existing axis.

    y = x_0, x_1, ... one after the other along the axis

    values   tensors, equal in shape outside `axis`
    axis     which
    returns  sizes along `axis` added up; the promoted dtype
    raises   ShapeError, DTypeError when they do not fit; ArgumentError for an empty list
    source   array API standard, concat
    """
    items = tuple(values)
    if not items:
        raise ArgumentError("concat: needs at least one tensor, got an empty list")
    for i, item in enumerate(items):
        need_tensor("concat", item, f"input {i}")
    if items[0].ndim == 0:
        raise ShapeError("concat: 0-d tensors cannot be joined; use stack")
    a = sh.axis_index("concat", axis, items[0].ndim)
    dtype = functools.reduce(promote, (item.dtype for item in items))
    return items[0] if len(items) == 1 else apply(CONCAT, tuple(item.astype(dtype) for item in items), (a,))


def stack(values: Sequence[Any], axis: int = 0) -> Any:
    """Join tensors of equal shape along a new axis.

    y[..., i, ...] = x_i[..., ...]

    values   k tensors of one shape
    axis     position of the new axis in the result
    returns  rank + 1, size k along `axis`; the promoted dtype
    raises   ShapeError when shapes differ; DTypeError for dtypes that have no common one; ArgumentError for an empty list
    source   array API standard, stack
    """
    items = tuple(values)
    if not items:
        raise ArgumentError("stack: needs at least one tensor, got an empty list")
    for i, item in enumerate(items):
        need_tensor("stack", item, f"input {i}")
        if item.shape != items[0].shape:
            raise ShapeError(f"stack: shapes must agree: input 0 has {items[0].shape}, input {i} has {item.shape}")
    a = sh.axis_index("stack", axis, items[0].ndim + 1)
    return concat([expand_dims(v, a) for v in items], a)


@method("__getitem__")
def _getitem(x: Any, key: Any) -> Any:
    """Basic indexing: ints, slices, `...` and None, as in NumPy; other keys raise ArgumentError."""
    keys = list(key) if isinstance(key, tuple) else [key]
    for k in keys:
        if not (sh.is_index(k) or k is None or k is Ellipsis or isinstance(k, slice)):
            raise ArgumentError(f"indexing takes ints, slices, ... and None, got {k!r}; use take for tensors, where for masks")
    used = sum(k is not None and k is not Ellipsis for k in keys)
    if keys.count(Ellipsis) > 1 or used > x.ndim:
        raise ShapeError(f"indexing: {key!r} does not fit shape {x.shape}")
    at = keys.index(Ellipsis) if Ellipsis in keys else len(keys)
    keys = keys[:at] + [slice(None)] * (x.ndim - used) + keys[at + 1:]
    ranges: list[tuple[int, int, int]] = []
    shape: list[int] = []
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        n = x.shape[len(ranges)]
        if isinstance(k, slice):
            try:
                r = range(*k.indices(n))
            except (TypeError, ValueError) as e:
                raise ArgumentError(f"indexing: {k!r} is no slice of ints: {e}") from None
            stop = r.start + len(r) * r.step
            ranges.append((r.start, stop, r.step) if r else (0, 0, 1))
            shape.append(len(r))
        else:
            if not -n <= k < n:
                raise RangeError(f"indexing: {k} is out of range for axis {len(ranges)} of size {n}")
            ranges.append((int(k) % n, int(k) % n + 1, 1))
    starts, stops, steps = (tuple(r[i] for r in ranges) for i in range(3))
    whole = starts == (0,) * x.ndim and stops == x.shape and steps == (1,) * x.ndim
    return reshape(x if whole else apply(SLICE, (x,), (starts, stops, steps)), tuple(shape))
