"""Taps: what all windows of an image see at one of their places, as views; images put together from what windows have for them.

Images have their channels last, (N, L ..., C), so that work on taps goes along the channels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from renaissance.ir.dtype import DType
from renaissance.ops.elementwise import add, astype
from renaissance.ops.movement import broadcast_to, concat, pad, permute_dims, reshape
from renaissance.ops.window import windows


@dataclass(frozen=True)
class Axis:
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

    @property
    def full(self) -> bool:
        """Whether every window lies inside the elements."""
        return self.padding == 0 and self.after <= 0

    @property
    def tiles(self) -> bool:
        """Whether windows lie side by side, the first at the first element."""
        return self.padding == 0 and self.stride == self.size and self.dilation == 1

    @property
    def most(self) -> int:
        """How many of every `stride`-th elements there are, at most."""
        return -(-self.n // self.stride)

    def meeting(self, first: int) -> list[tuple[int, int]]:
        """For the elements first + i stride: each tap that sees them, and p - i for the window p that does."""
        distances = [(tap, first + self.padding - tap * self.dilation) for tap in range(self.size)]
        return [(tap, distance // self.stride) for tap, distance in distances if distance % self.stride == 0]


Axes = tuple[Axis, ...]


def tap_count(axes: Axes) -> int:
    """How many elements a window has."""
    return math.prod(a.size for a in axes)


def padded(x: Any, axes: Axes, outside: float) -> Any:
    """The image as far as windows reach; what lies outside is `outside`."""
    kept = x[(slice(None), *(slice(0, a.n + min(a.after, 0)) for a in axes))]
    return pad(kept, [(0, 0), *((a.padding, max(a.after, 0)) for a in axes), (0, 0)], outside)


def taps(x: Any, axes: Axes, outside: float) -> list[Any]:
    """What the windows see, (N, P ..., C) for each tap, in row-major order of the taps."""
    whole = padded(x, axes, outside)
    seen = []
    for tap in itertools.product(*(range(a.size) for a in axes)):
        starts = [r * a.dilation for r, a in zip(tap, axes)]
        places = [slice(at, at + (a.count - 1) * a.stride + 1, a.stride) for at, a in zip(starts, axes)]
        seen.append(whole[(slice(None), *places)])
    return seen


def by_windows(x: Any, axes: Axes, outside: float) -> Any:
    """What the windows see, (N, P ..., taps, C), as one view: for windows of many elements."""
    rank = len(axes)
    if all(a.tiles for a in axes):
        cut = reshape(padded(x, axes, outside), (x.shape[0], *(n for a in axes for n in (a.count, a.size)), x.shape[-1]))
        seen = permute_dims(cut, (0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2), 2 * rank + 1))
        return reshape(seen, (*seen.shape[:1 + rank], tap_count(axes), x.shape[-1]))
    whole = padded(x, axes, outside)
    first = permute_dims(whole, (0, 1 + rank, *range(1, 1 + rank)))
    seen = windows(first, [a.size for a in axes], [a.stride for a in axes], [a.dilation for a in axes])
    seen = permute_dims(seen, (0, *range(2, seen.ndim), 1))
    return reshape(seen, (*seen.shape[:1 + rank], tap_count(axes), seen.shape[-1]))


def spread(values: Sequence[Any], share: Callable[..., Any], axes: Axes, dtype: DType) -> Any:
    """The image (N, L ..., C) each of whose elements is the sum, in the order of the taps, of its shares of windows that see it.

    values  (N, P ..., C): what is known of the windows, 0 for windows that do not exist
    share   (number of a tap, *values) -> what the element at that tap gets
    dtype   of the image: what is added up is rounded once

    Elements at equal places between window starts meet the same taps: each such class is computed for itself, and the classes are
    put in turn along their axes.
    """
    batch, channels = values[0].shape[0], values[0].shape[-1]
    places = tuple(n for a in axes for n in (a.most, 1))
    # Behind margins what is known is a value of its own, which no part is computed along with: the parts are computed together.
    margined = [pad(v, [(0, 0), *((a.most, a.most) for a in axes), (0, 0)]) for v in values]

    def of_class(chosen: tuple[int, ...]) -> Any:
        terms = []
        for met in itertools.product(*(a.meeting(first) for a, first in zip(axes, chosen))):
            number = 0
            for (tap, _), a in zip(met, axes):
                number = number * a.size + tap
            shifts = [shift for _, shift in met]
            if all(-a.most < shift < a.count for a, shift in zip(axes, shifts)):
                terms.append(share(number, *(_moved(m, axes, shifts) for m in margined)))
        if not terms:
            return _zeros(values[0], (batch, *places, channels), dtype)
        total = terms[0]
        for term in terms[1:]:
            total = add(total, term)
        return reshape(astype(total, dtype), (batch, *places, channels))

    def in_turn(chosen: tuple[int, ...]) -> Any:
        k = len(chosen)
        if k == len(axes):
            return of_class(chosen)
        parts = [in_turn((*chosen, first)) for first in range(axes[k].stride)]
        return parts[0] if len(parts) == 1 else concat(parts, axis=2 + 2 * k)

    whole = reshape(in_turn(()), (batch, *(a.most * a.stride for a in axes), channels))
    return whole[(slice(None), *(slice(0, a.n) for a in axes))]


def _moved(margined: Any, axes: Axes, shifts: Sequence[int]) -> Any:
    """For element i of a class what window i + shift has."""
    return margined[(slice(None), *(slice(a.most + shift, 2 * a.most + shift) for a, shift in zip(axes, shifts)))]


def repeated(value: Any, axes: Axes, dtype: DType) -> Any:
    """The image each of whose elements has what its window has, (N, P ..., C), 0 for those in none; windows lie side by side."""
    batch, channels = value.shape[0], value.shape[-1]
    value = astype(value, dtype)
    value = reshape(value, (batch, *(n for a in axes for n in (a.count, 1)), channels))
    value = broadcast_to(value, (batch, *(n for a in axes for n in (a.count, a.size)), channels))
    value = reshape(value, (batch, *(a.count * a.size for a in axes), channels))[(slice(None), *(slice(0, a.n) for a in axes))]
    return pad(value, [(0, 0), *((0, a.n - n) for a, n in zip(axes, value.shape[1:])), (0, 0)])


def _zeros(like: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    return broadcast_to(reshape(type(like)(like.number(0.0, dtype)), (1,) * len(shape)), shape)
