"""simplify: rewrites that keep every bit, NaN, -0 and infinities included. x + 0 is not x (of -0.0), so it is not among them.

Takes and gives a graph. Keeps the leaves and the bits of all outputs and new states. Never computes a product twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from renaissance.compile.constants import filled
from renaissance.compile.movement_rules import MOVEMENT_RULES
from renaissance.compile.product_rules import PRODUCT_RULES
from renaissance.compile.scalar_rules import SCALAR_RULES
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node
from renaissance.ir.rewrite import Rule, rewrite
from renaissance.ir.target import Target
from renaissance.ops.elementwise import OPS

Users = Mapping[Node, int]


def _mark(n: Node, users: Users) -> Node | None:
    return n.inputs[0]


def _empty(n: Node, users: Users) -> Node | None:
    """What has no elements needs nothing, not even those it would be computed from."""
    if 0 not in n.shape:
        return None
    constant = filled(bytes(n.dtype.size), n.dtype, n.shape)
    return None if constant is n else constant


_COMPUTED = (*OPS, "cast", "check", "reshape", "permute", "expand", "pad", "slice", "shear", "concat", "reduce_sum", "reduce_max",
             "reduce_min", "reduce_prod", "reduce_any", "reduce_all", "argmax", "argmin", "dot", "conv",
             "conv_weight", "take", "scatter", "random_at")
RULES: tuple[Rule, ...] = (
    Rule("what has no elements is a constant", _COMPUTED, _empty),
    Rule("marks compute nothing", ("stop_gradient", "variable", "with_gradient"), _mark),
    *MOVEMENT_RULES,
    *SCALAR_RULES,
    *PRODUCT_RULES,
)


def simplify(graph: Graph, target: Target) -> Graph:
    """The graph after all rules, in sweeps until none fits."""
    return rewrite(graph, RULES)
