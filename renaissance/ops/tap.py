"""Taps: what all windows of an image see at one of their places, as views; and images put together again from one value for each tap.

Images have their channels last, (N, L ..., C), so that work on taps goes along the channels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from renaissance.ops.elementwise import add
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
    whole = padded(x, axes, outside)
    first = permute_dims(whole, (0, 1 + rank, *range(1, 1 + rank)))
    seen = windows(first, [a.size for a in axes], [a.stride for a in axes], [a.dilation for a in axes])
    seen = permute_dims(seen, (0, *range(2, seen.ndim), 1))
    return reshape(seen, (*seen.shape[:1 + rank], tap_count(axes), seen.shape[-1]))


def spread(values: Sequence[Any], axes: Axes) -> Any:
    """The image (N, L ..., C) each of whose elements is the sum, in the order of the taps, of what the windows have for it.

    values  (N, P ..., C) for each tap, in row-major order

    Elements at equal places between window starts meet the same taps: each such class is computed for itself, and the classes are
    put in turn along their axes.
    """
    batch, channels = values[0].shape[0], values[0].shape[-1]
    places = tuple(n for a in axes for n in (a.most, 1))

    def of_class(chosen: tuple[int, ...]) -> Any:
        terms = []
        for met in itertools.product(*(a.meeting(first) for a, first in zip(axes, chosen))):
            number = 0
            for (tap, _), a in zip(met, axes):
                number = number * a.size + tap
            term = _moved(values[number], axes, [shift for _, shift in met])
            if term is not None:
                terms.append(term)
        if not terms:
            return _zeros(values[0], (batch, *places, channels))
        total = terms[0]
        for term in terms[1:]:
            total = add(total, term)
        return reshape(total, (batch, *places, channels))

    def in_turn(chosen: tuple[int, ...]) -> Any:
        k = len(chosen)
        if k == len(axes):
            return of_class(chosen)
        parts = [in_turn((*chosen, first)) for first in range(axes[k].stride)]
        return parts[0] if len(parts) == 1 else concat(parts, axis=2 + 2 * k)

    whole = reshape(in_turn(()), (batch, *(a.most * a.stride for a in axes), channels))
    return whole[(slice(None), *(slice(0, a.n) for a in axes))]


def _moved(value: Any, axes: Axes, shifts: Sequence[int]) -> Any:
    """For element i of a class what window i + shift has, 0 where there is no such window; None where there is none at all."""
    places, widths = [slice(None)], [(0, 0)]
    for a, shift in zip(axes, shifts):
        start, stop = max(shift, 0), min(shift + a.most, a.count)
        if stop <= start:
            return None
        before = max(-shift, 0)
        places.append(slice(start, stop))
        widths.append((before, a.most - before - (stop - start)))
    return pad(value[tuple(places)], [*widths, (0, 0)])


def _zeros(like: Any, shape: tuple[int, ...]) -> Any:
    return broadcast_to(reshape(type(like)(like.number(0.0, like.dtype)), (1,) * len(shape)), shape)
