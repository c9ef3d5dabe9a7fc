"""Rewriting: rules that replace a node by an equal one, and the driver that applies them to a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from renaissance.errors import PlanError
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, node, unique

_MOST_SWEEPS = 50
_UNIQUE = ("random_bits", "variable")  # equal to no other node, so not to be looked up


@dataclass(frozen=True)
class Rule:
    """One rewrite.

    name    what the rule does, in words
    ops     names of the ops at the root of what it matches
    apply   (node, users) -> an equal node, or None where the rule does not fit; users counts the users of each node, so that
            a rule can leave alone what others need as well
    """

    name: str
    ops: tuple[str, ...]
    apply: Callable[[Node, Mapping[Node, int]], Node | None]


def rewrite(graph: Graph, rules: Iterable[Rule]) -> Graph:
    """The graph after applying rules, inputs first, in sweeps until none fits. Leaves are kept and not looked behind.

    raises  PlanError when the rules go round in circles, naming the last one used
    """
    table: dict[str, list[Rule]] = {}
    for rule in rules:
        for op in rule.ops:
            table.setdefault(op, []).append(rule)
    used: str | None = None
    for _ in range(_MOST_SWEEPS):
        graph, used = _sweep(graph, table)
        if used is None:
            return graph
    raise PlanError(f"rewriting does not end: rule {used!r} still fits after {_MOST_SWEEPS} sweeps")


def _sweep(graph: Graph, table: dict[str, list[Rule]]) -> tuple[Graph, str | None]:
    """One pass over all nodes; returns the new graph and the name of the last rule used."""
    order = graph.nodes()
    users = count_users(graph, order)
    numbers = dict(graph.numbers)
    new: dict[Node, Node] = {leaf: leaf for leaf in graph.leaves}
    used = None
    for n in order:
        if n in new:
            continue
        result = rebuilt(n, tuple(new[i] for i in n.inputs))
        if result is not n:
            users[result] = users.get(result, 0) + users.get(n, 0)
        for rule in table.get(result.op.name, ()):
            replaced = rule.apply(result, users)
            if replaced is not None and replaced is not result:
                users[replaced] = users.get(replaced, 0) + users.get(n, 0)
                result, used = replaced, rule.name
                break
        if n in numbers:
            number_made(result, numbers[n], numbers)
        new[n] = result
    return Graph(graph.leaves, graph.scalars, tuple(new[o] for o in graph.outputs),
                 tuple((leaf, new[value]) for leaf, value in graph.assigns), numbers), used


def number_made(made: Node, number: int, numbers: dict[Node, int]) -> None:
    """Let `made`, and what was made for it, stand for the node with this number."""
    stack = [made]
    while stack:
        n = stack.pop()
        if n not in numbers:
            numbers[n] = number
            stack += n.inputs


def rebuilt(n: Node, inputs: tuple[Node, ...]) -> Node:
    """`n` on other inputs; the same node if they are the same."""
    if inputs == n.inputs:
        return n
    if n.op.name in _UNIQUE:
        return unique(n.op, n.shape, n.dtype, n.attrs, inputs)
    return node(n.op, inputs, n.attrs)


def count_users(graph: Graph, order: Iterable[Node]) -> dict[Node, int]:
    """How many inputs, outputs and new states each node is."""
    users: dict[Node, int] = {}
    leaves = set(graph.leaves)
    for n in order:
        if n not in leaves:
            for i in n.inputs:
                users[i] = users.get(i, 0) + 1
    for n in (*graph.outputs, *(value for _, value in graph.assigns)):
        users[n] = users.get(n, 0) + 1
    return users
