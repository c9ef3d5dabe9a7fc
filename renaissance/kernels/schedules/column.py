"""Nests of layout 'column': the dimension before the last is reduced, lanes along the last.

replaces  the stages' definition, point by point
order     one chain for each output, in the order of the reduced index; reductions that follow each other share one loop
tiles     4 vectors of 16 outputs at a time, then vectors under a mask, each through all stages
chunks    outer rows and runs of columns
share     of L2 speed: near 1 for short bodies; four chains hide the latency of additions
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from renaissance.ir.plan import Item, Nest
from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Arguments, Frame
from renaissance.kernels.collapse import simplified
from renaissance.kernels.combine import Combine, Partial
from renaissance.kernels.loops import I32, I64, PTR, Builder, Module, Value
from renaissance.kernels.lowered import Lowered, code_key
from renaissance.kernels.schedules.chunks import BLOCK, cut
from renaissance.kernels.schedules.space import Region, Space, space
from renaissance.kernels.schedules.sweep import LANES, Sweep, bind, pattern_name

_LIGHT = 40  # dearer bodies are written once, and go a vector at a time


def lower_column(item: Item, nest: Nest, threads: int) -> Lowered:
    """A nest of layout 'column'.

    raises  KernelError for a word or a reduction that has no code for its dtype
    """
    nest = simplified(nest, 2)
    *outer, reduced, columns = nest.extents
    arguments = Arguments(item.operands, len(outer) + 1)
    sweeps = tuple(bind(arguments, s) for s in nest.stages)
    rows = math.prod(outer) if columns else 0
    point_cost = sum(s.cost * (1 if s.kind == "point" else reduced) for s in sweeps)
    chunks = cut(rows, columns, point_cost, threads, columns_too=True)
    where = space(arguments, outer, columns, chunks, rows=rows)
    length = arguments.int(reduced)
    empty = reduced == 0
    key = code_key(pattern_name("column", nest.stages), ("column", sweeps, where, length, empty, arguments.structure()))

    def build() -> Module:
        module = Module(key)
        _Columns(module, key, arguments, sweeps, where, None if empty else length)
        return module

    return Lowered(key, key, build, tuple(arguments.slots), chunks.count)


class _Columns:
    """Writes the function of a pattern; `length` is the slot of the reduced extent, None where there is nothing to reduce."""

    def __init__(self, module: Module, symbol: str, arguments: Arguments, sweeps: Sequence[Sweep], where: Space,
                 length: int | None):
        self.b = b = module.function(symbol, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
        self.frame = Frame(b, arguments)
        self.length = None if length is None else self.frame[length]
        self.together = _together(sweeps)
        region = Region(b, self.frame, where)
        start, end = region.start, region.end
        light = sum(s.cost for s in sweeps) <= _LIGHT
        with region.rows() as outer:
            whole = start
            if light:
                whole = b.add(start, b.and_(b.sub(end, start), -BLOCK))
                with b.loop(start, whole, BLOCK) as loop:
                    self.tile(outer, loop.index, BLOCK // LANES, None)
            with b.loop(whole, end, LANES) as loop:
                self.tile(outer, loop.index, 1, b.lane_mask(b.sub(end, loop.index), LANES))

    def tile(self, outer: list[Value], column: Value, vectors: int, mask: Value | None) -> None:
        """All stages for some vectors of outputs, the first at `column`."""
        b = self.b
        carries: list[dict[tuple[int, int], Value]] = [{} for _ in range(vectors)]
        for first, sweeps in self.together:
            if sweeps[0].combine is not None:
                for carry, results in zip(carries, self.reduce(sweeps, outer, column, mask, carries)):
                    carry.update({(first + k, 0): result for k, result in enumerate(results)})
            elif sweeps[0].kind == "point":
                for carry, values in zip(carries, self.points(sweeps[0], [*outer, None, column], mask, carries)):
                    carry.update({(first, i): v for i, v in enumerate(values)})
            elif self.length is not None:
                with b.loop(0, self.length) as loop:
                    self.points(sweeps[0], [*outer, loop.index, column], mask, carries)

    def points(self, sweep: Sweep, index: bodies.Index, mask: Value | None,
               carries: Sequence[bodies.Carries]) -> list[list[Value]]:
        """The body of a stage at each vector of a tile, then its stores."""
        values = [bodies.emit(self.b, sweep.body, self.frame, index, LANES, mask, ahead=j * LANES, carries=carry)
                  for j, carry in enumerate(carries)]
        for j, v in enumerate(values):
            sweep.put(self.b, self.frame, v, index, LANES, mask, ahead=j * LANES)
        return values

    def reduce(self, sweeps: Sequence[Sweep], outer: list[Value], column: Value, mask: Value | None,
               carries: Sequence[bodies.Carries]) -> list[list[Value]]:
        """The results of several reductions, for each vector of a tile."""
        b = self.b
        combines = [s.combine for s in sweeps if s.combine is not None]
        if self.length is None:
            return [[b.splat(c.of_nothing(b), LANES) for c in combines]] * len(carries)
        start: Partial = tuple(v for c in combines for v in c.start(b, LANES))
        with b.loop(0, self.length, carried=start * len(carries)) as loop:
            position = b.splat(b.convert(loop.index, I32), LANES)
            following: list[Value] = []
            for j, carry in enumerate(carries):
                old = loop.carried[j * len(start):(j + 1) * len(start)]
                for sweep, combine, part in zip(sweeps, combines, _parts(combines, old, b)):
                    values = bodies.emit(b, sweep.body, self.frame, [*outer, loop.index, column], LANES, mask, ahead=j * LANES,
                                         carries=carry)
                    following += combine.merge(b, part, combine.element(b, values[-1], position))
            loop.next(following)
        return [[c.result(b, part) for c, part in zip(combines, _parts(combines, loop.results[j * len(start):], b))]
                for j in range(len(carries))]


def _parts(combines: Sequence[Combine], values: Sequence[Value], b: Builder) -> list[Partial]:
    """What belongs to each of some reductions, of values that lie one after the other."""
    parts, at = [], 0
    for c in combines:
        width = len(c.start(b, LANES))
        parts.append(tuple(values[at:at + width]))
        at += width
    return parts


def _together(sweeps: Sequence[Sweep]) -> list[tuple[int, list[Sweep]]]:
    """The stages, reductions that follow each other and do not need each other as one; with the number of the first of them."""
    runs: list[tuple[int, list[Sweep]]] = []
    for number, sweep in enumerate(sweeps):
        joins = bool(runs) and sweep.combine is not None and runs[-1][1][0].combine is not None
        if joins and all(i.op != "carry" or i.attr[0] < runs[-1][0] for i in sweep.body):  # type: ignore[index]
            runs[-1][1].append(sweep)
        else:
            runs.append((number, [sweep]))
    return runs
