"""cut: a graph whose data leaves are leaves.

A computed node that already holds its value is a leaf of the graph, but its op still says how it was computed. This pass puts a
plain leaf in its place, so that no later pass can look behind it. Keeps the order of the leaves.
"""

from __future__ import annotations

from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, unique
from renaissance.ir.rewrite import rebuilt
from renaissance.ir.target import Target
from renaissance.ops.value import LEAF


def cut(graph: Graph, target: Target) -> Graph:
    """The graph with every data leaf a node of op `leaf`."""
    if all(leaf.op is LEAF for leaf in graph.leaves):
        return graph
    new: dict[Node, Node] = {leaf: leaf if leaf.op is LEAF else unique(LEAF, leaf.shape, leaf.dtype) for leaf in graph.leaves}
    for n in graph.nodes():
        if n not in new:
            new[n] = rebuilt(n, tuple(new[i] for i in n.inputs))
    return Graph(tuple(new[leaf] for leaf in graph.leaves), graph.scalars, tuple(new[o] for o in graph.outputs),
                 tuple((new[leaf], new[value]) for leaf, value in graph.assigns))
