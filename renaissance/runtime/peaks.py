"""The peaks of this machine, measured: multiply-adds in float32 and bfloat16, and reading from memory."""

from __future__ import annotations

import ctypes
import functools
import time

import numpy as np

from renaissance.errors import DeviceError
from renaissance.ir.plan import Plan
from renaissance.ir.target import Target
from renaissance.runtime import pages
from renaissance.runtime.cost import Peaks
from renaissance.runtime.executable import Executable, Table
from renaissance.runtime.jit import Source, compiler
from renaissance.runtime.pool import pool
from renaissance.runtime.values import Values

_TURNS = 100_000  # loop turns of a chunk: about a millisecond
_CHUNKS_PER_THREAD = 4
_READ_BYTES = 256 << 20  # several times the last-level cache
_READ_PIECE_BYTES = 1 << 20
_REPEATS = 5
_NOTHING = Plan(items=(), buffers=(), scalars=(), outputs=(), arena_bytes=0, commit=0, messages=())


@functools.cache
def measure(target: Target, threads: int) -> Peaks:
    """The peaks that a pool of `threads` threads reaches; measured once per process, in about a third of a second.

    returns  flops per second (a multiply-add is 2) and bytes per second
    raises   DeviceError when there is no memory to read
    """
    f32 = _flops_per_s("peak_f32", target, threads, dot=False)
    bf16 = _flops_per_s("peak_bf16", target, threads, dot=True) if target.bf16_dot else f32
    return Peaks(f32, bf16, _bytes_per_s(target, threads))


def _flops_per_s(name: str, target: Target, threads: int, *, dot: bool) -> float:
    chains = 8 if target.registers < 32 else 16
    chunks = threads * _CHUNKS_PER_THREAD
    source = Source(name, name, lambda: _chains_text(name, target, chains, dot))
    seconds = _best_s(source, [_TURNS], chunks, target, threads)
    return chunks * _TURNS * chains * target.lanes * (4 if dot else 2) / seconds


def _bytes_per_s(target: Target, threads: int) -> float:
    address = pages.allocate(_READ_BYTES)
    if address is None:
        raise DeviceError(f"{_READ_BYTES >> 20} MiB of memory needed to measure its speed; the system refused")
    ctypes.memset(address, 1, _READ_BYTES)
    chunks = _READ_BYTES // _READ_PIECE_BYTES
    try:
        source = Source("peak_read", "peak_read", lambda: _read_text("peak_read", target))
        seconds = _best_s(source, [address, _READ_PIECE_BYTES], chunks, target, threads)
    finally:
        pages.release(address, _READ_BYTES)
    return _READ_BYTES / seconds


def _best_s(source: Source, arguments: list[int], chunks: int, target: Target, threads: int) -> float:
    """The shortest time of a launch of `chunks` chunks of a kernel."""
    (function,) = compiler().load([source], target)
    table = Table(
        names=(source.symbol,), rows=[(function, 0, chunks)], slots=np.array(arguments, np.uint64), patches=[], errors=[],
        hosts={}, commit=1, scratch_bytes=target.vector_bytes,
    )
    executable = Executable(_NOTHING, table, Values(0, 0, ()), pool(threads), predicted_s=0.0)
    times = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        executable.run((), ())
        times.append(time.perf_counter() - began)
    return min(times)


def _chains_text(name: str, target: Target, chains: int, dot: bool) -> str:
    """A kernel of independent chains of multiply-adds; the argument is the number of turns."""
    vector = f"<{target.lanes} x float>"
    pairs = f"<{2 * target.lanes} x bfloat>"
    steps = {
        "dot": f"call {vector} @llvm.x86.avx512bf16.dpbf16ps.{8 * target.vector_bytes}"
               f"({vector} %a{{k}}, {pairs} %x, {pairs} %x)",
        "fma": f"call {vector} @llvm.fma.v{target.lanes}f32({vector} %x, {vector} %x, {vector} %a{{k}})",
    }
    operation = "dot" if dot else "fma"
    operand = pairs if dot else vector
    declared = {
        "dot": f"declare {vector} @llvm.x86.avx512bf16.dpbf16ps.{8 * target.vector_bytes}({vector}, {pairs}, {pairs})",
        "fma": f"declare {vector} @llvm.fma.v{target.lanes}f32({vector}, {vector}, {vector})",
    }
    phis = "\n".join(f"  %a{k} = phi {vector} [zeroinitializer, %entry], [%b{k}, %turn]" for k in range(chains))
    body = "\n".join(f"  %b{k} = {steps[operation].format(k=k)}" for k in range(chains))
    stores = "\n".join(f"  store volatile {vector} %b{k}, ptr %scratch, align {target.vector_bytes}" for k in range(chains))
    return f"""
{declared[operation]}
define void @{name}(ptr %arguments, i64 %chunk, ptr %scratch) nounwind {{
entry:
  %turns = load i64, ptr %arguments, align 8
  store {operand} zeroinitializer, ptr %scratch, align {target.vector_bytes}
  %x = load volatile {operand}, ptr %scratch, align {target.vector_bytes}
  br label %turn
turn:
  %i = phi i64 [0, %entry], [%i1, %turn]
{phis}
{body}
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %turns
  br i1 %more, label %turn, label %end
end:
{stores}
  ret void
}}
"""


def _read_text(name: str, target: Target) -> str:
    """A kernel that reads piece `chunk` of a range; arguments are its address and the bytes of a piece."""
    vector, width, chains = f"<{target.lanes} x i32>", target.vector_bytes, 4
    phis = "\n".join(f"  %a{k} = phi {vector} [zeroinitializer, %entry], [%b{k}, %turn]" for k in range(chains))
    loads = "\n".join(
        f"  %p{k} = getelementptr i8, ptr %row, i64 {k * width}\n  %v{k} = load {vector}, ptr %p{k}, align {width}\n"
        f"  %b{k} = xor {vector} %a{k}, %v{k}" for k in range(chains)
    )
    stores = "\n".join(f"  store volatile {vector} %b{k}, ptr %scratch, align {width}" for k in range(chains))
    return f"""
define void @{name}(ptr %arguments, i64 %chunk, ptr %scratch) nounwind {{
entry:
  %base = load ptr, ptr %arguments, align 8
  %piece.at = getelementptr i8, ptr %arguments, i64 8
  %piece = load i64, ptr %piece.at, align 8
  %skip = mul i64 %chunk, %piece
  %start = getelementptr i8, ptr %base, i64 %skip
  br label %turn
turn:
  %i = phi i64 [0, %entry], [%i1, %turn]
{phis}
  %row = getelementptr i8, ptr %start, i64 %i
{loads}
  %i1 = add i64 %i, {chains * width}
  %more = icmp ult i64 %i1, %piece
  br i1 %more, label %turn, label %end
end:
{stores}
  ret void
}}
"""
