"""The most this machine computes: independent multiply-adds in registers, on every core at once.

Run as `python -m bench.peak`; prints floating-point operations per second for fp32 and bf16 as one line of JSON. A CPU without a
dot product of bfloat16 pairs multiplies bfloat16 in float32, so its two peaks are equal.
"""

from __future__ import annotations

import ctypes
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import llvmlite.binding as llvm

from bench.probe import cores

TRIES = 7
SECONDS_PER_TRY = 0.1


@dataclass(frozen=True)
class Instruction:
    """A vector multiply-add as LLVM names it.

    intrinsic    its name
    order        how %a, %b and the accumulator {acc} are given to it
    accumulator  LLVM type of the accumulator, `operand` of %a and %b
    chains       independent accumulators: enough to hide its latency, few enough for the registers
    flops        floating-point operations of one
    """

    intrinsic: str
    order: str
    accumulator: str
    operand: str
    chains: int
    flops: int


def instructions(features: dict[str, bool]) -> dict[str, Instruction]:
    """What to time on a CPU with these LLVM features, by precision."""
    lanes = 16 if features.get("avx512f") else 8 if features.get("avx2") else 4
    chains = 24 if features.get("avx512f") else 12
    vector = f"<{lanes} x float>"
    fp32 = Instruction(f"llvm.fma.v{lanes}f32", f"{vector} %a, {vector} %b, {vector} {{acc}}", vector, vector, chains, 2 * lanes)
    if not features.get("avx512bf16"):
        return {"fp32": fp32, "bf16": fp32}
    pairs = "<32 x bfloat>"
    bf16 = Instruction("llvm.x86.avx512bf16.dpbf16ps.512", f"{vector} {{acc}}, {pairs} %a, {pairs} %b", vector, pairs, chains, 64)
    return {"fp32": fp32, "bf16": bf16}


def assembly(op: Instruction) -> str:
    """LLVM assembly of `void chains(i64 turns, ptr operands, ptr result)`.

    The operands are loaded and the accumulators' sum is stored, so that nothing can be computed beforehand or left out.
    """
    acc, chains = op.accumulator, range(op.chains)
    phis = [f"  %acc{i} = phi {acc} [ zeroinitializer, %entry ], [ %new{i}, %body ]" for i in chains]
    calls = [f"  %new{i} = call {acc} @{op.intrinsic}({op.order.format(acc=f'%acc{i}')})" for i in chains]
    sums = [f"  %sum{i} = fadd {acc} {f'%sum{i - 1}' if i else 'zeroinitializer'}, %new{i}" for i in chains]
    types = ", ".join(argument.rsplit(" ", 1)[0] for argument in op.order.split(", "))
    return "\n".join([
        f"declare {acc} @{op.intrinsic}({types})",
        "define void @chains(i64 %turns, ptr %operands, ptr %result) {",
        "entry:",
        f"  %a = load {op.operand}, ptr %operands, align 4",
        "  %second = getelementptr i8, ptr %operands, i64 64",
        f"  %b = load {op.operand}, ptr %second, align 4",
        "  br label %body",
        "body:",
        "  %turn = phi i64 [ 0, %entry ], [ %next, %body ]",
        *phis, *calls,
        "  %next = add i64 %turn, 1",
        "  %more = icmp slt i64 %next, %turns",
        "  br i1 %more, label %body, label %done",
        "done:",
        *sums,
        f"  store {acc} %sum{op.chains - 1}, ptr %result, align 4",
        "  ret void",
        "}",
    ])


def turns_per_second(chains: Callable[..., None], turns: int) -> float:
    """Turns of the native function `chains` that all cores together make in a second, each making `turns` of them at once.

    Each thread is timed by the processor time it got, so that what other programs take meanwhile does not count.
    """
    start = threading.Barrier(cores())
    seconds: list[float] = []

    def work() -> None:
        operands, result = ctypes.create_string_buffer(128), ctypes.create_string_buffer(64)
        start.wait()
        began = time.thread_time()
        chains(turns, operands, result)
        seconds.append(time.thread_time() - began)

    threads = [threading.Thread(target=work) for _ in range(cores())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(turns / each for each in seconds)


def measure() -> dict[str, float]:
    """Peak of all cores together in flops per second, by precision: the best of several tries."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    peaks = {}
    for precision, op in instructions(features).items():
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=2)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(assembly(op)), machine)
        engine.finalize_object()
        native = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address("chains"))
        turns = int(turns_per_second(native, 1_000_000) / cores() * SECONDS_PER_TRY)
        best = max(turns_per_second(native, turns) for _ in range(TRIES))
        peaks[precision] = best * op.chains * op.flops
    return peaks


if __name__ == "__main__":
    print(json.dumps(measure()))
