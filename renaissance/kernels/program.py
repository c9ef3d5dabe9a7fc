"""What a loop program is made of: types, values, and the records of operations, loops and branches. `loops` makes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from renaissance.errors import KernelError

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f32": 32, "f64": 64, "bf16": 16, "f16": 16, "ptr": 64}
_FLOATS = frozenset(("f32", "f64", "bf16", "f16"))


@dataclass(frozen=True, slots=True)
class Type:
    """A number kind, or a vector of `lanes` of them; lanes == 1 is a scalar."""

    kind: str
    lanes: int = 1

    @property
    def is_float(self) -> bool:
        return self.kind in _FLOATS

    @property
    def is_int(self) -> bool:
        return self.kind[0] == "i"

    @property
    def bits(self) -> int:
        """Bits of one lane."""
        return BITS[self.kind]

    @property
    def size(self) -> int:
        """Bytes of one lane in memory."""
        return (BITS[self.kind] + 7) // 8

    def with_kind(self, kind: str) -> Type:
        return Type(kind, self.lanes)

    def with_lanes(self, lanes: int) -> Type:
        return Type(self.kind, lanes)

    def __repr__(self) -> str:
        return self.kind if self.lanes == 1 else f"{self.kind}x{self.lanes}"


I1, I8, I16, I32, I64 = (Type(k) for k in ("i1", "i8", "i16", "i32", "i64"))
F32, F64, BF16, PTR = (Type(k) for k in ("f32", "f64", "bf16", "ptr"))


def vec(kind: str, lanes: int) -> Type:
    """The vector type of `lanes` numbers of `kind`."""
    return Type(kind, lanes)


class Value:
    """One SSA value. `bits` of a constant are those of its lanes (one int when all lanes are equal), else None."""

    __slots__ = ("type", "number", "bits")

    def __init__(self, type: Type, number: int, bits: int | tuple[int, ...] | None = None):
        self.type = type
        self.number = number
        self.bits = bits

    def __repr__(self) -> str:
        return f"%{self.number}:{self.type!r}" if self.bits is None else f"{self.bits}:{self.type!r}"


Number = int | float | bool
Operand = Value | Number


class Statement:
    """One operation: `op` on `args` with a static `attr`, giving `result` (None for stores)."""

    __slots__ = ("op", "args", "attr", "result")

    def __init__(self, op: str, args: tuple[Value, ...], attr: object, result: Value | None):
        self.op = op
        self.args = args
        self.attr = attr
        self.result = result


class Loop:
    """`for index in range(lo, hi, step)` with carried values; `results` are the carried values after the last turn.

    `next(values)` at the end of the body gives the carried values of the next turn. The bound is tested before the first turn;
    `step` is positive.
    """

    __slots__ = ("lo", "hi", "step", "index", "init", "carried", "body", "following", "closed")

    def __init__(self, lo: Value, hi: Value, step: Value, index: Value, init: tuple[Value, ...], carried: tuple[Value, ...]):
        self.lo, self.hi, self.step = lo, hi, step
        self.index = index
        self.init = init
        self.carried = carried
        self.body: list[Node] = []
        self.following: tuple[Value, ...] = ()
        self.closed = False

    def next(self, values: Sequence[Value]) -> None:
        """State the carried values of the next turn: as many as carried, of the same types."""
        if [v.type for v in values] != [c.type for c in self.carried]:
            raise KernelError(f"loop: carried {[c.type for c in self.carried]}, next got {[v.type for v in values]}")
        self.following = tuple(values)

    @property
    def results(self) -> tuple[Value, ...]:
        if not self.closed:
            raise KernelError("loop: results are known only after the loop's block has ended")
        return self.carried


class Branch:
    """Runs `then` where the scalar i1 `condition` is true, else `otherwise`."""

    __slots__ = ("condition", "then", "otherwise")

    def __init__(self, condition: Value):
        self.condition = condition
        self.then: list[Node] = []
        self.otherwise: list[Node] = []


Node = Statement | Loop | Branch


def number_bits(kind: str, value: Number) -> int:
    """The bits of a number in a kind: floats rounded to nearest even, integers wrapped."""
    if kind == "f64":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    if kind == "f32":
        with np.errstate(over="ignore"):
            return int(np.float32(value).view(np.uint32))
    if kind == "bf16":
        return int(ml_dtypes.bfloat16(value).view(np.uint16))
    if kind == "f16":
        return int(np.float16(value).view(np.uint16))
    if isinstance(value, float) and not value.is_integer():
        raise KernelError(f"const: {value!r} is not an integer, but the type is {kind}")
    return int(value) & ((1 << BITS[kind]) - 1)
