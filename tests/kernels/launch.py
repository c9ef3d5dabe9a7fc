"""Runs items of a plan the way a runtime does: lowered, compiled once for each key, chunk after chunk."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from renaissance.ir import dtype as dt
from renaissance.ir.dtype import DType
from renaissance.ir.plan import Access, Instr, Item, Operand, Spec, Store
from renaissance.ir.target import Target
from renaissance.kernels import run_python
from renaissance.kernels.lower import Lowered, lower
from tests.kernels.jit import TARGETS, Code

_GUARD_BYTES = 256
_codes: dict[tuple[str, str], Code] = {}


class Guarded:
    """A copy of an array with memory around it that must stay as it is: bytes 0xFF, which are NaN in every float format."""

    def __init__(self, array: np.ndarray):
        self.memory = np.full(array.nbytes + 2 * _GUARD_BYTES + 64, 0xFF, np.uint8)
        shift = -(self.memory.ctypes.data + _GUARD_BYTES) % 64
        self.start = _GUARD_BYTES + shift + array.itemsize  # an address that is a multiple of the item size and of nothing more
        inside = self.memory[self.start:self.start + array.nbytes]
        inside[:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self.array = inside.view(array.dtype).reshape(array.shape)

    def check(self) -> None:
        end = self.start + self.array.nbytes
        assert np.all(self.memory[:self.start] == 0xFF), "written before the array"
        assert np.all(self.memory[end:] == 0xFF), "written after the array"


def launch(item: Item, arrays: Sequence[np.ndarray], target: Target | None, *, threads: int = 1, scalars: Sequence = (),
           seed: int = 0, shared: dict[int, int] | None = None) -> tuple[list[np.ndarray], int]:
    """The arrays after the item has run, and the error word.

    target   None: the loop program is interpreted
    shared   operands whose memory is another operand's
    """
    lowered = lower(item, target or TARGETS[0], threads)
    call = _function(lowered, target)
    guarded = [Guarded(a) for a in arrays]
    for mirror, original in (shared or {}).items():
        guarded[mirror] = guarded[original]
    error = np.zeros(1, np.int64)
    block = np.zeros(len(lowered.slots) + 1, np.uint64)
    for n, slot in enumerate(lowered.slots):
        if slot[0] == "operand":
            block[n] = guarded[slot[1]].array.ctypes.data + slot[2]
        elif slot[0] == "int":
            block[n] = slot[1] & (2**64 - 1)
        elif slot[0] == "error":
            block[n] = error.ctypes.data
        else:
            raw = np.asarray(scalars[slot[1]], slot[2].numpy).tobytes()
            block[n:n + 1].view(np.uint8)[:len(raw)] = np.frombuffer(raw, np.uint8)
    scratch = np.full(lowered.scratch_bytes + 64, 0xFF, np.uint8)  # NaN in every float format
    at = scratch.ctypes.data + -scratch.ctypes.data % 64
    for chunk in np.random.default_rng(seed).permutation(lowered.chunks):
        call(lowered.symbol, block.ctypes.data, int(chunk), at)
    for g in guarded:
        g.check()
    return [g.array for g in guarded], int(error[0])


def _function(lowered: Lowered, target: Target | None) -> Callable[..., None]:
    if target is None:
        return functools.partial(run_python.run, lowered.build())
    key = lowered.key, target.isa
    if key not in _codes:
        _codes[key] = Code(lowered.build(), target)
    return _codes[key].call


class Body:
    """Writes instructions; each method returns the number of the one it wrote."""

    def __init__(self) -> None:
        self.instrs: list[Instr] = []

    def add(self, op: str, args: tuple[int, ...] = (), attr: object = None, dtype: DType = dt.float32) -> int:
        self.instrs.append(Instr(op, args, attr, dtype))  # type: ignore[arg-type]
        return len(self.instrs) - 1

    def load(self, operand: int, strides: tuple[int, ...], dtype: DType = dt.float32, *, offset: int = 0,
             mask: int | None = None) -> int:
        return self.add("load", () if mask is None else (mask,), Access(operand, strides, offset), dtype)

    def const(self, value: float, dtype: DType = dt.float32) -> int:
        return self.add("const", (), np.asarray(value).astype(dtype.numpy).tobytes(), dtype)

    def coord(self, dimension: int) -> int:
        return self.add("coord", (), dimension, dt.int64)

    @property
    def done(self) -> tuple[Instr, ...]:
        return tuple(self.instrs)


def store(operand: int, strides: tuple[int, ...], value: int, offset: int = 0) -> Store:
    return Store(Access(operand, strides, offset), value)


def item(spec: Spec, ins: Sequence[DType], outs: Sequence[DType]) -> Item:
    """An item whose operands are its inputs, then its outputs."""
    operands = [Operand(i, d, "in") for i, d in enumerate(ins)]
    operands += [Operand(len(ins) + i, d, "out") for i, d in enumerate(outs)]
    return Item("test", spec, tuple(operands))
