"""The matrix products of an MLP's training step, each alone: GFLOP/s and share of the measured peak, with packing and epilogue.

Run as `python -m bench.gemm`. A product runs many times in one plan, on data it has seen before; the table gives the best of
several batches. The share of a product with few columns is low by arithmetic: 10 columns fill 10 of 16 lanes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench import peak
from bench.probe import cores
from bench.shapes import PERCEPTRONS
from renaissance.ir.dtype import DType, bfloat16, bool_, float32
from renaissance.ir.plan import Access, Buffer, Contraction, Instr, Item, Operand, Plan, Store
from renaissance.kernels.host import detect
from renaissance.kernels.lower import lower
from renaissance.kernels.print_llvm import print_module
from renaissance.runtime.jit import object_code
from renaissance.runtime.link import link
from renaissance.runtime.storage import Storage

ROUNDS = 12
SECONDS_PER_ROUND = 0.006
PRECISIONS = {"fp32": float32, "bf16": bfloat16}


@dataclass(frozen=True)
class Product:
    """A product to be timed: the item, and the shape of each of its operands."""

    kind: str
    m: int
    n: int
    k: int
    item: Item
    shapes: tuple[tuple[int, ...], ...]

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k


def load(operand: int, strides: tuple[int, int, int], of: DType) -> Instr:
    return Instr("load", (), Access(operand, strides), of)


def zero(of: DType) -> Instr:
    return Instr("const", (), np.zeros((), of.numpy).tobytes(), of)


def product(kind: str, m: int, n: int, k: int, of: DType, *, a: tuple[int, int], b: tuple[int, int], epilogue: list[Instr],
            more: list[tuple[DType, tuple[int, ...]]]) -> Product:
    """C = A @ B; a and b are the strides of A (m, k) and B (k, n), `more` the epilogue's operands from number 3 on."""
    out = epilogue[-1].dtype
    spec = Contraction(1, m, n, k, of, (load(0, (0, *a), of),), (load(1, (0, *b), of),), tuple(epilogue),
                       (Store(Access(2, (0, n, 1)), len(epilogue) - 1),))
    operands = [Operand(0, of, "in"), Operand(1, of, "in"), Operand(2, out, "out")]
    operands += [Operand(i, d, "in") for i, (d, _) in enumerate(more, 3)]
    return Product(kind, m, n, k, Item(kind, spec, tuple(operands)), ((m, k), (k, n), (m, n), *(s for _, s in more)))


def products(batch: int, widths: tuple[int, ...], of: DType) -> Iterator[Product]:
    """Of each layer: x @ W^T + bias, with relu but for the last; dY @ W where x > 0; dY^T @ x."""
    acc, narrow = Instr("acc", (), None, float32), of is bfloat16
    last = len(widths) - 2
    for i, (k, n) in enumerate(zip(widths, widths[1:])):
        body = [acc, load(3, (0, 0, 1), float32), Instr("add", (0, 1), None, float32)]
        if i < last:
            body += [zero(float32), Instr("maximum", (2, 3), None, float32)]
            body += [Instr("cast", (4,), None, of)] if narrow else []
        yield product("x @ W^T", batch, n, k, of, a=(k, 1), b=(1, k), epilogue=body, more=[(float32, (n,))])
    for k, n in zip(widths[:1:-1], widths[-2:0:-1]):
        body = [acc, load(3, (0, n, 1), of), zero(of), Instr("lt", (2, 1), None, bool_), zero(float32),
                Instr("where", (3, 0, 4), None, float32)]
        body += [Instr("cast", (5,), None, of)] if narrow else []
        yield product("dY @ W", batch, n, k, of, a=(k, 1), b=(n, 1), epilogue=body, more=[(of, (batch, n))])
    for n, m in zip(widths, widths[1:]):
        yield product("dY^T @ x", m, n, batch, of, a=(1, m), b=(n, 1), epilogue=[acc], more=[])


def seconds(product: Product, threads: int) -> float:
    """Time of one run on a pool of threads."""
    generator = np.random.default_rng(0)
    arrays = []
    for operand, shape in zip(product.item.operands, product.shapes):
        storage = Storage(int(np.prod(shape)) * operand.dtype.size)
        array = storage.view(operand.dtype, shape)
        array[...] = generator.standard_normal(shape)
        arrays.append(array)
    buffers = tuple(Buffer("input", i, 0, a.nbytes, o.dtype, a.shape)
                    for i, (a, o) in enumerate(zip(arrays, product.item.operands)))
    addresses = [a.ctypes.data for a in arrays]

    def timed(count: int) -> tuple[float, float]:
        plan = Plan((product.item,) * count, buffers, (), (), arena_bytes=0, commit=0, messages=())
        executable = link(plan, detect(), threads)
        times = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            executable.run(addresses, [])
            times.append((time.perf_counter() - began) / count)
        return min(times), times[0]

    return timed(max(3, min(2000, int(SECONDS_PER_ROUND / timed(3)[0]))))[0]


def compile_s(product: Product) -> float:
    """Processor time of making the product's object code, the best of three."""
    target = detect()
    times = []
    for _ in range(3):
        began = time.thread_time()
        object_code(print_module(lower(product.item, target, 2).build(), target), target)
        times.append(time.thread_time() - began)
    return min(times)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", nargs="?", choices=PERCEPTRONS, default="mlp")
    parser.add_argument("--precision", choices=tuple(PRECISIONS), help="only this one")
    parser.add_argument("--threads", type=int, nargs="*", default=sorted({1, cores()}))
    options = parser.parse_args()
    shape = PERCEPTRONS[options.shape]
    peaks = peak.measure()
    for name, of in PRECISIONS.items():
        if options.precision not in (None, name):
            continue
        per_core = peaks[name] / cores()
        print(f"{name}: peak {per_core / 1e9:.0f} GFLOP/s a core")
        total = dict.fromkeys(options.threads, 0.0)
        for p in products(shape.batch, shape.widths, of):
            cells = []
            for threads in options.threads:
                taken = seconds(p, threads)
                total[threads] += taken
                cells.append(f"{p.flops / taken / 1e9:7.0f} ({p.flops / taken / per_core / threads:4.0%})")
            print(f"  {p.kind:9} {p.m:5} {p.n:5} {p.k:5} " + " ".join(cells) + f"  compiled in {compile_s(p) * 1e3:.0f} ms")
        flops = sum(p.flops for p in products(shape.batch, shape.widths, of))
        print(f"  together {' ':19}" + " ".join(
            f"{flops / t / 1e9:7.0f} ({flops / t / per_core / n:4.0%})" for n, t in total.items()), flush=True)


if __name__ == "__main__":
    main()
