"""The code of depthwise convolutions; depthwise.py says how they are cut.

The rows of the image that a row of windows sees and those before it did not are computed into scratch, in turn in place of those
that are seen no more, with zeros where the image ends: then no tap needs a look at the border.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Frame
from renaissance.kernels.loops import I1, I64, PTR, Builder, Module, Value
from renaissance.kernels.schedules.band import NUMBERS as BAND_NUMBERS
from renaissance.kernels.schedules.band import Band, BandOperand, Numbers, asker, clearer, filler
from renaissance.kernels.schedules.epilogue import Epilogue
from renaissance.kernels.schedules.microkernel import Unit

_UNROLLED = 16  # epilogues that cost no more are written out for each window of a tile

# `out` and `classes` count the windows and the classes along each axis; the band counts in windows of one class.
NUMBERS = (*BAND_NUMBERS, *(f"{name}{axis}" for name in ("out", "classes") for axis in range(3)), "channels", "block", "blocks",
           "band", "bands", "high_tiles", "tiles", "taps", "class_bytes", "phase_bytes", "right_at", "sums_at")

@dataclass(frozen=True)
class Recipe:
    """Everything that shapes the code.

    heights   windows of the high tiles, and of the low ones where there are any
    run       taps that lie side by side, written out: (how many, columns from one to the next)
    stride    columns of the band from a window to the next
    pitch     bytes from a place in scratch to the next
    spread    whether there are several classes
    ragged    whether the last vector of channels is not full
    """

    unit: Unit
    heights: tuple[int, ...]
    run: tuple[int, int]
    stride: int
    pitch: int
    spread: bool
    ragged: bool
    image: BandOperand
    right: BandOperand
    epilogue: Epilogue

    def structure(self) -> object:
        return (self.unit, self.heights, self.run, self.stride, self.pitch, self.spread, self.ragged, self.image.structure(),
                self.right.structure(), self.epilogue.structure())


class _Chunk(Numbers):
    """The argument block, and which part of the work a chunk is."""

    def __init__(self, b: Builder, recipe: Recipe):
        args = b.param("args")
        self.low_height = recipe.heights[-1]
        self.right_args = b.offset(args, recipe.image.size_bytes)
        numbers = b.offset(self.right_args, recipe.right.size_bytes)
        super().__init__(b, numbers, NUMBERS)
        end_args = b.offset(numbers, 8 * len(NUMBERS))
        self.image = Frame(b, recipe.image.arguments)
        self.results = Frame(b, recipe.epilogue.arguments, end_args)
        rest, block = self.divided(b.param("chunk"), "blocks")
        rest, band = self.divided(rest, "bands")
        image, self.plane = self.divided(rest, "out0")
        plane, of_depth = self.divided(self.plane, "classes0")
        by_class = b.mul(of_depth, b.mul(self["classes1"], b.mul(self["classes2"], self["class_bytes"])))
        self.table = b.offset(b.offset(end_args, 8 * len(recipe.epilogue.arguments.slots)), by_class)
        self.channel = b.mul(block, self["block"])
        self.width = b.min(self["block"], b.sub(self["channels"], self.channel))
        row = b.mul(band, self["band"])
        self.band = Band(b, self.numbers, b.param("scratch"), image, plane, row, b.min(self["band"], b.sub(self["count1"], row)))

    def start(self, tile: Value) -> Value:
        """The first window of a tile."""
        return self.b.add(self.b.mul(tile, self.low_height), self.b.min(tile, self["high_tiles"]))


def build(name: str, recipe: Recipe) -> Module:
    """The loop program; it exports `name`."""
    module = Module(name)
    fill_image = filler(module, "fill_image", recipe.image, recipe.unit, 5)
    fill_right = filler(module, "fill_right", recipe.right, recipe.unit, 2)
    clear = clearer(module)
    b = module.function(name, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    at, zero = _Chunk(b, recipe), b.const(I64, 0)
    b.call(fill_right, at.right_args, zero, at.channel, at.width, at["taps"], at.scratch("right_at"), at["pitch"])
    with b.loop(0, at.band.rows, carried=[zero]) as row:
        end = at.band.seen(row.index)
        at.band.fill(fill_image, b.param("args"), at.channel, at.width, clear, row.carried[0], end)
        _row(_Row(b, at, recipe, row.index, end))
        row.next([end])
    return module


class _Row:
    """A row of windows of the band, all classes."""

    def __init__(self, b: Builder, at: _Chunk, recipe: Recipe, row: Value, end: Value):
        self.b = b
        self.at = at
        self.recipe = recipe
        phase = b.urem(b.mul(row, at["stride1"]), at["rows"])
        self.table = b.offset(at.table, b.mul(phase, at["phase_bytes"]))
        self.first_out = b.mul(b.add(at.band.row, row), at["classes1"])
        self.next_seen = at.band.place(b.const(I64, 0), end)


def _row(row: _Row) -> None:
    """All windows of a row: high tiles, then low ones, each a vector of channels after the other."""
    b, at, recipe = row.b, row.at, row.recipe
    lanes = recipe.unit.lanes
    rest = b.urem(at.width, lanes)
    whole = b.sub(at.width, rest)
    ends = (at["high_tiles"], at["tiles"]) if len(recipe.heights) == 2 else (at["tiles"],)
    for first, end, height in zip((b.const(I64, 0), *ends), ends, recipe.heights):
        with b.loop(first, end) as tile:
            window = at.start(tile.index)
            with b.loop(0, whole, lanes) as vector:
                _tile(row, height, window, vector.index, None)
            if recipe.ragged:
                with b.if_(b.cmp("gt", rest, 0)):
                    _tile(row, height, window, whole, b.lane_mask(rest, lanes))


def _tile(row: _Row, height: int, window: Value, channel: Value, mask: Value | None) -> None:
    """Some neighbouring windows of each class of the row, in one vector of channels."""
    b, at, recipe = row.b, row.at, row.recipe
    tile = _Tile(row, height, window, channel, mask)
    _ask(tile)
    if not recipe.spread:
        _windows(tile, row.table, row.first_out, window, 1)
        return
    with b.loop(0, b.min(at["classes1"], b.sub(at["out1"], row.first_out))) as r, b.loop(0, at["classes2"]) as s:
        entry = b.offset(row.table, b.mul(b.add(b.mul(r.index, at["classes2"]), s.index), at["class_bytes"]))
        first = b.add(b.mul(window, at["classes2"]), s.index)
        _windows(tile, entry, b.add(row.first_out, r.index), first, at["classes2"])


@dataclass(frozen=True)
class _Tile:
    """`height` windows of a row from `window` on, in the vector of channels from `channel` of the block on."""

    row: _Row
    height: int
    window: Value
    channel: Value
    mask: Value | None


def _ask(tile: _Tile) -> None:
    """Prefetch what the next row sees there and those before it have not, whether it exists or not."""
    row, b, at = tile.row, tile.row.b, tile.row.at
    plane, first_row = row.next_seen
    column = b.sub(b.mul(tile.window, at["stride2"]), at["low2"])
    with b.loop(0, at["stride1"]) as r, b.loop(0, at["stride2"]) as s:
        for j in range(tile.height):
            place = (at.band.image, plane, b.add(first_row, r.index),
                     b.add(column, b.add(s.index, b.mul(at["stride2"], j))), b.add(at.channel, tile.channel))
            asker(b, row.recipe.image, at.image, place)


def _windows(tile: _Tile, entry: Value, out_row: Value, first: Value, step: Value | int) -> None:
    """Windows of one class, whose runs begin at an entry of the table: `first` and those `step` apart from it."""
    b, at, recipe = tile.row.b, tile.row.at, tile.row.recipe
    unit, height, (taps, dilation) = recipe.unit, tile.height, recipe.run
    channel = b.mul(tile.channel, unit.bytes)
    seen = b.offset(at.band.window(b.const(I64, 0), tile.window), channel)
    right = b.offset(at.scratch("right_at"), channel)
    sums = [b.const(unit.vector, 0.0)] * height
    with b.loop(0, b.load(entry, I64), carried=[b.offset(entry, 8), *sums]) as run:
        place = b.offset(seen, b.load(run.carried[0], I64))
        weights_at = b.offset(right, b.load(b.offset(run.carried[0], 8), I64))
        weights = [b.load(b.offset(weights_at, recipe.pitch * tap), unit.vector) for tap in range(taps)]
        totals = list(run.carried[1:])
        for column in sorted({j * recipe.stride + tap * dilation for j in range(height) for tap in range(taps)}):
            value = b.load(b.offset(place, recipe.pitch * column), unit.vector)
            for tap in range(taps):
                j, other = divmod(column - tap * dilation, recipe.stride)
                if other == 0 and 0 <= j < height:
                    totals[j] = b.fma(value, weights[tap], totals[j])
        run.next([b.offset(run.carried[0], 16), *totals])
    _finish(tile, run.results[1:], out_row, first, step)


def _finish(tile: _Tile, sums: Sequence[Value], out_row: Value, first: Value, step: Value | int) -> None:
    """The epilogue of windows of a row: `first` and those `step` apart from it."""
    b, at, recipe = tile.row.b, tile.row.at, tile.row.recipe
    unit, end = recipe.unit, recipe.epilogue
    plane = b.add(b.mul(at.band.image, at["out0"]), at.plane)
    row_start = b.mul(b.add(b.mul(plane, at["out1"]), out_row), at["out2"])

    def put(j: Value | int, total: Value) -> None:
        window = b.add(first, b.mul(b.const(I64, j) if isinstance(j, int) else j, step))
        index = (b.const(I64, 0), b.add(row_start, window), b.add(at.channel, tile.channel))
        with b.if_(b.cmp("lt", window, at["out2"]) if recipe.spread else b.const(I1, 1)):
            values = bodies.emit(b, end.body, at.results, index, unit.lanes, tile.mask, total)
            for number, value in end.stores:
                bodies.store(b, at.results, number, values[value], index, unit.lanes, tile.mask)

    if bodies.cost(end.body) <= _UNROLLED:
        for j, total in enumerate(sums):
            put(j, total)
        return
    vector_bytes = unit.lanes * unit.bytes
    for j, total in enumerate(sums):
        b.store(total, b.offset(at.scratch("sums_at"), vector_bytes * j))
    with b.loop(0, tile.height) as loop:
        put(loop.index, b.load(b.offset(at.scratch("sums_at"), b.mul(loop.index, vector_bytes)), unit.vector))
