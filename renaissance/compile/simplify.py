"""simplify: rewrites that keep every bit, NaN, -0 and infinities included. x + 0 is not x (of -0.0), so it is not here."""

from __future__ import annotations

from collections.abc import Mapping

from renaissance.ir.graph import Graph
from renaissance.ir.node import Node
from renaissance.ir.rewrite import Rule, rewrite
from renaissance.ir.target import Target

Users = Mapping[Node, int]


def _marker(n: Node, users: Users) -> Node | None:
    return n.inputs[0]


RULES: tuple[Rule, ...] = (
    Rule("a mark computes nothing", ("stop_gradient", "variable", "with_gradient"), _marker),
)


def simplify(graph: Graph, target: Target) -> Graph:
    """The graph after all rules, in sweeps until none fits."""
    return rewrite(graph, RULES)
