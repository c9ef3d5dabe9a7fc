"""The classes of windows on a spread image: with zeros between its elements, only some taps of a window meet one."""

from __future__ import annotations

import math
from typing import NamedTuple


class Class(NamedTuple):
    """The places i spread + first of an axis, `places` of them: they meet the taps first_tap, first_tap + step, ... (`taps`).

    Place i sees element i + start + j dilation of the image through the j-th of them.
    """

    places: int
    first_tap: int
    step: int
    taps: int
    start: int
    dilation: int


def classes(windows: int, taps: int, low: int, dilation: int, spread: int) -> list[Class]:
    """The classes of the windows of an axis with stride 1: window p meets tap r in element (p + r dilation - low) / spread."""
    common = math.gcd(spread, dilation)
    found = []
    for first in range(spread):
        met = [r for r in range(taps) if (first + r * dilation - low) % spread == 0]
        start = (first + met[0] * dilation - low) // spread if met else 0
        found.append(Class(len(range(first, windows, spread)), met[0] if met else 0, spread // common, len(met), start,
                           dilation // common))
    return found
