"""Scatter against the loop that defines it."""

from __future__ import annotations

import numpy as np
import pytest

from renaissance.errors import KernelError
from renaissance.ir import dtype as dt
from renaissance.ir.plan import Access, Scatter
from renaissance.kernels.lower import lower
from tests.kernels.jit import TARGETS
from tests.kernels.launch import Body, item, launch
from tests.kernels.meaning import same, samples, word

F = dt.float32


@pytest.fixture(params=TARGETS, ids=lambda t: t.isa)
def target(request):
    return request.param


def scatter(rows, n, m, combine, dtype=F, init=True):
    """out = init; out[index[i]] (+)= 2 * value[i]."""
    index, value = Body(), Body()
    index.load(0, (1, 0), dt.int64)
    x = value.load(1, (n, 1), dtype)
    value.add("add", (x, x), None, dtype)
    start = Access(2, (n, 1)) if init else None
    return item(Scatter(rows, n, m, combine, index.done, value.done, start, 3), [dt.int64, dtype, dtype], [dtype])


def meaning(index, value, init, combine, dtype):
    out = init.copy()
    with np.errstate(all="ignore"):
        for i, v in zip(index, value):
            v = word("add", [v, v], dtype)
            out[i] = word("add", [out[i], v], dtype) if combine == "sum" else v
    return out


@pytest.mark.parametrize("combine", ["sum", "last"])
@pytest.mark.parametrize("rows, n, m", [(7, 5, 40), (3, 200, 10), (50, 1, 300), (4, 64, 0), (0, 3, 0), (9, 0, 4), (1, 1, 1),
                                        (40, 65, 30)])
@pytest.mark.parametrize("init", [True, False])
def test_scatter(rows, n, m, combine, init, target):
    rng = np.random.default_rng(0)
    index = rng.integers(0, max(rows, 1), m)
    value, start = rng.normal(size=(m, n)).astype(np.float32), rng.normal(size=(rows, n)).astype(np.float32)
    wanted = meaning(index, value, start if init else np.zeros_like(start), combine, F)
    for threads in (1, 3):
        work = scatter(rows, n, m, combine, init=init)
        got, _ = launch(work, [index, value, start, np.ones_like(start)], target, threads=threads)
        assert same(got[3], wanted)


@pytest.mark.parametrize("dtype", [dt.float64, dt.bfloat16, dt.int32, dt.int64, dt.uint8], ids=lambda d: d.name)
def test_dtypes(dtype, target):
    index = np.random.default_rng(0).integers(0, 6, 50)
    value, start = samples(dtype, (50, 19)), samples(dtype, (6, 19), 1)
    got, _ = launch(scatter(6, 19, 50, "sum", dtype), [index, value, start, start], target)
    assert same(got[3], meaning(index, value, start, "sum", dtype))


def test_large_scatters_are_cut_and_keep_their_bits(target):
    """By columns where rows are long, by rows where they are short; the order of additions to one element stays."""
    rng = np.random.default_rng(0)
    for rows, n, m in ((10, 400, 300), (300, 20, 2000), (2000, 1, 40_000)):
        index = rng.integers(0, rows, m)
        value, start = rng.normal(size=(m, n)).astype(np.float32), rng.normal(size=(rows, n)).astype(np.float32)
        work = scatter(rows, n, m, "sum")
        assert lower(work, target, 4).chunks > 1
        alone = launch(work, [index, value, start, start], target)[0][3]
        for threads in (2, 4):
            assert same(launch(work, [index, value, start, start], target, threads=threads)[0][3], alone)


def test_in_place_of_its_initial_value(target):
    index, value = np.array([1, 1, 0]), np.ones((3, 70), np.float32)
    start = np.random.default_rng(0).normal(size=(3, 70)).astype(np.float32)
    got, _ = launch(scatter(3, 70, 3, "sum"), [index, value, start, start], target, shared={3: 2})
    assert same(got[2], meaning(index, value, start, "sum", F))


def test_indices_outside_write_nothing(target):
    start = np.zeros((3, 70), np.float32)
    got, _ = launch(scatter(3, 70, 4, "last"), [np.array([-1, 3, 10**9, 1]), np.ones((4, 70), np.float32), start, start], target)
    assert got[3].sum() == 2 * 70


def test_unknown_combination_is_named():
    with pytest.raises(KernelError, match="median"):
        lower(scatter(2, 2, 2, "median"), TARGETS[0], 1)
