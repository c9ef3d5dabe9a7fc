"""fuse: from a graph to items.

Takes a simplified graph. Gives a plan whose items are in a valid order, whose arena buffers have no offsets yet, and whose
state updates are copies after the run. Keeps every node's bits: an instruction rounds as its node does, a reduction has its
node's order. Never computes what nothing needs.
"""

from __future__ import annotations

import heapq

from renaissance.compile.items import Writer
from renaissance.compile.keep import Keeping
from renaissance.compile.partition import Partition
from renaissance.compile.storage import Piece, Storage
from renaissance.errors import PlanError
from renaissance.ir.graph import Graph
from renaissance.ir.indexmap import NotAffine
from renaissance.ir.node import Node
from renaissance.ir.plan import Item, Plan
from renaissance.ir.shape import size
from renaissance.ir.target import Target


def fuse(graph: Graph, target: Target) -> Plan:
    """The plan of a graph; nodes that some item cannot reach by an affine map are stored dense, and grouping starts again."""
    dense: set[Node] = set()
    while True:
        attempt = _Attempt(graph, dense)
        missing = attempt.write()
        if not missing:
            return attempt.plan()
        if missing <= dense:
            raise PlanError(f"no index map reaches {next(iter(missing))!r} although it lies dense")
        dense |= missing


class _Attempt:
    """One try at turning a graph into items, given the nodes that must lie dense."""

    def __init__(self, graph: Graph, dense: set[Node]):
        self._graph = graph
        self._order = graph.nodes()
        self._storage = Storage(graph, self._order, dense)
        partition = Partition(self._order, self._storage)
        self._groups = Keeping(partition, self._storage).groups
        self._writer = Writer(self._storage, partition.links, graph, self._order)
        self._items: list[Item] = []
        self._reads: list[set[Node]] = []
        self._writers: dict[Node, list[int]] = {}  # for each stored node the items that write it

    def write(self) -> set[Node]:
        """Make all items; returns the nodes that would have to lie dense for the items that could not be made."""
        missing: set[Node] = set()
        for group in self._groups:
            try:
                self._add(*self._writer.item(group), [n for n in group.members if n in self._storage.home])
            except NotAffine as failure:
                missing.add(failure.node)
        for node, where in self._storage.copies:
            if size(node.shape):
                try:
                    self._add(*self._writer.copy(node, where), [where.whole] if isinstance(where, Piece) else [])
                except NotAffine as failure:
                    missing.add(failure.node)
        return missing

    def _add(self, item: Item, read: set[Node], written: list[Node]) -> None:
        for n in written:
            self._writers.setdefault(n, []).append(len(self._items))
            for where in (self._storage.home[n], *self._storage.extra.get(n, ())):
                if isinstance(where, Piece):
                    self._writers.setdefault(where.whole, []).append(len(self._items))
        self._items.append(item)
        self._reads.append(read)

    def plan(self) -> Plan:
        """The plan, with items in an order in which inputs come first."""
        items = [self._items[i] for i in self._sorted()]
        storage = self._storage
        return Plan(tuple(items), tuple(storage.buffers), tuple(s.dtype for s in self._graph.scalars), storage.outputs, 0,
                    len(items), self._writer.messages, copies=storage.state)

    def _sorted(self) -> list[int]:
        """Item numbers so that writers come before readers; the earliest node first where there is a choice."""
        for n in self._order:  # a concatenation inside another is written by what writes its pieces
            where = self._storage.home.get(n)
            if n.op.name == "concat" and isinstance(where, Piece):
                self._writers.setdefault(where.whole, []).extend(self._writers.get(n, ()))
        before = [{w for n in read for w in self._writers.get(n, ())} for read in self._reads]
        after: list[list[int]] = [[] for _ in before]
        for i, needed in enumerate(before):
            for w in needed:
                after[w].append(i)
        rank = [(max(item.nodes, default=len(self._order)), i) for i, item in enumerate(self._items)]
        left = [len(needed) for needed in before]
        ready = [rank[i] for i, n in enumerate(left) if not n]
        heapq.heapify(ready)
        result = []
        while ready:
            _, i = heapq.heappop(ready)
            result.append(i)
            for j in after[i]:
                left[j] -= 1
                if not left[j]:
                    heapq.heappush(ready, rank[j])
        if len(result) < len(self._items):
            raise PlanError("fuse: items wait for each other in a circle")
        return result
