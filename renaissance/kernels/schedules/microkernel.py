"""The register tile of every contraction: rows x vectors accumulators, one multiply-add chain each, in k order.

    c[m, :] (+)= sum over k of a[m, k] * b[k, :]        m < rows, `vectors` vectors of columns

The tile is a function of its own in each object, called once per tile and block of k. Sums come from and go to memory, a small
tile of scratch or the result itself, so that one chain can go on over several blocks of k and the epilogue stays out of the
unrolled code. 28 accumulators, two vectors of b and one broadcast of a are 31 of 32 registers; with 16 registers it is 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from renaissance.ir.dtype import DType, bfloat16, float64
from renaissance.ir.target import Target
from renaissance.kernels.loops import I64, PTR, Builder, Module, Type, Value, vec


@dataclass(frozen=True)
class Unit:
    """What one step of the k loop takes from each row and column.

    kind   kind of the accumulators and of a packed unit in memory: 'f32' or 'f64'
    depth  k elements in a unit: 2 where bfloat16 pairs enter a dot product, else 1
    lanes  units in a vector
    """

    kind: str
    depth: int
    lanes: int

    @property
    def bytes(self) -> int:
        return Type(self.kind).size

    @property
    def vector(self) -> Type:
        return vec(self.kind, self.lanes)


def unit_for(dtype: DType, target: Target) -> Unit:
    """How a Target multiplies operands of a dtype.

    bfloat16 takes pairs on Targets with a bfloat16 dot product (k + 1 is added before k, subnormal numbers count as 0); elsewhere
    it is multiplied as float32, k before k + 1, so the bits of a bfloat16 contraction belong to the Target.
    """
    if dtype is float64:
        return Unit("f64", 1, target.vector_bytes // 8)
    return Unit("f32", 2 if dtype is bfloat16 and target.bf16_dot else 1, target.lanes)


def microkernel(module: Module, name: str, unit: Unit, *, rows: int, vectors: int, a_width: int, direct: bool,
                in_runs: bool = False, adds: bool = False, asks: bool = False, aligned: bool = True) -> Builder:
    """Add the function of one register tile to a module.

    Its parameters: a (row m, unit k at a + m*a_row + k*a_k bytes if `direct`, else packed [k][a_width]), b (packed
    [k][vectors * lanes]), c (where the sums go, c_row bytes from one row to the next), k (units), resume (1: go on from the sums
    in c; 0: start from 0).

    in_runs  k is made of `runs` runs of k units each; run i begins at a + table[i] bytes: two parameters more
    adds     start from 0 in any case; where `resume` is 1 add the sums to those in c at the end: the loads hide behind the work
    asks     ask for a cache line in each step, so that memory is read meanwhile: at `ask`, ask_step bytes on each time; two
             parameters more
    aligned  b is at a multiple of a vector's bytes
    """
    parameters = [("a", PTR), ("b", PTR), ("c", PTR), ("c_row", I64), ("k", I64), ("resume", I64), ("a_row", I64), ("a_k", I64)]
    parameters += [("runs", I64), ("table", PTR)] if in_runs else []
    parameters += [("ask", PTR), ("ask_step", I64)] if asks else []
    b = module.function(name, parameters, exported=False, noinline=True)
    vector_bytes = unit.bytes * unit.lanes
    cells = [b.offset(b.offset(b.param("c"), b.mul(b.param("c_row"), m)), n * vector_bytes)
             for m in range(rows) for n in range(vectors)]
    sums = [b.const(unit.vector, 0.0)] * len(cells)
    if adds:
        for cell in cells:
            b.prefetch(cell, write=True)
    else:
        sums = _resumed(b, cells, sums)

    places = _direct_rows(b, rows) if direct else _packed_rows(b, rows, unit)
    step = b.param("a_k") if direct else b.const(I64, a_width * unit.bytes)
    if in_runs:
        with b.loop(0, b.param("runs"), carried=[b.param("b"), *sums]) as run:
            a = b.offset(b.param("a"), b.load(b.offset(b.param("table"), b.mul(run.index, 8)), I64))
            run.next(_run(b, unit, places, step, a, run.carried[0], run.carried[1:], aligned=aligned))
        sums = list(run.results[1:])
    else:
        sums = _run(b, unit, places, step, b.param("a"), b.param("b"), sums, asks=asks, aligned=aligned)[1:]
    if not adds:
        _stored(b, sums, cells)
        return b
    with b.if_else(b.cmp("ne", b.param("resume"), 0)) as (again, first):
        with again:
            _stored(b, [b.add(b.load(cell, unit.vector), total) for cell, total in zip(cells, sums)], cells)
        with first:
            _stored(b, sums, cells)
    return b


def _run(b: Builder, unit: Unit, places: Sequence[tuple[int, Value | int]], step: Value, a: Value, right: Value,
         sums: Sequence[Value], *, asks: bool = False, aligned: bool) -> list[Value]:
    """k steps: where b goes on, and the sums."""
    vectors, vector_bytes = len(sums) // len(places), unit.bytes * unit.lanes
    bases = sorted({base for base, _ in places})
    pointers = [right, *(b.offset(a, b.mul(b.param("a_row"), base)) if base else a for base in bases)]
    asked = [b.param("ask")] if asks else []
    with b.loop(0, b.param("k"), carried=[*pointers, *sums, *asked]) as loop:
        b_at, a_at = loop.carried[0], loop.carried[1:len(pointers)]
        sums = list(loop.carried[len(pointers):len(pointers) + len(sums)])
        asked = [b.offset(at, b.param("ask_step")) for at in loop.carried[len(pointers) + len(sums):]]
        for at in loop.carried[len(pointers) + len(sums):]:
            b.prefetch(at)
        columns = [b.load(b.offset(b_at, n * vector_bytes), unit.vector, align=vector_bytes if aligned else None)
                   for n in range(vectors)]
        for m, (base, distance) in enumerate(places):
            element = b.load(b.offset(a_at[bases.index(base)], distance), Type(unit.kind), align=2 if unit.depth == 2 else None)
            row = b.splat(element, unit.lanes)
            for n in range(vectors):
                sums[m * vectors + n] = multiply_add(b, unit, row, columns[n], sums[m * vectors + n])
        loop.next([b.offset(b_at, vectors * vector_bytes), *(b.offset(a, step) for a in a_at), *sums, *asked])
    return [loop.results[0], *loop.results[len(pointers):len(pointers) + len(sums)]]


def _resumed(b: Builder, cells: Sequence[Value], zeros: Sequence[Value]) -> list[Value]:
    """The sums in the cells where `resume` is 1, else zeros."""
    with b.loop(0, b.param("resume"), carried=zeros) as start:  # no turn, or one
        start.next([b.load(cell, zero.type) for cell, zero in zip(cells, zeros)])
    return list(start.results)


def _stored(b: Builder, sums: Sequence[Value], cells: Sequence[Value]) -> None:
    for cell, total in zip(cells, sums):
        b.store(total, cell)


def multiply_add(b: Builder, unit: Unit, x: Value, y: Value, total: Value) -> Value:
    """x * y + total for one vector of units."""
    if unit.depth == 1:
        return b.fma(x, y, total)
    pairs = vec("bf16", 2 * unit.lanes)
    return b.dot_bf16(total, b.bitcast(x, pairs), b.bitcast(y, pairs))


_REACH = 7  # rows addressed from one pointer: multiples 1, 2, 4 of the stride, 3, 6 and 5 need two more registers


def _direct_rows(b: Builder, rows: int) -> list[tuple[int, Value | int]]:
    """Row m as (first row of its base pointer, bytes from there): few pointers to advance, the rest is x86 address arithmetic."""
    multiples: list[Value | int] = [0, *(b.mul(b.param("a_row"), j) for j in range(1, min(rows, _REACH)))]
    return [(m - m % _REACH, multiples[m % _REACH]) for m in range(rows)]


def _packed_rows(b: Builder, rows: int, unit: Unit) -> list[tuple[int, Value | int]]:
    return [(0, m * unit.bytes) for m in range(rows)]

