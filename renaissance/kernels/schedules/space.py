"""The part of a nest's space that one call of a kernel covers: some outer rows, and a run of columns of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from renaissance.kernels.arguments import Arguments, Frame
from renaissance.kernels.loops import I64, Builder, Value
from renaissance.kernels.schedules.chunks import BLOCK_BITS, Chunks


@dataclass(frozen=True)
class Space:
    """Slots of the argument block: extents of the outer dimensions and of the columns, rows in all, and the chunks' cut."""

    outer: tuple[int, ...]
    columns: int
    rows: int
    rows_each: int
    blocks_each: int
    across: int


def space(arguments: Arguments, outer: Sequence[int], columns: int, chunks: Chunks, *, rows: int | None = None) -> Space:
    """Add the slots of a space; `rows` is the product of the outer extents unless it is given."""
    # An extent of 0 is never divided by: there is no row then.
    return Space(tuple(arguments.int(max(e, 1)) for e in outer), arguments.int(columns),
                 arguments.int(math.prod(outer) if rows is None else rows), arguments.int(chunks.rows),
                 arguments.int(chunks.blocks), arguments.int(chunks.across))


class Region:
    """One chunk of a space inside a kernel: columns `start` to `end`, of the rows that `rows` goes through."""

    def __init__(self, b: Builder, frame: Frame, space: Space):
        chunk, across = b.param("chunk"), frame[space.across]
        self.b = b
        self.extents = [frame[e] for e in space.outer]
        self.columns = frame[space.columns]
        self.first_row = b.mul(b.udiv(chunk, across), frame[space.rows_each])
        self.end_row = b.min(b.add(self.first_row, frame[space.rows_each]), frame[space.rows])
        block = b.mul(b.urem(chunk, across), frame[space.blocks_each])
        self.start = b.shl(block, BLOCK_BITS)
        self.end = b.min(b.shl(b.add(block, frame[space.blocks_each]), BLOCK_BITS), self.columns)

    @contextmanager
    def rows(self) -> Iterator[list[Value]]:
        """A loop over the rows; gives the index in the outer dimensions, stepped without divisions."""
        b = self.b
        counted = len(self.extents) > 1  # with one outer dimension the row is the index
        with b.loop(self.first_row, self.end_row, carried=self._first_index() if counted else ()) as loop:
            index = list(loop.carried) if counted else [loop.index] * len(self.extents)
            yield index
            loop.next(self._next_index(index) if counted else ())

    def _first_index(self) -> list[Value]:
        b, row = self.b, self.first_row
        index: list[Value] = []
        for extent in reversed(self.extents[1:]):
            index.insert(0, b.urem(row, extent))
            row = b.udiv(row, extent)
        return [row, *index]

    def _next_index(self, index: Sequence[Value]) -> list[Value]:
        b = self.b
        following: list[Value] = []
        carry = None
        for i, extent in zip(reversed(index), reversed(self.extents)):
            more = b.add(i, 1)
            wrapped = b.cmp("eq", more, extent)
            stepped = b.select(wrapped, b.const(I64, 0), more)
            following.insert(0, stepped if carry is None else b.select(carry, stepped, i))
            carry = wrapped if carry is None else b.and_(carry, wrapped)
        return following
