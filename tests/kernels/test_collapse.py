"""Fewer dimensions for the same nest: what is joined, what is not, and that the meaning stays."""

from __future__ import annotations

import numpy as np
import pytest

from renaissance.ir import dtype as dt
from renaissance.ir.plan import Nest, Stage
from renaissance.kernels.collapse import simplified
from tests.kernels.launch import Body, item, store
from tests.kernels.meaning import perform, same

F = dt.float32


def dense(extents):
    return tuple(int(np.prod(extents[d + 1:])) for d in range(len(extents)))


def copy_nest(extents, strides, out=None):
    body = Body()
    x = body.load(0, strides)
    return Nest("row", extents, (Stage("map", body.done, (store(1, out or dense(extents), x),)),))


@pytest.mark.parametrize("extents, strides, wanted", [
    ((2, 3, 4), (12, 4, 1), (24,)),
    ((2, 3, 4), (0, 4, 1), (2, 12)),
    ((2, 3, 4), (3, 1, 0), (6, 4)),
    ((2, 3, 4), (0, 1, 0), (2, 3, 4)),
    ((2, 1, 4), (4, 99, 1), (8,)),
    ((1, 1), (5, 5), (1,)),
    ((), (), (1,)),
])
def test_extents(extents, strides, wanted):
    assert simplified(copy_nest(extents, strides), 0).extents == wanted


def test_a_map_is_ordered_by_its_output():
    nest = simplified(copy_nest((4, 5), (5, 1), out=(1, 4)), 0)
    assert nest.extents == (5, 4)
    assert nest.stages[0].stores[0].access.strides == (4, 1)


def test_the_row_of_a_reduction_stays():
    nest = copy_nest((2, 3, 4), (12, 4, 1))
    assert simplified(nest, 1).extents == (6, 4)
    assert simplified(nest, 2).extents == (2, 3, 4)


def test_flat_coordinates_become_one():
    """Index arithmetic over joined dimensions is a single coordinate; the instructions of its parts are gone."""
    body = Body()
    rows = body.add("mul", (body.coord(0), body.const(6, dt.int64)), None, dt.int64)
    flat = body.add("add", (rows, body.coord(1)), None, dt.int64)
    word = body.add("philox", (flat,), (0, 1), dt.uint32)
    nest = simplified(Nest("row", (5, 6), (Stage("map", body.done, (store(0, (6, 1), word),)),)), 0)
    assert nest.extents == (30,)
    assert [i.op for i in nest.stages[0].body if i.op not in ("const", "mul")] == ["coord", "philox"]


def test_coordinates_used_apart_keep_dimensions_apart():
    body = Body()
    total = body.add("floordiv", (body.coord(0), body.add("add", (body.coord(1), body.const(1, dt.int64)), None, dt.int64)), None,
                     dt.int64)
    nest = simplified(Nest("row", (5, 6), (Stage("map", body.done, (store(0, (6, 1), total),)),)), 0)
    assert nest.extents == (5, 6)


@pytest.mark.parametrize("seed", range(40))
def test_meaning_stays(seed):
    """Random accesses, coordinates and carries: the same result before and after."""
    rng = np.random.default_rng(seed)
    extents = tuple(int(e) for e in rng.integers(1, 4, rng.integers(1, 5)))
    layout = ("map", "row", "column")[seed % 3] if len(extents) > 1 else "map"
    fixed = {"map": 0, "row": 1, "column": 2}[layout]

    def body():
        b = Body()
        strides = dense(extents) if rng.random() < 0.5 else tuple(int(s) for s in rng.integers(0, 4, len(extents)))
        x = b.load(0, strides)
        steps = dense(extents) if rng.random() < 0.5 else rng.integers(0, 3, len(extents))
        at = b.const(int(rng.integers(0, 3)), dt.int64)
        for d, s in enumerate(steps):
            term = b.add("mul", (b.const(int(s), dt.int64), b.coord(d)), None, dt.int64)
            at = b.add(("add", "sub")[int(rng.integers(2))], (at, term), None, dt.int64)
        return b, b.add("add", (x, b.add("cast", (at,), None, F)))

    def kept(strides):
        return tuple(0 if d == len(extents) - fixed else s for d, s in enumerate(strides))

    b, total = body()
    if layout == "map":
        nest = Nest("row", extents, (Stage("map", b.done, (store(1, dense(extents), total),)),))
    else:
        p, value = body()
        carried = p.add("add", (value, p.add("carry", (), (0, 0))))
        q = Body()
        again = q.add("add", (q.add("carry", (), (1, carried)), q.add("carry", (), (1, value))))
        nest = Nest(layout, extents, (
            Stage("reduce", b.done, (), "sum"), Stage("point", p.done, (store(1, kept(dense(extents)), carried),)),
            Stage("point", q.done, (store(2, kept(dense(extents)), again),))))
    arrays = [rng.normal(size=200).astype(np.float32), np.zeros(200, np.float32), np.zeros(200, np.float32)]
    results = (perform(item(n, [F], [F, F]), arrays) for n in (nest, simplified(nest, fixed)))
    for before, after in zip(*results):
        assert same(before, after)
