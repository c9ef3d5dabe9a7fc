"""cut: a graph whose data leaves are leaves, and whose nodes are numbered.

A computed node that already holds its value is a leaf of the graph, but its op still says how it was computed. This pass puts a
plain leaf in its place, so that no later pass can look behind it. Keeps the order of the leaves. The numbers count the nodes of
the given graph, marks aside, and stay with what later passes make of the nodes: by them a plan names its source.
"""

from __future__ import annotations

from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, unique
from renaissance.ir.rewrite import rebuilt
from renaissance.ir.target import Target
from renaissance.ops.value import LEAF


def cut(graph: Graph, target: Target) -> Graph:
    """The graph with every data leaf a node of op `leaf`, and a number for each node."""
    new: dict[Node, Node] = {leaf: leaf if leaf.op is LEAF else unique(LEAF, leaf.shape, leaf.dtype) for leaf in graph.leaves}
    numbers: dict[Node, int] = {}
    count = 0
    for n in graph.nodes():
        if n not in new:
            new[n] = rebuilt(n, tuple(new[i] for i in n.inputs))
        if n.op.kind == "identity" and n not in graph.leaves:
            numbers.setdefault(new[n], numbers[new[n.inputs[0]]])
        else:
            numbers.setdefault(new[n], count)
            count += 1
    return Graph(tuple(new[leaf] for leaf in graph.leaves), graph.scalars, tuple(new[o] for o in graph.outputs),
                 tuple((new[leaf], new[value]) for leaf, value in graph.assigns), numbers)
