"""Assemble: kernels get their operands' places, and a plan's items become the flat table that the driver walks."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence

import numpy as np

from renaissance.errors import PlanError
from renaissance.ir.plan import Buffer, Host, Item, Plan
from renaissance.ir.target import Target
from renaissance.kernels.lowered import Lowered
from renaissance.runtime.arena import Arena
from renaissance.runtime.cost import nominal, predicted_s
from renaissance.runtime.executable import Executable, Table
from renaissance.runtime.host_call import HostCall, Place
from renaissance.runtime.pool import driver, pool
from renaissance.runtime.values import Values

COPY_PIECE_BYTES = 256 << 10
MAX_CHUNKS = 1 << 31  # the driver counts chunks in 32 bits, with room for claims that come too late


@functools.cache
def arena() -> Arena:
    """The scratch arena of the process."""
    return Arena()


def assemble(plan: Plan, kernels: Sequence[Lowered], addresses: Sequence[int], target: Target, threads: int) -> Executable:
    """Make a plan ready whose kernels are in memory: one Lowered and one address for each item that is not a Host item.

    raises   PlanError for a plan that breaks its own rules, DeviceError when the machine lacks the memory
    """
    values = Values(_count(plan, "input"), len(plan.outputs), plan.scalars)
    table = _Assembler(plan, values, arena().require(plan.arena_bytes)).assemble(kernels, addresses)
    return Executable(plan, table, values, pool(threads), predicted_s=predicted_s(plan, nominal(target, threads)))


class _Assembler:
    """Writes the table of one plan: its rows, the argument blocks, and the list of slots to patch on each run."""

    def __init__(self, plan: Plan, values: Values, arena_address: int):
        self._plan = plan
        self._values = values
        self._arena_address = arena_address
        self._rows: list[tuple[int, int, int]] = []  # function, first slot of the block, chunks
        self._slots: list[int] = []
        self._patches: list[tuple[int, int, int]] = []  # slot, number of the value, bytes to add
        self._errors: list[int] = []  # slots that hold the address of the error word
        self._hosts: dict[int, HostCall] = {}
        self._scratch_bytes = 0

    def assemble(self, kernels: Sequence[Lowered], addresses: Sequence[int]) -> Table:
        """The table: row i is item i; after the items come the copies."""
        native_items = iter(zip(kernels, addresses, strict=True))
        for number, item in enumerate(self._plan.items):
            if isinstance(item.spec, Host):
                self._hosts[number] = HostCall(item, self._plan, self._place)
                self._rows.append((0, 0, 0))
            else:
                self._item(item, *next(native_items))
        self._copies()
        return Table(
            names=tuple(item.name for item in self._plan.items) + ("copy",) * (len(self._rows) - len(self._plan.items)),
            rows=self._rows, slots=_words(self._slots), patches=self._patches, errors=self._errors, hosts=self._hosts,
            commit=self._plan.commit, scratch_bytes=self._scratch_bytes,
        )

    def _item(self, item: Item, kernel: Lowered, address: int) -> None:
        if kernel.chunks >= MAX_CHUNKS:
            raise PlanError(f"{item.name}: {kernel.chunks} chunks; a launch has less than {MAX_CHUNKS}")
        self._scratch_bytes = max(self._scratch_bytes, kernel.scratch_bytes)
        self._rows.append((address, len(self._slots), kernel.chunks))
        for kind, *rest in kernel.slots:
            if kind == "operand":
                number, byte_offset = rest
                self._operand(self._plan.buffers[item.operands[number].buffer], byte_offset)
            elif kind == "scalar":
                self._patched(self._values.inputs + self._values.outputs + rest[0], 0)
            elif kind == "error":
                self._errors.append(len(self._slots))
                self._slots.append(0)
            elif kind == "float":
                self._slots.append(int.from_bytes(struct.pack("<d", rest[0]), "little"))
            elif kind == "int":
                self._slots.append(rest[0])
            else:
                raise PlanError(f"{item.name}: a kernel asks for a slot of kind {kind!r}")

    def _copies(self) -> None:
        """State updates, and outputs that the plan keeps elsewhere: those are copied only if the caller gives an address."""
        written: set[int] = set()
        for source, target in self._plan.copies:
            if source in written:
                raise PlanError(f"copies: buffer {source} is copied after it was overwritten by an earlier copy")
            written.add(target)
            self._copy(self._place(self._plan.buffers[target]), source)
        for number, source in enumerate(self._plan.outputs):
            buffer = self._plan.buffers[source]
            if (buffer.place, buffer.index) != ("output", number):
                self._copy(Place(self._values.inputs + number, 0), source)

    def _copy(self, to: Place, source: int) -> None:
        size = self._plan.buffers[source].size_bytes
        if size:
            self._rows.append((driver()["copy"], len(self._slots), -(-size // COPY_PIECE_BYTES)))
            self._placed(to, 0)
            self._operand(self._plan.buffers[source], 0)
            self._slots += [size, COPY_PIECE_BYTES]

    def _operand(self, buffer: Buffer, byte_offset: int) -> None:
        self._placed(self._place(buffer), byte_offset)

    def _placed(self, place: Place, byte_offset: int) -> None:
        if place.number is None:
            self._slots.append(place.offset + byte_offset)
        else:
            self._patched(place.number, place.offset + byte_offset)

    def _patched(self, number: int, addend: int) -> None:
        self._patches.append((len(self._slots), number, addend))
        self._slots.append(0)

    def _place(self, buffer: Buffer) -> Place:
        if buffer.place == "arena":
            return Place(None, self._arena_address + buffer.offset)
        if buffer.place == "input":
            return Place(buffer.index, buffer.offset)
        return Place(self._values.inputs + buffer.index, buffer.offset)


def _count(plan: Plan, place: str) -> int:
    return 1 + max((buffer.index for buffer in plan.buffers if buffer.place == place), default=-1)


def _words(values: Sequence[int]) -> np.ndarray:
    """Numbers as 64-bit words, signed or unsigned ones alike."""
    return np.array([v & (2**64 - 1) for v in values], np.uint64)
