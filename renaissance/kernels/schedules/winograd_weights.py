"""The two small ends of Winograd's minimal filtering: kernels before a convolution, and their gradient after its sums.

Replaces WinogradWeights and WinogradWeightGradient items. Rows are (panel, input channel), vectors lie along the output channels
of a panel: in the transformed form they are contiguous, in the kernels' own layout they are picked one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from renaissance.ir.dtype import float32
from renaissance.ir.plan import Access, Instr, Item, WinogradWeightGradient, WinogradWeights
from renaissance.ir.target import Target
from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Arguments, Frame
from renaissance.kernels.loops import F32, I64, PTR, Builder, Module, Value, vec
from renaissance.kernels.lowered import Lowered, code_key
from renaissance.kernels.schedules.chunks import cut
from renaissance.kernels.schedules.tiling import ceil_div
from renaissance.kernels.schedules.walk import divide
from renaissance.kernels.schedules.winograd_tiles import load_block, strips
from renaissance.kernels.schedules.winograd_transforms import KERNEL, WEIGHTS, square

_PAIR_COST = 40  # simple operations on one pair of channels, about


@dataclass(frozen=True)
class Recipe:
    """What shapes the code of either: its tile and panel, the body (of w, or acc).

    place  slot of the address of what is transformed, or becomes so; then slots of numbers: rows in all and of a chunk, c, k,
           bytes from one number of a transformed kernel to the next, groups of sums and how often they can be halved
    tail, short  whether vectors, or panels, end behind the last output channel
    """

    tile: int
    width: int
    arguments: Arguments
    body: tuple[Instr, ...]
    place: int
    rows: int
    rows_each: int
    c: int
    k: int
    step: int
    groups: int
    halvings: int
    tail: bool
    short: bool

    def structure(self) -> object:
        """What makes two pieces of code differ on one Target."""
        return self.tile, self.width, self.body, self.place, self.arguments.structure(), self.tail, self.short


def lower_weights(item: Item, spec: WinogradWeights, target: Target, threads: int) -> Lowered:
    """Make a WinogradWeights item ready for a Target: U = G w G^T for each pair of channels."""
    arguments = Arguments(item.operands, vector=0)
    body = arguments.bind(spec.w)
    recipe, chunks = _recipe(spec, target, threads, arguments, body, arguments.operand(spec.out), 1)
    key = code_key(f"winograd{spec.tile}_weights_{spec.width}", recipe.structure())
    return Lowered(key, key, lambda: _build(key, recipe, target, _weights, clears=True), tuple(arguments.slots), chunks)


def lower_weight_gradient(item: Item, spec: WinogradWeightGradient, target: Target, threads: int) -> Lowered:
    """Make a WinogradWeightGradient item ready for a Target: dw = G^T (sum over groups of M) G."""
    arguments = Arguments(item.operands, vector=0)
    out = arguments.output(Access(spec.out, (9 * spec.c, 9, 3, 1)))
    recipe, chunks = _recipe(spec, target, threads, arguments, (Instr("acc", (), out, float32),), arguments.operand(spec.sums),
                             spec.groups)
    key = code_key(f"winograd{spec.tile}_weight_gradient_{spec.width}", recipe.structure())
    room = ((spec.tile + 2) ** 2 + spec.groups) * target.vector_bytes
    return Lowered(key, key, lambda: _build(key, recipe, target, _gradient, clears=False), tuple(arguments.slots), chunks, room)


def _recipe(spec: WinogradWeights | WinogradWeightGradient, target: Target, threads: int, arguments: Arguments,
            body: tuple[Instr, ...], place: int, groups: int) -> tuple[Recipe, int]:
    rows = ceil_div(spec.k, spec.width) * spec.c
    chunks = cut(rows, spec.width, _PAIR_COST, threads, columns_too=False)
    numbers = {"rows": rows, "rows_each": chunks.rows, "c": spec.c, "k": spec.k, "step": spec.c * spec.width * 4,
               "groups": groups, "halvings": groups.bit_length() - 1}
    slots = {name: arguments.int(n) for name, n in numbers.items()}
    return Recipe(spec.tile, spec.width, arguments, body, place, **slots, tail=spec.k % target.lanes != 0,
                  short=spec.k % spec.width != 0), chunks.count


def _build(name: str, recipe: Recipe, target: Target, act: Callable[[_Row, Value, int, Value | None], None], *,
           clears: bool) -> Module:
    """The loop program: act for each vector of output channels of each row."""
    module = Module(name)
    b = module.function(name, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    frame = Frame(b, recipe.arguments)
    begin = b.mul(b.param("chunk"), frame[recipe.rows_each])
    with b.loop(begin, b.min(b.add(begin, frame[recipe.rows_each]), frame[recipe.rows])) as loop:
        row = _Row(b, frame, recipe, loop.index, target)
        if recipe.short and clears:
            row.clear()
        strips(b, row.count, target, lambda at, lanes, mask: act(row, at, lanes, mask), tail=recipe.tail)
    return module


class _Row:
    """One input channel and a panel of output channels, inside the kernel."""

    def __init__(self, b: Builder, frame: Frame, recipe: Recipe, number: Value, target: Target):
        self.b, self.frame, self.recipe, self.lanes = b, frame, recipe, target.lanes
        panel, self.channel = divide(b, number, frame[recipe.c])
        self.column = b.mul(panel, recipe.width)
        self.count = b.min(b.sub(frame[recipe.k], self.column), recipe.width)
        self.size = recipe.tile + 2
        first = b.add(b.mul(panel, b.mul(frame[recipe.step], self.size * self.size)), b.mul(self.channel, 4 * recipe.width))
        self.transformed = b.offset(frame[recipe.place], first)

    def clear(self) -> None:
        """0 in columns that no channel fills; the others are written after that."""
        b = self.b
        with b.if_(b.cmp("lt", self.count, self.recipe.width)), b.loop(0, self.size * self.size) as xi:
            to = b.offset(self.transformed, b.mul(xi.index, self.frame[self.recipe.step]))
            for at in range(0, self.recipe.width, self.lanes):
                b.store(b.const(vec("f32", self.lanes), 0.0), b.offset(to, 4 * at))

    def index(self, at: Value, r: int, s: int) -> tuple[Value, ...]:
        b = self.b
        return b.add(self.column, at), self.channel, b.const(I64, r), b.const(I64, s)


def _weights(row: _Row, at: Value, lanes: int, mask: Value | None) -> None:
    b, recipe = row.b, row.recipe
    kernel = [[bodies.emit(b, recipe.body, row.frame, row.index(at, r, s), lanes, mask)[-1] for s in range(3)] for r in range(3)]
    to = b.offset(row.transformed, b.mul(at, 4))
    for value in (v for line in square(b, WEIGHTS[recipe.tile], kernel) for v in line):
        b.store(value, to, mask=mask)
        to = b.offset(to, row.frame[recipe.step])


def _gradient(row: _Row, at: Value, lanes: int, mask: Value | None) -> None:
    b, recipe, size = row.b, row.recipe, row.size
    room = b.param("scratch")
    source = b.offset(row.transformed, b.mul(at, 4))
    panels = b.udiv(row.frame[recipe.rows], row.frame[recipe.c])
    group = b.mul(b.mul(row.frame[recipe.step], size * size), panels)
    held = b.offset(room, size * size * 4 * lanes)
    with b.loop(0, size * size) as xi:
        place = b.offset(source, b.mul(xi.index, row.frame[recipe.step]))
        b.store(_sum_of_groups(row, place, group, held, lanes), b.offset(room, b.mul(xi.index, 4 * lanes)))
    block = load_block(b, room, b.const(I64, 4 * lanes), size, lanes)
    taps = [value for line in square(b, KERNEL[recipe.tile], block) for value in line]
    for tap, value in enumerate(taps):
        b.store(value, b.offset(room, tap * 4 * lanes))
    out: int = recipe.body[0].attr  # type: ignore[assignment]
    with b.loop(0, b.min(b.sub(row.count, at), lanes)) as lane:
        element = b.offset(room, b.mul(lane.index, 4))
        for tap in range(len(taps)):
            value = b.load(b.offset(element, tap * 4 * lanes), F32)
            bodies.store(b, row.frame, out, value, row.index(b.add(at, lane.index), *divmod(tap, 3)), 1)


def _sum_of_groups(row: _Row, place: Value, step: Value, held: Value, lanes: int) -> Value:
    """The sum of one vector of each group, `step` bytes apart, in halves: the first half takes the second, again and again."""
    b, recipe = row.b, row.recipe
    groups, type = row.frame[recipe.groups], vec("f32", lanes)

    def at(number: Value) -> Value:
        return b.offset(held, b.mul(number, 4 * lanes))

    with b.loop(0, groups) as g:
        b.store(b.load(b.offset(place, b.mul(step, g.index)), type), at(g.index))
    with b.loop(0, row.frame[recipe.halvings], carried=[groups]) as halving:
        half = b.udiv(halving.carried[0], 2)
        with b.loop(0, half) as i:
            b.store(b.add(b.load(at(i.index), type), b.load(at(b.add(i.index, half)), type)), at(i.index))
        halving.next([half])
    return b.load(held, type)
