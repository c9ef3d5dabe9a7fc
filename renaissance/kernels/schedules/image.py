"""Windows of an image as the second factor of a product: packed from the image itself, window by window.

k runs over the windows, lanes lie along (tap, channel). Neighbouring taps along the last axis lie side by side in memory, and so
do most lanes of a vector. Places outside the image are 0; they are looked for only where a window touches the border. The
geometry is in the argument block, so that one kernel serves all convolutions of a dtype and tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from renaissance.ir.dtype import DType, bfloat16
from renaissance.ir.plan import Access, Image, Instr, Operand
from renaissance.kernels.arguments import Arguments, Frame, Place
from renaissance.kernels.loops import I64, PTR, Builder, Module, Value, vec
from renaissance.kernels.numbers import from_memory, memory
from renaissance.kernels.schedules.microkernel import Unit
from renaissance.kernels.schedules.packing import pair

# 64-bit numbers by lane that a packer keeps in its room.
_TABLES = ("base", "depth", "row", "column")


@dataclass(frozen=True)
class ImageSource:
    """An image as an operand: its place over (n, d, h, w, c), then the slots of its geometry, by name."""

    arguments: Arguments
    names: tuple[str, ...]
    dtype: DType
    way = "image"

    @property
    def place(self) -> Place:
        return self.arguments.places[0]

    @property
    def size_bytes(self) -> int:
        return 8 * len(self.arguments.slots)

    def structure(self) -> object:
        """What of it shapes code."""
        return self.dtype.name, self.arguments.structure()


def image_source(body: Sequence[Instr], image: Image, operands: Sequence[Operand]) -> ImageSource:
    """The ImageSource of a contraction's second operand, which is a plain load."""
    access: Access = body[0].attr  # type: ignore[assignment]
    arguments = Arguments(operands, vector=4)
    arguments.place(access)
    numbers = {
        **_by_axis("size", image.extents[1:4]), **_by_axis("count", image.windows), **_by_axis("taps", image.kernel),
        **_by_axis("stride", image.strides), **_by_axis("low", image.lows), **_by_axis("dilation", image.dilations),
        "each": image.extents[4] // image.groups, "leaves": image.leaves, "leaf_places": image.places // image.leaves}
    for value in numbers.values():
        arguments.int(value)
    return ImageSource(arguments, tuple(numbers), operands[access.operand].dtype)


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

    def is_inside(self, places: Sequence[Value]) -> Value:
        """Whether all taps of a window lie in the image."""
        b, g = self.b, self.g
        inside = None
        for axis, place in enumerate(places):
            last = b.add(place, b.mul(b.sub(g[f"taps{axis}"], 1), g[f"dilation{axis}"]))
            here = b.and_(b.cmp("ge", place, 0), b.cmp("lt", last, g[f"size{axis}"]))
            inside = here if inside is None else b.and_(inside, here)
        assert inside is not None
        return inside

    def pack(self) -> None:
        b, unit, g = self.b, self.unit, self.g
        self._places()
        leaf, group = b.urem(b.param("batch"), g["leaves"]), b.udiv(b.param("batch"), g["leaves"])
        start = b.add(b.mul(leaf, g["leaf_places"]), b.param("k0"))
        self.channel = b.mul(group, g["each"])
        vectors = [_Vector(self, v) for v in range(0, self.width, unit.lanes)]
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
        """A unit of one or two windows."""
        b = self.b
        corners = [(places, b.add(element, self.channel)) for places, element in map(self.corner, at)]
        inside = None
        for places, _ in corners:
            here = self.is_inside(places)
            inside = here if inside is None else b.and_(inside, here)
        assert inside is not None
        for n, vector in enumerate(vectors):
            with b.if_else(b.and_(inside, vector.in_line)) as (plain, border):
                for branch, value_of in ((plain, vector.line), (border, vector.picked)):
                    with branch:
                        values = [value_of(places, element) for places, element in corners]
                        if self.unit.depth == 2:
                            values = [pair(b, values[0], values[1] if len(values) == 2 else None)]
                        b.store(values[0], b.offset(to, n * self.unit.lanes * self.unit.bytes))


class _Vector:
    """Some lanes of the width: how many exist, and whether they lie side by side in memory."""

    def __init__(self, packer: _Packer, lane: int):
        b = packer.b
        self.packer = packer
        self.lane = lane
        self.count = b.max(b.min(b.sub(b.param("width"), lane), packer.unit.lanes), 1)
        end = packer.table("base", b.add(b.sub(self.count, 1), lane))
        self.start = b.load(packer.table("base", lane), I64)
        self.in_line = b.cmp("eq", b.sub(b.load(end, I64), self.start), b.sub(self.count, 1))

    def line(self, places: Sequence[Value], element: Value) -> Value:
        """Neighbours, in the image."""
        packer, b = self.packer, self.packer.b
        lanes, dtype = packer.unit.lanes, packer.source.dtype
        at = b.offset(packer.base, b.mul(b.add(element, self.start), packer.size))
        return from_memory(b, b.load(at, memory(dtype, lanes), mask=b.lane_mask(self.count, lanes)), dtype)

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
