"""divide: a graph in two, what depends on steady leaves alone and the rest, so that the first need not run every time.

Takes a graph whose engines are chosen: transformed kernels, weights in the order of their products, and scales of batch norm are
nodes by then. No bit depends on which values are stored, so the two give what the whole gives.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from renaissance.compile.groups import IMAGE_INPUTS
from renaissance.ir.graph import Graph
from renaissance.ir.indexmap import is_view
from renaissance.ir.node import Node, unique
from renaissance.ir.rewrite import rebuilt
from renaissance.ir.shape import size
from renaissance.ops.value import LEAF

MOST_GROWTH = 8  # elements that are kept for each of the largest leaf that they come from
_EVERY_TIME = ("check", "host", "scatter")  # what acts, or fails, when it runs


@dataclass(frozen=True)
class Divided:
    """Two graphs for one.

    early  from the same leaves: its outputs are what the other needs of it
    late   its leaves are those of the whole, then one for each output of `early`; its outputs are those of the whole
    """

    early: Graph
    late: Graph


def divided(graph: Graph, steady: Collection[Node]) -> Divided | None:
    """The two parts of a graph that changes no leaf; None where nothing is computed from steady leaves alone.

    steady  leaves whose elements seldom change
    """
    order = graph.nodes()
    early = _early(graph, order, steady)
    kept: dict[Node, Node] = {}
    for n in order:
        for number, i in enumerate(n.inputs) if n not in early else ():
            found = _stored(n, number, i, early)
            if found is not None and found not in kept:
                kept[found] = unique(LEAF, found.shape, found.dtype)
    if not kept:
        return None
    new: dict[Node, Node] = {**{leaf: leaf for leaf in graph.leaves}, **kept}
    for n in order:
        if n not in new:
            new[n] = rebuilt(n, tuple(new[i] for i in n.inputs))
    late = Graph((*graph.leaves, *kept.values()), graph.scalars, tuple(new[o] for o in graph.outputs))
    return Divided(Graph(graph.leaves, (), tuple(kept)), late)


def _early(graph: Graph, order: list[Node], steady: Collection[Node]) -> dict[Node, int]:
    """The nodes that depend on steady leaves alone, each with the size of the largest; outputs are none of them."""
    largest = {leaf: size(leaf.shape) for leaf in steady}
    outputs = set(graph.outputs)
    for n in order:
        found = [largest[i] for i in n.inputs if i in largest]
        fits = all(i in largest or i.constant for i in n.inputs) and n.op.name not in _EVERY_TIME
        if found and fits and n not in outputs and (is_view(n) or size(n.shape) <= MOST_GROWTH * max(found)):
            largest[n] = max(found)
    return largest


def _stored(reader: Node, number: int, read: Node, early: Collection[Node]) -> Node | None:
    """What is stored for an input of a node that is not early itself: what the views before it see, if that is computed.

    A leaf needs no storing, but the kernels of an image's windows are laid out anew for their product.
    """
    seen = read
    while is_view(seen):
        seen = seen.inputs[0]
    if seen not in early:
        return None
    if seen.op.kind != "leaf":
        return seen
    turned = reader.op.name in IMAGE_INPUTS and number != IMAGE_INPUTS[reader.op.name] and seen is not read
    return read if turned else None
