"""The program of a contraction: a chunk's walk over its part of the work list, and the functions it calls on the way.

    for each (batch, group, band) that the part meets:
        for each block of k:
            pack the group's rows of A, unless they are read in place
            for each panel of the band:  pack B;  for each tile of the group:  micro-kernel, and after the last block the epilogue

The argument block holds the slots of A, of B, the numbers below, and the slots of the epilogue.
"""

from __future__ import annotations

from dataclasses import dataclass

from renaissance.ir.target import Target
from renaissance.kernels.loops import I64, PTR, Builder, Module, Value
from renaissance.kernels.schedules.epilogue import Epilogue, Panel, finisher
from renaissance.kernels.schedules.microkernel import Unit, microkernel
from renaissance.kernels.schedules.packing import packer
from renaissance.kernels.schedules.source import Source, address, step

# Extents and counts (see Tiling), elements of k in a block, then bytes: where things are in scratch, from a packed tile of A to the
# next, from a tile's sums to the next (0 where each tile is finished at once), and from a staged row to the next.
NUMBERS = ("m", "n", "k", "low_rows", "high_tiles", "tiles", "panels", "k_block", "k_blocks", "group_tiles", "groups", "band_panels",
           "bands", "work", "chunks", "a_at", "b_at", "sums_at", "room_at", "a_step", "sums_step", "pitch")

_SLICE = 16  # elements of k that are packed of all tiles in turn, so that memory is read along its rows


@dataclass(frozen=True)
class Recipe:
    """Everything that shapes the code of a contraction.

    heights  rows of the high tiles, and of the low ones where there are any
    panels   the kind of all panels but the last, and of the last; one if they are alike
    a_width  units in a packed row of A
    """

    unit: Unit
    heights: tuple[int, ...]
    panels: tuple[Panel, ...]
    a_width: int
    a: Source
    b: Source
    epilogue: Epilogue

    def structure(self) -> object:
        """What makes two pieces of code differ on one Target."""
        return (self.unit, self.heights, self.panels, self.a_width, self.a.structure(), self.b.structure(),
                self.epilogue.structure())


def build(name: str, recipe: Recipe, target: Target) -> Module:
    """The loop program of a contraction; it exports `name`."""
    module = Module(name)
    _Walk(module, name, recipe, target).run()
    return module


class _Walk:
    """The functions of a module, and the exported one that calls them."""

    def __init__(self, module: Module, name: str, recipe: Recipe, target: Target):
        self.recipe = recipe
        unit = recipe.unit
        widths = sorted({p.vectors for p in recipe.panels})
        self.direct = recipe.a.way == "direct"
        self.a_packer = None if self.direct else packer(module, "pack_a", recipe.a, unit, target, recipe.a_width // unit.lanes)
        self.b_packers = {v: packer(module, f"pack_b{v}", recipe.b, unit, target, v) for v in widths}
        self.tiles = {
            (rows, v): microkernel(module, f"tile_{rows}x{v}", unit, rows=rows, vectors=v, a_width=recipe.a_width, direct=self.direct)
            for rows in recipe.heights for v in widths}
        self.finishers = {p: finisher(module, f"finish{i}", recipe.epilogue, unit, target, p) for i, p in enumerate(recipe.panels)
                          if p.partial or recipe.epilogue.plain is None}

        self.b = b = module.function(name, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
        self.a_args = b.param("args")
        self.b_args = b.offset(self.a_args, recipe.a.size_bytes)
        numbers = b.offset(self.b_args, recipe.b.size_bytes)
        self.end_args = b.offset(numbers, 8 * len(NUMBERS))
        self.at = {n: b.load(b.offset(numbers, 8 * i), I64) for i, n in enumerate(NUMBERS)}
        self.a_packed, self.b_packed, self.sums, self.room = (
            b.offset(b.param("scratch"), self.at[n]) for n in ("a_at", "b_at", "sums_at", "room_at"))
        self.a_row, self.a_unit = (step(b, self.a_args, recipe.a.place, d) if self.direct else b.const(I64, 0) for d in (1, 2))
        if unit.depth == 2:
            self.a_unit = b.mul(self.a_unit, 2)

    def run(self) -> None:
        """The part of the work list that belongs to `chunk`, cut at bands."""
        b, at = self.b, self.at
        begin, end = (b.div(b.mul(c, at["work"]), at["chunks"]) for c in (b.param("chunk"), b.add(b.param("chunk"), 1)))
        size = b.mul(at["band_panels"], at["group_tiles"])
        with b.loop(b.div(begin, size), self.ceil_div(end, size)) as loop:
            start = b.mul(loop.index, size)
            self.band(loop.index, b.max(b.sub(begin, start), 0), b.min(b.sub(end, start), size))

    def band(self, number: Value, begin: Value, end: Value) -> None:
        """The places from begin to end, panel after panel, of the band with a number in the work list."""
        b, at = self.b, self.at
        outer, band = b.div(number, at["bands"]), b.rem(number, at["bands"])
        self.batch, group = b.div(outer, at["groups"]), b.rem(outer, at["groups"])
        self.tile0, panel0 = b.mul(group, at["group_tiles"]), b.mul(band, at["band_panels"])
        tiles = b.min(b.sub(at["tiles"], self.tile0), at["group_tiles"])
        first, behind = b.div(begin, at["group_tiles"]), self.ceil_div(end, at["group_tiles"])

        def rows(panel: Value) -> tuple[Value, Value, Value]:
            """Where a panel starts in the band, and the tiles of it that belong to the part."""
            offset = b.mul(panel, at["group_tiles"])
            return offset, b.max(b.sub(begin, offset), 0), b.min(b.sub(end, offset), tiles)

        with b.loop(0, at["k_blocks"]) as block:
            self.k0 = b.mul(block.index, at["k_block"])
            self.k = b.min(b.sub(at["k"], self.k0), at["k_block"])
            self.resume = b.zext(b.cmp("gt", block.index, 0), I64)
            self.ends = b.cmp("eq", block.index, b.sub(at["k_blocks"], 1))
            if self.a_packer is not None:
                alone = b.cmp("eq", b.sub(behind, first), 1)
                _, low, high = rows(first)
                self.pack_a(b.select(alone, low, 0), b.select(alone, high, tiles))
            with b.loop(first, b.min(behind, b.sub(at["panels"], panel0))) as panel:
                self.panel(b.add(panel0, panel.index), *rows(panel.index))

    def pack_a(self, low: Value, high: Value) -> None:
        """Pack the block's part of the group's tiles from low to high."""
        b, at, recipe = self.b, self.at, self.recipe
        length = _SLICE if recipe.a.way == "columns" else self.k
        with b.loop(0, self.k, length) as part, b.loop(low, high) as tile:
            row = self.row(b.add(self.tile0, tile.index))
            width = b.min(b.sub(at["m"], row), recipe.a_width)
            to = b.offset(self.packed_tile(tile.index), b.mul(part.index, recipe.a_width * recipe.unit.bytes // recipe.unit.depth))
            b.call(self.a_packer, self.a_args, self.batch, row, width, b.add(self.k0, part.index),
                   b.min(b.sub(self.k, part.index), length), to, self.room, at["pitch"])

    def panel(self, number: Value, offset: Value, low: Value, high: Value) -> None:
        """The tiles from low to high of a panel; `offset` is its place in the band."""
        b, kinds = self.b, self.recipe.panels
        if len(kinds) == 1:
            self.tiles_of(kinds[0], number, offset, low, high)
            return
        with b.if_else(b.cmp("lt", number, b.sub(self.at["panels"], 1))) as branches:
            for branch, kind in zip(branches, kinds):
                with branch:
                    self.tiles_of(kind, number, offset, low, high)

    def tiles_of(self, kind: Panel, number: Value, offset: Value, low: Value, high: Value) -> None:
        """The same for a panel of a known kind: B is packed, then its tiles follow."""
        b, at, unit = self.b, self.at, self.recipe.unit
        column = b.mul(number, self.recipe.panels[0].vectors * unit.lanes)
        width = b.min(b.sub(at["n"], column), kind.vectors * unit.lanes)
        b.call(self.b_packers[kind.vectors], self.b_args, self.batch, column, width, self.k0, self.k, self.b_packed, self.room,
               at["pitch"])
        with b.loop(low, high) as tile:
            sums = b.offset(self.sums, b.mul(b.add(offset, tile.index), at["sums_step"]))
            self.heights(kind, b.add(self.tile0, tile.index), tile.index, column, width, sums)

    def heights(self, kind: Panel, number: Value, place: Value, column: Value, width: Value, sums: Value) -> None:
        """One register tile, by its height."""
        b, heights = self.b, self.recipe.heights
        if len(heights) == 1:
            self.tile(heights[0], kind, number, place, column, width, sums)
            return
        with b.if_else(b.cmp("lt", number, self.at["high_tiles"])) as branches:
            for branch, rows in zip(branches, heights):
                with branch:
                    self.tile(rows, kind, number, place, column, width, sums)

    def tile(self, rows: int, kind: Panel, number: Value, place: Value, column: Value, width: Value, sums: Value) -> None:
        """One register tile: its sums, and after the last block of k its epilogue."""
        b, row = self.b, self.row(number)
        if self.direct:
            a = address(b, self.a_args, self.recipe.a.place, (self.batch, row, self.k0))
        else:
            a = self.packed_tile(place)
        out = self.recipe.epilogue.plain
        in_place = out is not None and not kind.partial
        unit = self.recipe.unit
        sums_row = b.const(I64, kind.vectors * unit.lanes * unit.bytes)
        if in_place:  # the sums of all blocks of k are made where they belong
            sums, sums_row = address(b, self.end_args, out, (self.batch, row, column)), step(b, self.end_args, out, 1)
        units = self.k if unit.depth == 1 else b.div(b.add(self.k, unit.depth - 1), unit.depth)
        b.call(self.tiles[rows, kind.vectors], units, a, self.b_packed, sums, sums_row, self.resume, self.a_row, self.a_unit)
        if in_place:
            return
        with b.if_(self.ends):
            b.call(self.finishers[kind], self.end_args, self.batch, row, b.const(I64, rows), column, width, sums)

    def row(self, tile: Value) -> Value:
        """First row of a tile: the high ones come first."""
        b, at = self.b, self.at
        return b.add(b.mul(tile, at["low_rows"]), b.min(tile, at["high_tiles"]))

    def packed_tile(self, place: Value) -> Value:
        """Where a tile's packed rows of A are, by its place in the group."""
        return self.b.offset(self.a_packed, self.b.mul(place, self.at["a_step"]))

    def ceil_div(self, x: Value, y: Value) -> Value:
        return self.b.div(self.b.add(x, self.b.sub(y, 1)), y)
