"""Nests of short rows: the bits of the schedule for rows of any length, whatever the rows hold and however they lie."""

from __future__ import annotations

import numpy as np
import pytest

from renaissance.ir import dtype as dt
from renaissance.ir.plan import Access, Nest, Stage
from renaissance.kernels.arguments import Arguments
from renaissance.kernels.lower import lower
from renaissance.kernels.schedules import short_rows
from renaissance.kernels.schedules.expressions import Expressions
from renaissance.kernels.schedules.sweep import bind
from tests.kernels.jit import TARGETS
from tests.kernels.launch import Body, item, launch, store
from tests.kernels.meaning import perform, same, samples

F = dt.float32
DTYPES = [F, dt.float64, dt.bfloat16, dt.float16, dt.int8, dt.uint8, dt.int32, dt.int64, dt.uint64, dt.bool_]
COMBINES = ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"]


@pytest.fixture(params=TARGETS, ids=lambda t: t.isa)
def target(request):
    return request.param


@pytest.fixture
def agree(monkeypatch):
    """A function: launches an item as short rows, for one thread and for seven, and by the other schedule; all bits are equal."""
    def check(work, arrays, target, **options):
        assert lower(work, target, 1).key.startswith("short_rows")
        runs = [launch(work, arrays, target, threads=t, seed=t, **options) for t in (1, 7)]
        with monkeypatch.context() as patch:
            patch.setattr(short_rows, "takes", lambda nest: False)
            wanted, error = launch(work, arrays, target, **options)
        for got, raised in runs:
            assert raised == error
            for n, (g, w) in enumerate(zip(got, wanted)):
                assert same(g, w), (n, g, w)
        return wanted
    return check


def row(extents, *stages):
    return Nest("row", extents, stages)


def reduction(combine, dtype, rows, strides, n):
    """Reduce rows and store the results; those of a negative stride begin at their last element."""
    body, point = Body(), Body()
    body.load(0, strides, dtype, offset=max(0, -strides[1] * (n - 1)))
    result = dt.int64 if combine[:3] == "arg" else dtype
    carried = point.add("carry", (), (0, 0), result)
    stages = Stage("reduce", body.done, (), combine), Stage("point", point.done, (store(1, (1, 0), carried),))
    return item(row((rows, n), *stages), [dtype], [result]), np.zeros(rows, result.numpy)


@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_reductions(combine, dtype, target, agree):
    if (combine in ("any", "all")) != (dtype is dt.bool_) and combine[:3] != "arg":
        return  # sums of bool and truth of numbers are made of casts
    for rows in (15, 16, 200):
        work, out = reduction(combine, dtype, rows, (10, 1), 10)
        x = samples(dtype, (rows, 10), rows)
        x[3], x[4, 1:] = x[3, 0], x[4, 0]
        agree(work, [x, out], target)


@pytest.mark.parametrize("n", range(1, 33))
@pytest.mark.parametrize("combine", ["sum", "argmin"])
def test_rows_of_any_short_length(n, combine, agree):
    work, out = reduction(combine, F, 37, (n, 1), n)
    agree(work, [samples(F, (37, n), n), out], TARGETS[0])


@pytest.mark.parametrize("combine", ["sum", "max", "min", "argmax", "argmin"])
def test_rows_of_one_kind_of_number(combine, target, agree):
    """Zeros of both signs, infinities and NaNs alone and together."""
    x = np.random.default_rng(0).choice(np.float32([0.0, -0.0, np.inf, -np.inf, np.nan]), (48, 5))
    x[:16], x[16:20], x[20:24], x[24:28] = np.where(x[:16] < 1, x[:16], 0), -0.0, -np.inf, np.nan
    work, out = reduction(combine, F, 48, (5, 1), 5)
    agree(work, [x, out], target)


@pytest.mark.parametrize("dtype", [F, dt.bfloat16, dt.bool_], ids=lambda d: d.name)
@pytest.mark.parametrize("strides", [(21, 2), (1, 40), (13, 1), (9, -1), (2, 3), (1, 1)])
def test_rows_of_any_strides(dtype, strides, target, agree):
    work, out = reduction("max" if dtype is not dt.bool_ else "any", dtype, 40, strides, 9)
    x = samples(dtype, (40 * 21 + 40,))
    agree(work, [x, out], target)


def normalized(n, dtype=F, factors=(0.3, 0.3)):
    """Shifted by the largest, over the sum of exponentials: stores its inverse, the rows, which are large, and the rows' sum."""
    top, total, point, last, again, mean = (Body() for _ in range(6))
    top.load(0, (n, 1), dtype)

    def shifted(body, factor):
        x = body.add("sub", (body.load(0, (n, 1), dtype), body.add("carry", (), (0, 0), dtype)), None, dtype)
        return body.add("exp", (body.add("mul", (x, body.const(factor, dtype)), None, dtype),), None, dtype)
    shifted(total, factors[0])
    inverse = point.add("div", (point.const(1.0, dtype), point.add("carry", (), (1, 0), dtype)), None, dtype)
    y = last.add("mul", (shifted(last, factors[1]), last.add("carry", (), (2, inverse), dtype)), None, dtype)
    large = last.add("lt", (last.const(0.1, dtype), y), None, dt.bool_)
    again.load(2, (n, 1), dtype)  # what the stage before has stored
    stored = mean.add("carry", (), (4, 0), dtype)
    stores = store(2, (n, 1), y), store(3, (1, 64), large)
    return row((50, n), Stage("reduce", top.done, (), "max"), Stage("reduce", total.done, (), "sum"),
               Stage("point", point.done, (store(1, (1, 0), inverse),)), Stage("map", last.done, stores),
               Stage("reduce", again.done, (), "sum"), Stage("point", mean.done, (store(4, (1, 0), stored),)))


@pytest.mark.parametrize("dtype", [F, dt.float64, dt.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("n", [1, 10, 19])
def test_stages_and_stores(n, dtype, target, agree):
    work = item(normalized(n, dtype), [dtype], [dtype, dtype, dt.bool_, dtype])
    zeros = [np.zeros(s, d.numpy) for s, d in ((50, dtype), ((50, n), dtype), ((n, 64), dt.bool_), (50, dtype))]
    agree(work, [samples(dtype, (50, n)), *zeros], target)


def test_equal_constants_are_part_of_the_code(target, agree):
    """With two factors the exponentials of two stages differ."""
    works = [item(normalized(10, F, factors), [F], [F, F, dt.bool_, F]) for factors in ((0.3, 0.3), (0.3, 0.7), (0.4, 0.4))]
    zeros = [np.zeros(s, d) for s, d in ((50, np.float32), ((50, 10), np.float32), ((10, 64), bool), (50, np.float32))]
    for work in works:
        agree(work, [samples(F, (50, 10)), *zeros], target)
    first, other, again = (lower(work, target, 1).key for work in works)
    assert first == again != other


def test_nothing_is_computed_or_read_twice():
    """The exponentials of the second stage serve the fourth, whose rows serve the fifth."""
    nest = normalized(10)
    arguments = Arguments(item(nest, [F], [F, F, dt.bool_, F]).operands, 0)
    sweeps = [bind(arguments, s) for s in nest.stages]
    e = Expressions(nest.stages, sweeps, arguments.places, 1, frozenset())
    exp, y = e.of[1][-1], e.of[3][sweeps[3].stores[0][1]]
    assert e.of[3].count(exp) == 1 and e.of[4] == [y]
    assert {exp, y} <= e.kept
    assert {i.op for i in e.along[3].body} == {"exp", "carry", "mul", "const", "lt"}


@pytest.mark.parametrize("rows", [15, 16, 40])
def test_in_place(rows, target, agree):
    """The rows are written where they were read."""
    body, last = Body(), Body()
    body.load(0, (12, 1))
    last.add("sub", (last.load(0, (12, 1)), last.add("carry", (), (0, 0))))
    written = Stage("map", last.done, (store(1, (12, 1), 2),))
    work = item(row((rows, 12), Stage("reduce", body.done, (), "sum"), written), [F], [F])
    x = samples(F, (rows, 12))
    agree(work, [x, x], target, shared={1: 0})


def test_label_smoothing_by_index_and_padding(target, agree):
    """Values of each row as carries and masks along the row; a masked load, a gather, coordinates, what is one for all, and
    the first element of what moves along the row."""
    body, point, last = Body(), Body(), Body()

    def inside(b):
        moved = b.add("sub", (b.coord(1), b.const(2, dt.int64)), None, dt.int64)
        low = b.add("le", (b.const(0, dt.int64), moved), None, dt.bool_)
        return b.add("and", (low, b.add("lt", (moved, b.load(1, (1, 0), dt.int64)), None, dt.bool_)), None, dt.bool_)
    body.load(0, (7, 1), offset=-2, mask=inside(body))
    total = point.add("carry", (), (0, 0))
    code = point.add("cast", (point.coord(0),), None, F)
    point.add("add", (point.add("mul", (total, code)), point.load(2, (0, 1), offset=5)))
    mask = inside(last)
    x = last.load(0, (7, 1), offset=-2, mask=mask)
    x = last.add("sub", (x, last.load(2, (0, 1), offset=5)))
    x = last.add("mul", (x, last.add("carry", (), (1, 4))))
    hit = last.add("eq", (last.coord(1), last.load(1, (1, 0), dt.int64)), None, dt.bool_)
    here = last.load(1, (1, 0), dt.int64)
    got = last.add("load_at", (last.add("add", (here, last.coord(1)), None, dt.int64), hit), Access(2, (1,)))
    more = last.add("add", (last.add("where", (hit, got, x)), last.add("carry", (), (1, 5))))
    last.add("add", (more, last.add("scalar", (), 0)))
    work = item(row((35, 9), Stage("reduce", body.done, (), "sum"), Stage("point", point.done, ()),
                    Stage("map", last.done, (store(3, (9, 1), len(last.instrs) - 1), store(4, (9, 1), mask)))),
                [F, dt.int64, F], [F, dt.bool_])
    counts = np.random.default_rng(0).integers(0, 8, 35)
    arrays = [samples(F, (35, 7)), counts, samples(F, (16,)), np.zeros((35, 9), np.float32), np.zeros((35, 9), bool)]
    wanted = agree(work, arrays, target, scalars=[1.5])
    meant = perform(work, arrays, [1.5])
    assert np.array_equal(wanted[4], meant[4])


def test_several_outer_dimensions(target, agree):
    """Lanes lie along the longest; others are gone through block by block."""
    body, point = Body(), Body()
    body.add("mul", (body.load(0, (21 * 3 * 20, 3 * 20, 20, 2)), body.load(1, (0, 1, 0, 0))))
    stored = store(2, (63, 1, 21, 0), point.add("carry", (), (0, 0)))
    work = item(row((2, 21, 3, 10), Stage("reduce", body.done, (), "sum"), Stage("point", point.done, (stored,))), [F, F], [F])
    agree(work, [samples(F, (2, 21, 3, 20)), samples(F, (21,), 1), np.zeros((2, 3, 21), np.float32)], target)


@pytest.mark.parametrize("fails_at", [None, 0, 163, 179])
def test_checks(fails_at, target, agree):
    """At each element, and once for each row; lanes behind the last row check nothing."""
    body, point = Body(), Body()
    x = body.load(0, (10, 1))
    body.add("check", (body.add("lt", (x, body.const(1.0)), None, dt.bool_),), 6, dt.bool_)
    body.add("mul", (x, x))
    total = point.add("carry", (), (0, 0))
    point.add("check", (point.add("lt", (total, point.const(50.0)), None, dt.bool_),), 7, dt.bool_)
    checked = Stage("point", point.done, (store(1, (1, 0), total),))
    work = item(row((18, 10), Stage("reduce", body.done, (), "sum"), checked), [F], [F])
    x = np.zeros(180, np.float32)
    if fails_at is not None:
        x[fails_at] = 2
    agree(work, [x, np.zeros(18, np.float32)], target)
    assert launch(work, [x, np.zeros(18, np.float32)], target)[1] == (0 if fails_at is None else 7)


def test_the_interpreter_agrees(agree):
    work = item(normalized(3), [F], [F, F, dt.bool_, F])
    zeros = [np.zeros(s, d) for s, d in ((50, np.float32), ((50, 3), np.float32), ((3, 64), bool), (50, np.float32))]
    x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    for a, b in zip(launch(work, [x, *zeros], None)[0], launch(work, [x, *zeros], TARGETS[0])[0]):
        assert same(a, b)


def test_rows_that_other_schedules_take():
    """Long ones, few ones, no reduction, random words."""
    def key(rows, n, word="neg"):
        body = Body()
        x = body.load(0, (n, 1))
        if word == "philox":
            body.add("philox", (body.coord(1),), (0, 0), dt.uint32)
        body.add("neg", (x,))
        return lower(item(row((rows, n), Stage("reduce", body.done, (), "sum")), [F], []), TARGETS[0], 1).key
    assert key(100, 10).startswith("short_rows")
    others = [key(100, 33), key(7, 10), key(0, 10), key(100, 0), key(100, 10, "philox")]
    assert not any(k.startswith("short_rows") for k in others)
    assert key(100, 10) == key(1000, 10) != key(100, 11)
