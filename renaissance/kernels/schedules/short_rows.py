"""Nests of layout 'row' whose rows are short: sixteen rows at a time, one in each lane.

replaces  the stages' definition, point by point
order     that of longer rows: each accumulator has at most one element, so that only their fold by halves is left
tiles     16 rows, a vector for each element. What later stages need of an element is kept in scratch, as vectors. Elements that
          lie side by side are read and written as rows and turned in registers; behind the last row the last one is read again,
          and it is written last, so that this needs no masks
chunks    blocks of 16 rows
share     of the speed of arithmetic: near 1, where the lanes of longer rows would be empty
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from renaissance.ir.plan import Access, Item, Nest, Stage
from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Arguments, Frame
from renaissance.kernels.combine import Combine
from renaissance.kernels.loops import I64, PTR, Builder, Module, Type, Value, vec
from renaissance.kernels.lowered import Lowered, code_key
from renaissance.kernels.numbers import from_memory, memory, to_memory
from renaissance.kernels.schedules.chunks import cut
from renaissance.kernels.schedules.expressions import Expressions, Part
from renaissance.kernels.schedules.space import Region, Space, space
from renaissance.kernels.schedules.sweep import LANES, Sweep, bind, pattern_name

_LONGEST = 32
_LEAST_ROWS = 8  # fewer leave more lanes empty than their elements would


def takes(nest: Nest) -> bool:
    """Whether a simplified nest of layout 'row' has short rows that are reduced, and enough of them side by side."""
    *outer, n = nest.extents
    return (any(s.kind == "reduce" for s in nest.stages) and 0 < n <= _LONGEST and max(outer, default=0) >= _LEAST_ROWS
            and math.prod(outer) > 0
            and not any(i.op == "philox" for s in nest.stages for i in s.body))  # random words come by four vectors along a row


def lower_short_rows(item: Item, nest: Nest, threads: int) -> Lowered:
    """A nest that `takes` accepts, simplified.

    raises  KernelError for a word or a reduction that has no code for its dtype
    """
    *outer, n = nest.extents
    lane = max(range(len(outer)), key=lambda d: outer[d])
    arguments = Arguments(item.operands, lane)
    sweeps = tuple(bind(arguments, s) for s in nest.stages)
    accesses: list[Access] = [i.attr for s in nest.stages for i in s.body if i.op == "load"]  # type: ignore[misc]
    accesses += [store.access for s in nest.stages for store in s.stores]
    whole = frozenset(arguments.place(a) for a in accesses if a.strides[-1] == 1 and abs(a.strides[lane]) > 1)
    extent = arguments.int(outer[lane])
    blocks = [-(-e // LANES) if d == lane else e for d, e in enumerate(outer)]
    chunks = cut(math.prod(blocks), n, LANES * sum(s.cost for s in sweeps), threads, columns_too=False)
    shape = _Shape(n, lane, extent, whole, space(arguments, blocks, n, chunks))
    rows = _ShortRows(arguments, nest.stages, sweeps, shape)
    key = code_key(pattern_name("short_rows", nest.stages),
                   ("short", sweeps, rows.expressions.of, shape, arguments.structure()))

    return Lowered(key, key, lambda: rows.build(key), tuple(arguments.slots), chunks.count, rows.room.size_bytes)


@dataclass(frozen=True)
class _Shape:
    """Elements of a row, the dimension along the lanes and the slot of its extent, places whose rows lie side by side in memory,
    and the space, whose dimension along the lanes is counted in blocks."""

    n: int
    lane: int
    extent: int
    whole: frozenset[int]
    where: Space


class _Room:
    """Where in scratch the expressions that are kept are: vectors in the form they have in memory, by element."""

    def __init__(self, expressions: Expressions, n: int):
        self.starts: dict[int, int] = {}
        self.types: dict[int, Type] = {}
        self.size_bytes = 0
        for e in sorted(expressions.kept):
            self.starts[e], self.types[e] = self.size_bytes, memory(expressions.dtypes[e], LANES)
            self.size_bytes += -(-n * self.step_bytes(e) // 64) * 64

    def step_bytes(self, expression: int) -> int:
        return LANES * self.types[expression].size


class _ShortRows:
    """Writes the function of a pattern, for a block of rows at a time."""

    def __init__(self, arguments: Arguments, stages: Sequence[Stage], sweeps: Sequence[Sweep], shape: _Shape):
        self.arguments, self.sweeps, self.shape = arguments, sweeps, shape
        self.expressions = Expressions(stages, sweeps, arguments.places, len(shape.where.outer), shape.whole)
        self.room = _Room(self.expressions, shape.n)

    def build(self, symbol: str) -> Module:
        """The loop program; it exports `symbol`."""
        module, lane = Module(symbol), self.shape.lane
        self.b = b = module.function(symbol, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
        self.frame = frame = Frame(b, self.arguments)
        with Region(b, frame, self.shape.where).rows() as outer:
            first = b.mul(outer[lane], LANES)
            self.left = b.sub(frame[self.shape.extent], first)
            self.mask = b.lane_mask(self.left, LANES)
            self.outer = [first if d == lane else i for d, i in enumerate(outer)]
            self.values: dict[int, Value] = {}  # expressions that do not move
            self.carries: dict[tuple[int, int], Value] = {}
            self.held: set[int] = set()  # expressions that are in scratch
            for number, sweep in enumerate(self.sweeps):
                self.stage(number, sweep)
        return module

    def stage(self, number: int, sweep: Sweep) -> None:
        """A stage for the rows of a block."""
        b = self.b
        self.values.update(self.evaluate(self.expressions.fixed[number], None, self.values))
        of = self.expressions.of[number]
        if sweep.kind == "point":
            known = {i: self.values[e] for i, e in enumerate(of) if e in self.values}
            index = [*self.outer, None]
            values = bodies.emit(b, sweep.body, self.frame, index, LANES, self.mask, known=known, carries=self.carries)
            sweep.put(b, self.frame, values, index, LANES, self.mask)
            self.carries.update({(number, i): v for i, v in enumerate(values)})
            return
        self.along(sweep, self.expressions.along[number], of)
        if sweep.combine is not None:
            elements = [from_memory(b, v, self.expressions.dtypes[of[-1]]) for v in self.elements(of[-1])]
            self.carries[number, 0] = self.folded(sweep.combine, elements)
        for place, value in sweep.stores:
            if place in self.shape.whole:
                self.write_rows(place, self.elements(of[value]))

    def along(self, sweep: Sweep, part: Part, of: Sequence[int]) -> None:
        """What a stage computes at each element, in a loop: into scratch, or through outputs that are not written by rows."""
        b = self.b
        for i, e in zip(part.body, part.expressions):
            if e not in self.held and e in self.expressions.moving and self.expressions.is_whole(i):
                self.read_rows(i.attr, e)  # type: ignore[arg-type]
        new = [e for e in part.expressions if e in self.expressions.moving and e not in self.held]
        stores = [(place, of[value]) for place, value in sweep.stores if place not in self.shape.whole]
        if not new and not stores:
            return
        with b.loop(0, self.shape.n) as loop:
            known = dict(self.values)
            known.update({e: from_memory(b, self.element(e, loop.index), self.expressions.dtypes[e])
                          for e in part.expressions if e in self.held})
            values = known | self.evaluate(part, loop.index, known)
            for e in new:
                if e in self.expressions.kept:
                    self.keep(e, loop.index, to_memory(b, values[e], self.expressions.dtypes[e]))
            for place, e in stores:
                bodies.store(b, self.frame, place, values[e], [*self.outer, loop.index], LANES, self.mask)
        self.held |= self.expressions.kept.intersection(new)

    def evaluate(self, part: Part, j: Value | None, known: dict[int, Value]) -> dict[int, Value]:
        """The expressions of a part at element j of the rows; what is known already is not computed again."""
        there = {i: known[e] for i, e in enumerate(part.expressions) if e in known}
        values = bodies.emit(self.b, part.body, self.frame, [*self.outer, j], LANES, self.mask, known=there, carries=self.carries)
        return dict(zip(part.expressions, values))

    def folded(self, combine: Combine, elements: Sequence[Value]) -> Value:
        """The reduction of elements 0 to n - 1: halves of 64 accumulators added to halves, without those that have no element."""
        b = self.b
        positions = vec("i32", LANES)
        parts = [combine.element(b, v, b.const(positions, j)) for j, v in enumerate(elements)]
        half = 32
        while half:
            parts = [combine.merge(b, x, parts[j + half]) if j + half < len(parts) else x for j, x in enumerate(parts[:half])]
            half //= 2
        return combine.result(b, parts[0])

    # ---- scratch -----------------------------------------------------------------------------------------------------------

    def slot(self, expression: int, j: Value | int) -> Value:
        b, step = self.b, self.room.step_bytes(expression)
        start = b.offset(b.param("scratch"), self.room.starts[expression])
        return b.offset(start, j * step if isinstance(j, int) else b.mul(j, step))

    def keep(self, expression: int, j: Value | int, value: Value) -> None:
        """Put an expression's value at element j, as it is in memory, into scratch."""
        self.b.store(value, self.slot(expression, j), align=self.room.step_bytes(expression))

    def element(self, expression: int, j: Value | int) -> Value:
        """The value at element j, as it is in memory, of an expression that is in scratch."""
        return self.b.load(self.slot(expression, j), self.room.types[expression], align=self.room.step_bytes(expression))

    def elements(self, expression: int) -> list[Value]:
        """The values at all elements, as they are in memory."""
        if expression in self.expressions.moving:
            return [self.element(expression, j) for j in range(self.shape.n)]
        return [to_memory(self.b, self.values[expression], self.expressions.dtypes[expression])] * self.shape.n

    # ---- rows whose elements lie side by side ------------------------------------------------------------------------------

    def read_rows(self, place: int, expression: int) -> None:
        """Read the rows of a place into scratch."""
        b, size = self.b, self.frame.places[place].dtype.size
        for at, mask, count in self.vectors():
            rows = [b.load(b.offset(a, at * size), self.room.types[expression], mask=mask) for a in self.addresses(place)]
            for j, value in enumerate(_turned(b, rows, count)):
                self.keep(expression, at + j, value)
        self.held.add(expression)

    def write_rows(self, place: int, elements: Sequence[Value]) -> None:
        """Write the rows of a place."""
        b, size, addresses = self.b, self.frame.places[place].dtype.size, self.addresses(place)
        for at, mask, count in self.vectors():
            rows = _turned(b, elements[at:at + count], LANES)
            for address, row in reversed(list(zip(addresses, rows))):  # those behind the last go where the last then goes
                b.store(row, b.offset(address, at * size), mask=mask)

    def vectors(self) -> list[tuple[int, Value | None, int]]:
        """Where each vector of a row begins, the mask of its elements, and how many they are."""
        counts = [(at, min(LANES, self.shape.n - at)) for at in range(0, self.shape.n, LANES)]
        lanes = vec("i1", LANES)
        return [(at, None if n == LANES else self.b.const(lanes, [j < n for j in range(LANES)]), n) for at, n in counts]

    def addresses(self, place: int) -> list[Value]:
        """The first element of each row; behind the last row, of the last."""
        b, p = self.b, self.frame.places[place]
        first, stride = self.frame.address(place, [*self.outer, None]), p.strides[self.shape.lane]
        assert stride is not None
        step, last = b.mul(self.frame[stride], p.dtype.size), b.sub(self.left, 1)
        return [b.offset(first, b.mul(b.min(last, row), step)) for row in range(LANES)]


def _turned(b: Builder, vectors: Sequence[Value], count: int) -> list[Value]:
    """`count` vectors: lane l of vector v is lane v of vectors[l]; what lanes hold whose vectors are not given means nothing."""
    given: list[Value | None] = [*vectors, *[None] * (LANES - len(vectors))]
    distance = LANES // 2
    while distance:
        lanes = [(lane, lane & distance == 0) for lane in range(LANES)]
        turned: list[Value | None] = []
        for v in range(-(-count // distance) * distance):  # as many as those that are asked for are made of
            x, y = given[v & ~distance], given[v | distance]
            if x is None or (y is None and v & distance == 0):
                turned.append(x)
            elif v & distance:
                turned.append(b.shuffle(x, y or x, [lane + distance if low else LANES + lane for lane, low in lanes]))
            else:
                assert y is not None
                turned.append(b.shuffle(x, y, [lane if low else LANES + lane - distance for lane, low in lanes]))
        given = turned + [None] * (LANES - len(turned))
        distance //= 2
    return given[:count]  # type: ignore[return-value]
