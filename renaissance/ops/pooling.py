"""Pooling: a maximum or a mean over every window of the last axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from renaissance.errors import ArgumentError, DTypeError, ShapeError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ir.shape import size
from renaissance.ops.elementwise import astype, divide, maximum, minimum
from renaissance.ops.index import arange_like
from renaissance.ops.movement import broadcast_to, pad, reshape
from renaissance.ops.reduce import max, sum
from renaissance.ops.value import need_tensor
from renaissance.ops.window import windows

Sizes = int | Sequence[int]


@dataclass(frozen=True)
class _Axis:
    """How windows lie along an axis of n elements: `padding` before it, and after it as much as the `count` windows need."""

    n: int
    size: int
    stride: int
    padding: int
    dilation: int
    ceil: bool

    @property
    def reach(self) -> int:
        return self.dilation * (self.size - 1) + 1

    @property
    def count(self) -> int:
        """Windows that fit; with `ceil` also one that sticks out, unless it begins behind the elements and the padding before."""
        room = self.n + 2 * self.padding - self.reach
        count = (-(-room // self.stride) if self.ceil else room // self.stride) + 1
        return count - (self.ceil and (count - 1) * self.stride >= self.n + self.padding)

    @property
    def after(self) -> int:
        """Padding after the elements: may be negative where elements are in no window."""
        return (self.count - 1) * self.stride + self.reach - self.n - self.padding


def _axes(op: str, x: Any, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes, ceil: bool,
          dims: int) -> list[_Axis]:
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
    axes = [_Axis(*part, ceil) for part in parts]
    for a in axes:
        if 2 * a.padding > a.reach:
            raise ArgumentError(f"{op}: padding must be at most half of the window, got {a.padding} for {a.reach} elements")
        if a.n + 2 * a.padding < a.reach:
            raise ShapeError(f"{op}: a window over {a.reach} elements does not fit into {a.n}, with {a.padding} of padding on "
                             f"each side, of shape {x.shape}")
    if not x.dtype.is_float:
        raise DTypeError(f"{op}: takes floats, got {x.dtype.name}")
    return axes


def _pooled(x: Any, axes: list[_Axis], outside: float) -> Any:
    """The windows, each as one last axis; what lies outside the elements is `outside`."""
    lead = x.ndim - len(axes)
    kept = x[(slice(None),) * lead + tuple(slice(0, a.n + min(a.after, 0)) for a in axes)]
    whole = pad(kept, [(0, 0)] * lead + [(a.padding, a.after if a.after > 0 else 0) for a in axes], outside)
    seen = windows(whole, [a.size for a in axes], [a.stride for a in axes], [a.dilation for a in axes])
    return reshape(seen, (*seen.shape[:x.ndim], size(seen.shape[x.ndim:])))


def _max_pool(op: str, x: Any, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes, ceil_mode: bool,
              dims: int) -> Any:
    axes = _axes(op, x, kernel_size, stride, padding, dilation, ceil_mode, dims)
    return max(_pooled(x, axes, -math.inf), axis=-1)


def _avg_pool(op: str, x: Any, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, ceil_mode: bool, count_include_pad: bool,
              divisor_override: int | None, dims: int) -> Any:
    axes = _axes(op, x, kernel_size, stride, padding, 1, ceil_mode, dims)
    if divisor_override == 0:
        raise ArgumentError(f"{op}: divisor_override must not be 0")
    total = sum(_pooled(x, axes, 0.0), axis=-1, dtype=dt.accumulator(x.dtype))
    if divisor_override is not None:
        return astype(total / float(divisor_override), x.dtype)
    for k, a in enumerate(axes):
        total = divide(total, _counted(total, a, total.ndim - dims + k, count_include_pad))
    return astype(total, x.dtype)


def _counted(total: Any, a: _Axis, axis: int, padding_too: bool) -> Any:
    """How many elements each window has along an axis: those in the array, with the padding on both sides if that counts."""
    first = arange_like(a.count, total.dtype, type(total)) * float(a.stride) - float(a.padding)
    low, high = (-a.padding, a.n + a.padding) if padding_too else (0, a.n)
    counts = minimum(first + float(a.size), float(high)) - maximum(first, float(low))
    return broadcast_to(reshape(counts, tuple(a.count if d == axis else 1 for d in range(total.ndim))), total.shape)


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
