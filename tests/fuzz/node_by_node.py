"""The oracle of the bits: a graph run one primitive node at a time, each compiled alone, so that no rewrite and no fusion can act.

Each node's result is also held against the op's NumPy reference on the very same operands, so tolerances are those of one op.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from renaissance import engine
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, unique
from renaissance.ops.composed import expanded
from renaissance.ops.value import LEAF, SCALAR
from renaissance.runtime.reference import array_at

from .nearness import assert_near_reference

_made: dict[Any, engine.Program] = {}


def alone(n: Node, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The value of one node on given operands, by a plan of its own."""
    random = n.op.kind == "random"
    key = (n.op, n.attrs, n.shape, n.dtype, tuple((i.shape, i.dtype) for i in n.inputs))
    if key not in _made:
        operands = tuple(unique(SCALAR if random and k < 2 else LEAF, i.shape, i.dtype) for k, i in enumerate(n.inputs))
        for i in operands:
            i.data = engine.PLACEHOLDER
        scalars = tuple(i for i in operands if i.op is SCALAR)
        leaves = tuple(i for i in operands if i.op is LEAF)
        again = unique(n.op, n.shape, n.dtype, n.attrs, operands)
        _made[key] = engine.Program(Graph(leaves, scalars, (again,)), "cpu")
    given = [np.ascontiguousarray(a) for a in arrays]
    split = 2 if random else 0
    region = _made[key].run([a.ctypes.data for a in given[split:]], [a.item() for a in given[:split]])[0]
    return np.array(region.storage.view(n.dtype, n.shape, region.offset))


class NodeByNode:
    """A graph with the interface of a linked plan."""

    finishes = 0

    def __init__(self, graph: Graph):
        self._graph = graph if not any(n.op.kind == "composed" for n in graph.nodes()) else expanded(graph)
        self._nodes = self._graph.nodes()

    def run(self, inputs: Sequence[int], outputs: Sequence[int], scalars: Sequence[int | float]) -> None:
        """Evaluate with leaves at `inputs`, writing each output to its address, then each assigned leaf."""
        graph = self._graph
        values: dict[Node, np.ndarray] = {n: array_at(a, n) for n, a in zip(graph.leaves, inputs)}
        values.update((n, np.asarray(n.dtype.numpy.type(s))) for n, s in zip(graph.scalars, scalars))
        for n in self._nodes:
            if n in values:
                continue
            arrays = [values[i] for i in n.inputs]
            if n.op.kind == "identity":
                values[n] = arrays[0]
                continue
            values[n] = alone(n, arrays)
            assert_near_reference(n, arrays, values[n])
        for n, address in zip(graph.outputs, outputs):
            array_at(address, n)[...] = values[n]
        results = [values[value].copy() for _, value in graph.assigns]
        for (leaf, _), result in zip(graph.assigns, results):
            array_at(inputs[graph.leaves.index(leaf)], leaf)[...] = result


@contextlib.contextmanager
def node_by_node() -> Iterator[None]:
    """Inside, everything runs node by node."""
    before = engine.ReferenceExecutable
    engine.ReferenceExecutable = NodeByNode
    try:
        with engine.executor("reference"):
            yield
    finally:
        engine.ReferenceExecutable = before
