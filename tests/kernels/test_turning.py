"""Maps that turn an operand: every size of block, dtype, dimension and body, against the meaning of the nest."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from renaissance.ir import dtype as dt
from renaissance.ir.plan import Nest, Stage
from renaissance.kernels.lower import lower
from renaissance.kernels.schedules import turning
from tests.kernels.jit import TARGETS
from tests.kernels.launch import Body, item, launch, store
from tests.kernels.meaning import perform, same, samples

F = dt.float32
SIDES = (1, 2, 3, 9, 15, 16, 17, 33)


@pytest.fixture(params=TARGETS, ids=lambda t: t.isa)
def target(request):
    return request.param


def dense(extents):
    return tuple(int(np.prod(extents[d + 1:])) for d in range(len(extents)))


def turned(extents, along, dtype=F, pointwise=False):
    """A map that reads an operand in which `along` is the last dimension, and writes dense results."""
    order = [d for d in range(len(extents)) if d != along] + [along]
    steps = dense([extents[d] for d in order])
    strides = tuple(steps[order.index(d)] for d in range(len(extents)))
    body = Body()
    value = body.load(0, strides, dtype)
    if pointwise:
        other = body.load(1, dense(extents), dtype)
        bias = body.load(2, tuple(int(d == len(extents) - 1) for d in range(len(extents))), dtype)
        value = body.add("add", (body.add("mul", (value, other), None, dtype), bias), None, dtype)
    sources = 3 if pointwise else 1
    spec = Nest("row", tuple(extents), (Stage("map", body.done, (store(sources, dense(extents), value),)),))
    shapes = [[extents[d] for d in order], extents, extents[-1:]][:sources]
    arrays = [samples(dtype, tuple(s), n) for n, s in enumerate(shapes)] + [np.zeros(extents, dtype.numpy)]
    return item(spec, [dtype] * sources, [dtype]), arrays


def agree(work, arrays, target):
    wanted = perform(work, arrays)
    for threads in (1, 7):
        got, error = launch(work, arrays, target, threads=threads, seed=threads)
        assert error == 0
        assert all(same(g, w) for g, w in zip(got, wanted))


def is_turned(work):
    return lower(work, TARGETS[0], 2).key.startswith("turn")


@pytest.mark.parametrize("depth", SIDES)
def test_blocks_of_any_size(depth, target):
    for length in SIDES:
        work, arrays = turned((depth, length), 0)
        assert is_turned(work) == (depth > 1 and length > 1)
        agree(work, arrays, target)


@pytest.mark.parametrize("dtype", [F, dt.bfloat16, dt.int32], ids=lambda d: d.name)
@pytest.mark.parametrize("extents,along", [((3, 20, 5, 18), a) for a in range(3)] + [((9, 33, 48), 0), ((5, 40, 3), 1)])
def test_any_dimension_and_dtype(extents, along, dtype, target):
    work, arrays = turned(extents, along, dtype)
    assert is_turned(work)
    agree(work, arrays, target)


@pytest.mark.parametrize("dtype", [F, dt.bfloat16], ids=lambda d: d.name)
def test_other_operands_lie_as_the_results_do(dtype, target):
    work, arrays = turned((2, 35, 50), 1, dtype, pointwise=True)
    assert is_turned(work)
    agree(work, arrays, target)


def test_two_operands_are_turned_alike(target):
    body = Body()
    difference = body.add("sub", (body.load(0, (1, 37)), body.load(1, (1, 37))))
    work = item(Nest("row", (37, 21), (Stage("map", body.done, (store(2, (21, 1), difference),)),)), [F] * 2, [F])
    assert is_turned(work)
    agree(work, [samples(F, (21, 37), n) for n in (0, 1)] + [np.zeros((37, 21), np.float32)], target)


def test_the_interpreter_agrees():
    for depth, length in product((3, 17), (5, 20)):
        work, arrays = turned((depth, length), 0, pointwise=True)
        wanted = perform(work, arrays)
        assert all(same(g, w) for g, w in zip(launch(work, arrays, None)[0], wanted))


def test_what_is_not_turned():
    for dtype in (dt.float64, dt.uint8, dt.bool_):
        assert not is_turned(turned((20, 20), 0, dtype)[0])
    work, _ = turned((20, 20), 0)
    empty = turned((0, 20), 0)[0]
    assert turning.along(work.spec, work.operands) == 0 and turning.along(empty.spec, empty.operands) is None


def test_large_work_is_shared():
    assert lower(turned((512, 600), 0)[0], TARGETS[0], 2).chunks > 1
    assert lower(turned((20, 20), 0)[0], TARGETS[0], 2).chunks == 1
