"""A band of an image in scratch: the rows that some windows see, zeros where the image ends, so that no tap looks at the border.

What is pointwise on the image (its body) is computed here, once for each element of the band. A band belongs to one plane of
windows of one image and to a block of its channels; a chunk of work is a band, and what else its schedule divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from renaissance.ir.dtype import bfloat16
from renaissance.ir.plan import Access, Depthwise, Image, Instr, Operand
from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Arguments, Frame
from renaissance.kernels.loops import I64, PTR, Builder, Module, Type, Value
from renaissance.kernels.numbers import to_memory
from renaissance.kernels.schedules.microkernel import Unit
from renaissance.kernels.schedules.walk import divide

NUMBERS = (*(f"{name}{axis}" for name in ("count", "taps", "stride", "low", "dilation", "size") for axis in range(3)),
           "rows", "columns", "pitch", "joined")


@dataclass(frozen=True)
class BandOperand:
    """A body bound to its slots."""

    arguments: Arguments
    body: tuple[Instr, ...]

    @staticmethod
    def of(body: tuple[Instr, ...], operands: Sequence[Operand], rank: int) -> BandOperand:
        arguments = Arguments(operands, vector=rank - 1)
        return BandOperand(arguments, arguments.bind(body))

    @property
    def size_bytes(self) -> int:
        return 8 * len(self.arguments.slots)

    def structure(self) -> object:
        """What of it shapes code."""
        return self.body, self.arguments.structure()


def row_count(image: Image | Depthwise, windows: int) -> int:
    """Rows of the image that so many rows of windows see."""
    return (windows - 1) * image.strides[1] + (image.kernel[1] - 1) * image.dilations[1] + 1


def is_joined(body: Sequence[Instr], channels: int) -> bool:
    """Whether a body takes all channels of a row's places for one run of elements: then none of it need know where one ends."""
    if any(i.op in ("coord", "philox", "load_at") for i in body):
        return False
    accesses: list[Access] = [i.attr for i in body if i.op == "load"]  # type: ignore[misc]
    return all(a.strides[3] == channels * a.strides[4] for a in accesses)


def band_numbers(image: Image | Depthwise, windows: int, pitch: int, joined: bool = False) -> tuple[dict[str, int], int]:
    """The NUMBERS of bands of `windows` rows of windows, `pitch` bytes from a place to the next, and the bytes of a band.

    joined  places lie side by side in scratch, and so may be computed as one run of elements
    """
    columns = (image.windows[2] - 1) * image.strides[2] + (image.kernel[2] - 1) * image.dilations[2] + 1
    rows = row_count(image, windows)
    named = (("count", image.windows), ("taps", image.kernel), ("stride", image.strides), ("low", image.lows),
             ("dilation", image.dilations), ("size", image.extents[1:4]))
    numbers = {f"{name}{axis}": value for name, values in named for axis, value in enumerate(values)}
    numbers |= {"rows": rows, "columns": columns, "pitch": pitch, "joined": int(joined)}
    return numbers, image.kernel[0] * rows * columns * pitch


class Numbers:
    """Numbers of an argument block as one function of a kernel sees them, by name."""

    def __init__(self, b: Builder, at: Value, names: Sequence[str]):
        self.b = b
        self.numbers = {n: b.load(b.offset(at, 8 * i), I64) for i, n in enumerate(names)}

    def __getitem__(self, name: str) -> Value:
        return self.numbers[name]

    def divided(self, x: Value, name: str) -> tuple[Value, Value]:
        """Quotient and remainder of a count by a number."""
        return divide(self.b, x, self[name])

    def scratch(self, name: str) -> Value:
        """The address of a part of scratch that begins at a number."""
        return self.b.offset(self.b.param("scratch"), self[name])


class Band:
    """The band of a chunk, as the code of a kernel sees it; `numbers` are values of NUMBERS.

    image, plane  of the windows
    row, rows     first row of windows, how many
    start         address of the band in scratch
    """

    def __init__(self, b: Builder, numbers: dict[str, Value], start: Value, image: Value, plane: Value, row: Value, rows: Value):
        self.b = b
        self.numbers = numbers
        self.start = start
        self.image = image
        self.plane = plane
        self.row = row
        self.rows = rows

    def __getitem__(self, name: str) -> Value:
        return self.numbers[name]

    def distance(self, plane: Value, row: Value, column: Value) -> Value:
        """Bytes from the beginning of the band to a place in it."""
        b = self.b
        return b.mul(b.add(b.mul(b.add(b.mul(plane, self["rows"]), row), self["columns"]), column), self["pitch"])

    def window(self, row: Value, column: Value) -> Value:
        """Where the first tap of a window of the band is."""
        b = self.b
        zero = b.const(I64, 0)
        return b.offset(self.start, self.distance(zero, b.mul(row, self["stride1"]), b.mul(column, self["stride2"])))

    def tap(self, t: Value, r: Value, s: Value) -> Value:
        """Bytes from a window's first place to one of its taps."""
        b = self.b
        return self.distance(t, b.mul(r, self["dilation1"]), b.mul(s, self["dilation2"]))

    def first_window(self, row: Value) -> Value:
        """The number, of all images, of the first window of a row of the band."""
        b = self.b
        plane = b.add(b.mul(self.image, self["count0"]), self.plane)
        return b.mul(b.add(b.mul(plane, self["count1"]), b.add(self.row, row)), self["count2"])

    def seen(self, row: Value) -> Value:
        """The first row of the image, counted from the first of the band, that no row of windows up to this one sees."""
        b = self.b
        return b.add(b.mul(row, self["stride1"]), b.add(b.mul(b.sub(self["taps1"], 1), self["dilation1"]), 1))

    def place(self, plane: Value, row: Value) -> tuple[Value, Value]:
        """Where in the image a plane and a row of the band lie."""
        b = self.b
        d = b.sub(b.add(b.mul(self.plane, self["stride0"]), b.mul(plane, self["dilation0"])), self["low0"])
        return d, b.sub(b.add(b.mul(self.row, self["stride1"]), row), self["low1"])

    def fill(self, fill: Builder, args: Value, channel: Value, width: Value, clear: Builder, first: Value | int = 0,
             end: Value | None = None) -> None:
        """Compute the rows `first` up to `end` (all), `width` channels from `channel` on, by a function of `filler` and one of
        `clearer`. Where scratch has fewer rows than the band, they take each other's places in turn."""
        b = self.b
        zero = b.const(I64, 0)
        end = self.seen(b.sub(self.rows, 1)) if end is None else end
        whole = b.mul(self["columns"], self["pitch"])
        with b.loop(0, self["taps0"]) as plane, b.loop(first, end) as row:
            d, h = self.place(plane.index, row.index)
            exists = b.and_(b.cmp("ult", d, self["size0"]), b.cmp("ult", h, self["size1"]))
            to = b.offset(self.start, self.distance(plane.index, b.urem(row.index, self["rows"]), zero))
            with b.if_else(exists) as (inside, outside):
                with inside:
                    element = b.max(b.neg(self["low2"]), 0)
                    before = b.min(b.max(self["low2"], 0), self["columns"])
                    count = b.min(b.sub(self["columns"], before), b.max(b.sub(self["size2"], element), 0))
                    start, end = b.mul(before, self["pitch"]), b.mul(b.add(before, count), self["pitch"])
                    b.call(clear, to, start)
                    b.call(clear, b.offset(to, end), b.sub(whole, end))
                    joined = b.cmp("ne", self["joined"], 0)
                    b.call(fill, args, self.image, d, h, element, channel, b.select(joined, b.mul(count, width), width),
                           b.select(joined, 1, count), b.offset(to, start), self["pitch"])
                with outside:
                    b.call(clear, to, whole)


def asker(b: Builder, operand: BandOperand, frame: Frame, index: Sequence[Value]) -> None:
    """Prefetch what the body reads along the lanes at an index, whether it exists or not."""
    for number, place in enumerate(operand.arguments.places):
        if place.row == "next":
            b.prefetch(frame.address(number, index))


def clearer(module: Module) -> Builder:
    """Add the function that writes zeros: to, and how many bytes, an even number."""
    b = module.function("clear", [("to", PTR), ("bytes", I64)], exported=False, noinline=True)
    size = 64
    whole = b.and_(b.param("bytes"), -size)
    with b.loop(0, whole, size) as loop:
        b.store(b.const(Type("i32", 16), 0), b.offset(b.param("to"), loop.index), align=2)
    with b.loop(whole, b.param("bytes"), 2) as loop:
        b.store(b.const(Type("i16"), 0), b.offset(b.param("to"), loop.index))
    return b


def filler(module: Module, name: str, operand: BandOperand, unit: Unit, rank: int) -> Builder:
    """Add the function that computes `count` places along the last but one dimension into scratch, `width` channels each.

    Its parameters: args, the index of the first place, width, count, to, and pitch (bytes from one place to the next). Elements
    are written as the unit takes them: bfloat16 where it takes pairs.
    """
    index = [f"i{d}" for d in range(rank)]
    b = module.function(name, [("args", PTR), *((i, I64) for i in index), ("width", I64), ("count", I64), ("to", PTR),
                               ("pitch", I64)], exported=False, noinline=True)
    frame = Frame(b, operand.arguments)
    lanes, width = unit.lanes, b.param("width")
    rest = b.urem(width, lanes)
    whole = b.sub(width, rest)
    head = [b.param(i) for i in index[:-2]]
    with b.loop(0, b.param("count")) as place:
        to = b.offset(b.param("to"), b.mul(place.index, b.param("pitch")))

        def put(channel: Value, mask: Value | None) -> None:
            at = [*head, b.add(b.param(index[-2]), place.index), b.add(b.param(index[-1]), channel)]
            value = bodies.emit(b, operand.body, frame, at, lanes, mask)[-1]
            value = to_memory(b, value, bfloat16) if unit.depth == 2 else value
            b.store(value, b.offset(to, b.mul(channel, unit.bytes // unit.depth)), mask=mask)

        with b.loop(0, whole, lanes) as loop:
            put(loop.index, None)
        with b.if_(b.cmp("gt", rest, 0)):
            put(whole, b.lane_mask(rest, lanes))
    return b
