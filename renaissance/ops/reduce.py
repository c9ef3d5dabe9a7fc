"""Reductions. The order of every sum is fixed here and by the two primitive orders of `ir/plan.py` (Nest):

Reduced trailing axes are one row in lane order, other reduced axes one chain in column order. A row longer than ROW or a chain
longer than CHAIN is cut into equal blocks (the last filled up with the neutral element), whose results are reduced again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from renaissance.errors import ArgumentError, DTypeError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Op, Shape
from renaissance.ops.elementwise import astype, divide, equal, lit, sqrt, subtract, where
from renaissance.ops.index import arange_like
from renaissance.ops.movement import broadcast_to, pad, reshape
from renaissance.ops.value import Rule, Value, apply, const, method, need_tensor, with_gradient

ROW, CHAIN = 4096, 256


# ---- records -----------------------------------------------------------------------------------------------------------


def _infer(inputs: tuple[Node, ...], axes: tuple[int, ...]) -> tuple[Shape, DType]:
    x = inputs[0]
    return tuple(n for a, n in enumerate(x.shape) if a not in axes), x.dtype


def _infer_arg(inputs: tuple[Node, ...], axis: int) -> tuple[Shape, DType]:
    x = inputs[0]
    if x.shape[axis] == 0:
        raise ArgumentError(f"argmax/argmin: axis {axis} of shape {x.shape} is empty")
    return x.shape[:axis] + x.shape[axis + 1:], dt.int64


def _kept(x: Value, value: Value, axes: tuple[int, ...]) -> Any:
    """`value`, reduced over `axes` of x, stretched back to the shape of x."""
    return broadcast_to(reshape(value, tuple(1 if a in axes else n for a, n in enumerate(x.shape))), x.shape)


def _vjp_sum(ct: Value, out: Value, inputs: tuple[Value, ...], axes: tuple[int, ...]) -> tuple[Value, ...]:
    return (_kept(inputs[0], ct, axes),)


def _evenly(ct: Value, out: Value, inputs: tuple[Value, ...], axes: tuple[int, ...]) -> tuple[Value, ...]:
    """Gradient of a maximum or minimum: the same share to all elements that are it."""
    x = inputs[0]
    hit = equal(x, _kept(x, out, axes))
    count = sum(astype(hit, x.dtype), axes)
    return (where(hit, _kept(x, divide(ct, count), axes), lit(0, x)),)


def _to_the_first(ct: Value, out: Value, inputs: tuple[Value, ...], axes: tuple[int, ...]) -> tuple[Value, ...]:
    """Gradient of a maximum or minimum: all to the first element that is it, in row-major order of the reduced axes."""
    x = inputs[0]
    count = sh.size(tuple(x.shape[a] for a in axes))
    position = reshape(arange_like(count, dt.int64), tuple(n if a in axes else 1 for a, n in enumerate(x.shape)))
    position = broadcast_to(position, x.shape)
    hit = equal(x, _kept(x, out, axes))
    first = _reduce(MIN, where(hit, position, lit(count, position)), axes)
    return (where(equal(position, _kept(x, first, axes)), _kept(x, ct, axes), lit(0, x)),)


def _vjp_prod(ct: Value, out: Value, inputs: tuple[Value, ...], axes: tuple[int, ...]) -> tuple[Value, ...]:
    """ct times the product of the others: out / x, and where x is the only zero, the product of the rest."""
    x = inputs[0]
    zero = equal(x, lit(0, x))
    zeros = _kept(x, sum(astype(zero, x.dtype), axes), axes)
    filled = where(zero, lit(1, x), x)
    rest = _kept(x, prod(filled, axes), axes)
    others = where(zero, where(equal(zeros, lit(1, x)), rest, lit(0, x)), divide(_kept(x, out, axes), filled))
    return (_kept(x, ct, axes) * others,)


def _numpy(function: Any):
    def reference(arrays: Any, axes: tuple[int, ...], out: tuple[Shape, DType]) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(function(arrays[0], axis=axes)).astype(out[1].numpy)

    return reference


def _sum_numpy(a: Any, axis: Any) -> Any:
    return np.sum(a, axis=axis, dtype=np.float64 if a.dtype.kind == "f" else None)


SUM = Op("reduce_sum", "reduce", _infer, _numpy(_sum_numpy), _vjp_sum, ("axes",))
MAX = Op("reduce_max", "reduce", _infer, _numpy(np.max), _evenly, ("axes",))
MIN = Op("reduce_min", "reduce", _infer, _numpy(np.min), _evenly, ("axes",))
PROD = Op("reduce_prod", "reduce", _infer, _numpy(np.prod), _vjp_prod, ("axes",))
ANY = Op("reduce_any", "reduce", _infer, _numpy(np.any), None, ("axes",))
ALL = Op("reduce_all", "reduce", _infer, _numpy(np.all), None, ("axes",))
ARGMAX = Op("argmax", "reduce", _infer_arg, lambda a, axis, out: np.argmax(a[0], axis), None, ("axis",))
ARGMIN = Op("argmin", "reduce", _infer_arg, lambda a, axis, out: np.argmin(a[0], axis), None, ("axis",))


# ---- the order of a reduction ------------------------------------------------------------------------------------------


def _neutral(op: Op, dtype: DType) -> Any:
    if op is SUM:
        return -0.0 if dtype.is_float else 0
    if op in (ANY, ALL):
        return op is ALL
    if op is PROD:
        return 1
    lowest = op is MAX
    if dtype.is_float:
        return -np.inf if lowest else np.inf
    if dtype.kind == "b":
        return not lowest
    info = np.iinfo(dtype.numpy)
    return info.min if lowest else info.max


def _blocks(op: Op, x: Value, axis: int, limit: int) -> Any:
    """Cut `axis` into equal blocks of at most `limit`: the axis becomes (blocks, block length)."""
    n = x.shape[axis]
    count = -(-n // limit)
    length = -(-n // count)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, count * length - n)
    return reshape(pad(x, widths, _neutral(op, x.dtype)), (*x.shape[:axis], count, length, *x.shape[axis + 1:]))


def _reduce_axis(op: Op, x: Any, axis: int) -> Any:
    """Reduce one axis in its fixed order."""
    limit = ROW if axis == x.ndim - 1 else CHAIN
    if x.shape[axis] > limit:
        return _reduce_axis(op, _reduce_axis(op, _blocks(op, x, axis, limit), axis + 1), axis)
    return apply(op, (x,), ((axis,),))


def _reduce(op: Op, x: Any, axes: tuple[int, ...]) -> Any:
    """Reduce `axes`: neighbours are merged, the trailing group goes first, then the others from the back."""
    if x.size == 0 or not axes:
        return _reduce_empty(op, x, axes)
    groups: list[list[int]] = []
    for a in axes:
        if groups and groups[-1][-1] == a - 1:
            groups[-1].append(a)
        else:
            groups.append([a])
    for group in reversed(groups):
        first, last = group[0], group[-1]
        merged = reshape(x, (*x.shape[:first], sh.size(x.shape[first:last + 1]), *x.shape[last + 1:]))
        x = _reduce_axis(op, merged, first)
    return x


def _reduce_empty(op: Op, x: Any, axes: tuple[int, ...]) -> Any:
    """Nothing to combine: no axes give x itself, an empty reduced axis the neutral element."""
    if not axes:
        return x
    shape = tuple(n for a, n in enumerate(x.shape) if a not in axes)
    if op in (MAX, MIN) and sh.size(shape):
        raise ArgumentError(f"{op.name[7:]}: axes {axes} of shape {x.shape} are empty: there is no largest or smallest element")
    if not sh.size(shape):
        return reshape(x, shape)
    neutral = broadcast_to(x.handle(const(0 if op is SUM else _neutral(op, x.dtype), x.dtype)), shape)
    return with_gradient(neutral, (x,), _no_elements)


def _axes(op: str, x: Any, axis: Any) -> tuple[int, ...]:
    """The axes to reduce, counted from the front."""
    need_tensor(op, x)
    return sh.axes_indices(op, axis, x.ndim)


def _no_elements(ct: Any, out: Any, inputs: Any) -> tuple[Any, ...]:
    """What has no elements has a gradient without elements."""
    return (lit(0, inputs[0]),)


def _finish(x: Any, reduced: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return reshape(reduced, tuple(1 if a in axes else n for a, n in enumerate(x.shape))) if keepdims else reduced


# ---- functions ---------------------------------------------------------------------------------------------------------


@method()
def sum(x: Any, axis: Any = None, *, keepdims: bool = False, dtype: Any = None) -> Any:
    """Add elements along axes; integers and bool are added as int64 (unsigned as uint64), 16-bit floats in float32.

    y = sum_i x_i, in a fixed order

    x         any shape
    axis      int, ints or None (all)
    keepdims  True: reduced axes stay, with size 1
    dtype     of the result; None: see returns
    returns   the shape without the axes (with size 1 if keepdims); dtype, else that of x for floats, else the 64-bit integer
    raises    ArgumentError when an axis is out of range or named twice
    source    array API standard, sum
    """
    axes = _axes("sum", x, axis)
    wanted = dt.dtype(dtype) if dtype is not None else x.dtype if x.dtype.is_float else dt.accumulator(x.dtype)
    total = _reduce(SUM, astype(x, dt.accumulator(wanted)), axes)
    return _finish(x, astype(total, wanted), axes, keepdims)


@method()
def mean(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The arithmetic mean along axes; of integers in float32; of nothing NaN.

    y = (1/n) sum_i x_i

    x         any shape
    axis      int, ints or None (all)
    keepdims  True: reduced axes stay, with size 1
    returns   the shape without the axes, dtype of x for floats, else float32
    raises    ArgumentError when an axis is out of range or named twice
    source    array API standard, mean
    """
    axes = _axes("mean", x, axis)
    wanted = x.dtype if x.dtype.is_float else dt.float32
    total = sum(astype(x, dt.accumulator(wanted)), axes)
    count = sh.size(tuple(x.shape[a] for a in axes))
    return _finish(x, astype(divide(total, lit(count, total)), wanted), axes, keepdims)


@method()
def var(x: Any, axis: Any = None, *, correction: float = 0, keepdims: bool = False) -> Any:
    """The variance along axes, by two passes over differences from the first element, so that a large mean costs no digits.

    y = sum_i (x_i - mean)^2 / (n - correction)

    x           any shape, float
    axis        int, ints or None (all)
    correction  taken from n: 0 population, 1 sample
    keepdims    True: reduced axes stay, with size 1
    returns     the shape without the axes, dtype of x; NaN where n <= correction
    raises      DTypeError for other dtypes; ArgumentError for bad axes
    source      array API standard, var; two-pass: Chan, Golub, LeVeque 1983
    """
    axes = _axes("var", x, axis)
    if not x.dtype.is_float:
        raise DTypeError(f"var: takes floats, got {x.dtype.name}")
    wide = astype(x, dt.accumulator(x.dtype))
    count = sh.size(tuple(x.shape[a] for a in axes))
    if count:
        first = wide[tuple(slice(0, 1) if a in axes else slice(None) for a in range(x.ndim))]
        wide = subtract(wide, broadcast_to(first, x.shape))
    centred = subtract(wide, broadcast_to(mean(wide, axes, keepdims=True), x.shape))
    total = sum(centred * centred, axes)
    degrees = count - correction
    return _finish(x, astype(divide(total, lit(degrees if degrees > 0 else np.nan, total)), x.dtype), axes, keepdims)


@method()
def std(x: Any, axis: Any = None, *, correction: float = 0, keepdims: bool = False) -> Any:
    """The standard deviation along axes; its gradient at 0 is 0.

    y = sqrt(var(x))

    x           any shape, float
    axis        int, ints or None (all)
    correction  taken from n: 0 population, 1 sample
    keepdims    True: reduced axes stay, with size 1
    returns     the shape without the axes, dtype of x
    raises      as var
    source      array API standard, std
    """
    variance = var(x, axis, correction=correction, keepdims=keepdims)
    zero = equal(variance, lit(0, variance))
    return where(zero, lit(0, variance), sqrt(where(zero, lit(1, variance), variance)))


def _extreme(name: str, op: Op, x: Any, axis: Any, keepdims: bool) -> Any:
    axes = _axes(name, x, axis)
    reduced = with_gradient(_reduce(op, x, axes), (x,), Rule(_evenly if axis is None else _to_the_first, (axes,)))
    return _finish(x, reduced, axes, keepdims)


@method()
def max(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The largest element, NaN if there is one; equal maxima of all share the gradient, along axes the first gets it.

    y = max_i x_i

    x         any shape
    axis      int, ints or None (all)
    keepdims  True: reduced axes stay, with size 1
    returns   the shape without the axes, dtype of x
    raises    ArgumentError for an empty reduction or bad axes
    source    array API standard, max
    """
    return _extreme("max", MAX, x, axis, keepdims)


@method()
def min(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The smallest element, NaN if there is one; equal minima of all share the gradient, along axes the first gets it.

    y = min_i x_i

    x         any shape
    axis      int, ints or None (all)
    keepdims  True: reduced axes stay, with size 1
    returns   the shape without the axes, dtype of x
    raises    ArgumentError for an empty reduction or bad axes
    source    array API standard, min
    """
    return _extreme("min", MIN, x, axis, keepdims)


@method()
def prod(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Multiply elements along axes; integers as int64 (unsigned as uint64).

    y = prod_i x_i, in a fixed order

    x         any shape
    axis      int, ints or None (all)
    keepdims  True: reduced axes stay, with size 1
    returns   the shape without the axes, dtype of x for floats, else the 64-bit integer
    raises    ArgumentError for bad axes
    source    array API standard, prod
    """
    axes = _axes("prod", x, axis)
    wanted = x.dtype if x.dtype.is_float else dt.accumulator(x.dtype)
    return _finish(x, astype(_reduce(PROD, astype(x, dt.accumulator(wanted)), axes), wanted), axes, keepdims)


@method()
def any(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Whether some element along axes is true; of nothing False.

    y = or_i x_i

    x         any shape
    axis      int, ints or None (all)
    keepdims  True: reduced axes stay, with size 1
    returns   the shape without the axes, bool
    raises    ArgumentError for bad axes
    source    array API standard, any
    """
    axes = _axes("any", x, axis)
    return _finish(x, _reduce(ANY, astype(x, dt.bool_), axes), axes, keepdims)


@method()
def all(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Whether all elements along axes are true; of nothing True.

    y = and_i x_i

    x         any shape
    axis      int, ints or None (all)
    keepdims  True: reduced axes stay, with size 1
    returns   the shape without the axes, bool
    raises    ArgumentError for bad axes
    source    array API standard, all
    """
    axes = _axes("all", x, axis)
    return _finish(x, _reduce(ALL, astype(x, dt.bool_), axes), axes, keepdims)


def _arg(name: str, op: Op, x: Any, axis: int | None, keepdims: bool) -> Any:
    need_tensor(name, x)
    if axis is None:
        return _finish(x, _arg(name, op, reshape(x, (x.size,)), 0, False), tuple(range(x.ndim)), keepdims)
    a = sh.axis_index(name, axis, x.ndim)
    order = (*(i for i in range(x.ndim) if i != a), a)
    return _finish(x, apply(op, (x.permute_dims(order),), (x.ndim - 1,)), (a,), keepdims)


@method()
def argmax(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Where the largest element along an axis is: the lowest index at ties, the first NaN if there is one.

    y = min {i : x_i = max_j x_j}

    x         any shape
    axis      int; None: the position in the flattened tensor
    keepdims  True: the axis stays, with size 1
    returns   the shape without the axis, int64
    raises    ArgumentError for an empty or wrong axis
    source    array API standard, argmax
    """
    return _arg("argmax", ARGMAX, x, axis, keepdims)


@method()
def argmin(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Where the smallest element along an axis is: the lowest index at ties, the first NaN if there is one.

    y = min {i : x_i = min_j x_j}

    x         any shape
    axis      int; None: the position in the flattened tensor
    keepdims  True: the axis stays, with size 1
    returns   the shape without the axis, int64
    raises    ArgumentError for an empty or wrong axis
    source    array API standard, argmin
    """
    return _arg("argmin", ARGMIN, x, axis, keepdims)
