"""The program of a contraction: a chunk's walk over its part of the work list.

    chunk:  for each (batch, group, band) that the part meets:                                  band
    band:   for each block of k:  pack the group's rows of A, unless they are read in place;
            for each panel of the band:                                                         panel
    panel:  pack B;  for each tile of the group:  micro-kernel, and after the last block of k the epilogue

The argument block holds the slots of A, of B, the numbers below, and the slots of the epilogue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from renaissance.ir.target import Target
from renaissance.kernels.loops import I64, PTR, Builder, Module, Value
from renaissance.kernels.schedules.epilogue import Epilogue, Panel, asker, finisher
from renaissance.kernels.schedules.image import ImageSource, image_packer
from renaissance.kernels.schedules.microkernel import Unit, microkernel
from renaissance.kernels.schedules.packing import packer
from renaissance.kernels.schedules.source import Source, address, step

# Extents and counts (see Tiling), elements of k in a block, then bytes: where things are in scratch, and the distances from a
# packed tile of A to the next, from a tile's sums to the next (0 where each tile is finished at once), between staged rows.
NUMBERS = ("m", "n", "k", "low_rows", "high_tiles", "tiles", "panels", "k_block", "k_blocks", "group_tiles", "groups",
           "band_panels", "bands", "work", "chunks", "a_at", "b_at", "sums_at", "room_at", "a_step", "sums_step", "pitch")
_SLICE = 16  # elements of k that are packed of all tiles in turn, so that memory is read along its rows

T = TypeVar("T")


@dataclass(frozen=True)
class Recipe:
    """Everything that shapes the code of a contraction.

    heights  rows of the high tiles, and of the low ones where there are any
    panels   the kind of all panels but the last, and of the last; one if their vectors are equal
    a_width  units in a packed row of A
    """

    unit: Unit
    heights: tuple[int, ...]
    panels: tuple[Panel, ...]
    a_width: int
    a: Source
    b: Source | ImageSource
    epilogue: Epilogue

    def structure(self) -> object:
        """What makes two pieces of code differ on one Target."""
        return (self.unit, self.heights, self.panels, self.a_width, self.a.structure(), self.b.structure(),
                self.epilogue.structure())


def b_packer(module: Module, recipe: Recipe, target: Target, vectors: int) -> Builder:
    """Add the function that packs panels of B so many vectors wide."""
    name = f"pack_b{vectors}"
    if isinstance(recipe.b, ImageSource):
        return image_packer(module, name, recipe.b, recipe.unit, vectors=vectors)
    return packer(module, name, recipe.b, recipe.unit, target, vectors=vectors)


def build(name: str, recipe: Recipe, target: Target) -> Module:
    """The loop program of a contraction; it exports `name`."""
    module = Module(name)
    panels = [_panel(module, recipe, target, kind) for kind in recipe.panels]
    band = _band(module, recipe, target, panels)
    b = module.function(name, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    at = Block(b, recipe)
    begin, end = (b.udiv(b.mul(c, at["work"]), at["chunks"]) for c in (b.param("chunk"), b.add(b.param("chunk"), 1)))
    size = b.mul(at["band_panels"], at["group_tiles"])
    with b.loop(b.udiv(begin, size), b.udiv(b.add(end, b.sub(size, 1)), size)) as loop:
        start = b.mul(loop.index, size)
        b.call(band, b.param("args"), b.param("scratch"), loop.index, b.max(b.sub(begin, start), 0),
               b.min(b.sub(end, start), size))
    return module


class Block:
    """The argument block and the scratch as one function of the module sees them: all numbers, loaded at its entry."""

    def __init__(self, b: Builder, recipe: Recipe, names: Sequence[str] = NUMBERS):
        self.b = b
        self.recipe = recipe
        self.a_args = b.param("args")
        self.b_args = b.offset(self.a_args, recipe.a.size_bytes)
        numbers = b.offset(self.b_args, recipe.b.size_bytes)
        self.end_args = b.offset(numbers, 8 * len(names))
        self.numbers = {n: b.load(b.offset(numbers, 8 * i), I64) for i, n in enumerate(names)}

    def __getitem__(self, name: str) -> Value:
        return self.numbers[name]

    def scratch(self, name: str) -> Value:
        """The address of a part of scratch."""
        return self.b.offset(self.b.param("scratch"), self.numbers[name])

    def row(self, tile: Value) -> Value:
        """First row of a tile: the high ones come first."""
        b = self.b
        return b.add(b.mul(tile, self["low_rows"]), b.min(tile, self["high_tiles"]))

    def packed_tile(self, place: Value) -> Value:
        """Where a tile's packed rows of A are, by its place in the group."""
        return self.b.offset(self.scratch("a_at"), self.b.mul(place, self["a_step"]))

    def pack_tiles(self, pack: Builder, batch: Value, tile0: Value, low: Value, high: Value, k0: Value, k: Value) -> None:
        """Pack elements k0 to k0 + k - 1 of the rows of A of the tiles low to high, counted from tile0."""
        b, width, unit = self.b, self.recipe.a_width, self.recipe.unit
        length = b.const(I64, _SLICE) if self.recipe.a.way == "columns" else b.max(k, 1)
        with b.loop(0, k, length) as part, b.loop(low, high) as tile:
            row = self.row(b.add(tile0, tile.index))
            to = b.offset(self.packed_tile(tile.index), b.mul(part.index, width * unit.bytes // unit.depth))
            b.call(pack, self.a_args, batch, row, b.min(b.sub(self["m"], row), width), b.add(k0, part.index),
                   b.min(b.sub(k, part.index), length), to, self.scratch("room_at"), self["pitch"])

    def ahead(self, a: Value, rows: Value | int, a_row: Value, a_unit: Value, k: Value, *, first: Value) -> tuple[Value, Value]:
        """Where a micro-kernel asks for memory while it reads rows of A in place, and how many bytes further in each step.

        In the first panel it walks over the rows that come next, if they lie behind its own without gaps; they are as many bytes.
        Else it stays at its own.
        """
        b = self.b
        taken = b.mul(rows, b.zext(b.and_(first, b.cmp("eq", a_row, b.mul(k, a_unit))), I64))
        return b.offset(a, b.mul(taken, a_row)), b.mul(taken, self.recipe.unit.bytes)


def _band(module: Module, recipe: Recipe, target: Target, panels: list[Builder]) -> Builder:
    """The function for the places from begin to end, panel after panel, of the band with a number in the work list."""
    vectors = recipe.a_width // recipe.unit.lanes
    pack = None if recipe.a.way == "direct" else packer(module, "pack_a", recipe.a, recipe.unit, target, vectors=vectors)
    b = module.function("band", [("args", PTR), ("scratch", PTR), ("number", I64), ("begin", I64), ("end", I64)],
                        exported=False, noinline=True)
    at = Block(b, recipe)
    outer, band = divide(b, b.param("number"), at["bands"])
    batch, group = divide(b, outer, at["groups"])
    tile0, panel0 = b.mul(group, at["group_tiles"]), b.mul(band, at["band_panels"])
    tiles = b.min(b.sub(at["tiles"], tile0), at["group_tiles"])
    first, from_first = divide(b, b.param("begin"), at["group_tiles"])
    behind = b.udiv(b.add(b.param("end"), b.sub(at["group_tiles"], 1)), at["group_tiles"])
    with b.loop(0, at["k_blocks"]) as block:
        k0 = b.mul(block.index, at["k_block"])
        k = b.min(b.sub(at["k"], k0), at["k_block"])
        if pack is not None:
            alone = b.cmp("eq", b.sub(behind, first), 1)
            to_end = b.sub(b.param("end"), b.mul(first, at["group_tiles"]))
            low, high = b.select(alone, from_first, 0), b.select(alone, b.min(to_end, tiles), tiles)
            at.pack_tiles(pack, batch, tile0, low, high, k0, k)
        with b.loop(first, b.min(behind, b.sub(at["panels"], panel0))) as loop:
            number, offset = b.add(panel0, loop.index), b.mul(loop.index, at["group_tiles"])
            arguments = (at.a_args, b.param("scratch"), batch, number, tile0, offset, b.max(b.sub(b.param("begin"), offset), 0),
                         b.min(b.sub(b.param("end"), offset), tiles), k0, k, b.zext(b.cmp("eq", loop.index, first), I64))
            either(b, b.cmp("lt", number, b.sub(at["panels"], 1)), panels, lambda p, to=arguments: b.call(p, *to))
    return b


def _panel(module: Module, recipe: Recipe, target: Target, kind: Panel) -> Builder:
    """The function for the tiles of the group from low to high, in the panel with a number; `offset` is its place in the band.

    is_first  whether the group's rows have not been read yet
    """
    unit, vectors, direct = recipe.unit, kind.vectors, recipe.a.way == "direct"
    pack = b_packer(module, recipe, target, vectors)
    micros = [microkernel(module, f"tile_{rows}x{vectors}", unit, rows=rows, vectors=vectors, a_width=recipe.a_width,
                          direct=direct, asks=direct) for rows in recipe.heights]
    out = recipe.epilogue.plain
    finishers = [finisher(module, f"finish{vectors}_{'part' if partial else 'full'}", recipe.epilogue, unit, target,
                          vectors=None if partial else vectors)
                 for partial in kind.partial if partial or out is None]
    ask = asker(module, f"ask{vectors}", recipe.epilogue, width=vectors * unit.lanes)
    b = module.function(f"panel{vectors}", [("args", PTR), ("scratch", PTR), *((n, I64) for n in (
        "batch", "number", "tile0", "offset", "low", "high", "k0", "k", "is_first"))], exported=False, noinline=True)
    at, batch, k0, k = Block(b, recipe), b.param("batch"), b.param("k0"), b.param("k")
    column = b.mul(b.param("number"), recipe.panels[0].vectors * unit.lanes)
    width = b.min(b.sub(at["n"], column), vectors * unit.lanes)
    whole = b.cmp("eq", width, vectors * unit.lanes)
    b.call(pack, at.b_args, batch, column, width, k0, k, at.scratch("b_at"), at.scratch("room_at"), at["pitch"])

    a_row, a_unit = (step(b, at.a_args, recipe.a.place, d) if direct else b.const(I64, 0) for d in (1, 2))
    tail = (b.udiv(b.add(k, unit.depth - 1), unit.depth), b.zext(b.cmp("gt", k0, 0), I64), a_row, b.mul(a_unit, unit.depth))
    with b.loop(b.param("low"), b.param("high")) as tile:
        number = b.add(b.param("tile0"), tile.index)
        row, is_high = at.row(number), b.cmp("lt", number, at["high_tiles"])
        a = address(b, at.a_args, recipe.a.place, (batch, row, k0)) if direct else at.packed_tile(tile.index)
        sums = b.offset(at.scratch("sums_at"), b.mul(b.add(b.param("offset"), tile.index), at["sums_step"]))
        sums_row = b.const(I64, vectors * unit.lanes * unit.bytes)
        if out is not None:  # whole panels make their sums, of all blocks of k, where they belong
            sums = b.select(whole, address(b, at.end_args, out, (batch, row, column)), sums)
            sums_row = b.select(whole, step(b, at.end_args, out, 1), sums_row)
        ends, rows = b.cmp("eq", b.add(k0, k), at["k"]), b.add(at["low_rows"], b.zext(is_high, I64))
        if ask is not None and finishers:  # it comes while the products are made
            with b.if_(ends):
                b.call(ask, at.end_args, batch, row, rows, column)
        ahead = at.ahead(a, rows, a_row, a_unit, k, first=b.cmp("ne", b.param("is_first"), 0)) if direct else ()
        either(b, is_high, micros, lambda f: b.call(f, a, at.scratch("b_at"), sums, sums_row, *tail, *ahead))
        if finishers:
            with b.if_(ends if out is None else b.and_(ends, b.not_(whole))):
                either(b, whole, finishers, lambda f: b.call(f, at.end_args, batch, row, rows, column, width, sums, sums_row))
    return b


def either(b: Builder, condition: Value, choices: list[T], act: Callable[[T], object]) -> None:
    """act(choices[0]) where the condition holds, else act(choices[1]); where there is one choice, that."""
    if len(choices) == 1:
        act(choices[0])
        return
    with b.if_else(condition) as branches:
        for branch, choice in zip(branches, choices):
            with branch:
                act(choice)


def divide(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder of counts."""
    quotient = b.udiv(x, y)
    return quotient, b.sub(x, b.mul(quotient, y))
