"""Maps that read an operand along another dimension than they write: square blocks are turned in registers.

Replaces a map whose operand is contiguous in dimension D while its results are contiguous in the last one, L. A block is LANES
places along L, read as a vector along D each, turned, and finished as a vector along L for each place of D; so memory is read and
written by whole vectors.

chunks    blocks along D, of all other dimensions; of few also runs along L
share     of memory speed: near 1; a gather reaches a third
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from renaissance.ir.dtype import bfloat16, float32, int32
from renaissance.ir.plan import Access, Item, Nest, Operand
from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Arguments, Frame
from renaissance.kernels.loops import I64, PTR, Builder, Module, Value
from renaissance.kernels.lowered import Lowered, code_key
from renaissance.kernels.numbers import from_memory, memory
from renaissance.kernels.schedules.chunks import cut
from renaissance.kernels.schedules.packing import transpose
from renaissance.kernels.schedules.space import Region, Space, space
from renaissance.kernels.schedules.sweep import LANES, Sweep, bind, pattern_name

_DTYPES = (float32, bfloat16, int32)
_MOST_COST = 12  # of a body: it is written out for each place of D
_MOST_TURNED = 2


@dataclass(frozen=True)
class Recipe:
    """What shapes the code.

    turned         loads of the body that are turned: their numbers
    along          the dimension D in which those are contiguous
    length, depth  slots of the extents of L and D
    """

    sweep: Sweep
    turned: tuple[int, ...]
    along: int
    length: int
    depth: int
    where: Space


def along(nest: Nest, operands: tuple[Operand, ...]) -> int | None:
    """The dimension in which a map reads operands that it must turn; None if it is no such map."""
    if len(nest.stages) != 1 or nest.stages[0].kind != "map" or math.prod(nest.extents) == 0:
        return None
    stage = nest.stages[0]
    if bodies.cost(stage.body) > _MOST_COST or any(s.access.strides[-1] not in (0, 1) for s in stage.stores):
        return None
    found = [stage.body[n] for n in _turned(nest)]
    dimensions = {_dimension(i.attr) for i in found}  # type: ignore[arg-type]
    plain = all(not i.args and operands[i.attr.operand].dtype in _DTYPES for i in found)  # type: ignore[union-attr]
    return dimensions.pop() if plain and len(dimensions) == 1 and len(found) <= _MOST_TURNED else None


def _turned(nest: Nest) -> tuple[int, ...]:
    """The numbers of the loads that are contiguous in another dimension than the last."""
    return tuple(n for n, i in enumerate(nest.stages[0].body)
                 if i.op == "load" and abs(i.attr.strides[-1]) > 1 and 1 in i.attr.strides[:-1])  # type: ignore[union-attr]


def _dimension(access: Access) -> int:
    return access.strides.index(1)


def lower_turning(item: Item, nest: Nest, dimension: int, threads: int) -> Lowered:
    """Make a map ready for which `along` has given a dimension."""
    *outer, length = nest.extents
    depth = outer.pop(dimension)
    arguments = Arguments(item.operands, len(nest.extents) - 1)
    sweep = bind(arguments, nest.stages[0])
    extents = (*outer, -(-depth // LANES))
    chunks = cut(math.prod(extents), length, sweep.cost * LANES, threads, columns_too=True)
    recipe = Recipe(sweep, _turned(nest), dimension, arguments.int(length), arguments.int(depth),
                    space(arguments, extents, length, chunks))
    key = code_key(pattern_name("turn", nest.stages), ("turn", recipe, arguments.structure()))
    return Lowered(key, key, lambda: _build(key, recipe, arguments), tuple(arguments.slots), chunks.count)


def _build(name: str, recipe: Recipe, arguments: Arguments) -> Module:
    module = Module(name)
    b = module.function(name, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    frame = Frame(b, arguments)
    region = Region(b, frame, recipe.where)
    length, depth = frame[recipe.length], frame[recipe.depth]
    with region.rows() as outer, b.loop(region.start, region.end, LANES) as loop:
        first = b.mul(outer[-1], LANES)
        block = _Block(b, frame, recipe, outer[:-1], first, loop.index)
        lines, places = b.sub(length, loop.index), b.sub(depth, first)
        whole = b.and_(b.cmp("ge", lines, LANES), b.cmp("ge", places, LANES))
        with b.if_else(whole) as (then, otherwise):
            with then:
                block.write(lines, places, whole=True)
            with otherwise:
                block.write(lines, places, whole=False)
    return module


class _Block:
    """One block: lines from `line` on along L, places from `place` on along D."""

    def __init__(self, b: Builder, frame: Frame, recipe: Recipe, outer: list[Value], place: Value, line: Value):
        self.b, self.frame, self.recipe = b, frame, recipe
        self.outer, self.place, self.line = outer, place, line

    def index(self, place: int, line: Value | int) -> list[Value]:
        b, index = self.b, list(self.outer)
        index.insert(self.recipe.along, b.add(self.place, place))
        return [*index, b.add(self.line, line)]

    def write(self, lines: Value, places: Value, *, whole: bool) -> None:
        """All of it, of which so many lines and places exist; `whole`: LANES of each."""
        b, recipe = self.b, self.recipe
        loaded = {n: self._columns(n, lines, places, whole) for n in recipe.turned}
        mask = None if whole else b.lane_mask(lines, LANES)

        def put(place: int) -> None:
            index = self.index(place, 0)
            values = bodies.emit(b, recipe.sweep.body, self.frame, index, LANES, mask,
                                 known={n: columns[place] for n, columns in loaded.items()})
            recipe.sweep.put(b, self.frame, values, index, LANES, mask)

        for place in range(LANES):
            if whole or place == 0:
                put(place)
                continue
            with b.if_(b.cmp("lt", b.const(I64, place), places)):
                put(place)

    def _columns(self, load: int, lines: Value, places: Value, whole: bool) -> list[Value]:
        """A load's values as a vector along L for each place of D; lines that do not exist repeat the last one that does."""
        b, recipe = self.b, self.recipe
        number: int = recipe.sweep.body[load].attr  # type: ignore[assignment]
        dtype = self.frame.places[number].dtype
        mask = None if whole else b.lane_mask(places, LANES)
        rows = []
        for line in range(LANES):
            at = self.frame.address(number, self.index(0, line if whole else b.min(b.sub(lines, 1), line)))
            rows.append(from_memory(b, b.load(at, memory(dtype, LANES), mask=mask, align=dtype.size), dtype))
        return transpose(b, rows)
