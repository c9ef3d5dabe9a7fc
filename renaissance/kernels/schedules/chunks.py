"""Cutting a space of rows and columns into chunks for threads. Chunks never change what a point computes, only who does it."""

from __future__ import annotations

from dataclasses import dataclass

BLOCK_BITS = 6
BLOCK = 1 << BLOCK_BITS  # columns are cut at multiples of this, so that blocks of lanes and of random words stay whole
_LEAST_WORK = 65_536  # simple operations on one point (half a microsecond) that are worth handing to another thread
_PER_THREAD = 4


@dataclass(frozen=True)
class Chunks:
    """How many chunks, how many rows each, and how many blocks of columns; chunk c is rows c // across, columns c % across."""

    count: int
    rows: int
    blocks: int
    across: int


def cut(rows: int, columns: int, point_cost: int, threads: int, *, columns_too: bool) -> Chunks:
    """Chunks of at least `_LEAST_WORK`, at most four for each thread; rows are cut first, columns only where allowed."""
    blocks = max(1, -(-columns // BLOCK))
    work = rows * columns * max(point_cost, 1)
    wanted = 1 if threads == 1 else max(1, min(work // _LEAST_WORK, _PER_THREAD * threads))
    if wanted <= rows or not columns_too:
        each = max(1, -(-rows // wanted))
        return Chunks(max(1, -(-rows // each)), each, blocks, 1)
    blocks_each = -(-blocks // max(1, wanted // max(1, rows)))
    across = -(-blocks // blocks_each)
    return Chunks(max(1, rows * across), 1, blocks_each, across)
