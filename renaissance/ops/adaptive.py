"""Adaptive pooling: as many windows as are asked for, of as equal sizes as the elements allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from renaissance.errors import ArgumentError, DTypeError, ShapeError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ops.composed import composed
from renaissance.ops.convolution import channels_first, channels_last
from renaissance.ops.elementwise import astype, divide, lit
from renaissance.ops.leaf import over_places
from renaissance.ops.movement import concat, reshape
from renaissance.ops.reduce import max, mean
from renaissance.ops.value import need_tensor

Sizes = int | None | Sequence[int | None]
Reduce = Callable[[Any, int], Any]


def _along(x: Any, axis: int, count: int, reduce: Reduce) -> Any:
    """`count` windows along an axis: window i begins at floor(i n / count) and ends before ceil((i + 1) n / count)."""
    n = x.shape[axis]
    if count == n:
        return x
    if count and n % count == 0:
        return reduce(reshape(x, (*x.shape[:axis], count, n // count, *x.shape[axis + 1:])), axis + 1)
    lead, kept = (slice(None),) * axis, (*x.shape[:axis], 1, *x.shape[axis + 1:])
    if count == 0:
        return x[(*lead, slice(0, 0))]
    parts = [x[(*lead, slice(i * n // count, -(-(i + 1) * n // count)))] for i in range(count)]
    return concat([reshape(reduce(part, axis), kept) for part in parts], axis=axis)


def _pooled(x: Any, counts: tuple[int, ...], reduce: Reduce, whole: Callable[[Any], Any]) -> Any:
    """Axis by axis, the last one first, so that the first maximum in row-major order is found; all at once where one is left."""
    batched = x.ndim == len(counts) + 2
    y = channels_last(x if batched else reshape(x, (1, *x.shape)))
    if all(count == 1 for count in counts) and y.size:
        y = reshape(whole(y), (y.shape[0], *counts, y.shape[-1]))
    for k in reversed(range(len(counts))):
        y = _along(y, 1 + k, counts[k], reduce)
    y = channels_first(y)
    return y if batched else reshape(y, y.shape[1:])


def _mean_over_places(image: Any) -> Any:
    total = over_places(image)
    return divide(total, lit(sh.size(image.shape[1:-1]), total))


def _max_over_places(image: Any) -> Any:
    return max(reshape(image, (image.shape[0], sh.size(image.shape[1:-1]), image.shape[-1])), 1)


@composed
def _means(x: Any, counts: tuple[int, ...]) -> Any:
    return astype(_pooled(astype(x, dt.accumulator(x.dtype)), counts, mean, _mean_over_places), x.dtype)


@composed
def _maxima(x: Any, counts: tuple[int, ...]) -> Any:
    return _pooled(x, counts, max, _max_over_places)


def _counts(op: str, x: Any, output_size: Sizes, dims: int) -> tuple[int, ...]:
    need_tensor(op, x)
    if x.ndim not in (dims + 1, dims + 2):
        raise ShapeError(f"{op}: takes {_SHAPES[dims]} or the same without N, got shape {x.shape}")
    if not x.dtype.is_float:
        raise DTypeError(f"{op}: takes floats, got {x.dtype.name}")
    given: Any = (output_size,) * dims if output_size is None or sh.is_index(output_size) else output_size
    if len(given) != dims or not all(v is None or (sh.is_index(v) and v >= 0) for v in given):
        raise ArgumentError(f"{op}: output_size must be an int or None, or {dims} of them, not negative, got {output_size!r}")
    counts = tuple(n if v is None else int(v) for n, v in zip(x.shape[-dims:], given))
    if any(n == 0 and count for n, count in zip(x.shape[-dims:], counts)):
        raise ShapeError(f"{op}: there are no elements to pool in x of shape {x.shape}")
    return counts


_SHAPES = {1: "(N, C, W)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}
_NUMBERS = {1: "axis", 2: "two axes", 3: "three axes"}


def _doc(dims: int, what: str, formula: str, name: str) -> str:
    return f"""{what} of each of as many windows over the last {_NUMBERS[dims]} as are asked for.

    y[n, c, p] = {formula}_i x[n, c, i],  floor(p L / P) <= i < ceil((p + 1) L / P)

    x            {_SHAPES[dims]} float, or without N
    output_size  P along each axis: an int, or {dims} of them; None: as many as there are elements
    returns      x's shape with the last {_NUMBERS[dims]} of these sizes; dtype of x
    raises       ArgumentError for negative sizes; ShapeError for other numbers of axes; DTypeError for integers
    source       PyTorch, {name}{dims}d
    """


def adaptive_avg_pool1d(x: Any, output_size: Sizes) -> Any:
    return _means(x, _counts("adaptive_avg_pool1d", x, output_size, 1))


def adaptive_avg_pool2d(x: Any, output_size: Sizes) -> Any:
    return _means(x, _counts("adaptive_avg_pool2d", x, output_size, 2))


def adaptive_avg_pool3d(x: Any, output_size: Sizes) -> Any:
    return _means(x, _counts("adaptive_avg_pool3d", x, output_size, 3))


def adaptive_max_pool1d(x: Any, output_size: Sizes) -> Any:
    return _maxima(x, _counts("adaptive_max_pool1d", x, output_size, 1))


def adaptive_max_pool2d(x: Any, output_size: Sizes) -> Any:
    return _maxima(x, _counts("adaptive_max_pool2d", x, output_size, 2))


def adaptive_max_pool3d(x: Any, output_size: Sizes) -> Any:
    return _maxima(x, _counts("adaptive_max_pool3d", x, output_size, 3))


for _dims, _avg, _max in ((1, adaptive_avg_pool1d, adaptive_max_pool1d), (2, adaptive_avg_pool2d, adaptive_max_pool2d),
                          (3, adaptive_avg_pool3d, adaptive_max_pool3d)):
    _avg.__doc__ = _doc(_dims, "The mean", "mean", "adaptive_avg_pool")
    _max.__doc__ = _doc(_dims, "The largest element", "max", "adaptive_max_pool")
