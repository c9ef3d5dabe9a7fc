"""An operand of a contraction as code sees it: its body over (batch, outer, lane), bound to its own slots of the argument block.

`way` tells how it reaches the micro-kernel:
    'direct'   read in place
    'columns'  packed with lanes along the width (m or n)
    'rows'     packed with lanes along k, straight from memory: a plain load, contiguous in k
    'staged'   packed with lanes along k, from rows that are computed into scratch first
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from renaissance.ir.dtype import DType
from renaissance.ir.plan import Access, Instr, Operand
from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Arguments, Frame, Place
from renaissance.kernels.loops import I64, PTR, Builder, Value
from renaissance.kernels.schedules.microkernel import Unit

_SMALL_K = 16  # shorter reductions are not worth turning


@dataclass(frozen=True)
class Source:
    """An operand of the product; `body` is bound to `arguments`, and its lane is the last dimension."""

    arguments: Arguments
    body: tuple[Instr, ...]
    way: str

    def element(self, b: Builder, frame: Frame, index: Sequence[Value], lanes: int, mask: Value | None) -> Value:
        """The operand at `lanes` places from (batch, outer, lane) on."""
        return bodies.emit(b, self.body, frame, index, lanes, mask)[-1]

    @property
    def is_load(self) -> bool:
        """Whether the body is a load and nothing more."""
        return len(self.body) == 1 and self.body[0].op == "load" and not self.body[0].args

    @property
    def place(self) -> Place:
        """Where such a load reads."""
        return self.arguments.places[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of its slots."""
        return 8 * len(self.arguments.slots)

    def structure(self) -> object:
        """What of it shapes code."""
        return self.way, self.body, self.arguments.structure()


def source(body: Sequence[Instr], operands: Sequence[Operand], way: str, *, width_dimension: int) -> Source:
    """The Source of an operand's body, whose index space has the width (m or n) at 1 or 2 and k at the other."""
    last = width_dimension if way == "columns" else 3 - width_dimension
    body = body if last == 2 else turned(body, (0, 2, 1))
    arguments = Arguments(operands, vector=2)
    return Source(arguments, arguments.bind(body), way)


def packing_way(body: Sequence[Instr], operands: Sequence[Operand], dtype: DType, unit: Unit, *, k: int, k_block: int,
                width_dimension: int) -> str:
    """How an operand is packed: along the dimension in which more of its loads are contiguous. k_block is in units."""
    k_dimension = 3 - width_dimension
    if k < _SMALL_K or contiguous(body, width_dimension) >= contiguous(body, k_dimension):
        return "columns"
    shortest = (k - 1) % (k_block * unit.depth) + 1
    if plain_access(body, operands, dtype, unit) is None or k % unit.depth or shortest < unit.lanes * unit.depth:
        return "staged"
    return "rows"


def plain_access(body: Sequence[Instr], operands: Sequence[Operand], dtype: DType, unit: Unit) -> Access | None:
    """The access of a body that only loads units as they are multiplied, else None."""
    if len(body) != 1 or body[0].op != "load" or body[0].args or dtype.size * unit.depth != unit.bytes:
        return None
    access: Access = body[0].attr  # type: ignore[assignment]
    return access if operands[access.operand].dtype is dtype else None


def contiguous(body: Sequence[Instr], dimension: int) -> int:
    """How many loads of a body move by one element along a dimension."""
    return sum(i.op == "load" and i.attr.strides[dimension] == 1 for i in body)  # type: ignore[union-attr]


def turned(body: Sequence[Instr], order: tuple[int, ...]) -> tuple[Instr, ...]:
    """A body over the index space whose dimension d is the old one's order[d]."""
    def turn(i: Instr) -> Instr:
        if i.op == "load":
            access: Access = i.attr  # type: ignore[assignment]
            return replace(i, attr=replace(access, strides=tuple(access.strides[d] for d in order)))
        return replace(i, attr=order.index(i.attr)) if i.op == "coord" else i  # type: ignore[arg-type]

    return tuple(turn(i) for i in body)


def step(b: Builder, args: Value, place: Place, dimension: int) -> Value:
    """Bytes from an element of a place to the next along a dimension; args is where the place's slots begin."""
    slot = place.strides[dimension]
    return b.const(I64, 0) if slot is None else b.mul(b.load(b.offset(args, 8 * slot), I64), place.dtype.size)


def address(b: Builder, args: Value, place: Place, index: Sequence[Value]) -> Value:
    """The address of a place's element, in a function that has no Frame of its slots."""
    at = b.load(b.offset(args, 8 * place.base), PTR)
    for dimension, i in enumerate(index):
        at = b.offset(at, b.mul(i, step(b, args, place, dimension)))
    return at
