"""simplify: rewrites that keep every bit, NaN, -0 and infinities included. x + 0 is not x (of -0.0), so it is not among them.

Takes and gives a graph. Keeps the leaves and the bits of all outputs and new states. Never computes a product twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from renaissance.compile.movement_rules import MOVEMENT_RULES
from renaissance.compile.product_rules import PRODUCT_RULES
from renaissance.compile.scalar_rules import SCALAR_RULES
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node
from renaissance.ir.rewrite import Rule, rewrite
from renaissance.ir.target import Target


def _mark(n: Node, users: Mapping[Node, int]) -> Node | None:
    return n.inputs[0]


RULES: tuple[Rule, ...] = (
    Rule("marks compute nothing", ("stop_gradient", "variable", "with_gradient"), _mark),
    *MOVEMENT_RULES,
    *SCALAR_RULES,
    *PRODUCT_RULES,
)


def simplify(graph: Graph, target: Target) -> Graph:
    """The graph after all rules, in sweeps until none fits."""
    return rewrite(graph, RULES)
