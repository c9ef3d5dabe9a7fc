"""backward(): gradients of a tensor, collected where they are asked for."""

from __future__ import annotations

from typing import Any

from renaissance.autodiff import vjp, way_back
from renaissance.errors import GradientError, ShapeError
from renaissance.ir.node import Node
from renaissance.ops.elementwise import add, lit
from renaissance.ops.value import VARIABLE, Value, const, method
from renaissance.tensor.handle import USED, Tensor, detached
from renaissance.tensor.make import as_tensor


def _collects(n: Node) -> bool:
    """Whether a node is a variable of a tensor; those of grad() and the like only pass gradients on."""
    return n.op is VARIABLE and n.holders is not None


@method(of=Tensor)
def backward(self: Tensor, gradient: Any = None) -> None:
    """Add the gradient of this tensor to `grad` of every variable it depends on.

    gradient  cotangent, tensor or array of the tensor's shape; may be left out for one element: 1
    raises    GradientError when nothing it depends on asks for a gradient, or what it was computed from is gone
    source    PyTorch, backward
    """
    n = self.node
    if not n.needs_grad:
        raise GradientError("backward: nothing this tensor depends on asks for a gradient (requires_grad), or its history was "
                            "used up by an optimizer step")
    order = way_back([n], _collects)
    found = [v for v in order if _collects(v)]
    for v in order:
        v.spent = v.needs_grad and v.op is not VARIABLE
    for v, g in zip(found, vjp([n], [_cotangent(self, gradient).node], found, order=order)):
        owner = v.holders[0]()
        if owner is None:
            continue
        before = owner.collected()
        if before is USED:  # what it would be added to is gone: reading it stays an error until zero_grad()
            continue
        value = Tensor(detached(g)) if g is not None else Tensor(const(0.0, v.dtype)).broadcast_to(v.shape)
        owner.collect(value if before is None else add(before, value))


def _cotangent(t: Tensor, gradient: Any) -> Value:
    if gradient is None:
        if t.size != 1:
            raise ShapeError(f"backward: gradient must be given for a tensor of shape {t.shape}; only one element has a default")
        return lit(1, t)
    given = as_tensor(gradient)
    if given.shape != t.shape:
        raise ShapeError(f"backward: gradient must have shape {t.shape}, got {given.shape}")
    return given
