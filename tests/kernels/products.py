"""Products to test the contraction schedule with: how they are stated as an Item, run chunk by chunk, and what they must give."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from renaissance.ir.dtype import DType, float32, float64
from renaissance.ir.plan import Access, Contraction, Instr, Item, Operand, Store
from renaissance.ir.target import Target
from renaissance.kernels.lowered import Lowered
from renaissance.kernels.schedules.contraction import lower_contraction
from tests.kernels.jit import Code

_codes: dict[tuple[str, Target], Code] = {}
_mprotect = ctypes.CDLL(None).mprotect


class Buffer:
    """An array that ends at a page that cannot be touched; the bytes before it are watched.

    Its address is a multiple of its item's size and of nothing more.
    """

    def __init__(self, values: np.ndarray):
        values = np.ascontiguousarray(values)
        room = -(-(values.nbytes + 64) // mmap.PAGESIZE) * mmap.PAGESIZE
        self.pages = mmap.mmap(-1, room + mmap.PAGESIZE)
        memory = np.frombuffer(self.pages, np.uint8)
        assert _mprotect(ctypes.c_void_p(memory.ctypes.data + room), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
        start = room - values.nbytes
        self.before = memory[:start]
        self.before[:] = 255
        self.array = memory[start:room].view(values.dtype).reshape(values.shape)
        self.array[...] = values

    def check(self) -> None:
        assert (self.before == 255).all(), "written before an operand"


@dataclass(frozen=True)
class Form:
    """How A (m, k) and B (k, n) lie in memory: 'n' row by row, 't' column by column, 's' row by row with every second element."""

    a: str
    b: str


FORMS = [Form(a, b) for a in "nt" for b in "nt"]


def strides(layout: str, rows: int, columns: int) -> tuple[int, int, int]:
    """(batch, row, column) strides of a matrix stored in a layout."""
    if layout == "n":
        return rows * columns, columns, 1
    return (rows * columns, 1, rows) if layout == "t" else (2 * rows * columns, 2 * columns, 2)


def stored(matrix: np.ndarray, layout: str) -> np.ndarray:
    """A batch of matrices as it lies in memory."""
    if layout == "t":
        return matrix.swapaxes(1, 2)
    return matrix if layout == "n" else np.repeat(matrix, 2, axis=2)


def load(operand: int, at: tuple[int, ...], of: DType) -> Instr:
    return Instr("load", (), Access(operand, at), of)


def constant(value: float, of: DType = float32) -> Instr:
    return Instr("const", (), np.asarray(value, of.numpy).tobytes(), of)


def product(form: Form, m: int, n: int, k: int, of: DType, *, batch: int = 1) -> Item:
    """C = A @ B with operands 0, 1 and 2, C in the accumulator's dtype."""
    out = float64 if of is float64 else float32
    spec = Contraction(
        batch, m, n, k, of, (load(0, strides(form.a, m, k), of),), (load(1, strides(form.b, k, n), of),),
        (Instr("acc", (), None, out),), (Store(Access(2, (m * n, n, 1)), 0),))
    return Item("product", spec, (Operand(0, of, "in"), Operand(1, of, "in"), Operand(2, out, "out")))


def with_epilogue(item: Item, body: Sequence[Instr], stores: Iterable[tuple[int, tuple[int, ...], int]],
                  operands: Sequence[DType], outputs: Iterable[int]) -> Item:
    """An item with another epilogue; `stores` are (operand, strides, instruction), `operands` the dtypes from operand 2 on."""
    spec: Contraction = item.spec  # type: ignore[assignment]
    outs = set(outputs)
    more = tuple(Operand(i, d, "out" if i in outs else "in") for i, d in enumerate(operands, 2))
    return replace(item, operands=(*item.operands[:2], *more), spec=replace(
        spec, epilogue=tuple(body), stores=tuple(Store(Access(o, s), v) for o, s, v in stores)))


def matrices(m: int, n: int, k: int, of: DType, *, batch: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((batch, m, k)).astype(of.numpy), rng.standard_normal((batch, k, n)).astype(of.numpy))


def code(lowered: Lowered, target: Target) -> Code:
    found = _codes.get((lowered.key, target))
    if found is None:
        found = _codes[lowered.key, target] = Code(lowered.build(), target)
    return found


def launch(item: Item, arrays: Sequence[np.ndarray], target: Target, *, threads: int = 1, backwards: bool = False,
           scalars: Sequence[int | float] = (), same: Sequence[tuple[int, int]] = ()) -> list[np.ndarray]:
    """Run an item on copies of arrays, one for each operand, and give them back; `same` pairs are one buffer."""
    lowered = lower_contraction(item, target, threads)
    buffers = [Buffer(a) for a in arrays]
    for output, input in same:
        buffers[output] = buffers[input]
    error = np.zeros(1, np.int64)
    block = np.zeros(max(len(lowered.slots), 1), np.uint64)
    for i, slot in enumerate(lowered.slots):
        block[i] = _bits(slot, buffers, scalars, error)
    scratch = np.full(lowered.scratch_bytes + 128, 255, np.uint8)  # NaN in every format
    start = -scratch.ctypes.data % 64
    kernel = code(lowered, target)
    order = range(lowered.chunks)
    for chunk in reversed(order) if backwards else order:
        kernel.call(lowered.symbol, block.ctypes.data, chunk, scratch.ctypes.data + start)
    assert (scratch[:start] == 255).all() and (scratch[start + lowered.scratch_bytes:] == 255).all(), "written outside scratch"
    for b in buffers:
        b.check()
    assert error[0] == 0
    return [b.array for b in buffers]


def _bits(slot: tuple, buffers: Sequence[Buffer], scalars: Sequence[int | float], error: np.ndarray) -> int:
    if slot[0] == "operand":
        return buffers[slot[1]].array.ctypes.data + slot[2]
    if slot[0] == "int":
        return slot[1] % 2**64
    if slot[0] == "error":
        return error.ctypes.data
    return int.from_bytes(np.asarray(scalars[slot[1]], slot[2].numpy).tobytes(), "little")


def run_product(form: Form, size: tuple[int, int, int], of: DType, target: Target, *, batch: int = 1, threads: int = 1,
                backwards: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B as (batch, row, column), and the C that came out; size is (m, n, k)."""
    m, n, k = size
    item = product(form, m, n, k, of, batch=batch)
    a, b = matrices(m, n, k, of, batch=batch)
    c = np.full((batch, m, n), np.nan, item.operands[2].dtype.numpy)
    return a, b, launch(item, [stored(a, form.a), stored(b, form.b), c], target, threads=threads, backwards=backwards)[2]


def chain(a: np.ndarray, b: np.ndarray, *, pairs: bool = False) -> np.ndarray:
    """The sums as defined: one chain of float32 multiply-adds in k order; in a bfloat16 dot product, k + 1 before an even k.

    An extended float holds every product exactly and rounds once more only where 40 bits agree: as good as an fma.
    """
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    total = np.zeros((*a.shape[:2], b.shape[2]), np.float32)
    k = a.shape[2]
    order: Iterable[int] = [j for i in range(0, k, 2) for j in (i + 1, i) if j < k] if pairs else range(k)
    for i in order:
        total = (a[:, :, i:i + 1] * b[:, i:i + 1, :] + total).astype(np.float32)
    return total


def same_bits(x: np.ndarray, y: np.ndarray) -> bool:
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
