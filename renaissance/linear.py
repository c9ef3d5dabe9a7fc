"""A graph written down in a canonical order, so that graphs of equal structure can be told by an equal key."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from renaissance.errors import GradientError, TraceError
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, topological
from renaissance.ops.value import SCALAR
from renaissance.region import PLACEHOLDER, STALE


class Linear:
    """Outputs and assignments written down: one row for each node that computes or holds something, inputs first.

    leaves   data leaves in the order of their rows
    scalars  run-time scalars in the order of their rows
    order    the node of each row
    key      equal for graphs of one structure: ops, attributes, shapes and dtypes, never data or values
    reads    nodes that depend on a watched leaf
    """

    __slots__ = ("leaves", "scalars", "order", "key", "reads", "_bound", "_number", "_rows")

    def __init__(self, outputs: Sequence[Node], assigns: Sequence[tuple[Node, Node]] = (), watched: Collection[Node] = (), *,
                 bound: Collection[Node] | None = None):
        """
        watched  leaves whose readers are wanted
        bound    which nodes are leaves and scalars; None: those that have data, which must not be stale or a placeholder
        """
        self.leaves: list[Node] = []
        self.scalars: list[Node] = []
        self.order: list[Node] = []
        self.reads: set[Node] = set()
        self._bound = bound
        self._number: dict[Node, int] = {}
        number = self._number
        self._rows: list[Any] = []
        self._walk([*outputs, *(v for _, v in assigns), *(leaf for leaf, _ in assigns)], watched)
        self.key = (tuple(self._rows), tuple([number[n] for n in outputs]), tuple([(number[a], number[v]) for a, v in assigns]))

    @classmethod
    def traced(cls, outputs: Sequence[Node], assigns: Sequence[tuple[Node, Node]]) -> Linear:
        """Outputs and assignments of a trace: placeholders are leaves like others."""
        found = topological((*outputs, *(n for pair in assigns for n in pair)), lambda n: n.data is not None)
        return cls(outputs, assigns, bound={n for n in found if n.data is not None})

    @classmethod
    def of(cls, graph: Graph) -> Linear:
        """A graph with its own leaves and scalars, whatever data its nodes have."""
        return cls(graph.outputs, graph.assigns, bound={*graph.leaves, *graph.scalars})

    def _walk(self, roots: list[Node], watched: Collection[Node]) -> None:
        number, rows, bound, order, reads = self._number, self._rows, self._bound, self.order, self.reads
        opened: set[Node] = set()
        stack = roots[::-1]
        while stack:
            n = stack.pop()
            if n in number:
                continue
            if n in opened:
                if watched and not reads.isdisjoint(n.inputs):
                    reads.add(n)
                if n.op.kind == "identity":
                    number[n] = number[n.inputs[0]]
                else:
                    number[n] = len(rows)
                    order.append(n)
                    rows.append((n.op, n.attrs, tuple([number[i] for i in n.inputs])))
            elif (n.data is not None) if bound is None else (n in bound):
                self._leaf(n)
                if n in watched:
                    reads.add(n)
            else:
                opened.add(n)
                stack.append(n)  # to be met again when its inputs have been
                stack.extend(reversed(n.inputs))

    def _leaf(self, n: Node) -> None:
        if self._bound is None:
            if n.data is STALE:
                raise GradientError("this tensor depends on values that were overwritten (by optimizer.step() or an in-place "
                                    "write) before it was read; read it earlier, or run the forward pass again")
            if n.data is PLACEHOLDER:
                raise TraceError("a tensor leaked out of a compiled function and has no value here; return it from the function")
        self._number[n] = len(self._rows)
        self.order.append(n)
        if n.op is SCALAR:
            self.scalars.append(n)
            self._rows.append(("scalar", n.dtype))
        else:
            self.leaves.append(n)
            self._rows.append(("leaf", n.shape, n.dtype))
