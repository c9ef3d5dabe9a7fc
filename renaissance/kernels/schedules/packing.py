"""Copying a block of an operand into scratch in the order the micro-kernel reads: [k unit][width], bfloat16 pairs side by side.

Whatever is pointwise on the operand (its body) happens here. Two ways, chosen by where the operand is contiguous: `columns` has
its lanes along the width (m or n) and copies row after row of k; `rows` has its lanes along k and turns square blocks of units.
Lanes beyond the width hold arbitrary numbers: they make sums that nobody stores. A copy costs about a quarter of a cycle a unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from renaissance.ir.dtype import bfloat16
from renaissance.ir.plan import Instr
from renaissance.ir.target import Target
from renaissance.kernels.arguments import Frame
from renaissance.kernels.body import cost
from renaissance.kernels.loops import I64, PTR, Builder, Module, Type, Value
from renaissance.kernels.numbers import memory, to_memory
from renaissance.kernels.schedules.microkernel import Unit
from renaissance.kernels.schedules.source import Source, step

_UNROLLED = 4  # bodies that cost no more are written out for each vector of the width
_AHEAD = 16    # rows of k that are asked for before they are copied: each lies in another page, where no hardware follows
_LINE_BYTES = 64


@dataclass(frozen=True)
class Strip:
    """Neighbouring places along the width, done at once: the first one's number, how many, and which of them exist."""

    place: Value
    lanes: int
    mask: Value | None


def packer(module: Module, name: str, source: Source, unit: Unit, target: Target, *, vectors: int) -> Builder:
    """Add the function that packs a block `vectors` vectors wide.

    Its parameters: args (the source's slots), batch, first (place along the width), width (how many places exist: at least one;
    no others are read), k0 and k (first element, number of elements), to (the packed block, with room for whole vectors of
    units), room (`pitch` bytes for each lane of a vector; used where the source is staged).
    """
    numbers = ((n, I64) for n in ("batch", "first", "width", "k0", "k"))
    parameters = [("args", PTR), *numbers, ("to", PTR), ("room", PTR), ("pitch", I64)]
    b = module.function(name, parameters, exported=False, noinline=True)
    code = _Packer(b, source, unit, vectors, masked=target.isa == "avx512")
    if source.way == "columns":
        code.columns()
    else:
        code.rows()
    return b


class _Packer:
    """The code of one packing function."""

    def __init__(self, b: Builder, source: Source, unit: Unit, vectors: int, *, masked: bool):
        self.b = b
        self.source = source
        self.unit = unit
        self.vectors = vectors
        self.masked = masked
        self.row_bytes = vectors * unit.lanes * unit.bytes
        self.frame = Frame(b, source.arguments)
        self.batch, self.first, self.width = b.param("batch"), b.param("first"), b.param("width")
        self.k0, self.k, self.to = b.param("k0"), b.param("k"), b.param("to")

    def element(self, outer: Value, lane: Value, lanes: int, mask: Value | None) -> Value:
        return self.source.element(self.b, self.frame, (self.batch, outer, lane), lanes, mask)

    # ---- lanes along the width ------------------------------------------------------------------------------------------------

    def columns(self) -> None:
        b = self.b
        if self.masked:
            self._vectors()
            return
        with b.if_else(b.cmp("ge", self.width, self.vectors * self.unit.lanes)) as (full, part):
            with full:
                self._vectors()
            with part, b.loop(0, self.width) as loop:
                self._pack([Strip(loop.index, 1, None)])

    def _vectors(self) -> None:
        b, lanes = self.b, self.unit.lanes
        if cost(self.source.body) <= _UNROLLED:
            self._pack([self._strip(b.const(I64, v * lanes)) for v in range(self.vectors)])
            return
        with b.loop(0, self.vectors * lanes, lanes) as loop:
            self._pack([self._strip(loop.index)])

    def _strip(self, place: Value) -> Strip:
        b, lanes = self.b, self.unit.lanes
        return Strip(place, lanes, b.lane_mask(b.sub(self.width, place), lanes) if self.masked else None)

    def _pack(self, strips: Sequence[Strip]) -> None:
        """All units of k at some strips."""
        b, depth = self.b, self.unit.depth
        with b.loop(0, b.udiv(self.k, depth)) as loop:
            self._ask(b.mul(b.add(loop.index, _AHEAD), depth))
            self._units(strips, b.mul(loop.index, depth), depth, b.offset(self.to, b.mul(loop.index, self.row_bytes)))
        if depth == 2:
            with b.if_(b.cmp("ne", b.and_(self.k, 1), 0)):
                last = b.sub(self.k, 1)
                self._units(strips, last, 1, b.offset(self.to, b.mul(b.lshr(last, 1), self.row_bytes)))

    def _ask(self, k: Value) -> None:
        """Prefetch a unit's rows of what is read side by side, whether they exist or not."""
        b, unit = self.b, self.unit
        for number, place in enumerate(self.frame.places):
            if place.row != "next" or place.strides[1] is None:
                continue
            for element in range(unit.depth):
                at = self.frame.address(number, (self.batch, b.add(self.k0, b.add(k, element)), self.first))
                for byte in range(0, self.vectors * unit.lanes * place.dtype.size, _LINE_BYTES):
                    b.prefetch(b.offset(at, byte))

    def _units(self, strips: Sequence[Strip], k: Value, depth: int, to: Value) -> None:
        """One unit of k, of which `depth` elements exist, at each strip."""
        b = self.b
        k = b.add(self.k0, k)
        for s in strips:
            place = b.add(self.first, s.place)
            value = self.element(k, place, s.lanes, s.mask)
            if self.unit.depth == 2:
                value = pair(b, value, self.element(b.add(k, 1), place, s.lanes, s.mask) if depth == 2 else None)
            b.store(value, b.offset(to, b.mul(s.place, self.unit.bytes)))

    # ---- lanes along k --------------------------------------------------------------------------------------------------------

    def rows(self) -> None:
        b, unit, staged = self.b, self.unit, self.source.way == "staged"
        turn = _turner(b.module, unit)
        units = b.udiv(b.add(self.k, unit.depth - 1), unit.depth)
        # Read in place, the last square overlaps the one before it; a stage has room for whole squares.
        last = units if staged else b.sub(units, unit.lanes)
        with b.loop(0, self.width, unit.lanes) as group:
            count = b.min(b.sub(self.width, group.index), unit.lanes)
            first = b.add(self.first, group.index)
            if staged:
                self._stage(first, count)
                start, stride = b.param("room"), b.param("pitch")
            else:
                start = self.frame.address(0, (self.batch, first, self.k0))
                stride = step(b, b.param("args"), self.source.place, 1)
            b.call(turn, start, stride, count, units, last, b.offset(self.to, b.mul(group.index, unit.bytes)),
                   b.const(I64, self.row_bytes))

    def _stage(self, first: Value, count: Value) -> None:
        """Compute `count` rows of k into the room, one after the other, with a 0 behind each to complete its last pair."""
        b, unit, k = self.b, self.unit, self.k
        paired = unit.depth == 2
        item = memory(bfloat16) if paired else Type(unit.kind)
        with b.loop(0, count) as row:
            outer, to = b.add(first, row.index), b.offset(b.param("room"), b.mul(row.index, b.param("pitch")))

            def put(at: Value, lanes: int, mask: Value | None, outer: Value = outer, to: Value = to) -> None:
                value = self.element(outer, b.add(self.k0, at), lanes, mask)
                b.store(to_memory(b, value, bfloat16) if paired else value, b.offset(to, b.mul(at, item.size)))

            rest = b.urem(k, unit.lanes)
            whole = b.sub(k, rest)
            with b.loop(0, whole, unit.lanes) as loop:
                put(loop.index, unit.lanes, None)
            if self.masked:
                with b.if_(b.cmp("gt", rest, 0)):
                    put(whole, unit.lanes, b.lane_mask(rest, unit.lanes))
            else:
                with b.loop(whole, k) as loop:
                    put(loop.index, 1, None)
            if paired:
                b.store(b.const(item, 0), b.offset(to, b.mul(k, item.size)))


def pair(b: Builder, low: Value, high: Value | None) -> Value:
    """Two bfloat16 values, held as f32, side by side in 32 bits; the second one 0 where there is none."""
    bits = low.type.with_kind("i32")
    word = b.lshr(b.bitcast(low, bits), 16)
    if high is not None:
        word = b.or_(word, b.and_(b.bitcast(high, bits), 0xFFFF0000))
    return b.bitcast(word, low.type)


def _turner(module: Module, unit: Unit) -> Builder:
    """The function, one for all packers of a module, that copies `count` rows of units into columns.

    Its parameters: start and stride (bytes) of the rows, their count (at most a vector's lanes), units in each, last (where the
    last square of units may begin), to and its stride.
    """
    if "turn" in module.functions:
        return module.functions["turn"]
    b = module.function("turn", [("start", PTR), ("stride", I64), ("count", I64), ("units", I64), ("last", I64), ("to", PTR),
                                 ("to_stride", I64)], exported=False, noinline=True)
    # Rows that do not exist repeat the last one that does: no read outside the operand, no branch.
    final = b.sub(b.param("count"), 1)
    rows = [b.offset(b.param("start"), b.mul(b.min(final, i), b.param("stride"))) for i in range(unit.lanes)]
    with b.loop(0, b.param("units"), unit.lanes) as loop:
        at = b.min(loop.index, b.param("last"))
        block = [b.load(b.offset(row, b.mul(at, unit.bytes)), unit.vector, align=unit.bytes // unit.depth) for row in rows]
        for i, value in enumerate(transpose(b, block)):
            b.store(value, b.offset(b.param("to"), b.mul(b.add(at, i), b.param("to_stride"))))
    return b


def transpose(b: Builder, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square block of vectors: at each distance d, halves of neighbouring 2d x 2d squares are exchanged."""
    lanes = rows[0].type.lanes
    block = list(rows)
    distance = 1
    while distance < lanes:
        keep = [j if not j & distance else lanes + j - distance for j in range(lanes)]
        move = [j + distance if not j & distance else lanes + j for j in range(lanes)]
        for i in range(lanes):
            if not i & distance:
                x, y = block[i], block[i + distance]
                block[i], block[i + distance] = b.shuffle(x, y, keep), b.shuffle(x, y, move)
        distance *= 2
    return block


def copy_cycles(body: Sequence[Instr], unit: Unit) -> float:
    """Cycles it takes to pack a unit, with the instructions of the operand's body; measured, coarse."""
    return 0.25 + 0.2 * unit.depth * (cost(body) - 1)


def stage_pitch(k_block: int, unit: Unit) -> int:
    """Bytes of a staged row: whole squares of units and one spare, an odd number of cache lines so that rows do not collide."""
    lines = -(-k_block * unit.bytes // _LINE_BYTES) + -(-unit.lanes * unit.bytes // _LINE_BYTES)
    return (lines | 1) * _LINE_BYTES
