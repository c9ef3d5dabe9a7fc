"""Index maps against NumPy: what a map says about every point must be what the movements do to an array of positions."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from renaissance.ir import dtype as dt
from renaissance.ir.indexmap import Affine, IndexMap, NeedsSplit, NotAffine, dense, flatten, through, unflatten
from renaissance.ir.node import Node, node, unique
from renaissance.ir.shape import row_strides, size
from renaissance.ops import movement as mv
from renaissance.ops.value import LEAF, Value
from renaissance.ops.window import SHEAR


def leaf(*shape: int) -> Node:
    return unique(LEAF, shape, dt.int64)


def points(extents: tuple[int, ...]):
    return itertools.product(*(range(e) for e in extents))


def at(position: Affine, point: tuple[int, ...]) -> int:
    return position.offset + sum(s * i for s, i in zip(position.strides, point))


def split(extents: tuple[int, ...], need: NeedsSplit) -> tuple[int, ...]:
    d = need.dim
    assert extents[d] % need.inner == 0 and 1 < need.inner < extents[d]
    return (*extents[:d], extents[d] // need.inner, need.inner, *extents[d + 1:])


def resolve(n: Node, base: Node) -> tuple[IndexMap, tuple[int, ...]] | None:
    """The map of the coarsest space that reaches `base` through views; None where there is none."""
    extents: tuple[int, ...] = (size(n.shape),)
    while True:
        found, v = dense(extents), n
        try:
            while v is not base:
                found, v = through(v, found, extents), v.inputs[0]
            return found, extents
        except NeedsSplit as need:
            extents = split(extents, need)
        except NotAffine:
            return None


def evaluate(n: Node, base: Node) -> np.ndarray:
    """Positions in `base` (-1 for padding) seen through views, by NumPy."""
    if n is base:
        return np.arange(size(n.shape)).reshape(n.shape)
    x = evaluate(n.inputs[0], base)
    if n.op is mv.PAD:
        return np.pad(x, n.attr("widths"), constant_values=-1)
    if n.op is SHEAR:
        return n.op.reference([x + 1], *n.attrs, (n.shape, n.dtype)) - 1
    return n.op.reference([x], *n.attrs, (n.shape, n.dtype))


def check(n: Node, base: Node) -> None:
    resolved = resolve(n, base)
    assert resolved is not None, n
    found, extents = resolved
    want = evaluate(n, base).reshape(-1)
    for position, point in enumerate(points(extents)):
        inside = all(0 <= at(g.position, point) < g.size for g in found.guards)
        assert inside == (want[position] >= 0)
        if inside:
            assert at(found.flat, point) == want[position]


def test_each_movement_alone():
    x = leaf(2, 3, 4)
    check(node(mv.RESHAPE, (x,), ((4, 6),)), x)
    check(node(mv.PERMUTE, (x,), ((2, 0, 1),)), x)
    check(node(mv.SLICE, (x,), ((1, 2, 0), (2, -1, 4), (1, -1, 3))), x)
    check(node(mv.PAD, (x,), (((1, 0), (0, 2), (3, 1)), np.int64(7).tobytes())), x)
    check(node(SHEAR, (x,), (2, 0, 1, 0, 3)), x)
    check(node(SHEAR, (x,), (1, 2, -2, 1, 5)), x)
    y = leaf(2, 1, 4)
    check(node(mv.EXPAND, (y,), ((2, 5, 4),)), y)


def random_view(rng: random.Random, x: Node) -> Node:
    kind = rng.choice(("reshape", "permute", "slice", "pad", "expand", "shear"))
    if kind == "reshape":
        factors = [f for n in x.shape for f in ((2, n // 2) if n % 2 == 0 and rng.random() < 0.5 else (n,))]
        while len(factors) > 4 or (len(factors) > 1 and rng.random() < 0.3):
            k = rng.randrange(len(factors) - 1)
            factors[k:k + 2] = [factors[k] * factors[k + 1]]
        return mv.reshape(Value(x), tuple(factors)).node
    if kind == "permute":
        axes = list(range(len(x.shape)))
        rng.shuffle(axes)
        return node(mv.PERMUTE, (x,), (tuple(axes),))
    if kind == "slice":
        choices = (slice(None), slice(0, -1), slice(None, None, -1), slice(None, None, 2))
        keys = tuple(rng.choice(choices) if n > 1 else slice(None) for n in x.shape)
        return Value(x)[keys].node
    if kind == "pad":
        return mv.pad(Value(x), tuple((rng.randint(0, 1), rng.randint(0, 2)) for _ in x.shape)).node
    if kind == "shear" and len(x.shape) > 1:
        axis, along = rng.sample(range(len(x.shape)), 2)
        return node(SHEAR, (x,), (axis, along, rng.choice((-2, -1, 1, 2)), rng.randint(-2, 2), rng.randint(1, 5)))
    if len(x.shape) < 4 and size(x.shape) < 60:
        axis = rng.randint(0, len(x.shape))
        column = mv.reshape(Value(x), (*x.shape[:axis], 1, *x.shape[axis:]))
        return mv.broadcast_to(column, (*x.shape[:axis], rng.choice((2, 3)), *x.shape[axis:])).node
    return x


def test_random_chains_agree_with_numpy_or_are_refused():
    rng = random.Random(5)
    found = 0
    for _ in range(400):
        x = leaf(*(rng.choice((1, 2, 3, 4, 6)) for _ in range(rng.randint(1, 3))))
        n = x
        for _ in range(rng.randint(1, 5)):
            n = random_view(rng, n)
        if 0 < size(n.shape) <= 600 and resolve(n, x) is not None:
            check(n, x)
            found += 1
    assert found > 200


def test_every_map_over_a_dense_value_exists_after_one_copy():
    """Whatever a chain of views is, storing the value of the view that cannot be reached makes the rest reachable."""
    rng = random.Random(6)
    for _ in range(200):
        x = leaf(2, 6, 3)
        n = x
        for _ in range(5):
            n = random_view(rng, n)
        base = x
        while size(n.shape) and resolve(n, base) is None:
            with pytest.raises(NotAffine) as failure:
                _follow(n, base)
            assert failure.value.node is not base
            base = failure.value.node


def _follow(n: Node, base: Node) -> None:
    extents: tuple[int, ...] = (size(n.shape),)
    while True:
        found, v = dense(extents), n
        try:
            while v is not base:
                found, v = through(v, found, extents), v.inputs[0]
            return
        except NeedsSplit as need:
            extents = split(extents, need)


def test_unflatten_inverts_flatten():
    rng = random.Random(7)
    for _ in range(300):
        shape = tuple(rng.choice((1, 2, 3, 5)) for _ in range(rng.randint(1, 4)))
        axes = list(range(len(shape)))
        rng.shuffle(axes)
        extents = tuple(shape[a] for a in axes)
        rows: list[Affine] = [Affine((0,) * len(extents))] * len(shape)
        for d, a in enumerate(axes):
            forward = rng.random() < 0.5
            step = tuple((1 if forward else -1) * (d == e) for e in range(len(extents)))
            rows[a] = Affine(step, 0 if forward else shape[a] - 1)
        flat = flatten(tuple(rows), shape, len(extents))
        back = unflatten(flat, extents, shape, leaf(*shape))
        for point in points(extents):
            assert [at(r, point) for r in back] == [at(r, point) for r in rows]


def test_a_carry_asks_for_a_split_or_is_refused():
    x = leaf(2, 3)
    with pytest.raises(NeedsSplit) as need:
        unflatten(Affine((1,)), (6,), (2, 3), x)
    assert (need.value.dim, need.value.inner, need.value.node) == (0, 3, x)
    with pytest.raises(NotAffine) as refused:
        unflatten(Affine((1,), 1), (4,), (2, 3), x)
    assert refused.value.node is x


def test_row_strides_are_the_dense_map():
    assert dense((2, 3, 4)).flat == Affine(row_strides((2, 3, 4)))
