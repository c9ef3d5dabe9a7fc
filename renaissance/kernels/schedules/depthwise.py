"""Depthwise convolutions: lanes along the channels, row after row of windows.

    chunk:  a band of rows of windows (band.py), a block of channels wide; for each row,
            for a few neighbouring windows, for each vector of channels: the tile
    tile:   ask for what the next row will need; tap by tap, sums in registers; then the epilogue, from registers too

The windows of a spread image are taken class by class, each with the taps that meet an element. Limited by memory: each element
of the image is read once, a row ahead, while the row before is worked on. A block is so narrow that the rows which a row of
windows sees stay in the first-level cache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from renaissance.ir.dtype import float64
from renaissance.ir.plan import Depthwise, Item
from renaissance.ir.target import Target
from renaissance.kernels.lowered import Lowered, Slot, code_key
from renaissance.kernels.schedules.band import BandOperand, band_numbers, row_count
from renaissance.kernels.schedules.depthwise_rows import NUMBERS, Recipe, build
from renaissance.kernels.schedules.epilogue import epilogue
from renaissance.kernels.schedules.microkernel import Unit
from renaissance.kernels.schedules.tiling import ceil_div, even, laid_out, round_up
from renaissance.ops.classes import Class, classes

_AT_ONCE = 8   # neighbouring windows that are computed together
_LONGEST_RUN = 8  # taps side by side that are written out
_BLOCK = 256   # channels in a block, at most,
_FEW = 32      # and as few as make windows that hardly overlap be read in memory's order instead
_L1_SHARE = 2 / 3  # of the first-level cache is for what a row of windows sees, makes, and asks for
_CHUNKS_PER_THREAD = 6


def unit_of(spec: Depthwise, target: Target) -> Unit:
    """The unit of a Depthwise's sums."""
    wide = spec.dtype is float64
    return Unit("f64" if wide else "f32", 1, target.vector_bytes // (8 if wide else 4))


def lower_depthwise(item: Item, spec: Depthwise, target: Target, threads: int) -> Lowered:
    """Make a Depthwise item without `sums` ready for a Target: choose its blocks and bands, its code and its argument block.

    item     an Item whose spec is such a Depthwise
    threads  how many threads the chunks are meant for; never changes a bit of the result
    returns  its Lowered
    raises   nothing of its own
    source   definition
    """
    unit = unit_of(spec, target)
    along = [classes(*axis) for axis in zip(spec.windows, spec.kernel, spec.lows, spec.dilations, spec.spread)]
    seen = _seen(spec, along)
    tiles = ceil_div(seen.windows[2], _AT_ONCE)
    high, low = ceil_div(seen.windows[2], tiles), seen.windows[2] // tiles
    joined = spec.spread == (1, 1, 1) and spec.kernel[2] <= _LONGEST_RUN
    image = BandOperand.of(spec.image, item.operands, 5)
    recipe = Recipe(unit, (high, low) if low < high else (high,), (spec.kernel[2], spec.dilations[2]) if joined else (1, 1),
                    spec.strides[2], _block(seen, unit, target) * unit.bytes, math.prod(spec.spread) > 1,
                    spec.extents[4] % unit.lanes > 0, image, BandOperand.of(spec.right, item.operands, 2),
                    epilogue(spec.epilogue, spec.stores, item.operands))
    numbers, chunks, scratch_bytes = _numbers(spec, seen, recipe, threads)
    numbers |= {"high_tiles": seen.windows[2] - tiles * low, "tiles": tiles}
    table = _table(spec, seen, along, recipe, numbers["columns"])
    numbers |= {"class_bytes": 8 * len(table) // (numbers["rows"] * math.prod(spec.spread)),
                "phase_bytes": 8 * len(table) // numbers["rows"]}
    slots: list[Slot] = [*recipe.image.arguments.slots, *recipe.right.arguments.slots, *(("int", numbers[n]) for n in NUMBERS),
                         *recipe.epilogue.arguments.slots, *(("int", n) for n in table)]
    key = code_key(f"depthwise_{spec.dtype.name}", recipe.structure())
    return Lowered(key, key, lambda: build(key, recipe), tuple(slots), chunks, scratch_bytes)


def _seen(spec: Depthwise, along: Sequence[Sequence[Class]]) -> Depthwise:
    """The same with all taps of all classes in place of the kernel, and the windows of the first class, which has most."""
    firsts = [min((c.start for c in axis if c.taps), default=0) for axis in along]
    lasts = [max((c.start + (c.taps - 1) * c.dilation for c in axis if c.taps), default=0) for axis in along]
    return replace(spec, windows=tuple(axis[0].places for axis in along), kernel=tuple(b - a + 1 for a, b in zip(firsts, lasts)),
                   lows=tuple(-first for first in firsts), dilations=(1, 1, 1), spread=(1, 1, 1))


def _numbers(spec: Depthwise, seen: Depthwise, recipe: Recipe, threads: int) -> tuple[dict[str, int], int, int]:
    """The numbers of the argument block but those of the tiles and the table, how many chunks, and the bytes of scratch."""
    unit, channels, pitch = recipe.unit, spec.extents[4], recipe.pitch
    block = round_up(even(channels, pitch // unit.bytes), unit.lanes)
    blocks = ceil_div(channels, block)
    planes = spec.extents[0] * spec.windows[0] * blocks
    rows = seen.windows[1]
    band = even(rows, max(1, ceil_div(rows * planes, threads * _CHUNKS_PER_THREAD)))
    bands = ceil_div(rows, band)
    numbers, size = band_numbers(seen, 1, pitch)
    sizes = {"image": size, "right_at": spec.taps * pitch, "sums_at": recipe.heights[0] * unit.lanes * unit.bytes}
    starts, end = laid_out(sizes)
    numbers |= starts
    numbers |= {f"out{axis}": n for axis, n in enumerate(spec.windows)}
    numbers |= {f"classes{axis}": n for axis, n in enumerate(spec.spread)}
    numbers |= {"channels": channels, "block": block, "blocks": blocks, "band": band, "bands": bands, "taps": spec.taps}
    return numbers, planes * bands, end


def _block(seen: Depthwise, unit: Unit, target: Target) -> int:
    """Channels in a block, at most, a power of two so that few pitches need code of their own."""
    columns = (seen.windows[2] - 1) * seen.strides[2] + seen.kernel[2]
    places = seen.kernel[0] * (seen.kernel[1] + seen.strides[1]) * columns + seen.windows[2]
    block = unit.lanes
    while block < _BLOCK and 2 * block * unit.bytes * places <= _L1_SHARE * target.l1_bytes:
        block *= 2
    return _BLOCK if block < _FEW and math.prod(seen.strides) > 1 else block


def _table(spec: Depthwise, seen: Depthwise, along: Sequence[Sequence[Class]], recipe: Recipe, columns: int) -> list[int]:
    """For each row of scratch that may be a window's first, for each class of windows: how many runs of taps, then for each run
    the bytes from there to the element that it meets first, and from the first weights to its own. As many for each class.
    """
    rows, pitch, run = row_count(seen, 1), recipe.pitch, recipe.run[0]
    table: list[int] = []
    for phase, chosen in itertools.product(range(rows), itertools.product(*along)):
        met: list[int] = []
        for tap in itertools.product(*(range(0, c.taps, n) for c, n in zip(chosen, (1, 1, run)))):
            number = 0
            for c, j, count in zip(chosen, tap, spec.kernel):
                number = number * count + c.first_tap + j * c.step
            plane, row, column = (c.start + low + j * c.dilation for c, low, j in zip(chosen, seen.lows, tap))
            place = (plane * rows + (phase + row) % rows) * columns + column
            met += [place * pitch, number * pitch]
        table += [len(met) // 2, *met, *([0] * (2 * spec.taps // run - len(met)))]
    return table
