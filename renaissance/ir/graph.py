"""A Graph: the nodes one Plan is made from, cut loose from tensors and their data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from renaissance.ir.node import Node, topological


@dataclass(frozen=True)
class Graph:
    """What to compute.

    leaves   data leaves, in the order their addresses are given at run time
    scalars  run-time scalar leaves, in the order their values are given
    outputs  nodes whose values are wanted in memory of their own
    assigns  (leaf, value): after the run the leaf's storage holds value; all reads in the graph see the old contents
    numbers  for a graph made by a pass: which node of the traced graph each node stands for, as its place among those nodes
             that compute or hold something, inputs first; empty for a traced graph
    """

    leaves: tuple[Node, ...]
    scalars: tuple[Node, ...]
    outputs: tuple[Node, ...]
    assigns: tuple[tuple[Node, Node], ...] = ()
    numbers: Mapping[Node, int] = field(default_factory=dict, compare=False, repr=False)

    def nodes(self) -> list[Node]:
        """Every node the graph needs, inputs before users; data leaves are not looked behind."""
        stop = set(self.leaves)
        return topological((*self.outputs, *(v for _, v in self.assigns)), stop.__contains__)
