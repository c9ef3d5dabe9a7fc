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
from renaissance.ir.plan import Depthwise, Instr, Item, Operand
from renaissance.ir.target import Target
from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Arguments, Frame
from renaissance.kernels.loops import I1, I64, PTR, Builder, Module, Value
from renaissance.kernels.lowered import Lowered, Slot, code_key
from renaissance.kernels.schedules.epilogue import Epilogue, epilogue, finisher
from renaissance.kernels.schedules.microkernel import Unit
from renaissance.kernels.schedules.tiling import ceil_div, even, round_up

_AT_ONCE = (8, 4, 1)  # neighbouring windows that are computed together
_ACCUMULATORS = 9     # taps that are summed together
_BLOCK = 128          # channels in a block
_CHUNKS_PER_THREAD = 6

NUMBERS = (*(f"{name}{axis}" for name in ("count", "taps", "stride", "low", "dilation", "spread", "size") for axis in range(3)),
           "channels", "block", "blocks", "band", "bands", "rows", "columns", "first", "end", "pitch", "right_at", "sums_at",
           "table_at")


@dataclass(frozen=True)
class _Operand:
    """A body bound to its slots."""

    arguments: Arguments
    body: tuple[Instr, ...]

    @staticmethod
    def of(body: tuple[Instr, ...], operands: tuple[Operand, ...], rank: int) -> _Operand:
        arguments = Arguments(operands, vector=rank - 1)
        return _Operand(arguments, arguments.bind(body))

    @property
    def size_bytes(self) -> int:
        return 8 * len(self.arguments.slots)


@dataclass(frozen=True)
class Recipe:
    """Everything that shapes the code.

    taps     where sums are made, how many taps; 0 forward
    at_once  windows computed together, forward
    """

    unit: Unit
    image: _Operand
    right: _Operand
    epilogue: Epilogue
    taps: int
    at_once: int

    def structure(self) -> object:
        return (self.unit, self.taps, self.at_once, self.image.body, self.image.arguments.structure(), self.right.body,
                self.right.arguments.structure(), self.epilogue.structure())


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
    image, right = _Operand.of(spec.image, item.operands, 5), _Operand.of(spec.right, item.operands, 5 if spec.sums else 2)
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
    columns = (spec.windows[2] - 1) * spec.strides[2] + (s - 1) * spec.dilations[2] + 1
    reach = (r - 1) * spec.dilations[1] + 1

    def rows_of(band: int) -> int:
        return (band - 1) * spec.strides[1] + reach

    if spec.sums:
        band = spec.leaf_rows
    else:
        planes = spec.extents[0] * spec.windows[0] * blocks
        most = max(1, ceil_div(spec.windows[1] * planes, threads * _CHUNKS_PER_THREAD))
        band = spec.windows[1]
        while band > 1 and (band > most or t * rows_of(band) * columns * pitch > target.l2_bytes // 2):
            band = ceil_div(band, 2)
    bands = ceil_div(spec.windows[1], band)
    rows = rows_of(band)
    low, spread = spec.lows[2], spec.spread[2]
    sizes = {"image": t * rows * columns * pitch, "right_at": (band * spec.windows[2] if spec.sums else t * r * s) * pitch,
             "sums_at": (t * r * s if spec.sums else spec.windows[2]) * pitch, "table_at": 8 * t * r * s}
    starts, end = {}, 0
    for name, size in sizes.items():
        starts[name] = end
        end += round_up(size, 64)
    numbers = {
        **{f"{name}{axis}": v for name, values in (
            ("count", spec.windows), ("taps", spec.kernel), ("stride", spec.strides), ("low", spec.lows),
            ("dilation", spec.dilations), ("spread", spec.spread), ("size", spec.extents[1:4])) for axis, v in enumerate(values)},
        "channels": channels, "block": block, "blocks": blocks, "band": band, "bands": bands, "rows": rows, "columns": columns,
        # the places of the image that lie in the columns: first up to end
        "first": max(0, ceil_div(-low, spread)), "end": max(0, min(spec.extents[3], (columns - 1 - low) // spread + 1)),
        "pitch": pitch, **starts}
    return numbers, spec.extents[0] * spec.windows[0] * bands * blocks, end


class _Chunk:
    """The argument block, and which part of the work a chunk is."""

    def __init__(self, b: Builder, recipe: Recipe):
        self.b = b
        args = b.param("args")
        self.right_args = b.offset(args, recipe.image.size_bytes)
        numbers = b.offset(self.right_args, recipe.right.size_bytes)
        self.end_args = b.offset(numbers, 8 * len(NUMBERS))
        self.numbers = {n: b.load(b.offset(numbers, 8 * i), I64) for i, n in enumerate(NUMBERS)}
        rest, block = self._divided(b.param("chunk"), "blocks")
        self.leaf = rest  # (image, plane, band)
        rest, band = self._divided(rest, "bands")
        self.n, self.plane = self._divided(rest, "count0")
        self.channel = b.mul(block, self["block"])
        self.width = b.min(self["block"], b.sub(self["channels"], self.channel))
        self.row = b.mul(band, self["band"])
        self.rows = b.min(self["band"], b.sub(self["count1"], self.row))

    def __getitem__(self, name: str) -> Value:
        return self.numbers[name]

    def _divided(self, x: Value, name: str) -> tuple[Value, Value]:
        b = self.b
        quotient = b.udiv(x, self[name])
        return quotient, b.sub(x, b.mul(quotient, self[name]))

    def scratch(self, name: str | None) -> Value:
        b = self.b
        return b.param("scratch") if name is None else b.offset(b.param("scratch"), self[name])

    def image_at(self, plane: Value, row: Value, column: Value) -> Value:
        """Where a place of the band is in scratch, in bytes from its beginning."""
        b = self.b
        return b.mul(b.add(b.mul(b.add(b.mul(plane, self["rows"]), row), self["columns"]), column), self["pitch"])


def _build(name: str, recipe: Recipe, target: Target) -> Module:
    """The loop program; it exports `name`."""
    module = Module(name)
    fill_image = _filler(module, "fill_image", recipe.image, recipe.unit, 5)
    fill_right = _filler(module, "fill_right", recipe.right, recipe.unit, 5 if recipe.taps else 2)
    finish = finisher(module, "finish", recipe.epilogue, recipe.unit, target)
    b = module.function(name, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    at = _Chunk(b, recipe)
    _fill_band(b, at, fill_image, recipe.unit)
    _tap_table(b, at)
    if recipe.taps:
        _sums(b, at, recipe, fill_right, finish)
    else:
        _forward(b, at, recipe, fill_right, finish)
    return module


def _filler(module: Module, name: str, operand: _Operand, unit: Unit, rank: int) -> Builder:
    """Add the function that computes `count` places along the last but one dimension into scratch, `width` channels each.

    Its parameters: args, the index of the first place, width, count, to, and pitch (bytes from one place to the next).
    """
    index = [f"i{d}" for d in range(rank)]
    b = module.function(name, [("args", PTR), *((i, I64) for i in index), ("width", I64), ("count", I64), ("to", PTR),
                               ("pitch", I64)], exported=False, noinline=True)
    frame = Frame(b, operand.arguments)
    width, lanes = b.param("width"), unit.lanes
    rest = b.urem(width, lanes)
    whole = b.sub(width, rest)
    with b.loop(0, b.param("count")) as place:
        to = b.offset(b.param("to"), b.mul(place.index, b.param("pitch")))
        head = [b.param(i) for i in index[:-2]]

        def put(channel: Value, mask: Value | None) -> None:
            at = [*head, b.add(b.param(index[-2]), place.index), b.add(b.param(index[-1]), channel)]
            value = bodies.emit(b, operand.body, frame, at, lanes, mask)[-1]
            b.store(value, b.offset(to, b.mul(channel, unit.bytes)))

        with b.loop(0, whole, lanes) as loop:
            put(loop.index, None)
        with b.if_(b.cmp("gt", rest, 0)):
            put(whole, b.lane_mask(rest, lanes))
    return b


def _zeroes(b: Builder, unit: Unit, to: Value, size_bytes: Value) -> None:
    with b.loop(0, size_bytes, unit.lanes * unit.bytes) as loop:
        b.store(b.const(unit.vector, 0.0), b.offset(to, loop.index))


def _fill_band(b: Builder, at: _Chunk, fill: Builder, unit: Unit) -> None:
    """Everything that the band's windows see, zeros where there is no image."""
    zero = b.const(I64, 0)
    needed = b.add(b.mul(b.sub(at.rows, 1), at["stride1"]), b.add(b.mul(b.sub(at["taps1"], 1), at["dilation1"]), 1))
    with b.loop(0, at["taps0"]) as plane, b.loop(0, needed) as row:
        d = b.sub(b.add(b.mul(at.plane, at["stride0"]), b.mul(plane.index, at["dilation0"])), at["low0"])
        h = b.sub(b.add(b.mul(at.row, at["stride1"]), row.index), at["low1"])
        exists: Value = b.const(I1, 1)
        place = []
        for axis, spot in enumerate((d, h)):
            quotient = b.udiv(b.max(spot, 0), at[f"spread{axis}"])
            here = b.and_(b.cmp("eq", b.mul(quotient, at[f"spread{axis}"]), spot), b.cmp("lt", quotient, at[f"size{axis}"]))
            exists = b.and_(exists, here)
            place.append(quotient)
        to = b.offset(at.scratch(None), at.image_at(plane.index, row.index, zero))
        whole = b.mul(at["columns"], at["pitch"])
        with b.if_else(exists) as (inside, outside):
            with inside:
                step = b.mul(at["spread2"], at["pitch"])
                start = b.add(b.mul(at["first"], step), b.mul(at["low2"], at["pitch"]))
                count = b.max(b.sub(at["end"], at["first"]), 0)
                behind = b.add(start, b.mul(count, step))
                with b.if_else(b.and_(b.cmp("eq", at["spread2"], 1), b.cmp("gt", count, 0))) as (dense, spread):
                    with dense:
                        _zeroes(b, unit, to, start)
                        _zeroes(b, unit, b.offset(to, behind), b.sub(whole, behind))
                    with spread:
                        _zeroes(b, unit, to, whole)
                b.call(fill, b.param("args"), at.n, *place, at["first"], at.channel, at.width, count, b.offset(to, start), step)
            with outside:
                _zeroes(b, unit, to, whole)


def _tap_table(b: Builder, at: _Chunk) -> None:
    """Bytes from a window's first place in scratch to each of its taps."""
    with b.loop(0, at["taps0"]) as t, b.loop(0, at["taps1"]) as r, b.loop(0, at["taps2"]) as s:
        number = b.add(b.mul(b.add(b.mul(t.index, at["taps1"]), r.index), at["taps2"]), s.index)
        distance = at.image_at(t.index, b.mul(r.index, at["dilation1"]), b.mul(s.index, at["dilation2"]))
        b.store(distance, b.offset(at.scratch("table_at"), b.mul(number, 8)))


def _forward(b: Builder, at: _Chunk, recipe: Recipe, fill_right: Builder, finish: Builder) -> None:
    unit, zero = recipe.unit, b.const(I64, 0)
    taps = b.mul(b.mul(at["taps0"], at["taps1"]), at["taps2"])
    b.call(fill_right, at.right_args, zero, at.channel, at.width, taps, at.scratch("right_at"), at["pitch"])
    vector_bytes = unit.lanes * unit.bytes
    step = b.mul(at["stride2"], at["pitch"])
    last = b.sub(at["count2"], recipe.at_once)
    with b.loop(0, at.rows) as row:
        with b.loop(0, b.mul(at.width, unit.bytes), vector_bytes) as vector, b.loop(0, at["count2"], recipe.at_once) as block:
            window = b.min(block.index, last)  # the last block may do some windows again
            seen = b.offset(at.scratch(None), b.add(
                at.image_at(zero, b.mul(row.index, at["stride1"]), b.mul(window, at["stride2"])), vector.index))
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
        plane = b.add(b.mul(at.n, at["count0"]), at.plane)
        first = b.mul(b.add(b.mul(plane, at["count1"]), b.add(at.row, row.index)), at["count2"])
        b.call(finish, at.end_args, zero, first, at["count2"], at.channel, at.width, at.scratch("sums_at"), at["pitch"])


def _sums(b: Builder, at: _Chunk, recipe: Recipe, fill_right: Builder, finish: Builder) -> None:
    unit, zero = recipe.unit, b.const(I64, 0)
    row_bytes = b.mul(at["count2"], at["pitch"])
    with b.loop(0, at.rows) as row:
        b.call(fill_right, at.right_args, at.n, at.plane, b.add(at.row, row.index), zero, at.channel, at.width, at["count2"],
               b.offset(at.scratch("right_at"), b.mul(row.index, row_bytes)), at["pitch"])
    vector_bytes = unit.lanes * unit.bytes
    step = b.mul(at["stride2"], at["pitch"])
    with b.loop(0, b.mul(at.width, unit.bytes), vector_bytes) as vector:
        for first in range(0, recipe.taps, _ACCUMULATORS):
            count = min(_ACCUMULATORS, recipe.taps - first)
            distances = [b.load(b.offset(at.scratch("table_at"), 8 * (first + j)), I64) for j in range(count)]
            sums = [b.const(unit.vector, 0.0)] * count
            with b.loop(0, at.rows, carried=sums) as row:
                seen = b.offset(at.scratch(None), b.add(at.image_at(zero, b.mul(row.index, at["stride1"]), zero), vector.index))
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
