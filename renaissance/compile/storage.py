"""Storage: which nodes lie in memory, and where: in a buffer of their own, or as a piece of a concatenation's buffer.

A concatenation is never computed: it is a buffer, and each input is written into its range by whatever computes it. So all
gradients of a model can land in one flat buffer, and the optimizer is one kernel over it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from renaissance.compile.body import Place
from renaissance.compile.groups import ALONE
from renaissance.ir.graph import Graph
from renaissance.ir.indexmap import Affine, Extents, flatten, is_view, unflatten
from renaissance.ir.node import Node, Shape
from renaissance.ir.plan import Buffer
from renaissance.ir.shape import size


class Piece(NamedTuple):
    """A range of a concatenation: `shape` elements from `start` along its axis."""

    whole: Node
    shape: Shape
    start: int


Where = int | Piece  # a buffer number, or a range of a concatenation's storage


class Storage:
    """Where stored nodes lie.

    home    the place of each stored node
    extra   further places the item that computes a node writes it to
    copies  (node, place): values that lie elsewhere, or nowhere, and must be written to `place` by an item of their own
    solid   views that are stored although they compute nothing: outputs, new state, and what no affine map can reach
    dense   nodes that must lie in row-major order because no affine map can reach them otherwise
    """

    def __init__(self, graph: Graph, order: list[Node], dense: Iterable[Node] = ()):
        self.home: dict[Node, Where] = {}
        self.extra: dict[Node, list[Where]] = {}
        self.copies: list[tuple[Node, Where]] = []
        self.solid = set(dense)
        self.buffers: list[Buffer] = []
        self.dense = frozenset(dense)
        self.leaves = {leaf: self._buffer("input", i, leaf) for i, leaf in enumerate(graph.leaves)}
        self.home.update(self.leaves)
        self.state = tuple(self._assign(leaf, value) for leaf, value in graph.assigns
                           if leaf is not value and size(leaf.shape))
        self.outputs = tuple(self._output(j, out) for j, out in enumerate(graph.outputs))
        for n in reversed(order):  # outer concatenations before those inside them
            if n.op.name == "concat":
                self._concat(n)
        for n in order:
            if n.op.name == "concat" or n in self.dense:
                self.keep(n)
        for source, _ in self.copies:
            if source.op.kind != "leaf":
                self.keep(source)

    def keep(self, node: Node) -> None:
        """Give `node` a buffer of its own in the arena unless it has a place."""
        if node not in self.home:
            self.home[node] = self._buffer("arena", -1, node)

    def locate(self, node: Node, flat: Affine, extents: Extents) -> Place | None:
        """Where the element `flat` of a stored node lies; None for a node that is not stored.

        raises  NeedsSplit, NotAffine when the node is a piece that no affine map can reach
        """
        where = self.home.get(node)
        return None if where is None else self.place(node, where, flat, extents)

    def place(self, node: Node, where: Where, flat: Affine, extents: Extents) -> Place:
        """The element `flat` of `node`, which lies at `where`."""
        while isinstance(where, Piece):
            whole, shape, start = where
            axis, inner = whole.attr("axis"), size(whole.shape[whole.attr("axis") + 1:])
            if size(whole.shape[:axis]) == 1:
                flat = flat.shifted(start * inner)
            else:
                rows = list(unflatten(flat, extents, shape, node))
                rows[axis] = rows[axis].shifted(start)
                flat = flatten(tuple(rows), whole.shape, len(extents))
            node, where = whole, self.home[whole]
        return Place(where, flat)

    def _buffer(self, place: str, index: int, node: Node) -> int:
        size_bytes = size(node.shape) * node.dtype.size
        self.buffers.append(Buffer(place, index, -1 if place == "arena" else 0, size_bytes, node.dtype, node.shape))
        return len(self.buffers) - 1

    def _assign(self, leaf: Node, value: Node) -> tuple[int, int]:
        buffer = self._buffer("arena", -1, leaf)
        self._deliver(value, buffer)
        return buffer, self.leaves[leaf]

    def _output(self, number: int, node: Node) -> int:
        buffer = self._buffer("output", number, node)
        self._deliver(node, buffer)
        return buffer

    def _concat(self, whole: Node) -> None:
        start, axis = 0, whole.attr("axis")
        for part in whole.inputs:
            if size(part.shape):
                self._deliver(part, Piece(whole, part.shape, start))
            start += part.shape[axis]

    def _deliver(self, node: Node, where: Where) -> None:
        """Have the value of `node` written to `where`."""
        source = node
        while source.op.name == "reshape" and source not in self.solid:
            source = source.inputs[0]
        whole_only = isinstance(where, Piece) and (source in self.dense or source.op.kind in ALONE)
        if source in self.leaves or source.op.kind == "leaf" or whole_only:
            self.copies.append((source, where))
        elif source not in self.home:
            if is_view(source):
                self.solid.add(source)
            self.home[source] = where
        elif source.op.kind in ALONE or source.op.name == "concat":
            self.copies.append((source, where))
        else:
            self.extra.setdefault(source, []).append(where)

