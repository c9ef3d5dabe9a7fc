"""Every scalar word and every cast on every dtype and instruction set, against its NumPy meaning."""

from __future__ import annotations

import numpy as np
import pytest

from renaissance.errors import KernelError
from renaissance.ir import dtype as dt
from renaissance.ir.dtype import DType
from renaissance.ir.plan import Nest, Stage
from renaissance.kernels.lower import lower
from renaissance.ops.scalar import WORDS
from tests.kernels.jit import TARGETS
from tests.kernels.launch import Body, item, launch, store
from tests.kernels.meaning import perform, same, samples

N = 203
CLOSE = {"exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "atan", "pow"}  # tested to the ulp with vector_math


@pytest.fixture(params=TARGETS, ids=lambda t: t.isa)
def target(request):
    return request.param


def words_nest(dtype: DType, names: list[str]):
    """One map that stores each word of (x, y, z) in an output of its own; integer divisors and counts come as they are."""
    body = Body()
    x, y, z = (body.load(n, (1,), dtype) for n in range(3))
    condition = body.load(3, (1,), dt.bool_)
    outs, stores = [], []
    for name in names:
        word = WORDS[name]
        args = (condition, x, y) if name == "where" else (x, y, z)[:word.arity]
        result = dt.bool_ if word.result == "bool" else dtype
        stores.append(store(4 + len(outs), (1,), body.add(name, args, None, result)))
        outs.append(result)
    return item(Nest("row", (N,), (Stage("map", body.done, tuple(stores)),)), [dtype] * 3 + [dt.bool_], outs), outs


@pytest.mark.parametrize("dtype", dt.ALL, ids=lambda d: d.name)
def test_words(dtype, target):
    names = [w.name for w in WORDS.values() if dtype.kind in w.kinds and w.name not in CLOSE]
    if dtype is dt.bool_:  # arithmetic that NumPy refuses for bool is no word of bool
        names = [n for n in names if n not in ("neg", "sub")]
    work, outs = words_nest(dtype, names)
    arrays = [samples(dtype, (N,), s) for s in range(3)] + [samples(dt.bool_, (N,), 3)] + [np.zeros(N, o.numpy) for o in outs]
    wanted = perform(work, arrays)
    got, error = launch(work, arrays, target)
    for name, g, w in zip(names, got[4:], wanted[4:]):
        assert same(g, w), (name, [row for row in zip(arrays[0], arrays[1], g, w) if row[2] != row[3]][:5])
    assert error == 0


@pytest.mark.parametrize("dtype", [dt.uint8, dt.int32, dt.int64], ids=lambda d: d.name)
def test_integer_powers_wrap(dtype, target):
    work, _ = words_nest(dtype, ["pow"])
    x, y = samples(dtype, (N,), 0), np.random.default_rng(1).integers(0, 70, N).astype(dtype.numpy)
    arrays = [x, y, x, np.zeros(N, bool), np.zeros(N, dtype.numpy)]
    assert same(launch(work, arrays, target)[0][4], np.power(x, y))


@pytest.mark.parametrize("exponent", [0, 1, 2, 7])
def test_known_integer_powers(exponent, target):
    body = Body()
    power = body.add("pow", (body.load(0, (1,), dt.int64), body.const(exponent, dt.int64)), None, dt.int64)
    work = item(Nest("row", (N,), (Stage("map", body.done, (store(1, (1,), power),)),)), [dt.int64], [dt.int64])
    x = samples(dt.int64, (N,))
    assert same(launch(work, [x, np.zeros_like(x)], target)[0][1], x**exponent)


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.bfloat16, dt.float16], ids=lambda d: d.name)
def test_functions_reach_their_kernels(dtype):
    names = sorted(CLOSE)
    work, _ = words_nest(dtype, names)
    rng = np.random.default_rng(0)
    inputs = [(rng.random(N) + 0.25).astype(dtype.numpy) for _ in range(3)]
    arrays = [*inputs, np.zeros(N, bool), *[np.zeros(N, dtype.numpy) for _ in names]]
    wanted, got = perform(work, arrays), launch(work, arrays, TARGETS[0])[0]
    for name, g, w in zip(names, got[4:], wanted[4:]):
        eps = {"float32": 1e-6, "float64": 1e-14, "bfloat16": 1e-2, "float16": 2e-3}[dtype.name]
        np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=eps, atol=eps / 10, err_msg=name)


@pytest.mark.parametrize("source", dt.ALL, ids=lambda d: d.name)
def test_casts(source, target):
    body = Body()
    x = body.load(0, (1,), source)
    stores = tuple(store(1 + n, (1,), body.add("cast", (x,), None, to)) for n, to in enumerate(dt.ALL))
    work = item(Nest("row", (N,), (Stage("map", body.done, stores),)), [source], dt.ALL)
    values = samples(source, (N,))
    arrays = [values, *[np.zeros(N, to.numpy) for to in dt.ALL]]
    wanted, got = perform(work, arrays), launch(work, arrays, target)[0]
    for to, g, w in zip(dt.ALL, got[1:], wanted[1:]):
        fits = np.ones(N, bool)
        if source.is_float and to.is_integer:  # elsewhere C, and so NumPy, promises nothing
            wide = np.trunc(values.astype(np.float64))
            info = np.iinfo(to.numpy)
            fits = (wide >= info.min) & (wide <= info.max) & (np.abs(wide) < 2.0**62)
        assert same(g[fits], w[fits]), to


def test_floats_beyond_an_integer_are_the_same_everywhere():
    body = Body()
    x = body.load(0, (1,))
    stores = tuple(store(1 + n, (1,), body.add("cast", (x,), None, to)) for n, to in enumerate((dt.int32, dt.int64, dt.uint8)))
    work = item(Nest("row", (16,), (Stage("map", body.done, stores),)), [dt.float32], [dt.int32, dt.int64, dt.uint8])
    x = np.array([np.nan, np.inf, -np.inf, 1e30] * 4, np.float32)
    for target in TARGETS:
        got = launch(work, [x, np.zeros(16, np.int32), np.zeros(16, np.int64), np.zeros(16, np.uint8)], target)[0]
        assert np.all(got[1] == np.iinfo(np.int32).min) and np.all(got[2] == np.iinfo(np.int64).min) and np.all(got[3] == 0)


def test_a_word_without_meaning_is_named():
    body = Body()
    root = body.add("sqrt", (body.load(0, (1,), dt.int32),), None, dt.int32)
    work = item(Nest("row", (4,), (Stage("map", body.done, (store(1, (1,), root),)),)), [dt.int32], [dt.int32])
    with pytest.raises(KernelError, match="sqrt: there is no kernel for int32; it takes floats"):
        lower(work, TARGETS[0], 1).build()
