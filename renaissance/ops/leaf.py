"""Leaves: how the places of an image are cut for sums over them, as a function of the logical shape alone.

A leaf is a small image, some lines of a larger one, or part of a line: one chain of additions for each channel, and no padding.
"""

from __future__ import annotations

import math
from typing import Any

from renaissance.ir.node import Shape
from renaissance.ops.movement import reshape
from renaissance.ops.reduce import sum

LEAF_ROWS = 256  # at most


def leaf_rows(sizes: Shape) -> int:
    """How many places of an image of these sizes make a leaf."""
    places = math.prod(sizes)
    if places <= LEAF_ROWS:
        return places
    width = sizes[-1]
    if width > LEAF_ROWS:
        return next(n for n in range(LEAF_ROWS, 0, -1) if width % n == 0)
    return next(n for n in (8, 4, 2, 1) if places // width % n == 0 and n * width <= LEAF_ROWS) * width


def in_leaves(image: Any) -> Any:
    """(N, L ..., C), not empty, as leaves (B, rows, C)."""
    rows = leaf_rows(image.shape[1:-1])
    return reshape(image, (image.size // (rows * image.shape[-1]), rows, image.shape[-1]))


def by_leaves(leaves: Any) -> Any:
    """The sums over the rows of leaves, (B, C)."""
    return reshape(leaves, (leaves.shape[0], leaves.shape[2])) if leaves.shape[1] == 1 else sum(leaves, 1)


def over_places(image: Any) -> Any:
    """The sums over the places of each image, (N, C): leaf by leaf, then over the leaves."""
    totals = by_leaves(in_leaves(image))
    return sum(reshape(totals, (image.shape[0], totals.shape[0] // image.shape[0], image.shape[-1])), 1)
