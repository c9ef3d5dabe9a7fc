"""Random small graphs over every primitive: fuel for tests that hold for all graphs."""

from __future__ import annotations

import random

import numpy as np

from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, node, unique
from renaissance.ir.shape import size
from renaissance.ops import elementwise as ew
from renaissance.ops import movement as mv
from renaissance.ops import reduce as rd
from renaissance.ops.contraction import DOT
from renaissance.ops.index import CHECK, SCATTER, TAKE
from renaissance.ops.value import IOTA, LEAF, SCALAR, Value, const

FLOATS = (dt.float32, dt.float32, dt.bfloat16, dt.float64)


class Maker:
    """Grows a graph node by node from random choices."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.leaves: list[Node] = []
        self.scalars: list[Node] = []
        self.pool: list[Node] = []

    def graph(self, nodes: int) -> Graph:
        for _ in range(self.random.randint(2, 4)):
            self.leaf(self.shape(), self.random.choice(FLOATS))
        self.leaf((self.random.randint(1, 6),), dt.int64)
        self.scalars.append(unique(SCALAR, (), dt.float32))
        self.pool.append(self.scalars[0])
        makers = [self.unary, self.binary, self.binary, self.binary, self.choice, self.cast, self.reduction, self.reduction,
                  self.expansion, self.permutation, self.reshaping, self.slicing, self.padding, self.concatenation, self.product,
                  self.gather, self.scatter, self.checked, self.constant]
        while len(self.pool) < nodes:
            made = self.random.choice(makers)()
            if made is not None and 0 < size(made.shape) <= 300 and len(made.shape) <= 4:
                self.pool.append(made)
        inner = [n for n in self.pool if n not in self.leaves and n not in self.scalars]
        outputs = tuple(self.random.sample(inner, min(3, len(inner))) + [self.pool[-1]])
        if self.random.random() < 0.2:
            outputs += (self.random.choice(self.leaves),)
        return Graph(tuple(self.leaves), tuple(self.scalars), outputs, self.assigns())

    def assigns(self) -> tuple[tuple[Node, Node], ...]:
        found = []
        for leaf in self.leaves:
            fitting = [n for n in self.pool if (n.shape, n.dtype) == (leaf.shape, leaf.dtype)]
            if self.random.random() < 0.7:
                found.append((leaf, self.random.choice(fitting)))
        return tuple(found)

    def shape(self) -> tuple[int, ...]:
        return tuple(self.random.choice((1, 2, 3, 4, 6)) for _ in range(self.random.randint(1, 3)))

    def leaf(self, shape, dtype) -> None:
        made = unique(LEAF, shape, dtype)
        self.leaves.append(made)
        self.pool.append(made)

    def pick(self, *kinds: str) -> Node | None:
        recent = self.pool[-6:] if self.random.random() < 0.6 else self.pool
        fitting = [n for n in recent if not kinds or n.dtype.kind in kinds]
        return self.random.choice(fitting) if fitting else None

    def like(self, n: Node) -> Node:
        """Some node with the shape and dtype of `n`, made to fit if need be."""
        fitting = [m for m in self.pool if (m.shape, m.dtype) == (n.shape, n.dtype)]
        if fitting and self.random.random() < 0.7:
            return self.random.choice(fitting)
        other = self.random.choice(self.pool)
        if other.dtype is not n.dtype:
            if other.dtype.is_float and n.dtype.is_integer:
                return n
            other = node(ew.CAST, (other,), (n.dtype,))
        if other.shape == n.shape:
            return other
        try:
            return mv.broadcast_to(Value(other), n.shape).node
        except ValueError:
            value = self.random.choice((0, 1, -2, 3)) if n.dtype.kind != "u" else 1
            return mv.broadcast_to(Value(const(value, n.dtype)), n.shape).node

    def unary(self) -> Node | None:
        n = self.pick("f")
        return n and node(ew.OPS[self.random.choice(("neg", "abs", "floor", "sqrt", "exp", "sign", "neg"))], (n,))

    def binary(self) -> Node | None:
        n = self.pick("f", "i")
        words = ("add", "sub", "mul", "maximum", "minimum", "lt", "eq", "le", "ne")
        return n and node(ew.OPS[self.random.choice(words + (("div",) if n.dtype.is_float else ()))],
                          self.random.choice(((n, self.like(n)), (self.like(n), n))))

    def choice(self) -> Node | None:
        c = self.pick("b")
        if c is None:
            return None
        x = mv.broadcast_to(Value(const(1.0, dt.float32)), c.shape).node
        return node(ew.OPS["where"], (c, self.like(x), self.like(x)))

    def cast(self) -> Node | None:
        n = self.pick()
        return n and node(ew.CAST, (n,), (self.random.choice((*FLOATS, dt.bool_)),))

    def reduction(self) -> Node | None:
        n = self.pick("f", "i")
        if n is None or not n.shape or n.dtype.size == 2:
            return None
        axis = self.random.randrange(len(n.shape))
        how = self.random.choice((rd.SUM, rd.SUM, rd.MAX, rd.MIN, rd.ARGMAX))
        if how is rd.ARGMAX:
            return node(how, (n,), (len(n.shape) - 1,))
        last = self.random.randint(axis, len(n.shape) - 1)
        return node(how, (n,), (tuple(range(axis, last + 1)),))

    def expansion(self) -> Node | None:
        n = self.pick()
        if n is None or len(n.shape) > 2:
            return None
        v = Value(n)
        axis = self.random.randint(0, len(n.shape))
        shape = (*n.shape[:axis], self.random.choice((2, 3, 5)), *n.shape[axis:])
        return mv.broadcast_to(mv.reshape(v, (*n.shape[:axis], 1, *n.shape[axis:])), shape).node

    def permutation(self) -> Node | None:
        n = self.pick()
        if n is None or len(n.shape) < 2:
            return None
        axes = list(range(len(n.shape)))
        self.random.shuffle(axes)
        return node(mv.PERMUTE, (n,), (tuple(axes),))

    def reshaping(self) -> Node | None:
        n = self.pick()
        if n is None:
            return None
        left, shape = size(n.shape), []
        for f in (2, 3, 2, 5):
            if left % f == 0 and self.random.random() < 0.6:
                shape.append(f)
                left //= f
        shape.append(left)
        self.random.shuffle(shape)
        return mv.reshape(Value(n), tuple(shape[:4] if len(shape) <= 4 else [size(n.shape)])).node

    def slicing(self) -> Node | None:
        n = self.pick()
        if n is None or not n.shape:
            return None
        keys = []
        for extent in n.shape:
            a = self.random.randrange(extent)
            b = self.random.randint(a + 1, extent)
            keys.append(self.random.choice((slice(None), slice(a, b), slice(None, None, -1), slice(a, b, 2))))
        return Value(n)[tuple(keys)].node

    def padding(self) -> Node | None:
        n = self.pick("f", "i")
        if n is None or not n.shape:
            return None
        widths = tuple((self.random.randint(0, 2), self.random.randint(0, 2)) for _ in n.shape)
        return mv.pad(Value(n), widths, self.random.choice((0, 0, 1, -0.0 if n.dtype.is_float else 0))).node

    def concatenation(self) -> Node | None:
        n = self.pick()
        if n is None or not n.shape:
            return None
        axis = self.random.randrange(len(n.shape))
        return node(mv.CONCAT, tuple(self.random.sample([n, self.like(n), self.like(n)], 3)), (axis,))

    def product(self) -> Node | None:
        a = self.pick("f")
        if a is None or len(a.shape) not in (2, 3):
            return None
        if len(a.shape) == 2:
            a = mv.reshape(Value(a), (1, *a.shape)).node
        n = self.random.choice((1, 3, 4))
        b = mv.broadcast_to(Value(const(2, a.dtype)), (a.shape[0], a.shape[2], n)).node
        return node(DOT, (a, self.like(b)), (dt.accumulator(a.dtype),))

    def index(self, below: int) -> Node:
        """Integers from 0 to below - 1: a counter bent into range."""
        n = self.random.choice((2, 4, 6))
        i = node(IOTA, (), (n, dt.int64))
        bound = mv.broadcast_to(Value(const(below, dt.int64)), (n,)).node
        return node(ew.OPS["mod"], (node(ew.OPS["mul"], (i, i)), bound))

    def gather(self) -> Node | None:
        n = self.pick()
        return n and node(TAKE, (mv.reshape(Value(n), (size(n.shape),)).node, self.index(size(n.shape))))

    def scatter(self) -> Node | None:
        n = self.pick("f")
        if n is None or len(n.shape) != 2:
            return None
        index = self.index(n.shape[0])
        value = mv.broadcast_to(Value(const(2, n.dtype)), (index.shape[0], n.shape[1])).node
        init = self.random.choice((n, mv.broadcast_to(Value(const(0, n.dtype)), n.shape).node))
        return node(SCATTER, (init, index, self.like(value)), (self.random.choice(("sum", "last")),))

    def checked(self) -> Node | None:
        n = self.pick("f", "i")
        if n is None or self.random.random() < 0.5:
            return None
        return node(CHECK, (n, node(ew.OPS["le"], (self.like(n), self.like(n)))), (f"RangeError: number {len(self.pool) % 3}",))

    def constant(self) -> Node | None:
        return mv.broadcast_to(Value(const(self.random.choice((0.0, -0.0, 1.0, -1.5)), dt.float32)), self.shape()).node


def values_for(graph: Graph, seed: int) -> list[np.ndarray]:
    """Small whole numbers, halves, and now and then a NaN, an infinity or a negative zero."""
    rng = np.random.default_rng(seed)
    arrays = []
    for leaf in graph.leaves:
        values = rng.integers(-6, 7, leaf.shape) / 2
        if leaf.dtype.is_float:
            odd = rng.random(leaf.shape) < 0.05
            values = np.where(odd, rng.choice([np.nan, np.inf, -np.inf, -0.0], leaf.shape), values)
        arrays.append(np.ascontiguousarray(values.astype(leaf.dtype.numpy)))
    return arrays
