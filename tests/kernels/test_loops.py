"""Every operation of the loop IR: the interpreter, which defines it, against machine code, bit by bit, on each Target."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from renaissance.errors import KernelError
from renaissance.ir.target import Target
from renaissance.kernels import run_python
from renaissance.kernels.loops import BF16, F32, F64, I1, I32, I64, PTR, Builder, Module, Type, Value, vec
from tests.kernels.jit import TARGETS, Code

LANES = 16
NUMPY = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64,
         "bf16": ml_dtypes.bfloat16, "f16": np.float16}
ODD_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, -3e38, 3.0, 1 / 3, 1e10]


def values(kind: str, seed: int) -> np.ndarray:
    """Sixteen numbers of a kind, extremes first."""
    rng = np.random.default_rng(seed)
    if kind[0] == "i":
        info = np.iinfo(NUMPY[kind])
        odd = [0, 1, -1, info.min, info.max, 2, -2, 7]
        return np.array(odd + list(rng.integers(info.min, info.max, 8)), NUMPY[kind])
    with np.errstate(over="ignore"):
        return rng.permutation(np.array(ODD_FLOATS)).astype(NUMPY[kind])


@pytest.fixture(params=TARGETS, ids=lambda t: t.isa)
def target(request) -> Target:
    return request.param


def outcome(module: Module, arrays: list[np.ndarray], target: Target | None) -> list[np.ndarray]:
    """The arrays after a run: in machine code for a Target, or interpreted."""
    arrays = [a.copy() for a in arrays]
    block = np.array([a.ctypes.data for a in arrays], np.int64)
    if target is None:
        run_python.run(module, "kernel", block.ctypes.data)
    else:
        Code(module, target).call("kernel", block.ctypes.data)
    return arrays


def agree(write: Callable[[Builder, list[Value]], None], arrays: list[np.ndarray], target: Target) -> list[np.ndarray]:
    """Record a kernel over pointers to `arrays`; interpreter and machine code must leave equal bytes. Returns them."""
    module = Module("test")
    b = module.function("kernel", [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    write(b, [b.load(b.offset(b.param("args"), 8 * i), PTR) for i in range(len(arrays))])
    wanted, got = outcome(module, arrays, None), outcome(module, arrays, target)
    for w, g in zip(wanted, got):
        same = w.view(np.uint8) == g.view(np.uint8)
        if w.dtype.kind == "f" or w.dtype == ml_dtypes.bfloat16:  # which NaN it is is nobody's promise
            np.testing.assert_array_equal(np.isnan(w), np.isnan(g))
            same = (same.reshape(len(w), -1).all(axis=1)) | np.isnan(w)
        assert np.all(same), (w, g)
    return got


def check(kinds: list[str], result: str, operation: Callable[..., Value], target: Target, arrays: list[np.ndarray] | None = None,
          lanes: int = LANES) -> np.ndarray:
    """An operation on vectors of given kinds, stored as `result` (masks as bytes)."""
    inputs = arrays or [values(k, n) for n, k in enumerate(kinds)]
    out = np.zeros(lanes, np.int8 if result == "i1" else NUMPY[result])

    def write(b: Builder, pointers: list[Value]) -> None:
        got = operation(b, *(b.load(p, Type(k, lanes)) for p, k in zip(pointers, kinds)))
        b.store(b.zext(got, Type("i8", lanes)) if got.type.kind == "i1" else got, pointers[-1])

    return agree(write, [*inputs, out], target)[-1]


FLOATS, INTS = ("f32", "f64"), ("i8", "i16", "i32", "i64")


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("kind", FLOATS)
def test_float_arithmetic(op, kind, target):
    check([kind, kind], kind, lambda b, x, y: getattr(b, op)(x, y), target)


@pytest.mark.parametrize("op", ["neg", "abs", "floor", "ceil", "trunc", "round", "sqrt"])
@pytest.mark.parametrize("kind", FLOATS)
def test_float_functions(op, kind, target):
    check([kind], kind, lambda b, x: getattr(b, op)(x), target)


@pytest.mark.parametrize("kind", INTS)
def test_integer_arithmetic(kind, target):
    def all_of_them(b: Builder, x: Value, y: Value) -> Value:
        total = b.add(b.mul(x, y), b.sub(x, 3))
        for word in (b.neg(x), b.abs(y), b.min(x, y), b.max(x, y), b.and_(x, y), b.or_(x, y), b.xor(x, y), b.not_(x)):
            total = b.add(b.mul(total, 31), word)
        return total
    check([kind, kind], kind, all_of_them, target)


@pytest.mark.parametrize("op", ["div", "rem", "udiv", "urem"])
@pytest.mark.parametrize("kind", INTS)
def test_integer_division(op, kind, target):
    x, y = values(kind, 0), values(kind, 1)
    y[(y == 0) | (y == -1)] = 3
    check([kind, kind], kind, lambda b, x, y: getattr(b, op)(x, y), target, [x, y])


@pytest.mark.parametrize("op", ["shl", "lshr", "ashr"])
@pytest.mark.parametrize("kind", INTS)
def test_shifts(op, kind, target):
    count = (np.arange(LANES) % (8 * NUMPY[kind]().itemsize)).astype(NUMPY[kind])
    check([kind, kind], kind, lambda b, x, y: getattr(b, op)(x, y), target, [values(kind, 3), count])


@pytest.mark.parametrize("kind", FLOATS)
def test_fma_has_one_rounding(kind, target):
    rng = np.random.default_rng(0)
    one = NUMPY[kind](1) + np.finfo(NUMPY[kind]).eps
    a = np.array([one, *rng.normal(size=11), np.inf, np.nan, 0, -0.0], NUMPY[kind])
    c = np.array([-one * one, *rng.normal(size=11), -np.inf, 1, -0.0, -0.0], NUMPY[kind])
    got = check([kind] * 3, kind, lambda b, x, y, z: b.fma(x, y, z), target, [a, a, c])
    assert got[0] != 0  # the part of the square that two roundings would lose


@pytest.mark.parametrize("predicate", ["lt", "le", "eq", "ne", "gt", "ge", "ult", "ule"])
@pytest.mark.parametrize("kind", ["f32", "f64", "i8", "i32", "i64"])
def test_cmp_and_select(predicate, kind, target):
    if predicate[0] == "u" and kind[0] == "f":
        with pytest.raises(KernelError, match="cmp ult|cmp ule"):
            check([kind, kind], "i1", lambda b, x, y: b.cmp(predicate, x, y), target)
        return
    y = values(kind, 7)
    y[:3] = values(kind, 0)[:3]
    check([kind, kind], "i1", lambda b, x, y: b.cmp(predicate, x, y), target, [values(kind, 0), y])
    check([kind, kind], kind, lambda b, x, y: b.select(b.cmp(predicate, x, y), x, y), target, [values(kind, 0), y])


def test_masks_combine(target):
    def write(b: Builder, x: Value, y: Value) -> Value:
        p, q = b.cmp("lt", x, y), b.cmp("ne", x, 0)
        return b.or_(b.and_(p, b.not_(q)), b.xor(p, b.select(p, q, p)))
    check(["i32", "i32"], "i1", write, target)


CONVERSIONS = [("i8", "i32"), ("i32", "i8"), ("i16", "i64"), ("i64", "i16"), ("i32", "i64"), ("i64", "i32"), ("i8", "f32"),
               ("i32", "f32"), ("i64", "f32"), ("i64", "f64"), ("f32", "i32"), ("f32", "i64"), ("f64", "i32"), ("f64", "i64"),
               ("f32", "f64"), ("f64", "f32"), ("f32", "bf16"), ("bf16", "f32"), ("f64", "bf16"), ("bf16", "f64"),
               ("f32", "f16"), ("f16", "f32"), ("f64", "f16"), ("f16", "bf16")]


@pytest.mark.parametrize("source, to", CONVERSIONS)
def test_convert(source, to, target):
    check([source], to, lambda b, x: b.convert(x, Type(to, LANES)), target)


def test_bfloat16_rounds_to_nearest_even_and_keeps_subnormals(target):
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x00018000, 0x00008001, 0x7F7FFFFF, 0x7F800000,
                     0xFF800000, 0x7F800001, 0x7FFFFFFF, 0x80000000, 0x00000001, 0x007FFFFF, 0xBF808000, 0x40490FDB], np.uint32)
    got = check(["f32"], "bf16", lambda b, x: b.convert(x, vec("bf16", LANES)), target, [bits.view(np.float32)])
    with np.errstate(invalid="ignore"):
        wanted = bits.view(np.float32).astype(ml_dtypes.bfloat16)
    same = (got.view(np.uint16) == wanted.view(np.uint16)) | (np.isnan(got) & np.isnan(wanted))
    assert same.all()


def test_unsigned_conversions(target):
    check(["i8"], "i64", lambda b, x: b.zext(x, vec("i64", LANES)), target)
    check(["i32"], "f32", lambda b, x: b.utof(x, vec("f32", LANES)), target)
    check(["i64"], "f64", lambda b, x: b.utof(x, vec("f64", LANES)), target)
    x = np.linspace(0, 4e9, LANES)
    check(["f64"], "i32", lambda b, x: b.ftou(x, vec("i32", LANES)), target, [x])
    check(["f32"], "i32", lambda b, x: b.bitcast(x, vec("i32", LANES)), target)


def test_mask_to_bits(target):
    got = check(["i32"], "i16", lambda b, x: b.splat(b.bitcast(b.cmp("lt", x, 0), Type("i16")), LANES), target)
    assert got[0] == np.packbits(values("i32", 0) < 0, bitorder="little").view(np.int16)[0]


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64", "f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("n", [-1, 0, 1, 7, 16, 99])
def test_masked_memory_touches_its_lanes_only(kind, n, target):
    def write(b: Builder, p: list[Value]) -> None:
        type = vec(kind, LANES)
        mask = b.lane_mask(b.load(p[2], I64), LANES)
        b.store(b.load(p[0], type, mask=mask), p[1], mask=mask)
        b.store(b.load(p[0], type, mask=mask), p[3])
    source = values(kind, 0)
    got = agree(write, [source, np.ones_like(source), np.array([n]), np.ones_like(source)], target)
    inside = np.arange(LANES) < n
    np.testing.assert_array_equal(got[1].astype(np.float64), np.where(inside, source, 1).astype(np.float64))
    np.testing.assert_array_equal(got[3].astype(np.float64), np.where(inside, source, 0).astype(np.float64))


def test_masked_load_does_not_fault_beyond_a_page(target):
    """The last lanes lie in memory that cannot be read."""
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(first + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0  # no access
    start = np.array([first + mmap.PAGESIZE - 12], np.int64)

    def write(b: Builder, p: list[Value]) -> None:
        b.store(b.load(b.load(p[0], PTR), vec("f32", LANES), mask=b.lane_mask(3, LANES)), p[1])
    got = agree(write, [start, np.ones(LANES, np.float32)], target)
    assert np.all(got[1][3:] == 0)


@pytest.mark.parametrize("index", ["i32", "i64"])
@pytest.mark.parametrize("kind", ["i8", "i16", "f32", "f64"])
def test_gather_and_scatter(kind, index, target):
    order = np.random.default_rng(1).permutation(LANES).astype(NUMPY[index])
    order[5] = order[9]  # the higher lane wins

    def write(b: Builder, p: list[Value]) -> None:
        at = b.load(p[1], Type(index, LANES))
        mask = b.lane_mask(13, LANES)
        b.store(b.gather(p[0], at, vec(kind, LANES)), p[2])
        b.store(b.gather(p[0], at, vec(kind, LANES), mask), p[3])
        x = b.load(p[0], vec(kind, LANES))
        b.scatter(x, p[4], at)
        b.scatter(x, p[5], at, mask)
    agree(write, [values(kind, 0), order] + [np.ones(LANES, NUMPY[kind])] * 4, target)


def test_lanes(target):
    def write(b: Builder, x: Value) -> Value:
        y = b.insert(b.shuffle(x, b.neg(x), [3, 17, 0, 31] * 4), b.extract(x, 5), 2)
        halves = [b.shuffle(y, y, range(8)), b.shuffle(y, y, range(8, 16))]
        total = b.add(*halves)
        return b.add(b.splat(b.extract(total, 1), LANES), b.iota(vec("f32", LANES)))
    check(["f32"], "f32", write, target)


def test_constants_by_lane_and_bits(target):
    def write(b: Builder, p: list[Value]) -> None:
        b.store(b.const(vec("f32", 4), [0.1, -0.0, float("inf"), 1e-45]), p[0])
        b.store(b.const_bits(F64, 0x3FB999999999999A), p[1])
        b.store(b.const(vec("i64", 2), [-1, 2**63]), p[2])
        b.store(b.const(vec("bf16", 2), [1.0, -2.5]), p[3])
    got = agree(write, [np.zeros(4, np.float32), np.zeros(1), np.zeros(2, np.int64), np.zeros(2, ml_dtypes.bfloat16)], target)
    assert got[1][0] == 0.1 and got[0][3] == np.float32(1e-45)
    assert list(got[3].astype(float)) == [1.0, -2.5]


def test_loops_carry_and_nest(target):
    def write(b: Builder, p: list[Value]) -> None:
        with b.loop(0, 5, carried=[b.const(I64, 0), b.const(F32, 1.0)]) as outer:
            with b.loop(outer.index, 10, 3, carried=[outer.carried[0]]) as inner:
                inner.next([b.add(inner.carried[0], inner.index)])
            outer.next([inner.results[0], b.mul(outer.carried[1], 1.5)])
        b.store(outer.results[0], p[0])
        b.store(outer.results[1], p[1])
        with b.loop(3, 3, carried=[b.const(I64, 42)]) as never:
            never.next([b.const(I64, 0)])
        b.store(never.results[0], b.offset(p[0], 8))
    got = agree(write, [np.zeros(2, np.int64), np.zeros(1, np.float32)], target)
    assert list(got[0]) == [sum(i for o in range(5) for i in range(o, 10, 3)), 42]


def test_branches(target):
    def write(b: Builder, p: list[Value]) -> None:
        with b.loop(0, 4) as loop:
            at = b.offset(p[0], b.mul(loop.index, 8))
            with b.if_else(b.cmp("lt", loop.index, 2)) as (then, otherwise):
                with then:
                    b.store(b.const(I64, 10), at)
                with otherwise, b.if_(b.cmp("eq", loop.index, 3)):
                    b.store(loop.index, at)
    assert list(agree(write, [np.full(4, -1)], target)[0]) == [10, 10, -1, 3]


def test_calls_flags_and_prefetch(target):
    def write(b: Builder, p: list[Value]) -> None:
        square = b.module.function("square", [("x", F32)], exported=False, result=F32, noinline=True)
        square.ret(square.mul(square.param("x"), square.param("x")))
        b.prefetch(b.offset(p[0], 1 << 40))
        b.store(b.call(square, b.load(p[0], F32)), p[0])
        b.atomic_flag(p[1], b.const(I64, 5))
        b.atomic_flag(p[1], b.const(I64, 6))
        b.store(b.select(b.cmp("eq", b.load(p[1], I64), 5), b.const(I32, 1), b.const(I32, 2)), p[2])
    got = agree(write, [np.array([3.0], np.float32), np.zeros(1, np.int64), np.zeros(1, np.int32)], target)
    assert got[0][0] == 9 and got[1][0] == 5 and got[2][0] == 1


@pytest.mark.parametrize("target", [t for t in TARGETS if t.bf16_dot], ids=lambda t: t.isa)
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_dot_bf16(lanes, target):
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=2 * lanes).astype(ml_dtypes.bfloat16) for _ in range(2))
    a[:4], b[:4] = 1e-39, [1, 1e10, 1e-38, 2]
    acc = (rng.normal(size=lanes) * np.logspace(-6, 6, lanes)).astype(np.float32)
    acc[1] = 1e-40

    def write(k: Builder, p: list[Value]) -> None:
        pairs = vec("bf16", 2 * lanes)
        k.store(k.dot_bf16(k.load(p[0], vec("f32", lanes)), k.load(p[1], pairs), k.load(p[2], pairs)), p[0])
    agree(write, [acc, a, b], target)


def test_dot_bf16_needs_the_instruction():
    module = Module("test")
    b = module.function("kernel", [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    b.dot_bf16(b.const(vec("f32", 4), 0), b.const(vec("bf16", 8), 0), b.const(vec("bf16", 8), 0))
    with pytest.raises(KernelError, match="bfloat16 dot"):
        outcome(module, [], TARGETS[0].restricted("sse"))


def test_without_fma_a_multiply_add_rounds_twice():
    module = Module("test")
    b = module.function("kernel", [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    x = b.load(b.param("args"), F32)
    b.store(b.fma(x, x, -1.0), b.param("args"))
    value = np.float32(1.0001)
    block = np.array([value, 0], np.float32)
    Code(module, replace(TARGETS[0], fma=False)).call("kernel", block.ctypes.data)
    assert block[0] == value * value - np.float32(1)


def test_mistakes_are_named():
    b = Module("test").function("kernel", [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    x, i = b.const(vec("f32", 4), 1), b.const(I64, 1)
    for wrong in (lambda: b.add(x, i), lambda: b.and_(x, x), lambda: b.floor(i), lambda: b.load(i, F32), lambda: b.extract(x, 4),
                  lambda: b.select(x, x, x), lambda: b.offset(i, 4), lambda: b.load(b.param("args"), I1),
                  lambda: b.add(b.const(BF16, 1), b.const(BF16, 1)), lambda: b.shuffle(x, x, [8]), lambda: b.const(I64, 0.5),
                  lambda: b.call("missing") if "missing" in b.module.functions else b.call(b)):
        with pytest.raises(KernelError):
            wrong()
