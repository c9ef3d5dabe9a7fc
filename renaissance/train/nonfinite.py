"""Where a loss stopped being finite: the step's forward part is done again in NumPy, op by op, and looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from renaissance import debug
from renaissance.engine import executor
from renaissance.nn.module import Module, watching
from renaissance.ops.value import no_grad
from renaissance.tensor import Tensor


def first_non_finite(model: Module, inputs: Tensor, forward: Callable[[Tensor], Tensor]) -> str:
    """Name what made the first value that is not finite on the way from a batch to its loss.

    model     whose layers are named
    inputs    the batch
    forward   inputs -> loss
    returns   a clause for a message: a parameter, the inputs, or a layer and the op in it; '' if in NumPy all values are finite
    raises    nothing
    source    definition
    """
    for name, parameter in model.named_parameters():
        if not _finite(parameter):
            return f"parameter {name} was not finite before this step"
    paths = {id(m): path for path, m in model.named_modules()}
    outputs: list[tuple[str, Tensor]] = []

    def note(module: Module, output: Any) -> None:
        if id(module) in paths and isinstance(output, Tensor) and not any(True for _ in module.children()):
            outputs.append((f"layer {paths[id(module)] or '-'} ({type(module).__name__})", output))

    with executor("reference"):
        if not _finite(inputs):
            return "the inputs of the batch are not finite"
        with no_grad(), debug.noting_lines() as lines, watching(note):
            loss = forward(inputs)
        culprit = debug.first_non_finite([loss.node], lines)
        if culprit is None:
            return ""
        where = next((layer for layer, output in outputs if not _finite(output)), "the loss")
    return f"first made by {culprit} in {where}"


def _finite(x: Tensor) -> bool:
    return bool(np.isfinite(x.numpy()).all())
