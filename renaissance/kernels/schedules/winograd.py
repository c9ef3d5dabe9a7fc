"""3x3 convolutions with stride 1 by Winograd's minimal filtering: transforms around one matrix product for each place of a tile.

Replaces a Winograd item. A chunk is a block of tiles, with all panels of output channels or some of them. It transforms the
block's tiles of the image into scratch, [xi][tile][channel]; then for each panel it multiplies, xi after xi, with the
register tile of all contractions, and turns the sums, which are still in the second-level cache, into places of the result: the
epilogue takes them from registers. U is read panel by panel, as it lies in memory.

Expected: with some hundred channels 60 % of the multiply-add peak, counted in multiplications that are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from renaissance.ir.plan import Item, Winograd
from renaissance.ir.target import Target
from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Frame
from renaissance.kernels.loops import I64, PTR, Builder, Module, Value
from renaissance.kernels.lowered import Lowered, Slot, code_key
from renaissance.kernels.schedules.epilogue import Epilogue, epilogue
from renaissance.kernels.schedules.microkernel import Unit, microkernel
from renaissance.kernels.schedules.tiling import ceil_div, round_up
from renaissance.kernels.schedules.walk import divide
from renaissance.kernels.schedules.winograd_tiles import (
    AHEAD,
    LEAST_BYTES,
    UNROLLED,
    Reader,
    load_block,
    read_tile,
    reader,
    room_bytes,
    strips,
)
from renaissance.kernels.schedules.winograd_transforms import DATA, PLACES, square

_NUMBERS = ("tiles", "grid", "across", "low0", "low1", "p", "q", "c", "k", "block", "high_rows", "panels", "parts", "part_panels",
            "u_step", "v_row", "v_step", "m_step", "m_at", "room_at")
_SMALL_FLOPS = 400_000   # less than this is not worth a second thread
_PER_THREAD = 4          # from so many chunks for each thread on they need not be a multiple of the threads
_REGISTER_TILES = 4      # in a block, whose transformed tiles should stay in the second-level cache,
_MANY_REGISTER_TILES = 10  # or where U comes from memory, of which
_NEAR = 16               # so many second-level caches fit into the last one


@dataclass(frozen=True)
class Cut:
    """How the tiles and panels of a convolution are dealt out.

    heights    tiles in a high register tile, and in a low one
    high_rows  of a block: tiles that are multiplied in high ones, before the others; a multiple of their height
    held       rows there must be room for: what register tiles cover, which may be more than the block
    block      tiles of a chunk; the last block has fewer
    parts      into how many ranges the panels are cut, each a chunk of its own
    """

    heights: tuple[int, int]
    high_rows: int
    held: int
    block: int
    blocks: int
    parts: int
    part_panels: int


def cut(spec: Winograd, target: Target, threads: int) -> Cut:
    """The Cut of a convolution; it changes no bit."""
    tiles, panels = spec.windows.tiles, ceil_div(spec.k, spec.width)
    heights = register_rows(spec.width // target.lanes, target)
    highest = heights[0]
    products = spec.windows.terms * spec.c * spec.k
    threads = 1 if 2 * products * tiles < _SMALL_FLOPS else threads
    blocks = ceil_div(tiles, highest * (_REGISTER_TILES if 4 * products <= _NEAR * target.l2_bytes else _MANY_REGISTER_TILES))
    if blocks < _PER_THREAD * threads:
        blocks = max(blocks, min(round_up(blocks, threads), tiles // (2 * highest)))
    block = ceil_div(tiles, blocks)
    blocks = ceil_div(tiles, block)
    part_panels = ceil_div(panels, min(panels, ceil_div(threads, blocks)))
    high, low = in_two(block, heights)
    high_rows = high * heights[0]
    return Cut(heights, high_rows, high_rows + low * heights[1], block, blocks, ceil_div(panels, part_panels), part_panels)


def register_rows(vectors: int, target: Target) -> tuple[int, int]:
    """Rows of the two register tiles `vectors` wide of which every kernel is made: as many as fit, and somewhat over half of it.

    Nearly every count of rows is a sum of the two, so that all shapes share their code.
    """
    highest = max(1, min(14, (target.registers - vectors - 1) // vectors))
    return highest, highest // 2 + 1


def in_two(rows: int, heights: tuple[int, int]) -> tuple[int, int]:
    """How many tiles of each height cover so many rows with the least beyond them; as many high ones as do."""
    high, low = heights
    pairs = [(n, max(0, ceil_div(rows - n * high, low))) for n in range(ceil_div(rows, high), -1, -1)]
    return min(pairs, key=lambda p: p[0] * high + p[1] * low)


def lower_winograd(item: Item, spec: Winograd, target: Target, threads: int) -> Lowered:
    """Make a Winograd item ready for a Target.

    y[n, p, k] = sum over r, c of x[n, p + r - low, c] * w[k, c, r], by tiles; then the epilogue on each element

    threads  how many threads the chunks are meant for; never changes a bit of the result
    source   Lavin and Gray 2015, arXiv:1509.09308
    """
    windows, size = spec.windows, spec.windows.tile + 2
    chosen = cut(spec, target, threads)
    v_row = (ceil_div(4 * spec.c, 64) | 1) * 64
    v_step = (chosen.held * v_row // 64 | 1) * 64
    m_step = (ceil_div(chosen.held * spec.width * 4, 64) | 1) * 64
    image = reader(spec.x, item.operands, size=size, tile=windows.tile, extents=windows.image, step_bytes=v_step,
                   tail=spec.c % target.lanes != 0)
    end = epilogue(spec.epilogue, spec.stores, item.operands)
    m_at = windows.terms * v_step
    room_at = m_at + windows.terms * m_step
    numbers = {
        "tiles": windows.tiles, "grid": windows.grid[0] * windows.grid[1], "across": windows.grid[1], "low0": windows.lows[0],
        "low1": windows.lows[1], "p": windows.places[0], "q": windows.places[1], "c": spec.c, "k": spec.k, "block": chosen.block,
        "high_rows": chosen.high_rows, "panels": ceil_div(spec.k, spec.width), "parts": chosen.parts,
        "part_panels": chosen.part_panels, "u_step": spec.c * spec.width * 4, "v_row": v_row, "v_step": v_step,
        "m_step": m_step, "m_at": m_at, "room_at": room_at}
    slots: list[Slot] = [("operand", spec.u, 0), *(("int", numbers[n]) for n in _NUMBERS), *image.arguments.slots,
                         *end.arguments.slots]
    recipe = Recipe(windows.tile, spec.width, chosen.heights, image, end, spec.k % target.lanes != 0)
    key = code_key(f"winograd{windows.tile}_{spec.width}", recipe.structure())
    return Lowered(key, key, lambda: _build(key, recipe, target), tuple(slots), chosen.blocks * chosen.parts,
                   room_at + room_bytes(size, target))


@dataclass(frozen=True)
class Recipe:
    """Everything that shapes the code: tile, panel, register tiles, image, epilogue, whether a vector of k is short."""

    tile: int
    width: int
    heights: tuple[int, int]
    image: Reader
    end: Epilogue
    tail: bool

    def structure(self) -> object:
        """What makes two pieces of code differ on one Target."""
        return self.tile, self.width, self.heights, self.image.structure(), self.end.structure(), self.tail


def _build(name: str, recipe: Recipe, target: Target) -> Module:
    module = Module(name)
    unit = Unit("f32", 1, target.lanes)
    read = read_tile(module, "read", recipe.image, DATA[recipe.tile], target)
    vectors = recipe.width // unit.lanes
    multiply = [microkernel(module, name, unit, rows=rows, vectors=vectors, a_width=0, direct=True, aligned=False)
                for name, rows in zip(("multiply_high", "multiply_low"), recipe.heights)]
    finish = _finish(module, recipe, target)
    b = module.function(name, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    walk = _Walk(b, recipe)
    block, part = divide(b, b.param("chunk"), walk["parts"])
    first = b.mul(block, walk["block"])
    count = b.min(b.sub(walk["tiles"], first), walk["block"])
    walk.read(read, first, count)
    begin = b.mul(part, walk["part_panels"])
    with b.loop(begin, b.min(b.add(begin, walk["part_panels"]), walk["panels"])) as panel:
        walk.multiply(multiply, count, panel.index)
        walk.finish(finish, first, count, panel.index)
    return module


class _Walk:
    """The parts of a chunk, as its function sees the argument block."""

    def __init__(self, b: Builder, recipe: Recipe):
        self.b, self.recipe = b, recipe
        args = b.param("args")
        self.u = b.load(args, PTR)
        self.numbers = {n: b.load(b.offset(args, 8 * (i + 1)), I64) for i, n in enumerate(_NUMBERS)}
        self.image_args = b.offset(args, 8 * (len(_NUMBERS) + 1))
        self.end_args = b.offset(self.image_args, recipe.image.size_bytes)
        self.room = b.offset(b.param("scratch"), self["room_at"])
        self.sums = b.offset(b.param("scratch"), self["m_at"])

    def __getitem__(self, name: str) -> Value:
        return self.numbers[name]

    def tile(self, number: Value) -> tuple[Value, Value, Value]:
        """Image, and first place of the result along each axis, of a tile."""
        b, tile = self.b, self.recipe.tile
        n, inside = divide(b, number, self["grid"])
        i, j = divide(b, inside, self["across"])
        return n, b.mul(i, tile), b.mul(j, tile)

    def read(self, function: Builder, first: Value, count: Value) -> None:
        """Transform the tiles of a block."""
        b = self.b
        with b.loop(0, count) as t:
            n, p, q = self.tile(b.add(first, t.index))
            to = b.offset(b.param("scratch"), b.mul(t.index, self["v_row"]))
            b.call(function, self.image_args, n, b.sub(p, self["low0"]), b.sub(q, self["low1"]), b.const(I64, 0), self["c"], to,
                   self.room)

    def multiply(self, functions: Sequence[Builder], count: Value, panel: Value) -> None:
        """The sums of a panel: xi after xi, so that what U has for it stays near while the block's tiles go by."""
        b, row, terms = self.b, 4 * self.recipe.width, (self.recipe.tile + 2) ** 2
        with b.loop(0, terms) as xi:
            u = b.offset(self.u, b.mul(b.add(b.mul(panel, terms), xi.index), self["u_step"]))
            v = b.offset(b.param("scratch"), b.mul(xi.index, self["v_step"]))
            m = b.offset(self.sums, b.mul(xi.index, self["m_step"]))
            high = b.min(count, self["high_rows"])
            for function, rows, begin, end in zip(functions, self.recipe.heights, (0, self["high_rows"]), (high, count)):
                with b.loop(begin, end, rows) as t:
                    b.call(function, b.offset(v, b.mul(t.index, self["v_row"])), u, b.offset(m, b.mul(t.index, row)),
                           b.const(I64, row), self["c"], b.const(I64, 0), self["v_row"], b.const(I64, 4))

    def finish(self, function: Builder, first: Value, count: Value, panel: Value) -> None:
        """The places of a panel out of its sums."""
        b, width = self.b, self.recipe.width
        column = b.mul(panel, width)
        columns = b.min(b.sub(self["k"], column), width)
        with b.loop(0, count) as t:
            n, p, q = self.tile(b.add(first, t.index))
            row = b.add(b.mul(b.add(b.mul(n, self["p"]), p), self["q"]), q)
            b.call(function, self.end_args, row, b.sub(self["p"], p), b.sub(self["q"], q), self["q"], column, columns,
                   b.offset(self.sums, b.mul(t.index, 4 * width)), self["m_step"], self.room)


def _finish(module: Module, recipe: Recipe, target: Target) -> Builder:
    """The function that makes a tile's places out of its sums and takes them through the epilogue.

    Its parameters: args (the epilogue's slots), row (of the result: the tile's first place), down and right (places that exist
    from there on), pitch (rows from a place to the one below), column and columns (first, count), sums, step (bytes from one xi
    to the next), room.
    """
    numbers = [(n, I64) for n in ("row", "down", "right", "pitch", "column", "columns")]
    b = module.function("finish", [("args", PTR), *numbers, ("sums", PTR), ("step", I64), ("room", PTR)], exported=False,
                        noinline=True)
    code = _Finish(b, recipe)
    if bodies.cost(recipe.end.body) > UNROLLED:
        strips(b, b.param("columns"), target, code.part, tail=recipe.tail)
        return b
    whole = b.and_(b.cmp("ge", b.param("down"), recipe.tile), b.cmp("ge", b.param("right"), recipe.tile))
    with b.if_else(whole) as (then, otherwise):
        with then:
            strips(b, b.param("columns"), target, code.whole, tail=recipe.tail)
        with otherwise:
            strips(b, b.param("columns"), target, code.part, tail=recipe.tail)
    return b


class _Finish:
    """The code of one column vector of a tile."""

    def __init__(self, b: Builder, recipe: Recipe):
        self.b, self.end, self.tile = b, recipe.end, recipe.tile
        self.frame = Frame(b, recipe.end.arguments)

    def whole(self, at: Value, lanes: int, mask: Value | None) -> None:
        """Of a tile all of whose places exist."""
        self._ask(at, lanes)
        for i, row in enumerate(self._places(at, lanes)):
            for j, acc in enumerate(row):
                self._put(i, j, at, acc, lanes, mask)

    def _ask(self, at: Value, lanes: int) -> None:
        """Prefetch what the tile `AHEAD` to the right reads and writes, whether it exists or not."""
        b, frame, ahead = self.b, self.frame, AHEAD * self.tile
        written = {number for number, _ in self.end.stores}
        places = [(n, p) for n, p in enumerate(frame.places) if p.row == "next" and p.strides[1] is not None]
        for number, place in places:
            for i in range(self.tile) if lanes * place.dtype.size >= LEAST_BYTES else ():
                for j in range(self.tile):
                    b.prefetch(frame.address(number, self._index(i, j + ahead, at)), write=number in written)

    def part(self, at: Value, lanes: int, mask: Value | None) -> None:
        """Of any tile, by way of the room."""
        b, tile = self.b, self.tile
        places = self._places(at, lanes)
        for number, value in enumerate(v for row in places for v in row):
            b.store(value, b.offset(b.param("room"), number * 4 * lanes))
        with b.loop(0, b.min(b.param("down"), tile)) as i, b.loop(0, b.min(b.param("right"), tile)) as j:
            place = b.mul(b.add(b.mul(i.index, tile), j.index), 4 * lanes)
            self._put(i.index, j.index, at, b.load(b.offset(b.param("room"), place), places[0][0].type), lanes, mask)

    def _places(self, at: Value, lanes: int) -> list[list[Value]]:
        b = self.b
        sums = load_block(b, b.offset(b.param("sums"), b.mul(at, 4)), b.param("step"), self.tile + 2, lanes)
        return square(b, PLACES[self.tile], sums)

    def _put(self, i: Value | int, j: Value | int, at: Value, acc: Value, lanes: int, mask: Value | None) -> None:
        b, index = self.b, self._index(i, j, at)
        values = bodies.emit(b, self.end.body, self.frame, index, lanes, mask, acc)
        for number, value in self.end.stores:
            bodies.store(b, self.frame, number, values[value], index, lanes, mask)

    def _index(self, i: Value | int, j: Value | int, at: Value) -> tuple[Value, ...]:
        b = self.b
        below = b.mul(b.param("pitch"), i)
        return b.const(I64, 0), b.add(b.add(b.param("row"), below), j), b.add(b.param("column"), at)
