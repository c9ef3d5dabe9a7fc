"""Pooling: a maximum or a mean over every window of the last axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from renaissance.errors import ArgumentError, DTypeError, ShapeError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ops.composed import composed
from renaissance.ops.convolution import channels_first, channels_last
from renaissance.ops.elementwise import add, astype, divide, equal, lit, maximum, minimum, not_equal, where
from renaissance.ops.index import arange_like
from renaissance.ops.leaf import over_places
from renaissance.ops.movement import broadcast_to, reshape
from renaissance.ops.reduce import max, sum
from renaissance.ops.tap import Axes, Axis, by_windows, repeated, spread, tap_count, taps
from renaissance.ops.value import Rule, need_tensor, with_gradient

Sizes = int | Sequence[int]
MOST_TAPS = 36  # windows of more elements are reduced in a loop, not written out


def _axes(op: str, x: Any, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes, ceil: bool,
          dims: int) -> Axes:
    """The windows along each of the last `dims` axes, x and PyTorch's arguments checked."""
    need_tensor(op, x)
    if x.ndim not in (dims + 1, dims + 2):
        raise ShapeError(f"{op}: takes {_SHAPES[dims][0]} or the same without N, got shape {x.shape}")

    def each(name: str, value: Any, least: int) -> tuple[int, ...]:
        values = (value,) * dims if sh.is_index(value) else tuple(value)
        if len(values) != dims or not all(sh.is_index(v) and v >= least for v in values):
            raise ArgumentError(f"{op}: {name} must be an int, or {dims} of them, at least {least}, got {value!r}")
        return values

    sizes = each("kernel_size", kernel_size, 1)
    strides = sizes if stride is None else each("stride", stride, 1)
    parts = zip(x.shape[-dims:], sizes, strides, each("padding", padding, 0), each("dilation", dilation, 1))
    axes = tuple(Axis(*part, ceil) for part in parts)
    for a in axes:
        if 2 * a.padding > a.reach:
            raise ArgumentError(f"{op}: padding must be at most half of the window, got {a.padding} for {a.reach} elements")
        if a.n + 2 * a.padding < a.reach:
            raise ShapeError(f"{op}: a window over {a.reach} elements does not fit into {a.n}, with {a.padding} of padding on "
                             f"each side, of shape {x.shape}")
    if not x.dtype.is_float:
        raise DTypeError(f"{op}: takes floats, got {x.dtype.name}")
    return axes


def _image(x: Any, axes: Axes) -> Any:
    """x as (N, L ..., C)."""
    return channels_last(x if x.ndim == len(axes) + 2 else reshape(x, (1, *x.shape)))


def _like(y: Any, x: Any) -> Any:
    """(N, P ..., C) with channels first, and without N if x has none."""
    y = channels_first(y)
    return y if x.ndim == y.ndim else reshape(y, y.shape[1:])


# ---- maxima ------------------------------------------------------------------------------------------------------------


def _max_rule(ct: Any, out: Any, inputs: Any, axes: Axes) -> tuple[Any, ...]:
    """To the first tap that is the maximum; overlapping windows add up in float32 or wider."""
    image, index = inputs

    def share(tap: int, seen: Any, first: Any) -> Any:
        return where(equal(first, lit(tap, first)), seen, lit(0, seen))

    return spread([astype(ct, dt.accumulator(ct.dtype)), index], share, axes, image.dtype), None


@composed
def _max_pooled(x: Any, axes: Axes) -> Any:
    image = _image(x, axes)
    if tap_count(axes) > MOST_TAPS:
        return _like(max(by_windows(image, axes, -math.inf), axis=-2), x)
    top, *others = taps(image, axes, -math.inf)
    index = astype(broadcast_to(lit(0.0, top), top.shape), dt.uint8)
    for number, seen in enumerate(others, 1):
        higher = maximum(top, seen)
        index = where(not_equal(higher, top), lit(number, index), index)
        top = higher
    return _like(with_gradient(top, (image, index), Rule(_max_rule, (axes,))), x)


def _max_pool(op: str, x: Any, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes, ceil_mode: bool,
              dims: int) -> Any:
    return _max_pooled(x, _axes(op, x, kernel_size, stride, padding, dilation, ceil_mode, dims))


# ---- means -------------------------------------------------------------------------------------------------------------


def _sum_rule(ct: Any, out: Any, inputs: Any, axes: Axes) -> tuple[Any, ...]:
    if all(a.tiles for a in axes):
        return (repeated(ct, axes, inputs[0].dtype),)
    return (spread([ct], lambda tap, seen: seen, axes, inputs[0].dtype),)


def _summed(image: Any, axes: Axes) -> Any:
    """The sum of every window, in float32 or wider."""
    wide = astype(image, dt.accumulator(image.dtype))
    if all(a.full and a.count == 1 for a in axes) and image.size:
        total = over_places(wide[(slice(None), *(slice(0, a.reach, a.dilation) for a in axes))])
        return reshape(total, (image.shape[0], *(1 for _ in axes), image.shape[-1]))
    if tap_count(axes) > MOST_TAPS:
        return sum(by_windows(wide, axes, 0.0), axis=-2)
    total, *others = taps(wide, axes, 0.0)
    for seen in others:
        total = add(total, seen)
    return with_gradient(total, (image,), Rule(_sum_rule, (axes,)))


@composed
def _avg_pooled(x: Any, axes: Axes, padding_too: bool, divisor: float | None) -> Any:
    total = _summed(_image(x, axes), axes)
    if divisor is None and all(a.full for a in axes):
        divisor = float(tap_count(axes))
    if divisor is not None:
        count = lit(divisor, total)
    else:
        count, *others = [_counted(total, a, 1 + k, padding_too) for k, a in enumerate(axes)]
        for other in others:
            count = count * other
    return _like(astype(divide(total, count), x.dtype), x)


def _avg_pool(op: str, x: Any, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, ceil_mode: bool, count_include_pad: bool,
              divisor_override: int | None, dims: int) -> Any:
    axes = _axes(op, x, kernel_size, stride, padding, 1, ceil_mode, dims)
    if divisor_override == 0:
        raise ArgumentError(f"{op}: divisor_override must not be 0")
    return _avg_pooled(x, axes, count_include_pad, None if divisor_override is None else float(divisor_override))


def _counted(total: Any, a: Axis, axis: int, padding_too: bool) -> Any:
    """How many elements each window has along an axis: those in the array, with the padding on both sides if that counts."""
    first = arange_like(a.count, total.dtype, type(total)) * float(a.stride) - float(a.padding)
    low, high = (-a.padding, a.n + a.padding) if padding_too else (0, a.n)
    counts = minimum(first + float(a.size), float(high)) - maximum(first, float(low))
    return reshape(counts, tuple(a.count if d == axis else 1 for d in range(total.ndim)))


# ---- functions ---------------------------------------------------------------------------------------------------------


def _max_doc(dims: int) -> str:
    shape, out = _SHAPES[dims]
    return f"""The largest element of every window over the last {_NUMBERS[dims]}; NaN if there is one, gradients to the first.

    y[n, c, p] = max_r x[n, c, p stride + r dilation - padding], -inf outside

    x            {shape} float, or without N
    kernel_size  elements of a window along each axis: an int, or {dims} of them, as all that follow
    stride       from one window to the next; None: kernel_size
    padding      places before and after the elements; at most half of a window
    dilation     between neighbours in a window
    ceil_mode    whether a last window may stick out
    returns      {out}, P = floor((L + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1 (ceil in ceil_mode); dtype of x
    raises       ArgumentError for sizes out of range; ShapeError when a window is longer than its axis; DTypeError for integers
    source       PyTorch, max_pool{dims}d
    """


def _avg_doc(dims: int) -> str:
    shape, out = _SHAPES[dims]
    override = "\n    divisor_override   divide by this instead" if dims > 1 else ""
    return f"""The mean of every window over the last {_NUMBERS[dims]}.

    y[n, c, p] = sum_r x[n, c, p stride + r - padding] / count, 0 outside

    x                  {shape} float, or without N
    kernel_size        elements of a window along each axis: an int, or {dims} of them, as all that follow
    stride             from one window to the next; None: kernel_size
    padding            places before and after the elements; at most half of a window
    ceil_mode          whether a last window may stick out
    count_include_pad  whether padding counts as elements of a window; what sticks out beyond it never does{override}
    returns            {out}, P = floor((L + 2 padding - kernel_size) / stride) + 1 (ceil in ceil_mode); dtype of x
    raises             ArgumentError for sizes out of range; ShapeError when a window is longer than its axis; DTypeError for
                       integers
    source             PyTorch, avg_pool{dims}d
    """


_SHAPES = {1: ("(N, C, W)", "(N, C, P)"), 2: ("(N, C, H, W)", "(N, C, P, Q)"), 3: ("(N, C, D, H, W)", "(N, C, O, P, Q)")}
_NUMBERS = {1: "axis", 2: "two axes", 3: "three axes"}


def max_pool1d(x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
               ceil_mode: bool = False) -> Any:
    return _max_pool("max_pool1d", x, kernel_size, stride, padding, dilation, ceil_mode, 1)


def max_pool2d(x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
               ceil_mode: bool = False) -> Any:
    return _max_pool("max_pool2d", x, kernel_size, stride, padding, dilation, ceil_mode, 2)


def max_pool3d(x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
               ceil_mode: bool = False) -> Any:
    return _max_pool("max_pool3d", x, kernel_size, stride, padding, dilation, ceil_mode, 3)


def avg_pool1d(x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
               count_include_pad: bool = True) -> Any:
    return _avg_pool("avg_pool1d", x, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1)


def avg_pool2d(x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> Any:
    return _avg_pool("avg_pool2d", x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2)


def avg_pool3d(x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> Any:
    return _avg_pool("avg_pool3d", x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3)


for _dims, _max, _avg in ((1, max_pool1d, avg_pool1d), (2, max_pool2d, avg_pool2d), (3, max_pool3d, avg_pool3d)):
    _max.__doc__, _avg.__doc__ = _max_doc(_dims), _avg_doc(_dims)
