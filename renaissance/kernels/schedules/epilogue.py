"""What happens to a finished tile of sums: the contraction's epilogue, row by row, from scratch to its stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from renaissance.ir.plan import Instr, Operand, Store
from renaissance.ir.target import Target
from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Arguments, Frame, Place
from renaissance.kernels.loops import I64, PTR, Builder, Module, Value
from renaissance.kernels.schedules.microkernel import Unit

_LINE_BYTES = 64
_UNROLLED = 16  # bodies that cost no more are written out for each vector of a panel


@dataclass(frozen=True)
class Panel:
    """A kind of panel: its vectors, and whether columns of it lie beyond the matrix: in none, in all, or in the last of them."""

    vectors: int
    partial: tuple[bool, ...]


def panel_kinds(n: int, lanes: int, vectors: int, panels: int, last_vectors: int) -> tuple[Panel, ...]:
    """The kinds of panels of n columns: the usual ones, and the last where it has fewer vectors."""
    partial = n - (panels - 1) * vectors * lanes != last_vectors * lanes
    if panels <= 1:
        return (Panel(last_vectors, (partial,)),)
    if last_vectors == vectors:
        return (Panel(vectors, (False, True) if partial else (False,)),)
    return Panel(vectors, (False,)), Panel(last_vectors, (partial,))


@dataclass(frozen=True)
class Epilogue:
    """A body over (batch, row, column) bound to its slots, with the (place, instruction) of each store."""

    arguments: Arguments
    body: tuple[Instr, ...]
    stores: tuple[tuple[int, int], ...]

    @property
    def plain(self) -> Place | None:
        """Where the sums go if they are stored as they are, along the lanes; else None."""
        if len(self.body) != 1 or self.body[0].op != "acc" or len(self.stores) != 1:
            return None
        place = self.arguments.places[self.stores[0][0]]
        return place if place.row == "next" and self.body[0].dtype is place.dtype else None

    @property
    def traffic_bytes(self) -> int:
        """Bytes that are read and written for each element, in rows along the lanes."""
        places = [i.attr for i in self.body if i.op == "load"] + [number for number, _ in self.stores]
        rows = [self.arguments.places[p] for p in places]  # type: ignore[index]
        return sum(p.dtype.size for p in rows if p.row == "next" and p.strides[1] is not None)

    def structure(self) -> object:
        """What of it shapes code."""
        return self.body, self.stores, self.arguments.structure()


def epilogue(body: Sequence[Instr], stores: Sequence[Store], operands: Sequence[Operand]) -> Epilogue:
    """The Epilogue of a contraction."""
    arguments = Arguments(operands, vector=2)
    bound = arguments.bind(body)
    return Epilogue(arguments, bound, tuple((arguments.output(s.access), s.value) for s in stores))


def asker(module: Module, name: str, epilogue: Epilogue, *, width: int) -> Builder | None:
    """Add the function that asks for what an epilogue will read and write of some rows, `width` columns; None if that is nothing.

    Its parameters: args, batch, row and rows (first, count), column. Any place may be asked for, whether it exists or not.
    """
    arguments = epilogue.arguments
    stored = {number for number, _ in epilogue.stores}
    asked = [n for n, place in enumerate(arguments.places) if place.row == "next" and place.strides[1] is not None]
    if not asked:
        return None
    numbers = ((n, I64) for n in ("batch", "row", "rows", "column"))
    b = module.function(name, [("args", PTR), *numbers], exported=False, noinline=True)
    frame = Frame(b, arguments)
    with b.loop(0, b.param("rows")) as row:
        for number in asked:
            at = frame.address(number, (b.param("batch"), b.add(b.param("row"), row.index), b.param("column")))
            for byte in range(0, width * arguments.places[number].dtype.size, _LINE_BYTES):
                b.prefetch(b.offset(at, byte), write=number in stored)
    return b


def finisher(module: Module, name: str, epilogue: Epilogue, unit: Unit, target: Target, *, vectors: int | None = None) -> Builder:
    """Add the function that finishes rows of sums, one after the other as memory has them.

    Its parameters: args (the epilogue's slots), batch, row and rows (first, count), column and width (first, how many exist),
    sums (the rows in scratch) and pitch (bytes from one row of them to the next).

    vectors  how many vectors the width always is, if it is; None: any width
    """
    b = module.function(name, [("args", PTR), ("batch", I64), ("row", I64), ("rows", I64), ("column", I64), ("width", I64),
                               ("sums", PTR), ("pitch", I64)], exported=False, noinline=True)
    frame = Frame(b, epilogue.arguments)

    def put(row: Value, place: Value, lanes: int, mask: Value | None) -> None:
        index = (b.param("batch"), b.add(b.param("row"), row), b.add(b.param("column"), place))
        sums = b.offset(b.param("sums"), b.mul(row, b.param("pitch")))
        acc = b.load(b.offset(sums, b.mul(place, unit.bytes)), unit.vector.with_lanes(lanes))
        values = bodies.emit(b, epilogue.body, frame, index, lanes, mask, acc)
        for number, value in epilogue.stores:
            bodies.store(b, frame, number, values[value], index, lanes, mask)

    width, lanes = b.param("width"), unit.lanes
    whole = width if vectors is not None else b.sub(width, b.urem(width, lanes))
    with b.loop(0, b.param("rows")) as row:
        if vectors is not None and bodies.cost(epilogue.body) <= _UNROLLED:
            for v in range(vectors):
                put(row.index, b.const(I64, v * lanes), lanes, None)
        else:
            with b.loop(0, whole, lanes) as loop:
                put(row.index, loop.index, lanes, None)
        if vectors is None and target.isa == "avx512":
            with b.if_(b.cmp("lt", whole, width)):
                put(row.index, whole, lanes, b.lane_mask(b.sub(width, whole), lanes))
        elif vectors is None:
            with b.loop(whole, width) as loop:
                put(row.index, loop.index, 1, None)
    return b
