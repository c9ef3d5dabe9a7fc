"""The reference executor: a graph evaluated node by node in NumPy by each op's own `reference`. It defines meaning, not speed."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from renaissance import errors
from renaissance.ir import shape as sh
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node


def array_at(address: int, n: Node) -> np.ndarray:
    """The bytes at an address as an array of a node's dtype and shape (not a copy; nothing is kept alive)."""
    size = sh.size(n.shape) * n.dtype.size
    if size == 0:
        return np.empty(n.shape, n.dtype.numpy)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address)).view(n.dtype.numpy).reshape(n.shape)


def evaluate(nodes: Sequence[Node], known: dict[Node, Any]) -> dict[Node, Any]:
    """Values of `nodes` (inputs before users), given those of the leaves in `known`."""
    values = dict(known)
    for n in nodes:
        if n in values:
            continue
        arrays = [values[i] for i in n.inputs]
        if n.op.name == "check" and not np.all(arrays[1]):
            raise check_error(n.attrs[0])
        if n.op.reference is None:
            raise errors.PlanError(f"{n.op.name} has no reference and no data")
        value = np.asarray(n.op.reference(arrays, *n.attrs, out=(n.shape, n.dtype)))
        values[n] = value.astype(n.dtype.numpy, copy=False).reshape(n.shape)
    return values


def check_error(message: str) -> errors.RenaissanceError:
    """The error that a check's message names before its first colon."""
    name, _, text = message.partition(": ")
    cls = getattr(errors, name, None)
    return cls(text) if isinstance(cls, type) else errors.RangeError(message)


class ReferenceExecutable:
    """A graph with the interface of a linked plan."""

    finishes = 0

    def __init__(self, graph: Graph):
        self._graph = graph
        self._nodes = graph.nodes()

    def run(self, inputs: Sequence[int], outputs: Sequence[int], scalars: Sequence[int | float]) -> None:
        """Evaluate with leaves at `inputs`, writing each output to its address, then each assigned leaf."""
        graph = self._graph
        known: dict[Node, Any] = {n: array_at(a, n) for n, a in zip(graph.leaves, inputs)}
        known.update((n, n.dtype.numpy.type(s)) for n, s in zip(graph.scalars, scalars))
        values = evaluate(self._nodes, known)
        for n, address in zip(graph.outputs, outputs):
            array_at(address, n)[...] = values[n]
        results = [values[value].copy() for _, value in graph.assigns]
        for (leaf, _), result in zip(graph.assigns, results):
            known[leaf][...] = result
