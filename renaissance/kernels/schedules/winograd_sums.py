"""The sums of a 3x3 convolution's weight gradient by Winograd's minimal filtering: one matrix product for each place of a tile.

Replaces a WinogradSums item. A chunk is a group of blocks of tiles, with all panels of output channels or some of them. Block
after block it transforms the tiles of both images into scratch, [xi][tile][channel] and [panel][xi][tile][column], and adds the
products of the block to the group's sums, which are the result itself.

Expected: with some hundred channels 60 % of the multiply-add peak, counted in multiplications that are done.
"""

from __future__ import annotations

from dataclasses import dataclass

from renaissance.ir.plan import Item, WinogradSums
from renaissance.ir.target import Target
from renaissance.kernels.loops import I64, PTR, Builder, Module, Value, vec
from renaissance.kernels.lowered import Lowered, Slot, code_key
from renaissance.kernels.schedules.microkernel import Unit, microkernel
from renaissance.kernels.schedules.tiling import ceil_div, round_up
from renaissance.kernels.schedules.walk import divide, either
from renaissance.kernels.schedules.winograd import in_two, register_rows
from renaissance.kernels.schedules.winograd_tiles import Reader, read_tile, reader, room_bytes
from renaissance.kernels.schedules.winograd_transforms import DATA, SPREAD

_NUMBERS = ("tiles", "grid", "across", "low0", "low1", "c", "k", "blocks", "groups", "panels", "parts", "part_panels",
            "high_tiles", "row_tiles", "v_row", "v_step", "z_step", "z_panel", "z_at", "room_at")


def lower_sums(item: Item, spec: WinogradSums, target: Target, threads: int) -> Lowered:
    """Make a WinogradSums item ready for a Target.

    M[g, xi, c, k] = sum over the group's blocks, in order, of the sum over a block's tiles of V[xi, tile, c] Z[xi, tile, k]

    threads  how many threads the chunks are meant for; never changes a bit of the result
    source   Lavin and Gray 2015, arXiv:1509.09308
    """
    windows, size = spec.windows, spec.windows.tile + 2
    panels = ceil_div(spec.k, spec.width)
    parts = min(panels, ceil_div(threads, spec.groups))
    part_panels = ceil_div(panels, parts)
    parts = ceil_div(panels, part_panels)
    block = ceil_div(windows.tiles, spec.blocks)
    heights, high_tiles, row_tiles = _register_tiles(spec.c, register_rows(spec.width // target.lanes, target))
    v_row = (ceil_div(round_up(spec.c, target.lanes) * 4, 64) | 1) * 64
    v_step = (block * v_row // 64 | 1) * 64
    z_step = (ceil_div(block * spec.width * 4, 64) | 1) * 64
    z_panel = windows.terms * z_step
    z_at = windows.terms * v_step
    room_at = z_at + part_panels * z_panel
    numbers = {
        "tiles": windows.tiles, "grid": windows.grid[0] * windows.grid[1], "across": windows.grid[1], "low0": windows.lows[0],
        "low1": windows.lows[1], "c": spec.c, "k": spec.k, "blocks": spec.blocks, "groups": spec.groups, "panels": panels,
        "parts": parts, "part_panels": part_panels, "high_tiles": high_tiles, "row_tiles": row_tiles,
        "v_row": v_row, "v_step": v_step, "z_step": z_step, "z_panel": z_panel, "z_at": z_at, "room_at": room_at}
    x = reader(spec.x, item.operands, size=size, tile=windows.tile, extents=windows.image, step_bytes=v_step,
               tail=spec.c % target.lanes != 0)
    y = reader(spec.y, item.operands, size=windows.tile, tile=windows.tile, extents=windows.places, step_bytes=z_step,
               tail=spec.k % target.lanes != 0)
    slots: list[Slot] = [("operand", spec.out, 0), *(("int", numbers[n]) for n in _NUMBERS), *x.arguments.slots,
                         *y.arguments.slots]
    recipe = Recipe(windows.tile, spec.width, heights, x, y, spec.k % spec.width != 0)
    key = code_key(f"winograd{windows.tile}_sums_{spec.width}", recipe.structure())
    return Lowered(key, key, lambda: _build(key, recipe, target), tuple(slots), spec.groups * parts,
                   room_at + room_bytes(size, target))


def _register_tiles(c: int, heights: tuple[int, int]) -> tuple[tuple[int, int], int, int]:
    """Heights of register tiles that are c rows together, to the row, and how many are high, and there are in all."""
    high, low = in_two(c, heights)
    if high * heights[0] + low * heights[1] == c:
        return heights, high, high + low
    count = ceil_div(c, heights[0])
    rows, high = divmod(c, count)
    return (rows + 1, rows), high, count


@dataclass(frozen=True)
class Recipe:
    """Everything that shapes the code: tile, panel, heights of register tiles, both images, whether a panel is short."""

    tile: int
    width: int
    heights: tuple[int, int]
    x: Reader
    y: Reader
    short: bool

    def structure(self) -> object:
        """What makes two pieces of code differ on one Target."""
        return self.tile, self.width, self.heights, self.x.structure(), self.y.structure(), self.short


def _build(name: str, recipe: Recipe, target: Target) -> Module:
    module = Module(name)
    unit = Unit("f32", 1, target.lanes)
    read_x = read_tile(module, "read_x", recipe.x, DATA[recipe.tile], target)
    read_y = read_tile(module, "read_y", recipe.y, SPREAD[recipe.tile], target)
    vectors = recipe.width // unit.lanes
    multiply = [microkernel(module, name, unit, rows=rows, vectors=vectors, a_width=0, direct=True, adds=True)
                for name, rows in zip(("multiply_high", "multiply_low"), recipe.heights)]
    b = module.function(name, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    walk = _Walk(b, recipe)
    group, part = divide(b, b.param("chunk"), walk["parts"])
    panel0 = b.mul(part, walk["part_panels"])
    panels = b.min(b.sub(walk["panels"], panel0), walk["part_panels"])
    if recipe.short:
        walk.clear(panel0, panels, target)
    begin, end = walk.cut(group, "blocks", "groups")
    with b.loop(begin, end) as block:
        first, behind = walk.cut(block.index, "tiles", "blocks")
        count = b.sub(behind, first)
        walk.read(read_x, read_y, first, count, panel0, panels)
        walk.multiply(multiply, group, count, panel0, panels, b.zext(b.cmp("gt", block.index, begin), I64))
    return module


class _Walk:
    """The parts of a chunk, as its function sees the argument block."""

    def __init__(self, b: Builder, recipe: Recipe):
        self.b, self.recipe = b, recipe
        args = b.param("args")
        self.out = b.load(args, PTR)
        self.numbers = {n: b.load(b.offset(args, 8 * (i + 1)), I64) for i, n in enumerate(_NUMBERS)}
        self.x_args = b.offset(args, 8 * (len(_NUMBERS) + 1))
        self.y_args = b.offset(self.x_args, recipe.x.size_bytes)
        self.room = b.offset(b.param("scratch"), self["room_at"])
        self.z = b.offset(b.param("scratch"), self["z_at"])
        self.terms = (recipe.tile + 2) ** 2

    def __getitem__(self, name: str) -> Value:
        return self.numbers[name]

    def cut(self, number: Value, items: str, into: str) -> tuple[Value, Value]:
        """Where an even share of some items begins and ends."""
        b = self.b
        return b.udiv(b.mul(number, self[items]), self[into]), b.udiv(b.mul(b.add(number, 1), self[items]), self[into])

    def clear(self, panel0: Value, panels: Value, target: Target) -> None:
        """Columns without a channel are 0: the last panel's are set once, and never written again."""
        b = self.b
        with b.if_(b.cmp("eq", b.add(panel0, panels), self["panels"])):
            last = b.offset(self.z, b.mul(b.sub(panels, 1), self["z_panel"]))
            with b.loop(0, self["z_panel"], target.vector_bytes) as at:
                b.store(b.const(vec("f32", target.lanes), 0.0), b.offset(last, at.index))

    def read(self, read_x: Builder, read_y: Builder, first: Value, count: Value, panel0: Value, panels: Value) -> None:
        """Transform the tiles of a block."""
        b, tile, width = self.b, self.recipe.tile, self.recipe.width
        with b.loop(0, count) as t:
            n, inside = divide(b, b.add(first, t.index), self["grid"])
            i, j = divide(b, inside, self["across"])
            p, q = b.mul(i, tile), b.mul(j, tile)
            to = b.offset(b.param("scratch"), b.mul(t.index, self["v_row"]))
            b.call(read_x, self.x_args, n, b.sub(p, self["low0"]), b.sub(q, self["low1"]), b.const(I64, 0), self["c"], to,
                   self.room)
            with b.loop(0, panels) as panel:
                to = b.offset(b.offset(self.z, b.mul(panel.index, self["z_panel"])), b.mul(t.index, 4 * width))
                column = b.mul(b.add(panel0, panel.index), width)
                b.call(read_y, self.y_args, n, p, q, column, b.min(b.sub(self["k"], column), width), to, self.room)

    def multiply(self, multiply: list[Builder], group: Value, count: Value, panel0: Value, panels: Value, resume: Value) -> None:
        """Add the products of a block: xi after xi, whose tiles are in the second-level cache while all panels go by."""
        b, width = self.b, self.recipe.width
        high, low = self.recipe.heights
        step = b.mul(self["c"], 4 * width)
        with b.loop(0, self.terms) as xi, b.loop(0, panels) as panel:
            number = b.add(b.mul(group, self["panels"]), b.add(panel0, panel.index))
            m = b.offset(self.out, b.mul(b.add(b.mul(number, self.terms), xi.index), step))
            z = b.offset(b.offset(self.z, b.mul(panel.index, self["z_panel"])), b.mul(xi.index, self["z_step"]))
            v = b.offset(b.param("scratch"), b.mul(xi.index, self["v_step"]))
            with b.loop(0, self["row_tiles"]) as tile:
                row = b.add(b.mul(tile.index, low), b.mul(b.min(tile.index, self["high_tiles"]), high - low))
                arguments = (b.offset(v, b.mul(row, 4)), z, b.offset(m, b.mul(row, 4 * width)), b.const(I64, 4 * width), count,
                             resume, b.const(I64, 4), self["v_row"])
                either(b, b.cmp("lt", tile.index, self["high_tiles"]), multiply, lambda f, to=arguments: b.call(f, *to))
