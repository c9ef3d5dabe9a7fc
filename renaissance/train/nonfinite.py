"""Where a loss stopped being finite: the step's forward part is done again in NumPy, node by node, and looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, topological
from renaissance.nn.module import Module, watching
from renaissance.ops.composed import expanded
from renaissance.ops.value import SCALAR, Value, no_grad
from renaissance.runtime.reference import evaluate
from renaissance.tensor import Tensor


def first_non_finite(model: Module, inputs: Any, forward: Callable[[Any], Any]) -> str:
    """Name what made the first value that is not finite on the way from a batch to its loss.

    model     whose layers are named
    inputs    the batch, a tensor
    forward   inputs -> loss
    returns   a clause for a message: a parameter, the inputs, or a layer and the op in it; '' if in NumPy all values are finite
    raises    nothing
    source    definition
    """
    for name, parameter in model.named_parameters():
        if not np.isfinite(parameter.numpy()).all():
            return f"parameter {name} was not finite before this step"
    paths = {id(m): path for path, m in model.named_modules()}
    layers: list[str] = []
    outputs: list[Node] = []

    def note(module: Module, output: Any) -> None:
        if id(module) in paths and isinstance(output, Value) and not any(True for _ in module.children()):
            layers.append(f"layer {paths[id(module)] or '-'} ({type(module).__name__})")
            outputs.append(output.node)

    with no_grad(), watching(note):
        loss = forward(inputs)
    graph = _graph((inputs.node, *outputs, loss.node))
    values = _values(graph)
    begun, *ended, _ = (bool(np.isfinite(values[n]).all()) for n in graph.outputs)
    if not begun:
        return "the inputs of the batch are not finite"
    culprit = _culprit(graph, values)
    if culprit is None:
        return ""
    where = next((layer for layer, finite in zip(layers, ended) if not finite), "the loss")
    return f"first made by {culprit.op.name} of shape {culprit.shape} in {where}"


def _graph(outputs: tuple[Node, ...]) -> Graph:
    """What the outputs need, composed ops written out."""
    known = [n for n in topological(outputs, lambda n: n.data is not None) if n.data is not None]
    leaves, scalars = (tuple(n for n in known if (n.op is SCALAR) == wanted) for wanted in (False, True))
    return expanded(Graph(leaves, scalars, outputs))


def _values(graph: Graph) -> dict[Node, Any]:
    values: dict[Node, Any] = {n: Tensor(n).numpy() for n in graph.leaves}
    values.update((n, n.dtype.numpy.type(n.data)) for n in graph.scalars)
    with np.errstate(all="ignore"):
        for n in graph.nodes():
            if n.op.name == "check":  # what it guards is what we are looking for: let it pass
                values[n] = values[n.inputs[0]]
            elif n not in values:
                values.update(evaluate([n], {i: values[i] for i in n.inputs}))
    return values


def _culprit(graph: Graph, values: dict[Node, Any]) -> Node | None:
    """The first node that is not finite though its inputs are; where infinities are meant to be, the first NaN from none."""
    for wrong in (lambda a: not np.isfinite(a).all(), lambda a: np.isnan(a).any()):
        for n in graph.nodes():
            floats = [i for i in n.inputs if i.dtype.is_float]
            if n.dtype.is_float and floats and wrong(values[n]) and not any(wrong(values[i]) for i in floats):
                return n
    return None
