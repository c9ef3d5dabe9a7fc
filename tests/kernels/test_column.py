"""Nests by columns against their meaning."""

from __future__ import annotations

import numpy as np
import pytest

from renaissance.ir import dtype as dt
from renaissance.ir.plan import Nest, Stage
from tests.kernels.jit import TARGETS
from tests.kernels.launch import Body, item, launch, store
from tests.kernels.meaning import perform, same, samples

F = dt.float32


@pytest.fixture(params=TARGETS, ids=lambda t: t.isa)
def target(request):
    return request.param


def reduction(combine, dtype, outer, length, n):
    """Reduce the middle dimension of (outer, length, n); a point stage stores the result."""
    body, point = Body(), Body()
    body.load(0, (length * n, n, 1), dtype)
    result = dt.int64 if combine[:3] == "arg" else dtype
    stored = store(1, (n, 0, 1), point.add("carry", (), (0, 0), result))
    stages = Stage("reduce", body.done, (), combine), Stage("point", point.done, (stored,))
    return item(Nest("column", (outer, length, n), stages), [dtype], [result]), result


def agree(work, arrays, target):
    wanted = perform(work, arrays)
    for threads in (1, 2, 7):
        got, _ = launch(work, arrays, target, threads=threads, seed=threads)
        for n, (g, w) in enumerate(zip(got, wanted)):
            assert same(g, w), (n, threads, g, w)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 64, 65, 200, 1024])
@pytest.mark.parametrize("outer, length", [(1, 1), (3, 5), (1, 256), (2, 0), (0, 3)])
def test_sums_of_any_size(n, outer, length, target):
    work, _ = reduction("sum", F, outer, length, n)
    x = np.random.default_rng(0).normal(size=(outer, length, n)).astype(np.float32)
    agree(work, [x, np.ones((outer, n), np.float32)], target)


@pytest.mark.parametrize("combine", ["sum", "prod", "max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", [F, dt.bfloat16, dt.int64, dt.uint8], ids=lambda d: d.name)
def test_reductions(combine, dtype, target):
    work, result = reduction(combine, dtype, 2, 20, 70)
    x = samples(dtype, (2, 20, 70))
    if dtype.is_float and combine in ("max", "min"):
        x[x == 0] = 1
    agree(work, [x, np.zeros((2, 70), result.numpy)], target)


def test_body_of_several_operands_and_a_point_stage(target):
    """A mean of masked differences, strided; the masked end of 70 columns."""
    body, point = Body(), Body()
    x, y = body.load(0, (20 * 140, 140, 2)), body.load(1, (0, 1, 0))
    keep = body.add("lt", (y, x), None, dt.bool_)
    body.add("where", (keep, body.add("sub", (x, y)), body.const(0.0)))
    mean = point.add("mul", (point.add("carry", (), (0, 0)), point.const(1 / 20)))
    plus = point.add("add", (mean, point.load(2, (0, 0, 1))))
    stores = store(3, (70, 0, 1), plus), store(4, (1, 0, 2), mean)
    stages = Stage("reduce", body.done, (), "sum"), Stage("point", point.done, stores)
    work = item(Nest("column", (2, 20, 70), stages), [F] * 3, [F] * 2)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in ((2, 20, 140), (20,), (70,), (2, 70), (70, 2))]
    agree(work, arrays, target)


def test_dear_bodies_go_vector_by_vector(target):
    body, point = Body(), Body()
    body.add("exp", (body.add("tanh", (body.add("log1p", (body.load(0, (70, 1)),)),)),))
    stored = store(1, (0, 1), point.add("carry", (), (0, 0)))
    stages = Stage("reduce", body.done, (), "sum"), Stage("point", point.done, (stored,))
    work = item(Nest("column", (9, 70), stages), [F], [F])
    x = np.random.default_rng(0).random((9, 70)).astype(np.float32)
    got, _ = launch(work, [x, np.zeros(70, np.float32)], target)
    np.testing.assert_allclose(got[1], np.exp(np.tanh(np.log1p(x.astype(np.float64)))).sum(0), rtol=1e-5)
    for threads in (2, 3):
        assert same(launch(work, [x, np.zeros(70, np.float32)], target, threads=threads)[0][1], got[1])


def test_a_single_column(target):
    """The kept dimension has one element, stored with stride 0."""
    body, point = Body(), Body()
    body.load(0, (30, 1, 0))
    stored = store(1, (1, 0, 0), point.add("carry", (), (0, 0)))
    stages = Stage("reduce", body.done, (), "sum"), Stage("point", point.done, (stored,))
    work = item(Nest("column", (4, 30, 1), stages), [F], [F])
    agree(work, [samples(F, (4, 30)), np.zeros(4, np.float32)], target)


@pytest.mark.parametrize("length", [0, 1, 33])
def test_several_reductions_in_one_loop(length, target):
    """Of one operand, of different kinds and widths; one that needs the result of another follows in a loop of its own."""
    first, second, third, fourth, point = Body(), Body(), Body(), Body(), Body()
    first.load(0, (length * 70, 70, 1))
    x = second.load(0, (length * 70, 70, 1))
    second.add("mul", (x, x))
    third.load(0, (length * 70, 70, 1))
    fourth.add("sub", (fourth.load(0, (length * 70, 70, 1)), fourth.add("carry", (), (0, 0))))
    stores = [store(k + 1, (70, 0, 1), point.add("carry", (), (k, 0), dt.int64 if k == 2 else F)) for k in range(4)]
    kinds = ((first, "sum"), (second, "max" if length else "sum"), (third, "argmin" if length else "sum"), (fourth, "sum"))
    if not length:
        point = Body()
        stores = [store(k + 1, (70, 0, 1), point.add("carry", (), (k, 0))) for k in range(4)]
    stages = (*(Stage("reduce", body.done, (), kind) for body, kind in kinds), Stage("point", point.done, tuple(stores)))
    dtypes = [F, F, dt.int64 if length else F, F]
    work = item(Nest("column", (2, length, 70), stages), [F], dtypes)
    x = np.random.default_rng(0).normal(size=(2, length, 70)).astype(np.float32)
    agree(work, [x, *(np.zeros((2, 70), d.numpy) for d in dtypes)], target)
