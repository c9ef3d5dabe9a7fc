"""layout: pointwise work on an image with its channels first is done with its channels last, where convolutions make and want it.

Takes and gives a graph. A convolution is permute(conv(permute(x))), and pooling and batch norm are written likewise; moved behind
the pointwise nodes in between, the permutations meet and cancel. Keeps every bit: the same words on the same elements. Never
touches a graph without convolutions, a sum or a product, and adds no node that computes something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from renaissance.compile.movement_rules import reshaped
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, node
from renaissance.ir.rewrite import number_made, rebuilt
from renaissance.ir.target import Target
from renaissance.ops.movement import CONCAT, EXPAND, PAD, PERMUTE, RESHAPE, SLICE

Axes = tuple[int, ...]


def layout(graph: Graph, target: Target) -> Graph:
    """The graph with permutations of images moved from convolutions to where channels must come first."""
    order = graph.nodes()
    if not any(n.op.name in ("conv", "conv_weight") for n in order):
        return graph
    moved = _Moved(graph, order)
    return Graph(graph.leaves, graph.scalars, tuple(moved.new[o] for o in graph.outputs),
                 tuple((leaf, moved.new[value]) for leaf, value in graph.assigns), moved.numbers)


def last_axes(rank: int) -> Axes:
    """The permutation of (N, C, ...) to (N, ..., C)."""
    return (0, *range(2, rank), 1)


def first_axes(rank: int) -> Axes:
    """The permutation of (N, ..., C) to (N, C, ...)."""
    return (0, rank - 1, *range(1, rank - 1))


def _picked(values: Sequence[Any], axes: Axes) -> tuple[Any, ...]:
    return tuple(values[a] for a in axes)


def turned(x: Node, axes: Axes) -> Node:
    """`x` with its axes permuted; what is stretched or permuted already is turned behind that."""
    if x.op is PERMUTE:
        return turned(x.inputs[0], _picked(x.attr("axes"), axes))
    if axes == tuple(range(len(axes))):
        return x
    shape = _picked(x.shape, axes)
    if x.op is EXPAND:
        return node(EXPAND, (turned(x.inputs[0], axes),), (shape,))
    long = [a for a in axes if x.shape[a] != 1]
    if long == sorted(long):
        return reshaped(x.inputs[0] if x.op is RESHAPE else x, shape)
    return node(PERMUTE, (x,), (axes,))


class _Moved:
    """One walk over a graph, inputs first.

    new    what stands for each node
    last   for those with channels first whose permutation can move on: the same values with channels last
    """

    def __init__(self, graph: Graph, order: list[Node]):
        self.numbers = dict(graph.numbers)
        self.new: dict[Node, Node] = {leaf: leaf for leaf in graph.leaves}
        self.last: dict[Node, Node] = {}
        self._images: set[Node] = set()  # new nodes with channels last that come from convolutions
        for n in order:
            if n not in self.new:
                self._visit(n)
                if n in self.numbers:
                    number_made(self.new[n], self.numbers[n], self.numbers)

    def _visit(self, n: Node) -> None:
        image = self._moved(n)
        if image is None:
            new = self._rebuilt(n)
            self.new[n] = new
            if self._makes_image(new):
                self._images.add(new)
            rank = len(new.shape)
            if new.op is PERMUTE and new.attr("axes") == first_axes(rank) and (rank > 3 or new.inputs[0] in self._images):
                self._images.add(new.inputs[0])
                self.last[n] = new.inputs[0]
        else:
            self._images.add(image)
            self.last[n] = image
            self.new[n] = turned(image, first_axes(len(image.shape)))

    def _rebuilt(self, n: Node) -> Node:
        inputs = tuple(self.new[i] for i in n.inputs)
        if n.op is PERMUTE:
            return turned(inputs[0], n.attr("axes"))
        if n.op is RESHAPE and inputs[0].op is RESHAPE:
            return reshaped(inputs[0].inputs[0], n.shape)
        return rebuilt(n, inputs)

    def _makes_image(self, n: Node) -> bool:
        """Whether a node is an image with channels last: a product of a convolution, or pointwise work or views of such."""
        rank = len(n.shape)
        if n.op.name == "conv":
            return True
        if n.op is PERMUTE:
            return rank > 3 and n.attr("axes") == last_axes(rank)
        if rank < 3 or self._images.isdisjoint(n.inputs):
            return False
        if n.op is RESHAPE:
            return n.shape[-1] == n.inputs[0].shape[-1]
        return _is_pointwise(n) or n.op in (PAD, SLICE, CONCAT, EXPAND)

    def _moved(self, n: Node) -> Node | None:
        """The values of `n` with channels last, if one of its inputs has moved and the work is the same in both orders."""
        if self.last.keys().isdisjoint(n.inputs):
            return None
        make = _MOVERS.get(n.op.name, _pointwise if _is_pointwise(n) else None)
        if make is None or not self._images.isdisjoint(self.new[i] for i in n.inputs):
            return None
        if n.op is RESHAPE and not (len(n.shape) > 2 and n.shape[:2] == n.inputs[0].shape[:2]):
            return None
        axes = last_axes(len(n.inputs[0].shape))
        return make(n, tuple(self.last[i] if i in self.last else turned(self.new[i], axes) for i in n.inputs))


def _is_pointwise(n: Node) -> bool:
    return n.op.kind == "scalar" and n.op.name != "check"


# ---- the same work with channels last ----------------------------------------------------------------------------------


def _pointwise(n: Node, inputs: tuple[Node, ...]) -> Node:
    return node(n.op, inputs, n.attrs)


def _reshape(n: Node, inputs: tuple[Node, ...]) -> Node:
    """N and C stay, what is in between is merged or cut."""
    x = inputs[0].inputs[0] if inputs[0].op is RESHAPE else inputs[0]
    return reshaped(x, (n.shape[0], *n.shape[2:], n.shape[1]))


def _expand(n: Node, inputs: tuple[Node, ...]) -> Node:
    return node(EXPAND, inputs, (_picked(n.shape, last_axes(len(n.shape))),))


def _pad(n: Node, inputs: tuple[Node, ...]) -> Node:
    return node(PAD, inputs, (_picked(n.attr("widths"), last_axes(len(n.shape))), n.attr("value")))


def _slice(n: Node, inputs: tuple[Node, ...]) -> Node:
    axes = last_axes(len(n.shape))
    return node(SLICE, inputs, tuple(_picked(n.attr(name), axes) for name in ("starts", "stops", "steps")))


def _concat(n: Node, inputs: tuple[Node, ...]) -> Node:
    return node(CONCAT, inputs, (last_axes(len(n.shape)).index(n.attr("axis")),))


_MOVERS: dict[str, Callable[[Node, tuple[Node, ...]], Node]] = {
    "reshape": _reshape, "expand": _expand, "pad": _pad, "slice": _slice, "concat": _concat}
