"""Nests of layout 'row': every row of the space goes through all stages, lanes along the row.

replaces  the stages' definition, point by point
order     element i of a reduced row goes to accumulator i % 64: four vectors of 16 lanes, folded by halves
tiles     map: up to 4 vectors of 16 lanes at a time, then vectors under a mask; reduce: 64 elements, then 64 under masks; a map
          that turns an operand goes through all its rows 64 columns at a time, so that cache lines are used up
chunks    rows; of a map with few rows also runs of columns
share     of memory speed: near 1 for short bodies
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from renaissance.ir.plan import Item, Nest
from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Arguments, Frame
from renaissance.kernels.collapse import simplified
from renaissance.kernels.combine import Combine
from renaissance.kernels.loops import I64, PTR, Builder, Module, Value, vec
from renaissance.kernels.lowered import Lowered, code_key
from renaissance.kernels.schedules import short_rows, turning
from renaissance.kernels.schedules.chunks import BLOCK, cut
from renaissance.kernels.schedules.space import Region, Space, space
from renaissance.kernels.schedules.sweep import LANES, Sweep, bind, pattern_name

_VECTORS = BLOCK // LANES
_LIGHT, _MEDIUM = 24, 60  # costs of bodies that are written out four times and twice; dearer ones hide their latency alone
_HEAVY_REDUCE = 16  # from this cost on a reduction is written once, all of it under masks


def lower_row(item: Item, nest: Nest, threads: int) -> Lowered:
    """A nest of layout 'row'; short rows have a schedule of their own.

    raises  KernelError for a word or a reduction that has no code for its dtype
    """
    is_map = all(s.kind == "map" for s in nest.stages)
    nest = simplified(nest, 0 if is_map and len(nest.stages) == 1 else 1)
    if short_rows.takes(nest):
        return short_rows.lower_short_rows(item, nest, threads)
    dimension = turning.along(nest, item.operands)
    if dimension is not None:
        return turning.lower_turning(item, nest, dimension, threads)
    *outer, columns = nest.extents
    rows = 0 if is_map and columns == 0 else math.prod(outer)
    arguments = Arguments(item.operands, len(outer))
    sweeps = tuple(bind(arguments, s) for s in nest.stages)
    point_cost = sum(s.cost for s in sweeps if s.kind != "point")
    chunks = cut(rows, columns, point_cost, threads, columns_too=is_map)
    where = space(arguments, outer, columns, chunks, rows=rows)
    empty, turned = columns == 0, is_map and _turns(nest)
    key = code_key(pattern_name("row", nest.stages), ("row", sweeps, where, empty, turned, arguments.structure()))

    def build() -> Module:
        module = Module(key)
        rows = _Rows(module, key, arguments, where, empty)
        rows.by_blocks(sweeps) if turned else rows.whole(sweeps, rows.region.start, rows.region.end)
        return module

    return Lowered(key, key, build, tuple(arguments.slots), chunks.count)


def _turns(nest: Nest) -> bool:
    """Whether an operand is contiguous in another dimension than the row."""
    accesses = [i.attr for s in nest.stages for i in s.body if i.op == "load"]
    accesses += [store.access for s in nest.stages for store in s.stores]
    return any(abs(a.strides[-1]) > 1 and 1 in a.strides[:-1] for a in accesses)  # type: ignore[union-attr]


class _Rows:
    """Writes the function of a pattern; `empty` rows have no elements."""

    def __init__(self, module: Module, symbol: str, arguments: Arguments, where: Space, empty: bool):
        self.b = module.function(symbol, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
        self.frame = Frame(self.b, arguments)
        self.region = Region(self.b, self.frame, where)
        self.empty = empty

    def by_blocks(self, sweeps: Sequence[Sweep]) -> None:
        """All rows of a block of columns, then the next block."""
        b, region = self.b, self.region
        with b.loop(region.start, region.end, BLOCK) as block:
            self.whole(sweeps, block.index, b.min(b.add(block.index, BLOCK), region.end))

    def whole(self, sweeps: Sequence[Sweep], start: Value, end: Value) -> None:
        """All stages for each row, maps from column `start` to `end`."""
        b, frame = self.b, self.frame
        with self.region.rows() as outer:
            carries: dict[tuple[int, int], Value] = {}
            for number, sweep in enumerate(sweeps):
                if sweep.kind == "point":
                    values = bodies.emit(b, sweep.body, frame, [*outer, None], 1, carries=carries)
                    sweep.put(b, frame, values, [*outer, None], 1)
                    carries.update({(number, i): v for i, v in enumerate(values)})
                elif sweep.combine is not None:
                    carries[number, 0] = self.reduce(sweep, sweep.combine, outer, carries)
                elif not self.empty:
                    self.map(sweep, outer, carries, start, end)

    def map(self, sweep: Sweep, outer: list[Value], carries: bodies.Carries, start: Value, end: Value) -> None:
        """Full vectors, several at a time; then the rest, a vector at a time under its mask."""
        b = self.b
        known = bodies.invariants(b, sweep.body, self.frame, [*outer, None], carries)
        step = LANES * _unrolled(sweep)
        whole = b.add(start, b.and_(b.sub(end, start), -step))
        with b.loop(start, whole, step) as loop:
            index = [*outer, loop.index]
            done = [bodies.emit(b, sweep.body, self.frame, index, LANES, ahead=j, known=known, carries=carries)
                    for j in range(0, step, LANES)]
            for j, values in enumerate(done):
                sweep.put(b, self.frame, values, index, LANES, ahead=j * LANES)
        with b.loop(whole, end, LANES) as loop:
            index, mask = [*outer, loop.index], b.lane_mask(b.sub(end, loop.index), LANES)
            values = bodies.emit(b, sweep.body, self.frame, index, LANES, mask, known=known, carries=carries)
            sweep.put(b, self.frame, values, index, LANES, mask)

    def reduce(self, sweep: Sweep, combine: Combine, outer: list[Value], carries: bodies.Carries) -> Value:
        """Blocks of 64 elements, then the rest as a block under masks."""
        b, n = self.b, self.region.columns
        if self.empty:
            return combine.of_nothing(b)
        known = bodies.invariants(b, sweep.body, self.frame, [*outer, None], carries)
        width = len(combine.start(b, LANES))
        flat = [v for _ in range(_VECTORS) for v in combine.start(b, LANES)]
        first = b.const(I64, 0)
        ranges = [(first, n, True)]
        if bodies.cost(sweep.body) < _HEAVY_REDUCE:
            whole = b.and_(n, -BLOCK)
            ranges = [(first, whole, False), (whole, n, True)]
        for lo, hi, masked in ranges:
            with b.loop(lo, hi, BLOCK, carried=flat) as loop:
                following: list[Value] = []
                for j in range(_VECTORS):
                    ahead = j * LANES
                    mask = b.lane_mask(b.sub(n, b.add(loop.index, ahead)), LANES) if masked else None
                    values = bodies.emit(b, sweep.body, self.frame, [*outer, loop.index], LANES, mask, ahead=ahead, known=known,
                                         carries=carries)
                    element = combine.element(b, values[-1], _positions(b, loop.index, ahead))
                    following += combine.merge_where(b, mask, loop.carried[j * width:(j + 1) * width], element)
                loop.next(following)
            flat = list(loop.results)
        return combine.fold(b, [tuple(flat[j * width:(j + 1) * width]) for j in range(_VECTORS)])


def _positions(b: Builder, at: Value, ahead: int) -> Value:
    numbers = vec("i32", LANES)
    return b.add(b.splat(b.convert(at, numbers.with_lanes(1)), LANES), b.const(numbers, range(ahead, ahead + LANES)))


def _unrolled(sweep: Sweep) -> int:
    """How many vectors a turn of a map takes; four where random words are drawn, which come by four vectors."""
    if sweep.cost <= _LIGHT or any(i.op == "philox" for i in sweep.body):
        return _VECTORS
    return 2 if sweep.cost <= _MEDIUM else 1
