"""Elementary functions as machine code: NumPy's validation sets, random arguments against wider references, special values, and
equal bits on every instruction set, for every vector width and in the interpreter."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np
import pytest

from renaissance.kernels import run_python, vector_math
from renaissance.kernels.loops import I64, PTR, Module, vec
from tests.kernels.jit import TARGETS, Code

KINDS = {"f32": np.float32, "f64": np.float64}
WIDE = {"f32": np.float64, "f64": np.longdouble}
# The largest errors allowed, in ulp; the docstring of vector_math states what was found.
ULP = {
    "exp": (0.9, 1.0), "expm1": (1.6, 1.9), "log": (1.0, 1.4), "log1p": (1.5, 1.9), "sin": (1.6, 1.6), "cos": (1.6, 1.6),
    "tanh": (1.6, 1.6), "erf": (1.8, 1.9), "atan": (1.4, 1.7), "pow": (0.7, 1.2),
}
UNARY = [name for name in ULP if name != "pow"]
SETS = Path(np.__file__).parent / "_core" / "tests" / "data"
INF, NAN = math.inf, math.nan


def module(name: str, kind: str, lanes: int) -> Module:
    """out[i] = f(x[i], ...) for n numbers, a multiple of the lanes: arguments are the addresses of x, (y,) out, then n."""
    arity = 2 if name == "pow" else 1
    m = Module(f"{name}_{kind}")
    b = m.function("apply", [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    *inputs, out = (b.load(b.offset(b.param("args"), 8 * i), PTR) for i in range(arity + 1))
    n = b.load(b.offset(b.param("args"), 8 * (arity + 1)), I64)
    type = vec(kind, lanes)
    with b.loop(0, n, lanes) as loop:
        at = b.mul(loop.index, type.size)
        b.store(getattr(vector_math, name)(b, *(b.load(b.offset(p, at), type) for p in inputs)), b.offset(out, at))
        loop.next([])
    return m


@functools.cache
def code(name: str, kind: str, target, lanes: int) -> Code:
    return Code(module(name, kind, lanes), target)


def run(call, kind: str, lanes: int, *arguments) -> np.ndarray:
    arrays = [np.ascontiguousarray(a, KINDS[kind]).ravel() for a in arguments]
    size = arrays[0].size
    arrays = [np.concatenate([a, np.zeros(-size % lanes, a.dtype)]) for a in arrays]
    out = np.empty_like(arrays[0])
    block = np.array([*(a.ctypes.data for a in arrays), out.ctypes.data, out.size], np.int64)
    call(block.ctypes.data)
    return out[:size]


def compiled(name: str, kind: str, *arguments, target=TARGETS[0], lanes: int = 0) -> np.ndarray:
    lanes = lanes or target.vector_bytes // np.dtype(KINDS[kind]).itemsize
    machine = code(name, kind, target, lanes)
    return run(lambda args: machine.call("apply", args), kind, lanes, *arguments)


def erf(x: np.ndarray) -> np.ndarray:
    """2/sqrt(pi) e^(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...): all terms of one sign. Beyond 7 it is 1 in any of our formats."""
    wide = x.astype(np.longdouble)
    a = np.minimum(np.abs(wide), np.longdouble(7))
    term = total = a
    for n in range(1, 200):
        term = term * (2 * a * a) / (2 * n + 1)
        total = total + term
    return np.copysign(total * np.exp(-a * a) * 2 / np.sqrt(4 * np.arctan(np.longdouble(1))), wide)


def reference(name: str, kind: str, *arguments) -> np.ndarray:
    with np.errstate(all="ignore"):
        wide = [np.asarray(a, KINDS[kind]).astype(WIDE[kind]) for a in arguments]
        return erf(*wide) if name == "erf" else {"atan": np.arctan, "pow": np.power}.get(name, getattr(np, name, None))(*wide)


def ulps(kind: str, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of the expected value in `kind`; inf where NaN, infinity or overflow disagree."""
    limits = np.finfo(KINDS[kind])
    with np.errstate(all="ignore"):
        exponent = np.clip(np.frexp(expected)[1] - 1, limits.minexp, limits.maxexp - 1)
        distance = np.abs(got.astype(expected.dtype) - expected) / np.ldexp(expected.dtype.type(1), exponent - limits.nmant)
        rounds_to = expected.astype(KINDS[kind])
    distance = np.where((got == rounds_to) & np.isinf(got), 0, distance)
    distance = np.where((got == expected) | (np.isnan(got) & np.isnan(expected)), 0, distance)
    return np.where(np.isnan(distance), np.inf, distance)


def every_exponent(kind: str, count: int, seed: int = 0) -> np.ndarray:
    """Random bits: all exponents, signs, subnormals, infinities and NaN."""
    word = {"f32": np.uint32, "f64": np.uint64}[kind]
    return np.random.default_rng(seed).integers(0, np.iinfo(word).max, count, word, endpoint=True).view(KINDS[kind])


def arguments(kind: str) -> np.ndarray:
    """Every exponent, then more where the functions bend, switch polynomials, overflow or vanish."""
    r = np.random.default_rng(1)
    exponents = np.exp2(r.uniform(-30, 12, 20_000)) * r.choice([-1, 1], 20_000)
    near_one = 1 + np.exp2(r.uniform(-25, -1, 10_000)) * r.choice([-1, 1], 10_000)
    quarters = np.pi / 2 * r.integers(1, 1 << 20, 10_000)
    limits = r.uniform(-760, 720, 10_000) if kind == "f64" else r.uniform(-105, 90, 10_000)
    parts = (every_exponent(kind, 60_000), exponents, near_one, -near_one, quarters, limits, r.uniform(-2, 2, 20_000))
    return np.concatenate([p.astype(KINDS[kind]) for p in parts])


def worst(name: str, kind: str, *args) -> tuple[float, str]:
    got, expected = compiled(name, kind, *args), reference(name, kind, *args)
    distance = ulps(kind, got, expected)
    at = int(distance.argmax())
    return float(distance[at]), f"{name}({', '.join(repr(a[at]) for a in args)}) = {got[at]!r}, expected {expected[at]!r}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", UNARY)
def test_error_over_all_exponents(name, kind):
    distance, what = worst(name, kind, arguments(kind))
    assert distance <= ULP[name][kind == "f64"], what


@pytest.mark.parametrize("kind", KINDS)
def test_error_of_pow(kind):
    r = np.random.default_rng(2)
    n, least, most = 20_000, *((-149, 128) if kind == "f32" else (-1074, 1024))
    t = r.uniform(least, most, n)  # log2 of the result
    near_one = 1 + np.exp2(r.uniform(-20, -2, n)) * r.choice([-1, 1], n)
    for x, y in (
        (every_exponent(kind, n, 3), every_exponent(kind, n, 4)),
        (np.exp2(r.uniform(least, most, n)), r.uniform(-1, 1, n)),
        (near_one, t / np.log2(near_one)),
        (-np.exp2(r.uniform(-3, 3, n)), r.integers(-40, 40, n)),
    ):
        distance, what = worst("pow", kind, x.astype(KINDS[kind]), np.asarray(y, KINDS[kind]))
        assert distance <= ULP["pow"][kind == "f64"], what


def validation_set(name: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    lines = (SETS / f"umath-validation-set-{'arctan' if name == 'atan' else name}.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines if line.startswith(f"np.float{kind[1:]},")]
    word = {"f32": np.uint32, "f64": np.uint64}[kind]
    return tuple(np.array([int(row[i], 16) for row in rows], np.uint64).astype(word).view(KINDS[kind]) for i in (1, 2))


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.isa)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [n for n in UNARY if n != "erf"])
def test_numpy_validation_sets(name, kind, target):
    x, expected = validation_set(name, kind)
    assert x.size > 50
    got = compiled(name, kind, x, target=target)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[~finite], expected[~finite])
    assert np.all(ulps(kind, got[finite], expected[finite]) <= 2)
    np.testing.assert_array_equal(np.signbit(got[expected == 0]), np.signbit(expected[expected == 0]))


SPECIAL = {
    "exp": [(0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (NAN, NAN), (1e4, INF), (-1e4, 0)],
    "expm1": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -1), (NAN, NAN), (1e4, INF), (-1e4, -1)],
    "log": [(1, 0), (0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1, NAN), (NAN, NAN)],
    "log1p": [(0, 0), (-0.0, -0.0), (-1, -INF), (-2, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
    "sin": [(0, 0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tanh": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (30, 1), (-30, -1)],
    "erf": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (7, 1), (-7, -1)],
    "atan": [(0, 0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2), (NAN, NAN)],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name, kind):
    x, expected = (np.array(v, KINDS[kind]) for v in zip(*SPECIAL[name]))
    got = compiled(name, kind, x)
    np.testing.assert_array_equal(got, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["expm1", "log1p", "sin", "tanh", "atan"])
def test_tiny_arguments_are_returned(name, kind):
    least = np.finfo(KINDS[kind]).smallest_subnormal
    x = np.array([least, -least, 3 * least, -7 * least, np.finfo(KINDS[kind]).tiny], KINDS[kind])
    np.testing.assert_array_equal(compiled(name, kind, x), x)


@pytest.mark.parametrize("kind", KINDS)
def test_special_values_of_pow(kind):
    largest = 2.0 ** (np.finfo(KINDS[kind]).nmant + 1)
    values = [0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, INF, -INF, NAN, 1e-30, 2.5, -2.5, 1e30, -1e30, largest - 1, -largest - 2]
    x, y = (v.ravel() for v in np.meshgrid(*[np.array(values, KINDS[kind])] * 2))
    got = compiled("pow", kind, x, y)
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    exact = ~np.isfinite(expected) | (expected == 0) | (np.abs(expected) == 1) | (y == 1)
    np.testing.assert_array_equal(got[exact], expected[exact])
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(expected[known]))


def test_angles_next_to_a_multiple_of_half_pi():
    # the float64 and the float32 for which cos is smallest (Muller et al., Handbook of Floating-Point Arithmetic, 11.1)
    hard = np.array([math.ldexp(6381956970095103, 797), math.ldexp(16367173, 72)])
    got = compiled("cos", "f64", hard)
    assert abs(got[0] / -4.68716592425462761112e-19 - 1) < 4e-16
    near = compiled("cos", "f32", hard[1:])
    assert abs(near[0] / reference("cos", "f64", hard[1:])[0] - 1) < 2e-7
    multiples = (np.arange(1, 100_000) * (np.pi / 2)).astype(np.float32)
    for name in ("sin", "cos"):
        distance, what = worst(name, "f32", multiples)
        assert distance <= ULP[name][0], what


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ULP)
def test_same_bits_for_every_target_and_width(name, kind):
    word = {"f32": np.uint32, "f64": np.uint64}[kind]
    args = [every_exponent(kind, 4_000, 5), every_exponent(kind, 4_000, 6)][:2 if name == "pow" else 1]
    args = [np.concatenate([a, np.linspace(-4, 4, 999 + 2 * i)[:999].astype(a.dtype)]) for i, a in enumerate(args)]
    first = compiled(name, kind, *args)
    runs = [compiled(name, kind, *args, target=t) for t in TARGETS[1:]]
    runs += [compiled(name, kind, *args, lanes=lanes) for lanes in (1, 2, 4, 8, 16, 32)]
    for got in runs:  # the payload of a NaN is left open
        np.testing.assert_array_equal(np.where(np.isnan(got), 0, got).view(word), np.where(np.isnan(first), 0, first).view(word))
        np.testing.assert_array_equal(np.isnan(got), np.isnan(first))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ULP)
def test_interpreter_agrees(name, kind):
    args = [np.concatenate([every_exponent(kind, 24, s), np.linspace(-3, 3, 8).astype(KINDS[kind])]) for s in (7, 8)]
    args = args[:2 if name == "pow" else 1]
    program = module(name, kind, 8)
    got = run(lambda block: run_python.run(program, "apply", block), kind, 8, *args)
    np.testing.assert_array_equal(got, compiled(name, kind, *args))
