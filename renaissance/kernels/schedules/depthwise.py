"""Depthwise convolutions: lanes along the channels, a band of rows at a time.

    chunk:  the rows of the image that a band of windows sees, a block of channels wide, are computed into scratch once, with
            zeros where the image ends; then no tap needs a look at the border
    forward:  for each row of windows and vector of channels: a few neighbouring windows at once, tap by tap; then the epilogue
    sums:     for each vector of channels: one accumulator for each tap (nine at a time), window after window

Limited by memory where the band stays in the second-level cache: each element of the image is read once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from renaissance.ir.dtype import float64
from renaissance.ir.plan import Depthwise, Item
from renaissance.ir.target import Target
from renaissance.kernels.loops import I64, PTR, Builder, Module
from renaissance.kernels.lowered import Lowered, Slot, code_key
from renaissance.kernels.schedules.band import NUMBERS as BAND_NUMBERS
from renaissance.kernels.schedules.band import Band, BandOperand, Numbers, band_numbers, clearer, filler
from renaissance.kernels.schedules.epilogue import Epilogue, epilogue, finisher
from renaissance.kernels.schedules.microkernel import Unit
from renaissance.kernels.schedules.tiling import ceil_div, even, laid_out, round_up

_AT_ONCE = (8, 4, 1)  # neighbouring windows that are computed together
_ACCUMULATORS = 9     # taps that are summed together
_BLOCK = 128          # channels in a block
_CHUNKS_PER_THREAD = 6

NUMBERS = (*BAND_NUMBERS, "channels", "block", "blocks", "band", "bands", "right_at", "sums_at", "table_at")


@dataclass(frozen=True)
class Recipe:
    """Everything that shapes the code.

    taps     where sums are made, how many taps; 0 forward
    at_once  windows computed together, forward
    """

    unit: Unit
    image: BandOperand
    right: BandOperand
    epilogue: Epilogue
    taps: int
    at_once: int

    def structure(self) -> object:
        return self.unit, self.taps, self.at_once, self.image.structure(), self.right.structure(), self.epilogue.structure()


def lower_depthwise(item: Item, spec: Depthwise, target: Target, threads: int) -> Lowered:
    """Make a Depthwise item ready for a Target: choose its blocks and bands, its code and its argument block.

    item     an Item whose spec is a Depthwise
    threads  how many threads the chunks are meant for; never changes a bit of the result
    returns  its Lowered
    raises   nothing of its own
    source   definition
    """
    wide = spec.dtype is float64
    unit = Unit("f64" if wide else "f32", 1, target.vector_bytes // (8 if wide else 4))
    taps = math.prod(spec.kernel)
    at_once = next(n for n in _AT_ONCE if n <= spec.windows[2])
    image, right = BandOperand.of(spec.image, item.operands, 5), BandOperand.of(spec.right, item.operands, 5 if spec.sums else 2)
    recipe = Recipe(unit, image, right,
                    epilogue(spec.epilogue, spec.stores, item.operands), taps if spec.sums else 0, 1 if spec.sums else at_once)
    numbers, chunks, scratch_bytes = _numbers(spec, unit, target, threads)
    slots: list[Slot] = [*recipe.image.arguments.slots, *recipe.right.arguments.slots, *(("int", numbers[n]) for n in NUMBERS),
                         *recipe.epilogue.arguments.slots]
    key = code_key(f"depthwise{'_sums' * spec.sums}_{spec.dtype.name}", recipe.structure())
    return Lowered(key, key, lambda: _build(key, recipe, target), tuple(slots), chunks, scratch_bytes)


def _numbers(spec: Depthwise, unit: Unit, target: Target, threads: int) -> tuple[dict[str, int], int, int]:
    """The numbers of the argument block, how many chunks, and the bytes of scratch."""
    channels, (t, r, s) = spec.extents[4], spec.kernel
    block = round_up(even(channels, _BLOCK), unit.lanes)
    blocks = ceil_div(channels, block)
    pitch = block * unit.bytes
    planes = spec.extents[0] * spec.windows[0] * blocks
    band = spec.leaf_rows if spec.sums else even(spec.windows[1], max(1, ceil_div(spec.windows[1] * planes,
                                                                                 threads * _CHUNKS_PER_THREAD)))
    while not spec.sums and band > 1 and band_numbers(spec, band, pitch)[1] > target.l2_bytes // 2:
        band = ceil_div(band, 2)
    bands = ceil_div(spec.windows[1], band)
    numbers, size = band_numbers(spec, band, pitch)
    sizes = {"image": size, "right_at": (band * spec.windows[2] if spec.sums else t * r * s) * pitch,
             "sums_at": (t * r * s if spec.sums else spec.windows[2]) * pitch, "table_at": 8 * t * r * s}
    starts, end = laid_out(sizes)
    numbers |= starts
    numbers |= {"channels": channels, "block": block, "blocks": blocks, "band": band, "bands": bands}
    return numbers, planes * bands, end


class _Chunk(Numbers):
    """The argument block, and which part of the work a chunk is."""

    def __init__(self, b: Builder, recipe: Recipe):
        args = b.param("args")
        self.right_args = b.offset(args, recipe.image.size_bytes)
        numbers = b.offset(self.right_args, recipe.right.size_bytes)
        super().__init__(b, numbers, NUMBERS)
        self.end_args = b.offset(numbers, 8 * len(NUMBERS))
        rest, block = self.divided(b.param("chunk"), "blocks")
        self.leaf = rest  # (image, plane, band)
        rest, band = self.divided(rest, "bands")
        image, plane = self.divided(rest, "count0")
        self.channel = b.mul(block, self["block"])
        self.width = b.min(self["block"], b.sub(self["channels"], self.channel))
        row = b.mul(band, self["band"])
        self.band = Band(b, self.numbers, b.param("scratch"), image, plane, row, b.min(self["band"], b.sub(self["count1"], row)))


def _build(name: str, recipe: Recipe, target: Target) -> Module:
    """The loop program; it exports `name`."""
    module = Module(name)
    fill_image = filler(module, "fill_image", recipe.image, recipe.unit, 5)
    fill_right = filler(module, "fill_right", recipe.right, recipe.unit, 5 if recipe.taps else 2)
    clear = clearer(module)
    finish = finisher(module, "finish", recipe.epilogue, recipe.unit, target)
    b = module.function(name, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    at = _Chunk(b, recipe)
    at.band.fill(fill_image, b.param("args"), at.channel, at.width, clear)
    _tap_table(b, at)
    if recipe.taps:
        _sums(b, at, recipe, fill_right, finish)
    else:
        _forward(b, at, recipe, fill_right, finish)
    return module


def _tap_table(b: Builder, at: _Chunk) -> None:
    """Bytes from a window's first place in scratch to each of its taps."""
    with b.loop(0, at["taps0"]) as t, b.loop(0, at["taps1"]) as r, b.loop(0, at["taps2"]) as s:
        number = b.add(b.mul(b.add(b.mul(t.index, at["taps1"]), r.index), at["taps2"]), s.index)
        b.store(at.band.tap(t.index, r.index, s.index), b.offset(at.scratch("table_at"), b.mul(number, 8)))


def _forward(b: Builder, at: _Chunk, recipe: Recipe, fill_right: Builder, finish: Builder) -> None:
    unit, zero = recipe.unit, b.const(I64, 0)
    taps = b.mul(b.mul(at["taps0"], at["taps1"]), at["taps2"])
    b.call(fill_right, at.right_args, zero, at.channel, at.width, taps, at.scratch("right_at"), at["pitch"])
    vector_bytes = unit.lanes * unit.bytes
    step = b.mul(at["stride2"], at["pitch"])
    last = b.sub(at["count2"], recipe.at_once)
    with b.loop(0, at.band.rows) as row:
        with b.loop(0, b.mul(at.width, unit.bytes), vector_bytes) as vector, b.loop(0, at["count2"], recipe.at_once) as block:
            window = b.min(block.index, last)  # the last block may do some windows again
            seen = b.offset(at.band.window(row.index, window), vector.index)
            right = b.offset(at.scratch("right_at"), vector.index)
            sums = [b.const(unit.vector, 0.0)] * recipe.at_once
            with b.loop(0, taps, carried=[right, *sums]) as tap:
                weight = b.load(tap.carried[0], unit.vector)
                place = b.offset(seen, b.load(b.offset(at.scratch("table_at"), b.mul(tap.index, 8)), I64))
                totals = []
                for j, total in enumerate(tap.carried[1:]):
                    totals.append(b.fma(b.load(b.offset(place, b.mul(step, j)), unit.vector), weight, total))
                tap.next([b.offset(tap.carried[0], at["pitch"]), *totals])
            to = b.offset(at.scratch("sums_at"), b.add(b.mul(window, at["pitch"]), vector.index))
            for j, total in enumerate(tap.results[1:]):
                b.store(total, b.offset(to, b.mul(at["pitch"], j)))
        first = at.band.first_window(row.index)
        b.call(finish, at.end_args, zero, first, at["count2"], at.channel, at.width, at.scratch("sums_at"), at["pitch"])


def _sums(b: Builder, at: _Chunk, recipe: Recipe, fill_right: Builder, finish: Builder) -> None:
    unit, zero = recipe.unit, b.const(I64, 0)
    row_bytes = b.mul(at["count2"], at["pitch"])
    with b.loop(0, at.band.rows) as row:
        index = (at.band.image, at.band.plane, b.add(at.band.row, row.index), zero, at.channel)
        b.call(fill_right, at.right_args, *index, at.width, at["count2"],
               b.offset(at.scratch("right_at"), b.mul(row.index, row_bytes)), at["pitch"])
    vector_bytes = unit.lanes * unit.bytes
    step = b.mul(at["stride2"], at["pitch"])
    with b.loop(0, b.mul(at.width, unit.bytes), vector_bytes) as vector:
        for first in range(0, recipe.taps, _ACCUMULATORS):
            count = min(_ACCUMULATORS, recipe.taps - first)
            distances = [b.load(b.offset(at.scratch("table_at"), 8 * (first + j)), I64) for j in range(count)]
            sums = [b.const(unit.vector, 0.0)] * count
            with b.loop(0, at.band.rows, carried=sums) as row:
                seen = b.offset(at.band.window(row.index, zero), vector.index)
                right = b.offset(at.scratch("right_at"), b.add(b.mul(row.index, row_bytes), vector.index))
                with b.loop(0, at["count2"], carried=[seen, right, *row.carried]) as window:
                    place, other = window.carried[:2]
                    value = b.load(other, unit.vector)
                    totals = [b.fma(b.load(b.offset(place, d), unit.vector), value, total)
                              for d, total in zip(distances, window.carried[2:])]
                    window.next([b.offset(place, step), b.offset(other, at["pitch"]), *totals])
                row.next(window.results[2:])
            to = b.offset(at.scratch("sums_at"), vector.index)
            for j, total in enumerate(row.results):
                b.store(total, b.offset(to, b.mul(at["pitch"], first + j)))
    b.call(finish, at.end_args, at.leaf, zero, b.const(I64, recipe.taps), at.channel, at.width, at.scratch("sums_at"),
           at["pitch"])
