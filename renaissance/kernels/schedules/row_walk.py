"""The program of a contraction whose epilogue moves more memory than its product: it is finished in whole rows.

    chunk:  for each (batch, band) that the part meets:  pack all panels of the band;
            for each group of tiles:  pack its rows of A, unless they are read in place;
            for each tile:  the micro-kernel, panel after panel, then the epilogue along its rows

A band is as many columns as the second-level cache holds of B. What the epilogue reads and writes goes by in long runs, a few
streams at a time, which hardware follows; by panels it would be short pieces of very many rows. The argument block holds the
slots of A, of B, the numbers below, and the slots of the epilogue.
"""

from __future__ import annotations

from renaissance.ir.target import Target
from renaissance.kernels.loops import I64, PTR, Builder, Module, Value
from renaissance.kernels.schedules.epilogue import finisher
from renaissance.kernels.schedules.microkernel import microkernel
from renaissance.kernels.schedules.packing import packer
from renaissance.kernels.schedules.source import address, step
from renaissance.kernels.schedules.walk import Block, Recipe, b_packer, divide, either

# As in `walk`; the distances are from a packed panel of B to the next and from a row of sums to the next.
NUMBERS = ("m", "n", "k", "low_rows", "high_tiles", "tiles", "panels", "group_tiles", "band_panels", "bands", "work", "chunks",
           "a_at", "b_at", "sums_at", "room_at", "a_step", "b_step", "sums_row", "pitch")


def build(name: str, recipe: Recipe, target: Target) -> Module:
    """The loop program of a contraction by rows; it exports `name`."""
    module = Module(name)
    group = _group(module, recipe, target)
    packers = [b_packer(module, recipe, target, p.vectors) for p in recipe.panels]
    b = module.function(name, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    at = Block(b, recipe, NUMBERS)
    begin, end = (b.udiv(b.mul(c, at["work"]), at["chunks"]) for c in (b.param("chunk"), b.add(b.param("chunk"), 1)))
    with b.loop(b.udiv(begin, at["tiles"]), b.udiv(b.add(end, b.sub(at["tiles"], 1)), at["tiles"])) as outer:
        batch, band = divide(b, outer.index, at["bands"])
        panel0, panels = _panels(b, at, band)
        with b.loop(panel0, b.add(panel0, panels)) as panel:
            width, to = _width(b, at, recipe, panel.index), _packed(b, at, b.sub(panel.index, panel0))
            either(b, _is_usual(b, at, panel.index), packers,
                   lambda pack: b.call(pack, at.b_args, batch, _column(b, recipe, panel.index), width, b.const(I64, 0), at["k"],
                                       to, at.scratch("room_at"), at["pitch"]))
        start = b.mul(outer.index, at["tiles"])
        first, behind = b.max(b.sub(begin, start), 0), b.min(b.sub(end, start), at["tiles"])
        with b.loop(first, behind, at["group_tiles"]) as tiles:
            b.call(group, b.param("args"), b.param("scratch"), batch, band, tiles.index,
                   b.min(b.add(tiles.index, at["group_tiles"]), behind))
    return module


def _panels(b: Builder, at: Block, band: Value) -> tuple[Value, Value]:
    """The first panel of a band, and how many it has."""
    first = b.mul(band, at["band_panels"])
    return first, b.min(b.sub(at["panels"], first), at["band_panels"])


def _is_usual(b: Builder, at: Block, panel: Value) -> Value:
    """Whether a panel is of the first kind: the last may be of another."""
    return b.cmp("lt", panel, b.sub(at["panels"], 1))


def _column(b: Builder, recipe: Recipe, panel: Value) -> Value:
    return b.mul(panel, recipe.panels[0].vectors * recipe.unit.lanes)


def _width(b: Builder, at: Block, recipe: Recipe, panel: Value) -> Value:
    """How many columns of a panel exist."""
    usual, last = (b.const(I64, recipe.panels[n].vectors * recipe.unit.lanes) for n in (0, -1))
    return b.min(b.sub(at["n"], _column(b, recipe, panel)), b.select(_is_usual(b, at, panel), usual, last))


def _packed(b: Builder, at: Block, place: Value) -> Value:
    """Where a panel is packed, by its place in the band."""
    return b.offset(at.scratch("b_at"), b.mul(place, at["b_step"]))


def _group(module: Module, recipe: Recipe, target: Target) -> Builder:
    """The function for the tiles from first to behind, in a band."""
    unit, direct = recipe.unit, recipe.a.way == "direct"
    pack = None if direct else packer(module, "pack_a", recipe.a, unit, target, vectors=recipe.a_width // unit.lanes)
    row_of_panels = _row_of_panels(module, recipe)
    finish = finisher(module, "finish", recipe.epilogue, unit, target)
    b = module.function("group", [("args", PTR), ("scratch", PTR), *((n, I64) for n in ("batch", "band", "first", "behind"))],
                        exported=False, noinline=True)
    at, batch, first, zero = Block(b, recipe, NUMBERS), b.param("batch"), b.param("first"), b.const(I64, 0)
    if pack is not None:
        at.pack_tiles(pack, batch, first, zero, b.sub(b.param("behind"), first), zero, at["k"])
    panel0, panels = _panels(b, at, b.param("band"))
    column, behind = (_column(b, recipe, p) for p in (panel0, b.add(panel0, panels)))
    width = b.sub(b.min(behind, at["n"]), column)
    with b.loop(first, b.param("behind")) as tile:
        row, is_high = at.row(tile.index), b.cmp("lt", tile.index, at["high_tiles"])
        a = address(b, at.a_args, recipe.a.place, (batch, row, zero)) if direct else at.packed_tile(b.sub(tile.index, first))
        b.call(row_of_panels, b.param("args"), b.param("scratch"), a, b.zext(is_high, I64), panel0, panels)
        b.call(finish, at.end_args, batch, row, b.add(at["low_rows"], b.zext(is_high, I64)), column, width, at.scratch("sums_at"),
               at["sums_row"])
    return b


def _row_of_panels(module: Module, recipe: Recipe) -> Builder:
    """The function for the sums of a tile in all panels of a band."""
    unit, direct = recipe.unit, recipe.a.way == "direct"
    micros = {(rows, p.vectors): microkernel(module, f"tile_{rows}x{p.vectors}", unit, rows=rows, vectors=p.vectors,
                                             a_width=recipe.a_width, direct=direct, asks=direct)
              for rows in recipe.heights for p in recipe.panels}
    b = module.function("panels", [("args", PTR), ("scratch", PTR), ("a", PTR),
                                   *((n, I64) for n in ("high", "panel0", "panels"))], exported=False, noinline=True)
    at, zero = Block(b, recipe, NUMBERS), b.const(I64, 0)
    a_row, a_unit = (step(b, at.a_args, recipe.a.place, d) if direct else zero for d in (1, 2))
    tail = (at["sums_row"], b.udiv(b.add(at["k"], unit.depth - 1), unit.depth), zero, a_row, b.mul(a_unit, unit.depth))

    def of_height(rows: int) -> None:
        with b.loop(0, b.param("panels")) as panel:
            packed = _packed(b, at, panel.index)
            sums = b.offset(at.scratch("sums_at"), b.mul(_column(b, recipe, panel.index), unit.bytes))
            first = b.cmp("eq", panel.index, 0)
            ahead = at.ahead(b.param("a"), rows, a_row, a_unit, at["k"], first=first) if direct else ()
            either(b, _is_usual(b, at, b.add(b.param("panel0"), panel.index)), list(recipe.panels),
                   lambda p: b.call(micros[rows, p.vectors], b.param("a"), packed, sums, *tail, *ahead))

    either(b, b.cmp("ne", b.param("high"), 0), list(recipe.heights), of_height)
    return b
