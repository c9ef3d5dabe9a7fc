"""Convolutions read straight from a band of the image: windows as rows of the register tile, no copy for each tap.

    chunk:  a band of rows of windows of one image (band.py), or several whole images, and some panels of columns
    panel:  pack B; for each row of windows, for each tile of neighbours: the micro-kernel, run after run of (tap, channel) that
            lie side by side in the band; then the epilogue

Expected: the share of peak that a matrix product has, less the packing of B for each band.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from renaissance.ir.plan import Contraction, Item
from renaissance.ir.target import Target
from renaissance.kernels.loops import I1, I64, PTR, Builder, Module, Value
from renaissance.kernels.lowered import Lowered, Slot, code_key
from renaissance.kernels.schedules.band import NUMBERS as BAND_NUMBERS
from renaissance.kernels.schedules.band import Band, BandOperand, Numbers, band_numbers, clearer, filler, is_joined, row_count
from renaissance.kernels.schedules.epilogue import Epilogue, Panel, epilogue, finisher, panel_kinds
from renaissance.kernels.schedules.microkernel import Unit, microkernel, unit_for
from renaissance.kernels.schedules.packing import packer, stage_pitch
from renaissance.kernels.schedules.source import Source, address, packing_way, source, step
from renaissance.kernels.schedules.tiling import ceil_div, even, heights, laid_out, panels_of, round_up
from renaissance.kernels.schedules.walk import either

NUMBERS = (*BAND_NUMBERS, "images", "images_each", "image_blocks", "band_bytes", "each", "n", "k", "band", "bands", "parts",
           "part_panels", "panels", "low_rows", "high_tiles", "tiles", "runs", "run_taps", "run_units", "table_at", "b_at",
           "sums_at", "room_at", "stage_pitch")
_CHUNKS_PER_THREAD = 6
_WINDOWS = 196  # fewer windows in a band are not worth packing B


@dataclass(frozen=True)
class Recipe:
    """Everything that shapes the code."""

    unit: Unit
    heights: tuple[int, ...]
    panels: tuple[Panel, ...]
    image: BandOperand
    b: Source
    epilogue: Epilogue

    def structure(self) -> object:
        return self.unit, self.heights, self.panels, self.image.structure(), self.b.structure(), self.epilogue.structure()


def lower_windows(item: Item, spec: Contraction, target: Target, threads: int) -> Lowered:
    """Make a Contraction whose first factor is an image ready for a Target: choose bands and tiles, code and argument block.

    y[g, window, k] = sum over (tap, c) of x[window at tap, g's channel c] * b[g, (tap, c), k], then the epilogue

    item     an Item whose spec is such a Contraction
    threads  how many threads the chunks are meant for; never changes a bit of the result
    returns  its Lowered
    raises   nothing of its own
    source   definition
    """
    image = spec.image
    assert image is not None
    unit = unit_for(spec.dtype, target)
    tiles, rows, low = heights(image.windows[2], spec.n, unit, target)
    vectors, panels, last_vectors = panels_of(spec.n, rows, unit, target)
    way = packing_way(spec.b, item.operands, spec.dtype, unit, k=spec.k, k_block=ceil_div(spec.k, unit.depth), width_dimension=2)
    recipe = Recipe(unit, (rows, low) if low < rows else (rows,), panel_kinds(spec.n, unit.lanes, vectors, panels, last_vectors),
                    BandOperand.of(spec.a, item.operands, 5), source(spec.b, item.operands, way, width_dimension=2),
                    epilogue(spec.epilogue, spec.stores, item.operands))
    numbers, chunks, scratch_bytes = _numbers(spec, recipe, panels, target, threads)
    numbers |= {"low_rows": low, "high_tiles": image.windows[2] - tiles * low, "tiles": tiles}
    slots: list[Slot] = [*recipe.image.arguments.slots, *recipe.b.arguments.slots, *(("int", numbers[n]) for n in NUMBERS),
                         *recipe.epilogue.arguments.slots]
    key = code_key(f"conv_{spec.dtype.name}_{way}_{rows}x{vectors}", recipe.structure())
    return Lowered(key, key, lambda: _build(key, recipe, target), tuple(slots), chunks, scratch_bytes)


def _numbers(spec: Contraction, recipe: Recipe, panels: int, target: Target, threads: int) -> tuple[dict[str, int], int, int]:
    """The numbers of the argument block but those of the tiles, how many chunks, and the bytes of scratch."""
    image, unit = spec.image, recipe.unit
    assert image is not None
    each = image.extents[4] // image.groups
    item_bytes = unit.bytes // unit.depth
    pitch = each * item_bytes
    p = image.windows
    images_each = 1 if p[0] > 1 else min(image.extents[0], ceil_div(_WINDOWS, p[1] * p[2]))
    image_blocks = ceil_div(image.extents[0], images_each)
    planes = image_blocks * p[0] * image.groups
    fewest = ceil_div(_WINDOWS, p[2])  # rows of windows
    band = max(fewest, ceil_div(p[1] * planes, threads * _CHUNKS_PER_THREAD))
    most = band_numbers(image, 1, pitch)[1] // row_count(image, 1)
    while band > fewest and row_count(image, band) * most > target.l2_bytes // 2:
        band = ceil_div(band, 2)
    band = even(p[1], band)
    bands = ceil_div(p[1], band)
    parts = min(panels, max(1, ceil_div(2 * threads, planes * bands)))
    part_panels = ceil_div(panels, parts)
    numbers, size = band_numbers(image, band, pitch, image.groups == 1 and is_joined(spec.a, each))
    band_bytes = round_up(size, 64)
    joined = image.dilations[2] == 1
    run_taps = image.kernel[2] if joined else 1
    runs = math.prod(image.kernel) // run_taps
    width = recipe.panels[0].vectors * unit.lanes
    units = ceil_div(spec.k, unit.depth)
    stage = stage_pitch(units, unit)
    slack = unit.lanes * unit.bytes
    sizes = {"band_at": images_each * band_bytes + slack, "table_at": 8 * runs,
             "b_at": round_up(units, unit.lanes) * width * unit.bytes,
             "sums_at": recipe.heights[0] * width * unit.bytes, "room_at": stage * unit.lanes if recipe.b.way == "staged" else 0}
    starts, end = laid_out(sizes)
    numbers |= starts
    parts = ceil_div(panels, part_panels)
    numbers |= {"images": image.extents[0], "images_each": images_each, "image_blocks": image_blocks, "band_bytes": band_bytes,
                "each": each, "n": spec.n, "k": spec.k, "band": band, "bands": bands, "parts": parts,
                "part_panels": part_panels, "panels": panels, "runs": runs, "run_taps": run_taps,
                "run_units": run_taps * each // unit.depth, "stage_pitch": stage}
    return numbers, planes * bands * parts, end


class _Chunk(Numbers):
    """The argument block, and which part of the work a chunk is."""

    def __init__(self, b: Builder, recipe: Recipe):
        self.b_args = b.offset(b.param("args"), recipe.image.size_bytes)
        numbers = b.offset(self.b_args, recipe.b.size_bytes)
        super().__init__(b, numbers, NUMBERS)
        self.end_args = b.offset(numbers, 8 * len(NUMBERS))
        rest, part = self.divided(b.param("chunk"), "parts")
        rest, band = self.divided(rest, "bands")
        rest, plane = self.divided(rest, "count0")
        self.group, block = self.divided(rest, "image_blocks")
        self.plane = plane
        self.first_image = b.mul(block, self["images_each"])
        self.images = b.min(self["images_each"], b.sub(self["images"], self.first_image))
        self.row = b.mul(band, self["band"])
        self.rows = b.min(self["band"], b.sub(self["count1"], self.row))
        self.first_panel = b.mul(part, self["part_panels"])
        self.end_panel = b.min(b.add(self.first_panel, self["part_panels"]), self["panels"])

    def band(self, place: Value) -> Band:
        """The band of an image of the chunk."""
        b = self.b
        start = b.offset(b.param("scratch"), b.mul(place, self["band_bytes"]))
        return Band(b, self.numbers, start, b.add(self.first_image, place), self.plane, self.row, self.rows)


def _build(name: str, recipe: Recipe, target: Target) -> Module:
    """The loop program; it exports `name`."""
    module = Module(name)
    fill, clear = filler(module, "fill_image", recipe.image, recipe.unit, 5), clearer(module)
    panels = [_panel(module, recipe, target, kind) for kind in recipe.panels]
    b = module.function(name, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    at = _Chunk(b, recipe)
    with b.loop(0, at.images) as image:
        at.band(image.index).fill(fill, b.param("args"), b.mul(at.group, at["each"]), at["each"], clear)
    _run_table(b, at)
    with b.loop(at.first_panel, at.end_panel) as panel:
        either(b, b.cmp("lt", panel.index, b.sub(at["panels"], 1)), panels,
               lambda p: b.call(p, b.param("args"), b.param("chunk"), b.param("scratch"), panel.index))
    return module


def _run_table(b: Builder, at: _Chunk) -> None:
    """Bytes from a window's first place to where each run begins."""
    in_row = b.udiv(at["taps2"], at["run_taps"])
    band = at.band(b.const(I64, 0))
    with b.loop(0, at["taps0"]) as t, b.loop(0, at["taps1"]) as r, b.loop(0, in_row) as s:
        number = b.add(b.mul(b.add(b.mul(t.index, at["taps1"]), r.index), in_row), s.index)
        b.store(band.tap(t.index, r.index, b.mul(s.index, at["run_taps"])), b.offset(at.scratch("table_at"), b.mul(number, 8)))


def _panel(module: Module, recipe: Recipe, target: Target, kind: Panel) -> Builder:
    """The function for all windows of the band, in the panel with a number."""
    unit, vectors = recipe.unit, kind.vectors
    pack = packer(module, f"pack_b{vectors}", recipe.b, unit, target, vectors=vectors)
    micros = [microkernel(module, f"tile_{rows}x{vectors}", unit, rows=rows, vectors=vectors, a_width=0, direct=True,
                          in_runs=True) for rows in recipe.heights]
    out = recipe.epilogue.plain
    finishers = [finisher(module, f"finish{vectors}_{'part' if partial else 'full'}", recipe.epilogue, unit, target,
                          vectors=None if partial else vectors)
                 for partial in kind.partial if partial or out is None]
    b = module.function(f"panel{vectors}", [("args", PTR), ("chunk", I64), ("scratch", PTR), ("number", I64)], exported=False,
                        noinline=True)
    at, zero = _Chunk(b, recipe), b.const(I64, 0)
    column = b.mul(b.param("number"), recipe.panels[0].vectors * unit.lanes)
    width = b.min(b.sub(at["n"], column), vectors * unit.lanes)
    whole = b.cmp("eq", width, vectors * unit.lanes)
    b.call(pack, at.b_args, at.group, column, width, zero, at["k"], at.scratch("b_at"), at.scratch("room_at"), at["stage_pitch"])
    a_row = b.mul(at["stride2"], at["pitch"])
    tail = (at["run_units"], zero, a_row, b.const(I64, unit.bytes), at["runs"], at.scratch("table_at"))
    with b.loop(0, at.images) as image, b.loop(0, at.rows) as row, b.loop(0, at["tiles"]) as tile:
        band = at.band(image.index)
        start = b.add(b.mul(tile.index, at["low_rows"]), b.min(tile.index, at["high_tiles"]))
        is_high = b.cmp("lt", tile.index, at["high_tiles"])
        window = b.add(band.first_window(row.index), start)
        sums, sums_row = at.scratch("sums_at"), b.const(I64, vectors * unit.lanes * unit.bytes)
        if out is not None:  # whole panels make their sums where they belong
            sums = b.select(whole, address(b, at.end_args, out, (at.group, window, column)), sums)
            sums_row = b.select(whole, step(b, at.end_args, out, 1), sums_row)
        a = band.window(row.index, start)
        either(b, is_high, micros, lambda f: b.call(f, a, at.scratch("b_at"), sums, sums_row, *tail))
        if finishers:
            rows = b.add(at["low_rows"], b.zext(is_high, I64))
            parameters = (at.end_args, at.group, window, rows, column, width, sums, sums_row)
            with b.if_(b.const(I1, 1) if out is None else b.not_(whole)):
                either(b, whole, finishers, lambda f: b.call(f, *parameters))
    return b
