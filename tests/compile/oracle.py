"""The meaning of a graph, node by node on NumPy arrays, with every sum in the order the plan's contract states."""

from __future__ import annotations

import numpy as np

from renaissance.ir.graph import Graph
from renaissance.ir.node import Node
from tests.compile.plan_interpreter import CheckFailed, combine


def evaluate(graph: Graph, inputs: list[np.ndarray], scalars=(), check: bool = True) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(outputs, new values of the assigned leaves)."""
    values: dict[Node, np.ndarray] = dict(zip(graph.leaves, inputs))
    values.update({n: np.asarray(v).astype(n.dtype.numpy) for n, v in zip(graph.scalars, scalars)})
    failed = None
    with np.errstate(all="ignore"):
        for n in graph.nodes():
            if n not in values:
                values[n] = _one(n, [values[i] for i in n.inputs])
                assert values[n].shape == n.shape and values[n].dtype == n.dtype.numpy, (n, values[n].shape, values[n].dtype)
            if n.op.name == "check" and not values[n.inputs[1]].all():
                failed = failed or n.attr("message")
    if failed and check:
        raise CheckFailed(failed)
    return [values[o].copy() for o in graph.outputs], [values[v].copy() for _, v in graph.assigns]


def _one(n: Node, arrays: list[np.ndarray]) -> np.ndarray:
    if n.op.name == "dot":
        a, b = (x.astype(np.float64) for x in arrays)
        return np.matmul(a, b).astype(n.dtype.numpy)
    if n.op.kind == "reduce":
        shape = arrays[0].shape
        axes = n.attr("axes") if "axes" in n.op.attrs else (n.attr("axis") % len(shape),)
        first, last = axes[0], axes[-1] + 1
        merged = arrays[0].reshape((*shape[:first], -1, *shape[last:]))
        layout = "row" if last == len(shape) else "column"
        return np.asarray(np.squeeze(combine(n.op.name.removeprefix("reduce_"), merged, first, layout), first))
    arrays = [np.ascontiguousarray(a).reshape(a.shape) for a in arrays]
    return np.asarray(n.op.reference(arrays, *n.attrs, (n.shape, n.dtype)), n.dtype.numpy)
