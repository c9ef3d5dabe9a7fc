"""Copying a block of an operand into scratch in the order the micro-kernel reads: [k unit][width], pairs of bfloat16 side by side.

Whatever is pointwise on the operand (its body) happens here. Two ways, chosen by where the operand is contiguous: `columns` has its
lanes along the width (m or n) and copies row after row of k; `rows` has its lanes along k and turns square blocks of units. Lanes
beyond the width hold arbitrary numbers: they make sums that nobody stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from renaissance.ir.dtype import bfloat16
from renaissance.ir.target import Target
from renaissance.kernels.arguments import Frame
from renaissance.kernels.body import cost
from renaissance.kernels.loops import I64, PTR, Builder, Module, Type, Value
from renaissance.kernels.numbers import memory, to_memory
from renaissance.kernels.schedules.microkernel import Unit
from renaissance.kernels.schedules.source import Source, step

_UNROLLED = 4  # bodies that cost no more are written out for each vector of the width
_PARAMETERS = [("args", PTR), ("batch", I64), ("first", I64), ("width", I64), ("k0", I64), ("k", I64), ("to", PTR),
               ("room", PTR), ("pitch", I64)]


@dataclass(frozen=True)
class Strip:
    """Neighbouring places along the width, done at once: the first one's number, how many, and which of them exist."""

    place: Value
    lanes: int
    mask: Value | None


def packer(module: Module, name: str, source: Source, unit: Unit, target: Target, *, vectors: int) -> Builder:
    """Add the function that packs a block `vectors` vectors wide.

    Its parameters: args (the source's slots), batch, first (place along the width), width (how many places exist: at least one; no
    others are read), k0 and k (first element, number of elements), to (the packed block, with room for whole vectors of units), room
    (`pitch` bytes for each lane of a vector; used where the source is staged).
    """
    b = module.function(name, _PARAMETERS, exported=False, noinline=True)
    frame = Frame(b, source.arguments)
    masked = target.isa == "avx512"
    if source.way == "columns":
        _columns(b, frame, source, unit, vectors, masked)
    else:
        _rows(b, frame, source, unit, vectors, masked)
    return b


# ---- lanes along the width ------------------------------------------------------------------------------------------------------


def _columns(b: Builder, frame: Frame, source: Source, unit: Unit, vectors: int, masked: bool) -> None:
    width, row_bytes = b.param("width"), vectors * unit.lanes * unit.bytes

    def pack(strips: Sequence[Strip]) -> None:
        with b.loop(0, b.div(b.param("k"), unit.depth)) as loop:
            _store_units(b, frame, source, unit, strips, b.mul(loop.index, unit.depth), unit.depth,
                         b.offset(b.param("to"), b.mul(loop.index, row_bytes)))
        if unit.depth == 2:
            with b.if_(b.cmp("ne", b.and_(b.param("k"), 1), 0)):
                last = b.sub(b.param("k"), 1)
                _store_units(b, frame, source, unit, strips, last, 1, b.offset(b.param("to"), b.mul(b.lshr(last, 1), row_bytes)))

    def strip(place: Value) -> Strip:
        return Strip(place, unit.lanes, b.lane_mask(b.sub(width, place), unit.lanes) if masked else None)

    def pack_vectors() -> None:
        if cost(source.body) <= _UNROLLED:
            pack([strip(b.const(I64, v * unit.lanes)) for v in range(vectors)])
        else:
            with b.loop(0, vectors * unit.lanes, unit.lanes) as loop:
                pack([strip(loop.index)])

    if masked:
        pack_vectors()
        return
    with b.if_else(b.cmp("ge", width, vectors * unit.lanes)) as (full, part):
        with full:
            pack_vectors()
        with part, b.loop(0, width) as loop:
            pack([Strip(loop.index, 1, None)])


def _store_units(b: Builder, frame: Frame, source: Source, unit: Unit, strips: Sequence[Strip], k: Value, depth: int,
                 to: Value) -> None:
    """One unit of k (of a pair maybe only the first half exists) at each strip."""
    for s in strips:
        index = [b.add(b.param("k0"), k), b.add(b.param("first"), s.place)]
        value = source.element(b, frame, (b.param("batch"), *index), s.lanes, s.mask)
        if unit.depth == 2:
            index[0] = b.add(index[0], 1)
            value = _pair(b, value, source.element(b, frame, (b.param("batch"), *index), s.lanes, s.mask) if depth == 2 else None)
        b.store(value, b.offset(to, b.mul(s.place, unit.bytes)))


def _pair(b: Builder, low: Value, high: Value | None) -> Value:
    """Two bfloat16 values, held as f32, side by side in 32 bits; the second one 0 where there is none."""
    bits = low.type.with_kind("i32")
    word = b.lshr(b.bitcast(low, bits), 16)
    if high is not None:
        word = b.or_(word, b.and_(b.bitcast(high, bits), 0xFFFF0000))
    return b.bitcast(word, low.type)


# ---- lanes along k --------------------------------------------------------------------------------------------------------------


def _rows(b: Builder, frame: Frame, source: Source, unit: Unit, vectors: int, masked: bool) -> None:
    lanes, staged = unit.lanes, source.way == "staged"
    turn = _turner(b.module, unit)
    units = b.udiv(b.add(b.param("k"), unit.depth - 1), unit.depth)
    # Read in place, the last square overlaps the one before it; a stage has room for whole squares.
    last = units if staged else b.sub(units, lanes)
    with b.loop(0, b.param("width"), lanes) as group:
        count = b.min(b.sub(b.param("width"), group.index), lanes)
        first = b.add(b.param("first"), group.index)
        if staged:
            _stage(b, frame, source, unit, first, count, masked)
            start, stride = b.param("room"), b.param("pitch")
        else:
            start = frame.address(0, (b.param("batch"), first, b.param("k0")))
            stride = step(b, b.param("args"), source.place, 1)
        b.call(turn, start, stride, count, units, last, b.offset(b.param("to"), b.mul(group.index, unit.bytes)),
               b.const(I64, vectors * lanes * unit.bytes))


def _turner(module: Module, unit: Unit) -> Builder:
    """The function, one for all packers of a module, that copies `count` rows of units into columns.

    Its parameters: start and stride (bytes) of the rows, their count (at most a vector's lanes), units in each, last (where the last
    square of units may begin), to and its stride.
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


def _stage(b: Builder, frame: Frame, source: Source, unit: Unit, first: Value, count: Value, masked: bool) -> None:
    """Compute `count` rows of k into the room, one after the other, with a 0 behind each to complete its last pair."""
    paired = unit.depth == 2
    item = memory(bfloat16) if paired else Type(unit.kind)
    lanes, k = unit.lanes, b.param("k")
    with b.loop(0, count) as row:
        to = b.offset(b.param("room"), b.mul(row.index, b.param("pitch")))

        def put(at: Value, lanes: int, mask: Value | None, row: Value = row.index, to: Value = to) -> None:
            value = source.element(b, frame, (b.param("batch"), b.add(first, row), b.add(b.param("k0"), at)), lanes, mask)
            b.store(to_memory(b, value, bfloat16) if paired else value, b.offset(to, b.mul(at, item.size)))

        if masked:
            with b.loop(0, k, lanes) as loop:
                put(loop.index, lanes, b.lane_mask(b.sub(k, loop.index), lanes))
        else:
            with b.loop(0, b.sub(k, lanes - 1), lanes) as loop:
                put(loop.index, lanes, None)
            with b.loop(b.sub(k, b.rem(k, lanes)), k) as loop:
                put(loop.index, 1, None)
        if paired:
            b.store(b.const(item, 0), b.offset(to, b.mul(k, item.size)))


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


def stage_pitch(k_block: int, unit: Unit) -> int:
    """Bytes of a staged row: whole blocks of units and a spare one, an odd number of cache lines so that rows do not collide."""
    lines = -(-k_block * unit.bytes // 64) + -(-unit.lanes * unit.bytes // 64)
    return (lines | 1) * 64
