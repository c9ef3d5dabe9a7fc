"""Convolutions that make few channels, as convolutions that make several places at once: channels fill the lanes of a vector.

The kernels of places that lie near each other are put side by side, each shifted to where its place sees the image, with zero
taps around it. An output's sum has the same terms in the same order, and zeros between them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from renaissance.ir.dtype import DType
from renaissance.ops.classes import Class, classes
from renaissance.ops.convolution import Geometry, convolved
from renaissance.ops.movement import concat, pad, permute_dims, reshape
from renaissance.ops.value import Value

_LANES = 16  # of the widest vectors, whatever the Target has
_GAIN = 1.25


def _vectors(channels: int) -> int:
    return -(-channels // _LANES)


def neighbours(made: int, windows: int, taps: int, stride: int) -> int:
    """How many neighbouring places of a row are best made at once; 1: it is not worth it."""
    def cost(n: int) -> float:
        return (taps + (n - 1) * stride) * _vectors(n * made) / n

    best = min((n for n in range(1, _LANES // made + 1) if windows % n == 0), key=cost, default=1)
    return best if cost(best) * _GAIN < cost(1) else 1


def by_neighbours(x: Value, w: Value, geometry: Geometry, count: int, out_dtype: DType) -> Any:
    """The convolution, `count` neighbouring places of a row at once; their number divides the windows of a row."""
    (*taps, last), (*strides, stride) = geometry.kernel, geometry.strides
    shifted = [_within(w, [(0, 0), (0, 0), (j * stride, (count - 1 - j) * stride)]) for j in range(count)]
    wide = geometry._replace(kernel=(*taps, last + (count - 1) * stride), strides=(*strides, count * stride))
    y = convolved(x, concat(shifted, axis=0), wide, out_dtype)
    return reshape(y, (*y.shape[:3], y.shape[3] * count, w.shape[0]))


def classes_together(made: int, axes: Sequence[Sequence[Class]]) -> bool:
    """Whether all classes of the places of a spread image are best made at once."""
    if any(k.taps == 0 or k.dilation > 1 for axis in axes for k in axis):
        return False
    separate = math.prod(sum(k.taps for k in axis) for axis in axes) * _vectors(made)
    joint = math.prod(end - first for first, end in map(_span, axes)) * _vectors(math.prod(map(len, axes)) * made)
    return joint * _GAIN < separate


def by_classes(x: Value, w: Value, geometry: Geometry, windows: Sequence[int], out_dtype: DType) -> Any:
    """The convolution of a spread image with stride 1, one place of each class at once."""
    axes = classes_of(geometry, windows)
    spans = [_span(axis) for axis in axes]
    kernels = []
    for chosen in itertools.product(*axes):
        met = (slice(k.first_tap, k.first_tap + (k.taps - 1) * k.step + 1, k.step) for k in chosen)
        around = [(k.start - first, end - k.start - k.taps) for k, (first, end) in zip(chosen, spans)]
        kernels.append(_within(w[(slice(None), slice(None), *met)], around))
    most = [axis[0].places for axis in axes]
    padding = tuple((-first, n - 1 + end - size) for n, size, (first, end) in zip(most, x.shape[1:4], spans))
    wide = Geometry(tuple(end - first for first, end in spans), (1, 1, 1), padding, (1, 1, 1), 1)  # type: ignore[arg-type]
    y = convolved(x, concat(kernels, axis=0), wide, out_dtype)
    counts = [len(axis) for axis in axes]
    apart = permute_dims(reshape(y, (*y.shape[:4], *counts, w.shape[0])), (0, 1, 4, 2, 5, 3, 6, 7))
    whole = reshape(apart, (x.shape[0], *(n * count for n, count in zip(most, counts)), w.shape[0]))
    return whole[(slice(None), *(slice(0, n) for n in windows))]


def classes_of(geometry: Geometry, windows: Sequence[int]) -> list[list[Class]]:
    """The classes of the places along each axis."""
    lows = (low for low, _ in geometry.padding)
    return [classes(*along) for along in zip(windows, geometry.kernel, lows, geometry.dilations, geometry.spread)]


def _span(axis: Sequence[Class]) -> tuple[int, int]:
    """The first element that a class's place 0 meets, and the end of them."""
    return min(k.start for k in axis), max(k.start + k.taps for k in axis)


def _within(w: Value, around: Sequence[tuple[int, int]]) -> Any:
    """Kernels with zero taps around them."""
    return pad(w, ((0, 0), (0, 0), *around))
