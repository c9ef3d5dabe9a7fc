"""The gradient of a depthwise convolution's weight: lanes along the channels, a leaf of windows at a time.

    chunk:  the rows of the image that a leaf of windows sees, a block of channels wide, are computed into scratch once, with
            zeros where the image ends (band.py), and the windows' own values beside them;
            for each vector of channels: one accumulator for each tap (nine at a time), window after window; then the epilogue
"""

from __future__ import annotations

from dataclasses import dataclass

from renaissance.ir.plan import Depthwise, Item
from renaissance.ir.target import Target
from renaissance.kernels.loops import I64, PTR, Builder, Module
from renaissance.kernels.lowered import Lowered, Slot, code_key
from renaissance.kernels.schedules.band import NUMBERS as BAND_NUMBERS
from renaissance.kernels.schedules.band import Band, BandOperand, Numbers, band_numbers, clearer, filler
from renaissance.kernels.schedules.depthwise import unit_of
from renaissance.kernels.schedules.epilogue import Epilogue, epilogue, finisher
from renaissance.kernels.schedules.microkernel import Unit
from renaissance.kernels.schedules.tiling import ceil_div, even, laid_out, round_up

_ACCUMULATORS = 9  # taps that are summed together
_BLOCK = 128       # channels in a block

NUMBERS = (*BAND_NUMBERS, "channels", "block", "blocks", "band", "bands", "right_at", "sums_at", "table_at")


@dataclass(frozen=True)
class Recipe:
    """Everything that shapes the code; `taps` is how many there are."""

    unit: Unit
    image: BandOperand
    right: BandOperand
    epilogue: Epilogue
    taps: int

    def structure(self) -> object:
        return self.unit, self.taps, self.image.structure(), self.right.structure(), self.epilogue.structure()


def lower_depthwise_sums(item: Item, spec: Depthwise, target: Target, threads: int) -> Lowered:
    """Make a Depthwise item with `sums` ready for a Target: choose its blocks, its code and its argument block.

    item     an Item whose spec is such a Depthwise
    threads  plays no part: a chunk is a leaf
    returns  its Lowered
    raises   nothing of its own
    source   definition
    """
    unit = unit_of(spec, target)
    recipe = Recipe(unit, BandOperand.of(spec.image, item.operands, 5), BandOperand.of(spec.right, item.operands, 5),
                    epilogue(spec.epilogue, spec.stores, item.operands), spec.taps)
    numbers, chunks, scratch_bytes = _numbers(spec, unit)
    slots: list[Slot] = [*recipe.image.arguments.slots, *recipe.right.arguments.slots, *(("int", numbers[n]) for n in NUMBERS),
                         *recipe.epilogue.arguments.slots]
    key = code_key(f"depthwise_sums_{spec.dtype.name}", recipe.structure())
    return Lowered(key, key, lambda: _build(key, recipe, target), tuple(slots), chunks, scratch_bytes)


def _numbers(spec: Depthwise, unit: Unit) -> tuple[dict[str, int], int, int]:
    """The numbers of the argument block, how many chunks, and the bytes of scratch."""
    channels, band = spec.extents[4], spec.leaf_rows
    block = round_up(even(channels, _BLOCK), unit.lanes)
    blocks, bands = ceil_div(channels, block), ceil_div(spec.windows[1], band)
    pitch = block * unit.bytes
    numbers, size = band_numbers(spec, band, pitch)
    starts, end = laid_out({"image": size, "right_at": band * spec.windows[2] * pitch, "sums_at": spec.taps * pitch,
                            "table_at": 8 * spec.taps})
    numbers |= starts
    numbers |= {"channels": channels, "block": block, "blocks": blocks, "band": band, "bands": bands}
    return numbers, spec.extents[0] * spec.windows[0] * blocks * bands, end


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
    fill_right = filler(module, "fill_right", recipe.right, recipe.unit, 5)
    clear = clearer(module)
    finish = finisher(module, "finish", recipe.epilogue, recipe.unit, target)
    b = module.function(name, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    at = _Chunk(b, recipe)
    at.band.fill(fill_image, b.param("args"), at.channel, at.width, clear)
    _tap_table(b, at)
    _sums(b, at, recipe, fill_right, finish)
    return module


def _tap_table(b: Builder, at: _Chunk) -> None:
    """Bytes from a window's first place in scratch to each of its taps."""
    with b.loop(0, at["taps0"]) as t, b.loop(0, at["taps1"]) as r, b.loop(0, at["taps2"]) as s:
        number = b.add(b.mul(b.add(b.mul(t.index, at["taps1"]), r.index), at["taps2"]), s.index)
        b.store(at.band.tap(t.index, r.index, s.index), b.offset(at.scratch("table_at"), b.mul(number, 8)))


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
