"""What the Winograd kernels share: reading a tile of an image and transforming it, channel vector by channel vector.

A tile that lies inside the image is read in place; of one across the border every place is looked at first, and what is outside
is 0 whatever the body would give there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from renaissance.ir.plan import Instr, Operand
from renaissance.ir.target import Target
from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Arguments, Frame
from renaissance.kernels.loops import F32, I64, PTR, Builder, Module, Value, vec
from renaissance.kernels.schedules.winograd_transforms import Line, square

AHEAD = 2         # tiles whose memory is asked for before they are read: they lie in other pages, where no hardware follows
LEAST_BYTES = 32  # of a vector: narrower ones would ask for each line many times
UNROLLED = 20      # bodies that cost no more are written out for each place of a tile


@dataclass(frozen=True)
class Reader:
    """A body over (n, h, w, channel) bound to its slots, whose tiles are `size` x `size` places, `tile` from one to the next."""

    arguments: Arguments
    body: tuple[Instr, ...]
    size: int
    tile: int
    height: int
    width: int
    step: int
    tail: bool

    @property
    def size_bytes(self) -> int:
        """Bytes of its slots."""
        return 8 * len(self.arguments.slots)

    def structure(self) -> object:
        """What of it shapes code."""
        return self.body, self.size, self.tile, self.tail, self.arguments.structure()


def reader(body: Sequence[Instr], operands: Sequence[Operand], *, size: int, tile: int, extents: tuple[int, int],
           step_bytes: int, tail: bool) -> Reader:
    """The Reader of a body over an image of `extents`; step_bytes from one number of a transformed tile to the next.

    tail  whether the channels that are read at once may be no whole number of vectors
    """
    arguments = Arguments(operands, vector=3)
    bound = arguments.bind(body)
    height, width = (arguments.int(n) for n in extents)
    return Reader(arguments, bound, size, tile, height, width, arguments.int(step_bytes), tail)


def room_bytes(size: int, target: Target) -> int:
    """Bytes of the room in which a tile across the border is put together."""
    return size * size * target.vector_bytes


def read_tile(module: Module, name: str, source: Reader, line: Line, target: Target) -> Builder:
    """Add the function that transforms some channels of a tile.

    Its parameters: args (the reader's slots), n, top and left (first place, possibly outside), first and count (channels), to
    (where the tile's first number goes, channel `first` at its beginning), room.
    """
    numbers = [(n, I64) for n in ("n", "top", "left", "first", "count")]
    b = module.function(name, [("args", PTR), *numbers, ("to", PTR), ("room", PTR)], exported=False, noinline=True)
    frame = Frame(b, source.arguments)
    code = _Reading(b, frame, source, line)
    top, left, size = b.param("top"), b.param("left"), source.size
    inside = b.and_(b.cmp("ge", top, 0), b.cmp("ge", left, 0))
    inside = b.and_(inside, b.cmp("le", b.add(top, size), frame[source.height]))
    inside = b.and_(inside, b.cmp("le", b.add(left, size), frame[source.width]))
    if bodies.cost(source.body) > UNROLLED:
        strips(b, b.param("count"), target, code.across, tail=source.tail)
        return b
    with b.if_else(inside) as (then, otherwise):
        with then:
            strips(b, b.param("count"), target, code.within, tail=source.tail)
        with otherwise:
            strips(b, b.param("count"), target, code.across, tail=source.tail)
    return b


class _Reading:
    """The code of one channel vector of a tile."""

    def __init__(self, b: Builder, frame: Frame, source: Reader, line: Line):
        self.b, self.frame, self.source, self.line = b, frame, source, line

    def within(self, at: Value, lanes: int, mask: Value | None) -> None:
        """Of a tile that lies inside the image."""
        size = range(self.source.size)
        self._ask(at, lanes)
        self._put(at, [[self._element(i, j, at, lanes, mask) for j in size] for i in size])

    def _ask(self, at: Value, lanes: int) -> None:
        """Prefetch what the tile `AHEAD` to the right sees and those before it have not, whether it exists or not."""
        b, size, tile = self.b, self.source.size, self.source.tile
        places = [(n, p) for n, p in enumerate(self.frame.places) if p.row == "next" and p.strides[2] is not None]
        for number, place in places:
            for i in range(size - tile, size) if lanes * place.dtype.size >= LEAST_BYTES else ():
                for j in range(size - tile, size):
                    b.prefetch(self.frame.address(number, self._index(i, j + AHEAD * tile, at)))

    def across(self, at: Value, lanes: int, mask: Value | None) -> None:
        """Of any tile, by way of the room."""
        b, size = self.b, self.source.size
        type = vec("f32", lanes)
        with b.loop(0, size) as i, b.loop(0, size) as j:
            row, column = b.add(b.param("top"), i.index), b.add(b.param("left"), j.index)
            exists = b.cmp("ult", row, self.frame[self.source.height])
            exists = b.and_(exists, b.cmp("ult", column, self.frame[self.source.width]))
            place = b.offset(b.param("room"), b.mul(b.add(b.mul(i.index, size), j.index), 4 * lanes))
            with b.if_else(exists) as (then, otherwise):
                with then:
                    b.store(self._element(i.index, j.index, at, lanes, mask), place)
                with otherwise:
                    b.store(b.const(type, 0.0), place)
        self._put(at, [[b.load(b.offset(b.param("room"), (i * size + j) * 4 * lanes), type) for j in range(size)]
                       for i in range(size)])

    def _element(self, i: Value | int, j: Value | int, at: Value, lanes: int, mask: Value | None) -> Value:
        b = self.b
        value = bodies.emit(b, self.source.body, self.frame, self._index(i, j, at), lanes, mask)[-1]
        return value if mask is None else b.select(mask, value, b.const(value.type, 0.0))

    def _index(self, i: Value | int, j: Value | int, at: Value) -> tuple[Value, ...]:
        b = self.b
        return b.param("n"), b.add(b.param("top"), i), b.add(b.param("left"), j), b.add(b.param("first"), at)

    def _put(self, at: Value, block: Sequence[Sequence[Value]]) -> None:
        """Transform and store whole vectors: there is room behind the last channel for the 0 of a masked one's other lanes."""
        b = self.b
        to = b.offset(b.param("to"), b.mul(at, 4))
        for value in (v for row in square(b, self.line, block) for v in row):
            b.store(value, to)
            to = b.offset(to, self.frame[self.source.step])


def strips(b: Builder, count: Value, target: Target, act: Callable[[Value, int, Value | None], None], *, tail: bool) -> None:
    """act(first place, lanes, mask) for vectors of `count` places; without a tail their number is a multiple of the lanes."""
    lanes = target.lanes
    whole = b.sub(count, b.urem(count, lanes)) if tail else count
    with b.loop(0, whole, lanes) as loop:
        act(loop.index, lanes, None)
    if tail and target.isa == "avx512":
        with b.if_(b.cmp("lt", whole, count)):
            act(whole, lanes, b.lane_mask(b.sub(count, whole), lanes))
    elif tail:
        with b.loop(whole, count) as loop:
            act(loop.index, 1, None)


def load_block(b: Builder, at: Value, step: Value, size: int, lanes: int, mask: Value | None = None) -> list[list[Value]]:
    """size x size vectors, `step` bytes apart."""
    values = []
    for _ in range(size * size):
        values.append(b.load(at, vec("f32", lanes) if lanes > 1 else F32, mask=mask))
        at = b.offset(at, step)
    return [values[i * size:(i + 1) * size] for i in range(size)]
