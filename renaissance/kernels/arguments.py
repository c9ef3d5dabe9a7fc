"""The argument block of a kernel: filled while lowering (Arguments), read at the kernel's entry (Frame).

Everything that differs between two items of the same pattern goes here: addresses, strides, extents, constants, scalars. What is
left of a body after that - slot numbers in place of values - is the pattern, and the pattern is what is compiled and cached.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from renaissance.ir.dtype import DType, bool_, uint64
from renaissance.ir.plan import Access, Instr, Operand
from renaissance.kernels.loops import I64, PTR, Builder, Type, Value
from renaissance.kernels.lowered import Slot
from renaissance.kernels.numbers import memory, register

__all__ = ["Arguments", "Frame", "Place", "register"]

_SLOT_BYTES = 8
# Words whose second argument shapes the code when it is a constant: division by it, a chain of products, a fixed shift.
_SPECIALISED = ("floordiv", "mod", "pow", "shl", "shr")
_INLINE = (0.0, 1.0, -1.0, 2.0, 0.5)  # constants that let LLVM drop operations; others are slots so that kernels are shared
_ROWS = {0: "same", 1: "next", 2: "second"}
_NEAR = 1 << 24  # element strides up to here let 64 lanes be numbered in 32 bits


@dataclass(frozen=True)
class Place:
    """An Access as a kernel sees it: where the block holds its address and its strides (None: the stride is 0).

    row is the class of the stride along the vector dimension: 'same' (0), 'next' (1), 'second' (2), 'near' (one that lets lanes
    be numbered in 32 bits), 'far'.
    """

    operand: int
    dtype: DType
    base: int
    strides: tuple[int | None, ...]
    row: str


class Table(NamedTuple):
    """What a kernel picks elements from by number: element `number + shift` (shift 0 or 1) behind the address in a slot."""

    slot: int
    dtype: DType
    shift: int


class Arguments:
    """Collects slots. `vector` is the dimension of the index space that lies along the lanes."""

    def __init__(self, operands: Sequence[Operand], vector: int):
        self.operands = operands
        self.vector = vector
        self.slots: list[Slot] = []
        self.types: list[Type] = []
        self.places: list[Place] = []
        self._known: dict[object, int] = {}

    def slot(self, slot: Slot, type: Type) -> int:
        """Append a slot that the kernel reads as `type`; its number."""
        self.slots.append(slot)
        self.types.append(type)
        return len(self.slots) - 1

    def int(self, value: int) -> int:
        return self.slot(("int", int(value)), I64)

    def operand(self, number: int, element: int = 0) -> int:
        """The slot of the address of an operand's element."""
        offset_bytes = element * self.operands[number].dtype.size
        return self._once(("operand", number, element), ("operand", number, offset_bytes), PTR)

    def scalar(self, number: int, dtype: DType) -> int:
        """The slot of a run-time scalar, read in its memory form."""
        return self._once(("scalar", number), ("scalar", number, dtype), memory(dtype))

    def error(self) -> int:
        return self._once("error", ("error",), PTR)

    def place(self, access: Access) -> int:
        """The number of an access's Place; equal accesses have one."""
        found = self._known.get(access)
        if found is None:
            dtype = self.operands[access.operand].dtype
            base = self.slot(("operand", access.operand, access.offset * dtype.size), PTR)
            strides = tuple(None if s == 0 else self.int(s) for s in access.strides)
            along = access.strides[self.vector]
            row = _ROWS.get(along) or ("near" if abs(along) <= _NEAR else "far")
            self.places.append(Place(access.operand, dtype, base, strides, row))
            found = self._known[access] = len(self.places) - 1
        return found

    def output(self, access: Access) -> int:
        """The number of the Place of an access that is written.

        No element is written at two points, so a stride of 0 along the lanes means that there is one point: any stride will do,
        and 1 lets it be stored as a vector under a mask like the others.
        """
        strides = list(access.strides)
        strides[self.vector] = strides[self.vector] or 1
        return self.place(replace(access, strides=tuple(strides)))

    def bind(self, body: Sequence[Instr]) -> tuple[Instr, ...]:
        """The body with attrs turned into numbers of places and slots: its pattern, which `body.emit` takes."""
        picked = {(i.attr, i.args) for i in body if i.op == "load_at"}
        return tuple(replace(i, attr=self._table(i, picked) if i.op == "load_at" else self._attribute(n, i, body))
                     for n, i in enumerate(body))

    def _table(self, instr: Instr, picked: set[tuple[Hashable, tuple[int, ...]]]) -> Table:
        """How a load_at is bound. Of elements that are picked side by side, every second is known as the other's neighbour."""
        access: Access = instr.attr  # type: ignore[assignment]
        before = access.offset
        while (replace(access, offset=before - 1), instr.args) in picked:
            before -= 1
        shift = (access.offset - before) % 2
        return Table(self.operand(access.operand, access.offset - shift), self.operands[access.operand].dtype, shift)

    def _attribute(self, number: int, instr: Instr, body: Sequence[Instr]) -> object:
        attr = instr.attr
        if instr.op == "load":
            return self.place(attr)  # type: ignore[arg-type]
        if instr.op == "scalar":
            return self.scalar(attr, instr.dtype)  # type: ignore[arg-type]
        if instr.op == "philox":
            return tuple(self._halves(s) for s in attr)  # type: ignore[union-attr]
        if instr.op == "check":
            return (self.error(), self.int(attr + 1))  # type: ignore[operator]
        if instr.op == "const":
            return self._constant(number, instr, body)
        return attr

    def _halves(self, number: int) -> int:
        """A 64-bit scalar (seed or ticket)."""
        return self._once(("scalar64", number), ("scalar", number, uint64), I64)

    def _constant(self, number: int, instr: Instr, body: Sequence[Instr]) -> object:
        """('inline', bits) or the number of a slot."""
        value = np.frombuffer(instr.attr, instr.dtype.numpy)[0]  # type: ignore[call-overload]
        bits = int.from_bytes(instr.attr, "little")  # type: ignore[arg-type]
        shapes_code = any(i.op in _SPECIALISED and number in i.args[1:] for i in body)
        if shapes_code or instr.dtype is bool_ or not math.isfinite(float(value)) or float(value) in _INLINE:
            return ("inline", bits)
        return self.slot(("int", bits), memory(instr.dtype))

    def _once(self, name: object, slot: Slot, type: Type) -> int:
        if name not in self._known:
            self._known[name] = self.slot(slot, type)
        return self._known[name]

    def structure(self) -> object:
        """What of the block shapes the code."""
        return tuple(self.places), tuple(self.types)


class Frame:
    """The argument block inside a kernel: every slot's value, loaded at the entry so that all loops may use it.

    args  where the block is; None: where the parameter of that name says
    """

    def __init__(self, b: Builder, arguments: Arguments, args: Value | None = None):
        args = b.param("args") if args is None else args
        self.b = b
        self.vector = arguments.vector
        self.places = arguments.places
        self.values = [b.load(b.offset(args, _SLOT_BYTES * n), type) for n, type in enumerate(arguments.types)]

    def __getitem__(self, slot: int) -> Value:
        return self.values[slot]

    def address(self, place: int, index: Sequence[Value | None], ahead: int = 0) -> Value:
        """The address of a place's element at an index of the space (None stands for 0), and `ahead` further along the vectors.

        The vector dimension is added last, so that the rest does not change in a loop along it.
        """
        b, p = self.b, self.places[place]
        at = self.values[p.base]
        for d in sorted(range(len(p.strides)), key=lambda d: d == self.vector):
            stride, i = p.strides[d], index[d]
            if stride is not None and i is not None:
                elements = i if d == self.vector and p.row == "next" else b.mul(i, self.values[stride])
                at = b.offset(at, b.mul(elements, p.dtype.size))
        along = p.strides[self.vector]
        if along is None or ahead == 0:
            return at
        bytes_ahead = ahead * p.dtype.size
        return b.offset(at, bytes_ahead if p.row == "next" else b.mul(self.values[along], bytes_ahead))
