"""Scatter: each chunk owns a range of the output's rows or columns and goes through all indices in order.

replaces  out = init; out[index[i], j] (+)= value[i, j] for i in order
order     additions to one element happen in the order of i, whoever makes them
tiles     one row of the value at a time, vectors of 16 lanes under a mask; single numbers when rows have one column
chunks    columns where there are enough, else rows; one for each thread at most, since each reads all indices
"""

from __future__ import annotations

from dataclasses import dataclass

from renaissance.errors import KernelError
from renaissance.ir.plan import Access, Instr, Item, Scatter
from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Arguments, Frame
from renaissance.kernels.combine import Combine
from renaissance.kernels.loops import I64, PTR, Module, Value
from renaissance.kernels.lowered import Lowered, code_key
from renaissance.kernels.numbers import from_memory, memory, register, to_memory
from renaissance.kernels.schedules.chunks import BLOCK
from renaissance.kernels.schedules.sweep import LANES

_LEAST_WORK = 16_384


@dataclass(frozen=True)
class _Pattern:
    """What shapes the code: bound bodies, the initial value's and the output's places, and slots of sizes.

    single  rows have one column
    """

    index: tuple[Instr, ...]
    value: tuple[Instr, ...]
    init: int | None
    out: int
    combine: Combine | None
    rows: int
    columns: int
    count: int
    rows_each: int
    columns_each: int
    across: int
    single: bool


def lower_scatter(item: Item, spec: Scatter, threads: int) -> Lowered:
    """A Scatter.

    raises  KernelError for a combination other than 'sum' and 'last'
    """
    if spec.combine not in ("sum", "last"):
        raise KernelError(f"scatter: combine must be 'sum' or 'last', got {spec.combine!r}")
    arguments = Arguments(item.operands, 1)
    rows_each, columns_each, across, count = _cut(spec, threads)
    dtype = item.operands[spec.out].dtype
    pattern = _Pattern(
        index=arguments.bind(spec.index), value=arguments.bind(spec.value),
        init=None if spec.init is None else arguments.place(spec.init), out=arguments.output(Access(spec.out, (spec.n, 1))),
        combine=Combine("sum", dtype) if spec.combine == "sum" else None,
        rows=arguments.int(spec.rows), columns=arguments.int(spec.n), count=arguments.int(spec.m),
        rows_each=arguments.int(rows_each), columns_each=arguments.int(columns_each), across=arguments.int(across),
        single=spec.n == 1)
    key = code_key(f"scatter_{spec.combine}_{dtype.name}", (pattern, arguments.structure()))

    def build() -> Module:
        module = Module(key)
        _Writer(module, key, arguments, pattern)
        return module

    return Lowered(key, key, build, tuple(arguments.slots), count)


def _cut(spec: Scatter, threads: int) -> tuple[int, int, int, int]:
    """(rows of each, columns of each, chunks across the columns, chunks)."""
    wanted = max(1, min(threads, (spec.m + spec.rows) * spec.n // _LEAST_WORK))
    blocks = -(-spec.n // BLOCK)
    if blocks >= wanted:
        columns = -(-blocks // wanted) * BLOCK
        across = max(1, -(-spec.n // columns)) if columns else 1
        return spec.rows, columns, across, across
    rows = max(1, -(-spec.rows // wanted))
    return rows, spec.n, 1, max(1, -(-spec.rows // rows))


class _Writer:
    def __init__(self, module: Module, symbol: str, arguments: Arguments, pattern: _Pattern):
        self.b = b = module.function(symbol, [("args", PTR), ("chunk", I64), ("scratch", PTR)])
        self.frame = frame = Frame(b, arguments)
        self.pattern = p = pattern
        self.lanes = 1 if p.single else LANES
        chunk, across = b.param("chunk"), frame[p.across]
        self.first = b.mul(b.udiv(chunk, across), frame[p.rows_each])
        self.end = b.min(b.add(self.first, frame[p.rows_each]), frame[p.rows])
        self.start = b.mul(b.urem(chunk, across), frame[p.columns_each])
        self.stop = b.min(b.add(self.start, frame[p.columns_each]), frame[p.columns])
        self.initial()
        with b.loop(0, frame[p.count]) as loop:
            row = bodies.emit(b, p.index, frame, [loop.index, None], 1)[-1]
            owned = b.and_(b.cmp("le", self.first, row), b.cmp("lt", row, self.end))
            with b.if_(owned):
                self.add(loop.index, row)

    def initial(self) -> None:
        """Owned rows start as the initial value, or 0."""
        b, p = self.b, self.pattern
        dtype = self.frame.places[p.out].dtype
        with b.loop(self.first, self.end) as row, b.loop(self.start, self.stop, self.lanes) as column:
            index, mask = [row.index, column.index], self.mask(column.index)
            value = b.const(register(dtype, self.lanes), 0)
            if p.init is not None:
                instr = Instr("load", (), p.init, dtype)
                value = bodies.emit(b, (instr,), self.frame, index, self.lanes, mask)[0]
            bodies.store(b, self.frame, p.out, value, index, self.lanes, mask)

    def add(self, i: Value, row: Value) -> None:
        """Row i of the value into a row of the output."""
        b, p, frame = self.b, self.pattern, self.frame
        dtype = frame.places[p.out].dtype
        with b.loop(self.start, self.stop, self.lanes) as column:
            mask = self.mask(column.index)
            value = bodies.emit(b, p.value, frame, [i, column.index], self.lanes, mask)[-1]
            at = frame.address(p.out, [row, column.index])
            if p.combine is not None:
                old = from_memory(b, b.load(at, memory(dtype, self.lanes), mask=mask), dtype)
                value = p.combine.merge(b, (old,), (value,))[0]
            b.store(to_memory(b, value, dtype), at, mask=mask)

    def mask(self, column: Value) -> Value | None:
        return None if self.lanes == 1 else self.b.lane_mask(self.b.sub(self.stop, column), self.lanes)
