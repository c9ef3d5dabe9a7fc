"""distribute: pointwise work on a concatenation is done on its parts, so that a part need not be stored to be worked on.

Takes and gives a graph. A step's gradients are one flat concatenation that the optimizer reads; where nothing else does, each
weight's update moves into the epilogue of the product that computes its gradient, and the gradients never lie in memory. Keeps
every bit: the same words on the same elements. Never touches a concatenation that must be stored anyway.
"""

from __future__ import annotations

from renaissance.compile.constants import constant_bytes, filled
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, node
from renaissance.ir.shape import size
from renaissance.ir.target import Target
from renaissance.ops.movement import CONCAT, EXPAND, SLICE

# What the threads' own caches hold. A smaller concatenation is written and read back there, and one sweep over it is quicker.
LARGE_BYTES = 1 << 21


def distribute(graph: Graph, target: Target) -> Graph:
    """The graph with the pointwise work on flat concatenations of products done part by part."""
    order = graph.nodes()
    users: dict[Node, list[Node]] = {}
    for n in order:
        for i in n.inputs:
            users.setdefault(i, []).append(n)
    ends = {*graph.outputs, *(value for _, value in graph.assigns)}
    replaced: dict[Node, Node] = {}
    numbers = dict(graph.numbers)
    for whole in order:
        if whole.op is CONCAT and len(whole.shape) == 1 and whole not in ends and _worth(whole, users):
            region = _region(whole, order, users, ends)
            if region and replaced.keys().isdisjoint(region):
                replaced.update(_by_parts(whole, region, numbers))
    if not replaced:
        return graph
    return Graph(graph.leaves, graph.scalars, tuple(replaced.get(o, o) for o in graph.outputs),
                 tuple((leaf, replaced.get(value, value)) for leaf, value in graph.assigns), numbers)


def _worth(whole: Node, users: dict[Node, list[Node]]) -> bool:
    """Whether a concatenation is large, and most of it comes from products and sums that can work on what they compute."""
    if size(whole.shape) * whole.dtype.size < LARGE_BYTES:
        return False
    absorbed = 0
    for part in whole.inputs:
        n = part
        while n.op.name in ("reshape", "cast") and len(users[n]) == 1:
            n = n.inputs[0]
        if n.op.kind in ("contraction", "reduce") and len(users[n]) == 1:
            absorbed += size(part.shape)
    return 2 * absorbed > size(whole.shape)


def _region(whole: Node, order: list[Node], users: dict[Node, list[Node]], ends: set[Node]) -> list[Node]:
    """The pointwise nodes that depend on `whole`, and those that only they need; empty if anything else depends on it."""
    region: set[Node] = set()
    stack = [whole]
    while stack:
        for user in users.get(stack.pop(), ()):
            if not _is_pointwise(user):
                return []
            if user not in region:
                region.add(user)
                stack.append(user)
    for n in reversed(order):
        inner = n not in region and _is_pointwise(n) and n.shape == whole.shape and n not in ends
        if inner and all(user in region for user in users[n]):
            region.add(n)
    return [n for n in order if n in region]


def _is_pointwise(n: Node) -> bool:
    return n.op.kind == "scalar" and n.op.name != "check"


def _by_parts(whole: Node, region: list[Node], numbers: dict[Node, int]) -> dict[Node, Node]:
    """For each node of the region the concatenation of what it is on each part."""
    results: dict[Node, list[Node]] = {n: [] for n in region}
    start = 0
    for part in whole.inputs:
        stop = start + size(part.shape)
        here: dict[Node, Node] = {whole: part}
        for n in region:
            inputs = tuple(here.get(i) or _range_of(i, start, stop) for i in n.inputs)
            here[n] = node(n.op, inputs, n.attrs)
            results[n].append(here[n])
            _number(here[n], numbers.get(n), numbers)
        start = stop
    joined = {n: node(CONCAT, tuple(parts), (0,)) for n, parts in results.items()}
    for n, made in joined.items():
        _number(made, numbers.get(n), numbers)
    return joined


def _number(made: Node, number: int | None, numbers: dict[Node, int]) -> None:
    """Let `made` and its new inputs stand for a node of the traced graph."""
    stack: list[Node] = [made] if number is not None else []
    while stack:
        n = stack.pop()
        if n not in numbers and number is not None:
            numbers[n] = number
            stack += n.inputs


def _range_of(n: Node, start: int, stop: int) -> Node:
    """Elements start to stop - 1 of a 1-d node."""
    value = constant_bytes(n)
    if value is not None:
        return filled(value, n.dtype, (stop - start,))
    if n.op is EXPAND:
        return node(EXPAND, n.inputs, ((stop - start,),))
    return node(SLICE, (n,), ((start,), (stop,), (1,)))

