"""Whole samples of a stored set, copied side by side."""

from __future__ import annotations

from typing import Any

from renaissance.ir import dtype as dt
from renaissance.ops.index import arange_like, gather_inside
from renaissance.tensor import Tensor


def rows(stored: Tensor, samples: Tensor) -> Any:
    """Whole samples by number; the caller makes sure that they lie inside."""
    width = stored.size // max(1, stored.shape[0])
    shape = (samples.shape[0], width)
    column = arange_like(width, dt.int64, Tensor).reshape(1, width).broadcast_to(shape)
    at = (samples * width).reshape(shape[0], 1).broadcast_to(shape) + column
    return gather_inside(stored.reshape(stored.size), at).reshape(shape[0], *stored.shape[1:])
