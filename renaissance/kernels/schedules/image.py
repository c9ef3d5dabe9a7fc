"""Windows of an image as the second factor of a product: packed from the image itself, window by window.

k runs over the windows, lanes lie along (tap, channel). Neighbouring taps along the last axis lie side by side in memory, and so
do most lanes of a vector. Places outside the image are 0; they are looked for only where a window touches the border. The
geometry is in the argument block, so that one kernel serves all convolutions of a dtype and tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from renaissance.ir.dtype import DType, bfloat16
from renaissance.ir.plan import Access, Image, Instr, Operand
from renaissance.kernels.arguments import Arguments, Frame, Place
from renaissance.kernels.loops import I1, I64, PTR, Builder, Module, Value, vec
from renaissance.kernels.numbers import from_memory, memory
from renaissance.kernels.schedules.microkernel import Unit
from renaissance.kernels.schedules.packing import pair

# 64-bit numbers by lane that a packer keeps in its room.
_AHEAD = 12  # windows that are asked for before they are packed
_TABLES = ("base", "depth", "row", "column")


@dataclass(frozen=True)
class ImageSource:
    """An image as an operand: its place over (n, d, h, w, c), then the slots of its geometry, by name.

    by_rows  no unit of k reaches from one row of windows into the next
    """

    arguments: Arguments
    names: tuple[str, ...]
    dtype: DType
    by_rows: bool
    way = "image"

    @property
    def place(self) -> Place:
        return self.arguments.places[0]

    @property
    def size_bytes(self) -> int:
        return 8 * len(self.arguments.slots)

    def structure(self) -> object:
        """What of it shapes code."""
        return self.dtype.name, self.by_rows, self.arguments.structure()


def image_source(body: Sequence[Instr], image: Image, operands: Sequence[Operand], unit: Unit) -> ImageSource:
    """The ImageSource of a contraction's second operand, which is a plain load."""
    access: Access = body[0].attr  # type: ignore[assignment]
    arguments = Arguments(operands, vector=4)
    arguments.place(access)
    numbers = {
        **_by_axis("size", image.extents[1:4]), **_by_axis("count", image.windows), **_by_axis("taps", image.kernel),
        **_by_axis("stride", image.strides), **_by_axis("low", image.lows), **_by_axis("dilation", image.dilations),
        "each": image.extents[4] // image.groups, "leaves": image.leaves, "leaf_places": image.places // image.leaves,
        **_inner_windows(image)}
    for value in numbers.values():
        arguments.int(value)
    by_rows = image.windows[2] % unit.depth == 0 and image.places // image.leaves % unit.depth == 0
    return ImageSource(arguments, tuple(numbers), operands[access.operand].dtype, by_rows)


def _inner_windows(image: Image) -> dict[str, int]:
    """Which windows of a row, first up to end, lie in the image along the last axis."""
    stride, low, count = image.strides[2], image.lows[2], image.windows[2]
    last = image.extents[3] - 1 - (image.kernel[2] - 1) * image.dilations[2] + low
    return {"inner_first": max(0, -(-low // stride)), "inner_end": max(0, min(count, last // stride + 1))}


def _by_axis(name: str, values: Sequence[int]) -> dict[str, int]:
    return {f"{name}{axis}": v for axis, v in enumerate(values)}


def room_bytes(unit: Unit, vectors: int) -> int:
    """Bytes of room that the packer needs for a block so many vectors wide."""
    return 8 * len(_TABLES) * unit.lanes * vectors


def image_packer(module: Module, name: str, source: ImageSource, unit: Unit, *, vectors: int) -> Builder:
    """Add the function that packs (tap, channel) of windows; its parameters are those of `packing.packer`."""
    numbers = ((n, I64) for n in ("batch", "first", "width", "k0", "k"))
    parameters = [("args", PTR), *numbers, ("to", PTR), ("room", PTR), ("pitch", I64)]
    b = module.function(name, parameters, exported=False, noinline=True)
    _Packer(b, source, unit, vectors).pack()
    return b


class _Packer:
    """The code of a packing function: a table of where each lane lies from a window's corner, then window after window."""

    def __init__(self, b: Builder, source: ImageSource, unit: Unit, vectors: int):
        self.b = b
        self.source = source
        self.unit = unit
        self.width = vectors * unit.lanes
        self.row_bytes = self.width * unit.bytes
        frame = Frame(b, source.arguments)
        values = frame.values[len(frame.values) - len(source.names):]
        self.g = dict(zip(source.names, values))
        place = source.place
        self.base = frame[place.base]
        self.steps = [b.const(I64, 0) if slot is None else frame[slot] for slot in place.strides]
        self.size = source.dtype.size

    def table(self, name: str, lane: Value | int) -> Value:
        """The address of a number of a table."""
        b = self.b
        start = b.offset(b.param("room"), 8 * self.width * _TABLES.index(name))
        return b.offset(start, b.mul(lane, 8) if isinstance(lane, Value) else 8 * lane)

    def divided(self, number: Value, by: Sequence[str]) -> list[Value]:
        """The digits of a number whose radixes, from the second digit on, are numbers of the geometry."""
        b, digits = self.b, []
        for name in reversed(by):
            quotient = b.udiv(number, self.g[name])
            digits.insert(0, b.sub(number, b.mul(quotient, self.g[name])))
            number = quotient
        return [number, *digits]

    def next_window(self, at: Sequence[Value]) -> list[Value]:
        """The window behind (n, p0, p1, p2)."""
        b, following = self.b, []
        carry = b.const(I64, 1)
        for axis in (2, 1, 0):
            moved = b.add(at[1 + axis], carry)
            carry = b.zext(b.cmp("eq", moved, self.g[f"count{axis}"]), I64)
            following.insert(0, b.select(b.cmp("ne", carry, 0), 0, moved))
        return [b.add(at[0], carry), *following]

    def corner(self, at: Sequence[Value]) -> tuple[list[Value], Value]:
        """Where a window begins along each axis, and the element of its first tap from the image's beginning."""
        b, g = self.b, self.g
        places = [b.sub(b.mul(p, g[f"stride{axis}"]), g[f"low{axis}"]) for axis, p in enumerate(at[1:])]
        element = b.mul(at[0], self.steps[0])
        for place, step in zip(places, self.steps[1:4]):
            element = b.add(element, b.mul(place, step))
        return places, element

    def is_inside(self, places: Sequence[Value], axes: int = 3) -> Value:
        """Whether all taps of a window lie in the image, as far as the first `axes` axes tell."""
        b, g = self.b, self.g
        inside = b.const(I1, 1)
        for axis, place in enumerate(places[:axes]):
            last = b.add(place, b.mul(b.sub(g[f"taps{axis}"], 1), g[f"dilation{axis}"]))
            inside = b.and_(inside, b.and_(b.cmp("ge", place, 0), b.cmp("lt", last, g[f"size{axis}"])))
        return inside

    def pack(self) -> None:
        b, unit, g = self.b, self.unit, self.g
        self._places()
        leaf, group = b.urem(b.param("batch"), g["leaves"]), b.udiv(b.param("batch"), g["leaves"])
        start = b.add(b.mul(leaf, g["leaf_places"]), b.param("k0"))
        self.channel = b.mul(group, g["each"])
        vectors = [_Vector(self, v) for v in range(0, self.width, unit.lanes)]
        if self.source.by_rows:
            self._row_after_row(start, vectors)
        else:
            self._one_after_one(start, vectors)

    def _row_after_row(self, start: Value, vectors: Sequence[_Vector]) -> None:
        """All windows from `start` on, a row at a time: what they have in common is worked out once."""
        b, g, depth = self.b, self.g, self.unit.depth
        count, end = g["count2"], b.add(start, b.param("k"))
        first = b.udiv(start, count)
        rows = b.sub(b.udiv(b.add(end, b.sub(count, 1)), count), first)
        with b.loop(0, rows, carried=self.divided(first, ("count0", "count1"))) as row:
            at = b.mul(b.add(first, row.index), count)  # the row's first window
            begin, stop = b.max(b.sub(start, at), 0), b.min(b.sub(end, at), count)
            corner = self.corner([*row.carried, b.const(I64, 0)])
            inside = self.is_inside(corner[0], axes=2)
            first_inner = b.select(inside, g["inner_first"], count)
            step = b.mul(g["stride2"], self.steps[3])

            def unit_at(q: Value, windows: int, at: Value = at, corner: tuple[list[Value], Value] = corner,
                        first_inner: Value = first_inner, step: Value = step) -> None:
                corners = []
                for ahead in range(windows):
                    window = b.add(q, ahead)
                    places = [*corner[0][:2], b.add(corner[0][2], b.mul(window, g["stride2"]))]
                    corners.append((places, b.add(b.add(corner[1], self.channel), b.mul(window, step))))
                inner = b.and_(b.cmp("ge", q, first_inner), b.cmp("lt", b.add(q, windows - 1), g["inner_end"]))
                for vector in vectors:  # each window's line lies in another part of a row, which hardware does not follow
                    later = b.add(b.add(corners[0][1], b.mul(step, _AHEAD)), vector.start)
                    b.prefetch(b.offset(self.base, b.mul(later, self.size)))
                to = b.mul(b.udiv(b.sub(b.add(at, q), start), depth), self.row_bytes)
                self._unit(corners, inner, vectors, b.offset(b.param("to"), to))

            whole = b.sub(stop, b.urem(b.sub(stop, begin), depth))
            with b.loop(begin, whole, depth) as loop:
                unit_at(loop.index, depth)
            if depth == 2:
                with b.if_(b.cmp("lt", whole, stop)):
                    unit_at(whole, 1)
            moved = b.add(row.carried[2], 1)
            carry = b.cmp("eq", moved, g["count1"])
            plane = b.add(row.carried[1], b.zext(carry, I64))
            wrapped = b.cmp("eq", plane, g["count0"])
            row.next([b.add(row.carried[0], b.zext(wrapped, I64)), b.select(wrapped, 0, plane), b.select(carry, 0, moved)])

    def _one_after_one(self, start: Value, vectors: Sequence[_Vector]) -> None:
        """All windows from `start` on, where a pair of them may lie in two rows."""
        b, unit = self.b, self.unit
        window = self.divided(start, ("count0", "count1", "count2"))
        with b.loop(0, b.udiv(b.param("k"), unit.depth), carried=window) as loop:
            at = [list(loop.carried)]
            for _ in range(1, unit.depth):
                at.append(self.next_window(at[-1]))
            self._windows(at, vectors, b.offset(b.param("to"), b.mul(loop.index, self.row_bytes)))
            loop.next(self.next_window(at[-1]))
        if unit.depth == 2:
            with b.if_(b.cmp("ne", b.and_(b.param("k"), 1), 0)):
                to = b.offset(b.param("to"), b.mul(b.lshr(b.param("k"), 1), self.row_bytes))
                self._windows([list(loop.results)], vectors, to)

    def _places(self) -> None:
        """Fill the tables for the whole width, the last (tap, channel) repeated: elements and places from the corner."""
        b, g = self.b, self.g
        last = b.sub(b.add(b.param("first"), b.param("width")), 1)
        with b.loop(0, self.width) as lane:
            number = b.min(b.add(b.param("first"), lane.index), last)
            *taps, channel = self.divided(number, ("taps1", "taps2", "each"))
            element = channel
            for axis, (name, tap) in enumerate(zip(("depth", "row", "column"), taps)):
                offset = b.mul(tap, g[f"dilation{axis}"])
                b.store(offset, self.table(name, lane.index))
                element = b.add(element, b.mul(offset, self.steps[1 + axis]))
            b.store(element, self.table("base", lane.index))

    def _windows(self, at: Sequence[Sequence[Value]], vectors: Sequence[_Vector], to: Value) -> None:
        """A unit of one or two windows, wherever they are."""
        b = self.b
        corners = [(places, b.add(element, self.channel)) for places, element in map(self.corner, at)]
        inside = b.const(I1, 1)
        for places, _ in corners:
            inside = b.and_(inside, self.is_inside(places))
        self._unit(corners, inside, vectors, to)

    def _unit(self, corners: Sequence[tuple[Sequence[Value], Value]], inside: Value, vectors: Sequence[_Vector],
              to: Value) -> None:
        """A unit of one or two windows, given where they begin and whether they lie in the image."""
        b = self.b
        for n, vector in enumerate(vectors):
            at = b.offset(to, n * self.unit.lanes * self.unit.bytes)

            def put(value_of: Callable[[Sequence[Value], Value], Value], at: Value = at) -> None:
                values = [value_of(places, element) for places, element in corners]
                if self.unit.depth == 2:
                    values = [pair(b, values[0], values[1] if len(values) == 2 else None)]
                b.store(values[0], at)

            with b.if_else(b.and_(inside, vector.in_line)) as (plain, other):
                with plain:
                    put(vector.line)
                with other, b.if_else(b.and_(inside, vector.in_two)) as (two, border):
                    with two:
                        put(vector.two_lines)
                    with border:
                        put(vector.picked)


class _Vector:
    """Some lanes of the width: how many exist, and whether they lie side by side in memory, or in two runs that do."""

    def __init__(self, packer: _Packer, lane: int):
        b = packer.b
        self.packer = packer
        self.lane = lane
        self.count = b.max(b.min(b.sub(b.param("width"), lane), packer.unit.lanes), 1)
        last = b.sub(self.count, 1)
        end = b.load(packer.table("base", b.add(last, lane)), I64)
        self.start = b.load(packer.table("base", lane), I64)
        self.in_line = b.cmp("eq", b.sub(end, self.start), last)
        with b.loop(0, self.count, carried=[b.const(I64, 0)]) as loop:
            distance = b.sub(b.load(packer.table("base", b.add(loop.index, lane)), I64), self.start)
            loop.next([b.add(loop.carried[0], b.zext(b.cmp("eq", distance, loop.index), I64))])
        self.split = loop.results[0]
        self.second = b.sub(b.load(packer.table("base", b.add(b.min(self.split, last), lane)), I64), self.split)
        self.in_two = b.cmp("eq", b.sub(end, self.second), last)

    def line(self, places: Sequence[Value], element: Value) -> Value:
        """Neighbours, in the image."""
        packer, b = self.packer, self.packer.b
        lanes, dtype = packer.unit.lanes, packer.source.dtype
        at = b.offset(packer.base, b.mul(b.add(element, self.start), packer.size))
        return from_memory(b, b.load(at, memory(dtype, lanes), mask=b.lane_mask(self.count, lanes)), dtype)

    def two_lines(self, places: Sequence[Value], element: Value) -> Value:
        """Two runs of neighbours, in the image."""
        packer, b = self.packer, self.packer.b
        lanes, dtype = packer.unit.lanes, packer.source.dtype
        first = b.lane_mask(self.split, lanes)
        second = b.and_(b.lane_mask(self.count, lanes), b.not_(first))
        parts = []
        for start, mask in ((self.start, first), (self.second, second)):
            at = b.offset(packer.base, b.mul(b.add(element, start), packer.size))
            parts.append(from_memory(b, b.load(at, memory(dtype, lanes), mask=mask), dtype))
        return b.select(first, parts[0], parts[1])

    def picked(self, places: Sequence[Value], element: Value) -> Value:
        """Anywhere, one by one; 0 outside the image."""
        packer, b = self.packer, self.packer.b
        lanes, dtype = packer.unit.lanes, packer.source.dtype
        mask = b.lane_mask(self.count, lanes)
        for axis, (name, place) in enumerate(zip(("depth", "row", "column"), places)):
            at = b.add(b.splat(place, lanes), b.load(packer.table(name, self.lane), vec("i64", lanes)))
            mask = b.and_(mask, b.cmp("ult", at, b.splat(packer.g[f"size{axis}"], lanes)))
        numbers = b.load(packer.table("base", self.lane), vec("i64", lanes))
        start = b.offset(packer.base, b.mul(element, packer.size))
        if dtype is not bfloat16:
            return b.gather(start, numbers, memory(dtype, lanes), mask)
        kept = b.select(mask, numbers, b.splat(b.neg(element), lanes))  # there is no narrow gather; element 0 can be read
        bits = b.const(memory(dtype, lanes), 0)
        for lane in range(lanes):
            bits = b.insert(bits, b.load(b.offset(start, b.mul(b.extract(kept, lane), packer.size)), memory(dtype)), lane)
        return from_memory(b, b.select(mask, bits, b.const(bits.type, 0)), dtype)
