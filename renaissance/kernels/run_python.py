"""Runs a loop program in Python on real memory: slowly, one operation at a time, and so states what each operation means.

A value of n lanes is a NumPy array of n numbers (a scalar too: n == 1); a pointer is an integer address. Nothing guards memory:
a program that reads outside its buffers does so here as well.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from fractions import Fraction

import ml_dtypes
import numpy as np

from renaissance.errors import KernelError
from renaissance.kernels.loops import Branch, Builder, Loop, Module, Node, Statement, Value

_DTYPES = {"i1": np.dtype(np.bool_), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32),
           "i64": np.dtype(np.int64), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
           "bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16), "ptr": np.dtype(np.int64)}
_SMALLEST_NORMAL = np.float32(2.0**-126)


def run(module: Module, name: str, args: int, chunk: int = 0, scratch: int = 0) -> None:
    """Run an exported function of a module.

    args     address of the argument block
    chunk    which chunk
    scratch  address of scratch memory
    raises   KernelError if there is no such exported function
    """
    function = module.functions.get(name)
    if function is None or not function.exported:
        raise KernelError(f"{module.name}: no exported function {name!r}")
    with np.errstate(all="ignore"):
        _call(function, [np.array([v], np.int64) for v in (args, chunk, scratch)])


def _call(function: Builder, args: Sequence[np.ndarray]) -> np.ndarray | None:
    machine = _Machine(function.module)
    machine.values.update(zip((p.number for p in function.params.values()), args))
    machine.nodes(function.body)
    return None if function.returned is None else machine.get(function.returned)


class _Machine:
    """The values of one call, by number."""

    def __init__(self, module: Module):
        self.module = module
        self.values: dict[int, np.ndarray] = {}

    def get(self, value: Value) -> np.ndarray:
        if value.bits is None:
            return self.values[value.number]
        bits = value.bits if isinstance(value.bits, tuple) else (value.bits,) * value.type.lanes
        if value.type.kind == "i1":
            return np.array(bits, np.bool_)
        return np.array(bits, np.uint64).astype(f"u{value.type.size}").view(_DTYPES[value.type.kind])

    def nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if isinstance(node, Loop):
                self.loop(node)
            elif isinstance(node, Branch):
                self.nodes(node.then if self.get(node.condition)[0] else node.otherwise)
            else:
                self.statement(node)

    def loop(self, loop: Loop) -> None:
        lo, hi, step = (int(self.get(v)[0]) for v in (loop.lo, loop.hi, loop.step))
        carried = [self.get(v) for v in loop.init]
        for index in range(lo, hi, step):
            self.values[loop.index.number] = np.array([index], np.int64)
            self.values.update(zip((c.number for c in loop.carried), carried))
            self.nodes(loop.body)
            carried = [self.get(v) for v in loop.following]
        self.values.update(zip((c.number for c in loop.carried), carried))

    def statement(self, s: Statement) -> None:
        args = [self.get(a) for a in s.args]
        if s.op == "call":
            result = _call(self.module.functions[s.attr], args)  # type: ignore[index]
        else:
            result = _MEANINGS[s.op](s, *args)
        if s.result is not None:
            assert result is not None
            self.values[s.result.number] = result


def _dtype(s: Statement) -> np.dtype:
    assert s.result is not None
    return _DTYPES[s.result.type.kind]


def _lanes(s: Statement) -> int:
    assert s.result is not None
    return s.result.type.lanes


def _unsigned(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.dtype.itemsize}") if x.dtype != np.bool_ else x.astype(np.uint8)


# ---- memory -----------------------------------------------------------------------------------------------------------


def _read(address: int, dtype: np.dtype, count: int = 1) -> np.ndarray:
    return np.frombuffer(ctypes.string_at(address, dtype.itemsize * count), dtype).copy()


def _write(address: int, values: np.ndarray) -> None:
    raw = np.ascontiguousarray(values).tobytes()
    ctypes.memmove(address, raw, len(raw))


def _load(s: Statement, ptr: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    return _gather(s, ptr, np.arange(_lanes(s)), mask)


def _store(s: Statement, value: np.ndarray, ptr: np.ndarray, mask: np.ndarray | None = None) -> None:
    _scatter(s, value, ptr, np.arange(len(value)), mask)


def _gather(s: Statement, ptr: np.ndarray, index: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    dtype = _dtype(s)
    result = np.zeros(len(index), dtype)
    for lane, i in enumerate(index):
        if mask is None or mask[lane]:
            result[lane] = _read(int(ptr[0]) + int(i) * dtype.itemsize, dtype)[0]
    return result


def _scatter(s: Statement, value: np.ndarray, ptr: np.ndarray, index: np.ndarray, mask: np.ndarray | None = None) -> None:
    for lane, i in enumerate(index):
        if mask is None or mask[lane]:
            _write(int(ptr[0]) + int(i) * value.dtype.itemsize, value[lane:lane + 1])


def _atomic_flag(s: Statement, ptr: np.ndarray, value: np.ndarray) -> None:
    if _read(int(ptr[0]), value.dtype)[0] == 0:
        _write(int(ptr[0]), value)


# ---- arithmetic -------------------------------------------------------------------------------------------------------


def _truncated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Integer quotient towards zero."""
    quotient = x // y
    return quotient + ((x - quotient * y != 0) & ((x < 0) != (y < 0)))


def _div(s: Statement, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x / y if x.dtype.kind == "f" else _truncated(x, y)).astype(x.dtype)


def _shift(function: Callable[..., np.ndarray], unsigned: bool) -> Callable[..., np.ndarray]:
    def meaning(s: Statement, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if np.any(_unsigned(y) >= 8 * x.dtype.itemsize):
            raise KernelError(f"shift by {y} of {x.dtype}")
        return function(_unsigned(x), _unsigned(y)).view(x.dtype) if unsigned else function(x, y)
    return meaning


def _as_unsigned(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda s, x, y: function(_unsigned(x), _unsigned(y)).view(x.dtype)


def multiply_add(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c in one rounding.

    a, b, c  one shape (N,), float32 or float64; f32 goes through doubles rounded to odd, f64 through exact fractions
    returns  (N,), their dtype
    source   Boldo, Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd"
    """
    if a.dtype == np.float64:
        return np.array([_fma_exact(float(x), float(y), float(z)) for x, y, z in zip(a, b, c)])
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)  # the product is exact
    total = product + addend
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    away = np.where((lost > 0) == (total > 0), 1, -1)
    odd = np.where(np.isfinite(total) & (lost != 0) & (bits & 1 == 0), bits + away, bits)
    return odd.view(np.float64).astype(np.float32)


def _fma_exact(a: float, b: float, c: float) -> float:
    if not np.all(np.isfinite((a, b, c))) or 0.0 in (a, b):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def _flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < _SMALLEST_NORMAL, np.copysign(np.float32(0), x), x)


def _dot_bf16(s: Statement, acc: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = _flushed(a.astype(np.float32)), _flushed(b.astype(np.float32))
    first = _flushed(multiply_add(a[1::2], b[1::2], _flushed(acc)))
    return _flushed(multiply_add(a[0::2], b[0::2], first))


# ---- comparison and conversion ----------------------------------------------------------------------------------------

_PREDICATES = {"lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal, "gt": np.greater, "ge": np.greater_equal}


def _cmp(s: Statement, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    predicate: str = s.attr  # type: ignore[assignment]
    if predicate[0] == "u":
        return _PREDICATES[predicate[1:]](_unsigned(x), _unsigned(y))
    return _PREDICATES[predicate](x, y)


def _convert(s: Statement, x: np.ndarray) -> np.ndarray:
    to = _dtype(s)
    if x.dtype == np.bool_:
        return (-x.astype(np.int64)).astype(to)
    if to == np.bool_:
        return (x & 1).astype(np.bool_)
    if to.kind == "i" and x.dtype.kind != "i":
        limit = 2.0 ** (8 * to.itemsize - 1)
        inside = np.abs(x) < limit
        return np.where(inside, np.trunc(np.where(inside, x, 0)).astype(to), np.array(-int(limit), to))
    if x.dtype == np.float64 and to.itemsize == 2:
        x = x.astype(np.float32)
    return x.astype(to)


def _shuffle(s: Statement, v: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.concatenate([v, w])[list(s.attr)]  # type: ignore[call-overload]


def _insert(s: Statement, v: np.ndarray, x: np.ndarray) -> np.ndarray:
    result = v.copy()
    result[s.attr] = x[0]  # type: ignore[index]
    return result


def _plain(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """An operation that NumPy has, in the dtype of its first argument."""
    return lambda s, *args: function(*args).astype(args[0].dtype)


def _bitcast(s: Statement, x: np.ndarray) -> np.ndarray:
    if x.dtype == np.bool_:
        x = np.packbits(x, bitorder="little")
    if _dtype(s) == np.bool_:
        return np.unpackbits(x.view(np.uint8), bitorder="little").astype(np.bool_)
    return x.view(_dtype(s))


_MEANINGS: dict[str, Callable[..., np.ndarray | None]] = {
    "splat": lambda s, x: np.repeat(x, _lanes(s)),
    "add": _plain(np.add), "sub": _plain(np.subtract), "mul": _plain(np.multiply), "div": _div,
    "rem": lambda s, x, y: (x - _truncated(x, y) * y).astype(x.dtype),
    "udiv": _as_unsigned(np.floor_divide), "urem": _as_unsigned(np.remainder),
    "min": _plain(np.minimum), "max": _plain(np.maximum),
    "and": _plain(np.bitwise_and), "or": _plain(np.bitwise_or), "xor": _plain(np.bitwise_xor), "not": _plain(np.invert),
    "shl": _shift(np.left_shift, True), "lshr": _shift(np.right_shift, True), "ashr": _shift(np.right_shift, False),
    "neg": _plain(np.negative), "abs": _plain(np.abs), "sqrt": _plain(np.sqrt),
    "floor": _plain(np.floor), "ceil": _plain(np.ceil), "trunc": _plain(np.trunc), "round": _plain(np.rint),
    "fma": lambda s, a, b, c: multiply_add(a, b, c), "dot_bf16": _dot_bf16,
    "cmp": _cmp, "select": lambda s, mask, x, y: np.where(mask, x, y),
    "convert": _convert, "zext": lambda s, x: _unsigned(x).astype(f"u{_dtype(s).itemsize}").view(_dtype(s)),
    "utof": lambda s, x: _unsigned(x).astype(_dtype(s)),
    "ftou": lambda s, x: np.trunc(x).astype(f"u{_dtype(s).itemsize}").view(_dtype(s)), "bitcast": _bitcast,
    "offset": lambda s, ptr, count: ptr + count,
    "load": _load, "store": _store, "gather": _gather, "scatter": _scatter, "prefetch": lambda s, ptr: None,
    "atomic_flag": _atomic_flag,
    "lane_mask": lambda s, n: np.arange(_lanes(s)) < n[0],
    "extract": lambda s, v: v[s.attr:s.attr + 1], "insert": _insert, "shuffle": _shuffle}
