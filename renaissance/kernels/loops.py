"""The loop IR: a recorded, typed program of vector operations with structured control, in SSA form.

A schedule says *how* a kernel runs by calling a Builder; `print_llvm` prints the record as LLVM IR, `run_python` interprets it on
memory and so defines what each operation means. Control is structured: a loop carries its values explicitly, a branch gives none
(what a branch computes goes through memory, or through a loop of at most one turn).

    m = Module("axpy")
    b = m.function("axpy", [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    with b.loop(0, n, 16, carried=[zero]) as loop:
        loop.next([b.add(loop.carried[0], b.load(b.offset(p, b.mul(loop.index, 4)), vec("f32", 16)))])
    total, = loop.results
    with b.if_(condition):
        ...
    with b.if_else(condition) as (then, otherwise):
        with then: ...
        with otherwise: ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from renaissance.errors import KernelError
from renaissance.kernels.program import (
    BF16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    PTR,
    Branch,
    Loop,
    Node,
    Number,
    Operand,
    Statement,
    Type,
    Value,
    number_bits,
    vec,
)

__all__ = ["BF16", "F32", "F64", "I1", "I16", "I32", "I64", "I8", "PTR", "Branch", "Builder", "Loop", "Module", "Node",
           "Statement", "Type", "Value", "number_bits", "vec"]

_ARITHMETIC = frozenset(("f32", "f64"))  # bf16 and f16 are formats of memory: convert before computing


class Module:
    """A compilation unit: named functions, at least one of them exported."""

    def __init__(self, name: str):
        self.name = name
        self.functions: dict[str, Builder] = {}

    def function(self, name: str, params: Sequence[tuple[str, Type]], exported: bool = True, result: Type | None = None,
                 noinline: bool = False, cold: bool = False) -> Builder:
        """A new function; an internal one (exported=False) can only be called from this module. cold: it hardly ever runs, so
        that the code around its calls keeps its values in registers at their cost."""
        if name in self.functions:
            raise KernelError(f"module {self.name}: function {name!r} is defined twice")
        builder = Builder(self, name, params, exported, result, noinline, cold)
        self.functions[name] = builder
        return builder


class Builder:
    """Records one function. Each method appends one operation and returns its value; types are checked at once."""

    def __init__(self, module: Module, name: str, params: Sequence[tuple[str, Type]], exported: bool, result: Type | None,
                 noinline: bool, cold: bool = False):
        self.module = module
        self.name = name
        self.exported = exported
        self.result = result
        self.noinline = noinline
        self.cold = cold
        self.body: list[Node] = []
        self.returned: Value | None = None
        self._count = 0
        self._block = self.body
        self._constants: dict[tuple[Type, int | tuple[int, ...]], Value] = {}
        self.params = {n: self._new(t) for n, t in params}

    # ---- values ----------------------------------------------------------------------------------------------------------------

    def param(self, name: str) -> Value:
        return self.params[name]

    def const(self, type: Type, value: Number | Sequence[Number]) -> Value:
        """A constant: one number for all lanes, or one for each lane. Integers wrap to the width of the type."""
        if isinstance(value, Sequence):
            if len(value) != type.lanes:
                raise KernelError(f"const: {len(value)} values for {type!r}")
            bits = tuple(number_bits(type.kind, v) for v in value)
        else:
            bits = number_bits(type.kind, value)  # type: ignore[arg-type]
        return self._constant(type, bits)

    def const_bits(self, type: Type, bits: int) -> Value:
        """A constant given by the bits of one lane; keeps the payload of a NaN."""
        return self._constant(type, bits & ((1 << type.bits) - 1))

    def splat(self, value: Value, lanes: int) -> Value:
        """All lanes equal to a scalar."""
        self._need(value.type.lanes == 1, "splat", value)
        if lanes == 1:
            return value
        type = value.type.with_lanes(lanes)
        if value.bits is not None:
            return self._constant(type, value.bits)
        return self._emit("splat", (value,), None, type)

    def iota(self, type: Type) -> Value:
        """0, 1, 2, ... in the lanes."""
        return self.const(type, tuple(range(type.lanes))) if type.lanes > 1 else self.const(type, 0)

    # ---- arithmetic ------------------------------------------------------------------------------------------------------------

    def add(self, x: Operand, y: Operand) -> Value:
        return self._binary("add", x, y)

    def sub(self, x: Operand, y: Operand) -> Value:
        return self._binary("sub", x, y)

    def mul(self, x: Operand, y: Operand) -> Value:
        return self._binary("mul", x, y)

    def div(self, x: Operand, y: Operand) -> Value:
        """Quotient; of integers, truncated towards zero; an integer divisor must not be 0 nor the quotient overflow."""
        return self._binary("div", x, y)

    def rem(self, x: Operand, y: Operand) -> Value:
        """Remainder of `div` on integers; has the sign of x."""
        return self._binary("rem", x, y, floats=False)

    def udiv(self, x: Operand, y: Operand) -> Value:
        return self._binary("udiv", x, y, floats=False)

    def urem(self, x: Operand, y: Operand) -> Value:
        return self._binary("urem", x, y, floats=False)

    def min(self, x: Operand, y: Operand) -> Value:
        """The smaller of two signed integers."""
        return self._binary("min", x, y, floats=False)

    def max(self, x: Operand, y: Operand) -> Value:
        """The larger of two signed integers."""
        return self._binary("max", x, y, floats=False)

    def and_(self, x: Operand, y: Operand) -> Value:
        return self._binary("and", x, y, floats=False)

    def or_(self, x: Operand, y: Operand) -> Value:
        return self._binary("or", x, y, floats=False)

    def xor(self, x: Operand, y: Operand) -> Value:
        return self._binary("xor", x, y, floats=False)

    def shl(self, x: Operand, y: Operand) -> Value:
        """x * 2**y, wrapped; y must be below the width."""
        return self._binary("shl", x, y, floats=False)

    def lshr(self, x: Operand, y: Operand) -> Value:
        return self._binary("lshr", x, y, floats=False)

    def ashr(self, x: Operand, y: Operand) -> Value:
        return self._binary("ashr", x, y, floats=False)

    def neg(self, x: Value) -> Value:
        return self._unary("neg", x)

    def abs(self, x: Value) -> Value:
        return self._unary("abs", x)

    def not_(self, x: Value) -> Value:
        self._need(x.type.is_int, "not_", x)
        return self._unary("not", x)

    def floor(self, x: Value) -> Value:
        return self._unary("floor", x, floats=True)

    def ceil(self, x: Value) -> Value:
        return self._unary("ceil", x, floats=True)

    def trunc(self, x: Value) -> Value:
        return self._unary("trunc", x, floats=True)

    def round(self, x: Value) -> Value:
        """To the nearest integer, ties to even."""
        return self._unary("round", x, floats=True)

    def sqrt(self, x: Value) -> Value:
        return self._unary("sqrt", x, floats=True)

    def fma(self, a: Value, b: Operand, c: Operand) -> Value:
        """a * b + c in one rounding (in two on a Target without fma, by that Target's definition)."""
        b, c = self._like(b, a), self._like(c, a)
        self._need(a.type.kind in _ARITHMETIC and a.type == b.type == c.type, "fma", a, b, c)
        return self._emit("fma", (a, b, c), None, a.type)

    # ---- comparison, selection, conversion -------------------------------------------------------------------------------------

    def cmp(self, predicate: str, x: Operand, y: Operand) -> Value:
        """'lt' 'le' 'eq' 'ne' 'gt' 'ge' (a NaN makes all false but 'ne'), and 'ult' 'ule' on integers taken as unsigned."""
        x, y = self._pair("cmp", x, y)
        known = ("lt", "le", "eq", "ne", "gt", "ge") if x.type.is_float else ("lt", "le", "eq", "ne", "gt", "ge", "ult", "ule")
        self._need(predicate in known and x.type.kind not in ("bf16", "f16"), f"cmp {predicate}", x, y)
        return self._emit("cmp", (x, y), predicate, x.type.with_kind("i1"))

    def select(self, mask: Value, x: Operand, y: Operand) -> Value:
        """x where the mask is true, else y; the mask has the lanes of x, or is scalar."""
        x, y = self._pair("select", x, y)
        self._need(mask.type.kind == "i1" and mask.type.lanes in (1, x.type.lanes), "select", mask, x, y)
        return self._emit("select", (mask, x, y), None, x.type)

    def convert(self, value: Value, type: Type) -> Value:
        """Change the number kind: integers as signed, floats round to nearest even and keep NaN.

        A float converted to an integer is truncated; outside the integer's range, and for NaN, it becomes the least integer
        (only i32 and i64 are offered). f64 goes to bf16 and f16 by way of f32.
        """
        return self._convert("convert", value, type)

    def zext(self, value: Value, type: Type) -> Value:
        """Widen an integer taken as unsigned; i1 gives 0 or 1."""
        self._need(value.type.is_int and type.is_int and type.bits >= value.type.bits, "zext", value)
        return self._convert("zext", value, type)

    def utof(self, value: Value, type: Type) -> Value:
        """An integer taken as unsigned, to f32 or f64."""
        self._need(value.type.is_int and type.kind in _ARITHMETIC, "utof", value)
        return self._convert("utof", value, type)

    def ftou(self, value: Value, type: Type) -> Value:
        """f32 or f64 to an unsigned integer, truncated; the value must fit."""
        self._need(value.type.kind in _ARITHMETIC and type.is_int, "ftou", value)
        return self._convert("ftou", value, type)

    def bitcast(self, value: Value, type: Type) -> Value:
        """The same bits as another type of equal total width."""
        total = value.type.bits * value.type.lanes
        self._need(total == type.bits * type.lanes and "ptr" not in (value.type.kind, type.kind), f"bitcast to {type!r}", value)
        return value if type == value.type else self._emit("bitcast", (value,), None, type)

    # ---- memory ----------------------------------------------------------------------------------------------------------------

    def offset(self, ptr: Value, bytes: Value | int) -> Value:
        """The address `bytes` (i64) further on."""
        if isinstance(bytes, int):
            if bytes == 0:
                return ptr
            bytes = self.const(I64, bytes)
        self._need(ptr.type == PTR and bytes.type == I64, "offset", ptr, bytes)
        return self._emit("offset", (ptr, bytes), None, PTR)

    def load(self, ptr: Value, type: Type, align: int | None = None, mask: Value | None = None) -> Value:
        """`type` from memory; lanes that the mask switches off read nothing and are 0. align: bytes, the item's size if None."""
        self._memory("load", ptr, type, mask)
        args = (ptr,) if mask is None else (ptr, mask)
        return self._emit("load", args, align or type.size, type)

    def store(self, value: Value, ptr: Value, align: int | None = None, mask: Value | None = None) -> None:
        """Write a value; lanes that the mask switches off write nothing."""
        self._memory("store", ptr, value.type, mask)
        args = (value, ptr) if mask is None else (value, ptr, mask)
        self._emit("store", args, align or value.type.size, None)

    def gather(self, ptr: Value, index: Value, type: Type, mask: Value | None = None) -> Value:
        """Element `index[lane]` of `type`'s kind behind ptr in each lane; switched-off lanes read nothing and are 0."""
        self._memory("gather", ptr, type, mask)
        self._need(index.type.kind in ("i32", "i64") and index.type.lanes == type.lanes > 1, "gather", index)
        args = (ptr, index) if mask is None else (ptr, index, mask)
        return self._emit("gather", args, None, type)

    def scatter(self, value: Value, ptr: Value, index: Value, mask: Value | None = None) -> None:
        """Write lane by lane, lowest first, to element `index[lane]` behind ptr."""
        self._memory("scatter", ptr, value.type, mask)
        self._need(index.type.kind in ("i32", "i64") and index.type.lanes == value.type.lanes > 1, "scatter", index)
        args = (value, ptr, index) if mask is None else (value, ptr, index, mask)
        self._emit("scatter", args, None, None)

    def prefetch(self, ptr: Value, write: bool = False) -> None:
        """Ask for the cache line at ptr; any address is allowed."""
        self._need(ptr.type == PTR, "prefetch", ptr)
        self._emit("prefetch", (ptr,), write, None)

    def atomic_flag(self, ptr: Value, value: Value) -> None:
        """If the i64 at ptr is 0 it becomes `value`, atomically."""
        self._need(ptr.type == PTR and value.type == I64, "atomic_flag", ptr, value)
        self._emit("atomic_flag", (ptr, value), None, None)

    # ---- lanes -----------------------------------------------------------------------------------------------------------------

    def lane_mask(self, n: Value | int, lanes: int) -> Value:
        """The first n lanes true; n (i64) may be negative or more than `lanes`."""
        n = self.const(I64, n) if isinstance(n, int) else n
        self._need(n.type == I64, "lane_mask", n)
        return self._emit("lane_mask", (n,), None, vec("i1", lanes))

    def extract(self, v: Value, i: int) -> Value:
        self._need(0 <= i < v.type.lanes, f"extract {i}", v)
        if v.type.lanes == 1:
            return v
        return self._emit("extract", (v,), i, v.type.with_lanes(1))

    def insert(self, v: Value, x: Value, i: int) -> Value:
        self._need(0 <= i < v.type.lanes and v.type.lanes > 1 and x.type == v.type.with_lanes(1), f"insert {i}", v, x)
        return self._emit("insert", (v, x), i, v.type)

    def shuffle(self, v: Value, w: Value, indices: Sequence[int]) -> Value:
        """Lanes of v followed by those of w, picked by number; at least one of either must be a vector."""
        lanes = v.type.lanes
        self._need(v.type == w.type and lanes > 1 and all(0 <= i < 2 * lanes for i in indices), f"shuffle {indices}", v, w)
        if len(indices) == 1:
            return self.extract(v, indices[0]) if indices[0] < lanes else self.extract(w, indices[0] - lanes)
        return self._emit("shuffle", (v, w), tuple(indices), v.type.with_lanes(len(indices)))

    def dot_bf16(self, acc: Value, a: Value, b: Value) -> Value:
        """acc[l] + a[2l+1]*b[2l+1] + a[2l]*b[2l] as the AVX-512 BF16 instruction does it: two fused steps, odd pair first,
        subnormals taken and given as zero. Only where target.bf16_dot."""
        pairs = vec("bf16", 2 * acc.type.lanes)
        self._need(acc.type.kind == "f32" and a.type == b.type == pairs and acc.type.lanes in (4, 8, 16), "dot_bf16", acc, a, b)
        return self._emit("dot_bf16", (acc, a, b), None, acc.type)

    # ---- control ---------------------------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, lo: Value | int, hi: Value | int, step: Value | int = 1, carried: Sequence[Value] = ()) -> Iterator[Loop]:
        """A counted loop over i64 values; see Loop."""
        lo, hi, step = (self.const(I64, v) if isinstance(v, int) else v for v in (lo, hi, step))
        self._need(lo.type == hi.type == step.type == I64, "loop", lo, hi, step)
        loop = Loop(lo, hi, step, self._new(I64), tuple(carried), tuple(self._new(v.type) for v in carried))
        self._block.append(loop)
        with self._inside(loop.body):
            yield loop
        if len(loop.following) != len(loop.carried):
            raise KernelError(f"loop: {len(loop.carried)} values are carried, but next() was not called")
        loop.closed = True

    @contextmanager
    def if_(self, condition: Value) -> Iterator[None]:
        """The block runs only where the scalar condition is true."""
        branch = self._branch(condition)
        with self._inside(branch.then):
            yield

    @contextmanager
    def if_else(self, condition: Value) -> Iterator[tuple[AbstractContextManager[None], AbstractContextManager[None]]]:
        """Two blocks, of which one runs: `with b.if_else(c) as (then, otherwise)`, then one `with` for each."""
        branch = self._branch(condition)
        yield self._inside(branch.then), self._inside(branch.otherwise)

    def call(self, function: Builder | str, *values: Value) -> Value | None:
        """Call an internal function of this module."""
        callee = self.module.functions[function] if isinstance(function, str) else function
        if [v.type for v in values] != [p.type for p in callee.params.values()] or callee.exported:
            raise KernelError(f"call {callee.name}: takes {list(callee.params.values())}, got {list(values)}; must be internal")
        return self._emit("call", values, callee.name, callee.result)

    def ret(self, value: Value) -> None:
        """The function's result; the last operation of a function that has one."""
        self._need(value.type == self.result and self._block is self.body, "ret", value)
        self.returned = value

    # ---- recording -------------------------------------------------------------------------------------------------------------

    def _new(self, type: Type) -> Value:
        self._count += 1
        return Value(type, self._count)

    def _constant(self, type: Type, bits: int | tuple[int, ...]) -> Value:
        found = self._constants.get((type, bits))
        if found is None:
            found = self._constants[type, bits] = Value(type, 0, bits)
        return found

    def _emit(self, op: str, args: tuple[Value, ...], attr: object, type: Type | None) -> Value:
        result = None if type is None else self._new(type)
        self._block.append(Statement(op, args, attr, result))
        return result  # type: ignore[return-value]

    def _branch(self, condition: Value) -> Branch:
        self._need(condition.type == I1, "if", condition)
        branch = Branch(condition)
        self._block.append(branch)
        return branch

    @contextmanager
    def _inside(self, block: list[Node]) -> Iterator[None]:
        outer, self._block = self._block, block
        yield
        self._block = outer

    def _like(self, x: Operand, other: Value) -> Value:
        return x if isinstance(x, Value) else self.const(other.type, x)

    def _pair(self, op: str, x: Operand, y: Operand) -> tuple[Value, Value]:
        if not isinstance(x, Value):
            if not isinstance(y, Value):
                raise KernelError(f"{op}: at least one operand must be a Value, got {x!r} and {y!r}")
            x = self.const(y.type, x)
        y = self._like(y, x)
        self._need(x.type == y.type, op, x, y)
        return x, y

    def _binary(self, op: str, x: Operand, y: Operand, floats: bool = True) -> Value:
        x, y = self._pair(op, x, y)
        self._need(x.type.is_int or (floats and x.type.kind in _ARITHMETIC), op, x, y)
        return self._emit(op, (x, y), None, x.type)

    def _unary(self, op: str, x: Value, floats: bool = False) -> Value:
        self._need(x.type.kind in _ARITHMETIC or (x.type.is_int and not floats), op, x)
        return self._emit(op, (x,), None, x.type)

    def _convert(self, op: str, value: Value, type: Type) -> Value:
        self._need(value.type.lanes == type.lanes and "ptr" not in (value.type.kind, type.kind), f"{op} to {type!r}", value)
        if op == "convert" and value.type.is_float and type.is_int:
            self._need(type.kind in ("i32", "i64") and value.type.kind in _ARITHMETIC, f"convert to {type!r}", value)
        return value if value.type == type else self._emit(op, (value,), None, type)

    def _memory(self, op: str, ptr: Value, type: Type, mask: Value | None) -> None:
        self._need(ptr.type == PTR and type.kind != "i1", f"{op} {type!r}", ptr)
        if mask is not None:
            self._need(mask.type == type.with_kind("i1") and type.lanes > 1, f"masked {op} {type!r}", mask)

    def _need(self, condition: bool, op: str, *values: Value) -> None:
        if not condition:
            raise KernelError(f"{self.name}: {op} does not take {', '.join(map(repr, values))}")
