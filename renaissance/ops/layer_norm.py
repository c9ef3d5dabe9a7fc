"""Layer normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renaissance.errors import ShapeError
from renaissance.ir import shape as sh
from renaissance.ops.compose import in_wide_floats
from renaissance.ops.composed import composed
from renaissance.ops.elementwise import add, astype, divide, lit, multiply, sqrt, subtract
from renaissance.ops.movement import broadcast_to, reshape
from renaissance.ops.reduce import mean, var
from renaissance.ops.value import Rule, with_gradient


def _deviation(x: Any, eps: float) -> Any:
    """The square root of the variance along the last axis plus eps, in the shape of x."""
    spread = var(x, -1, keepdims=True)
    return broadcast_to(sqrt(add(spread, lit(eps, spread))), x.shape)


def _rule(ct: Any, out: Any, inputs: Any, eps: float) -> tuple[Any, ...]:
    """dx = (ct - mean(ct) - y mean(ct y)) / deviation."""
    along = broadcast_to(mean(ct, -1, keepdims=True), ct.shape)
    across = broadcast_to(mean(ct * out, -1, keepdims=True), ct.shape)
    return ((ct - along - out * across) / _deviation(inputs[0], eps),)


@composed
def _normalised(x: Any, weight: Any, bias: Any, axes: int, eps: float) -> Any:
    """The last `axes` axes of x with mean 0 and variance 1, scaled and shifted."""
    count = sh.size(x.shape[-axes:])
    wide = in_wide_floats("layer_norm", x)
    if axes > 1:
        wide = reshape(wide, (*x.shape[:-axes], count))
    first = broadcast_to(wide[..., 0:1], wide.shape)
    shifted = subtract(wide, first)
    centred = subtract(shifted, broadcast_to(mean(shifted, -1, keepdims=True), wide.shape))
    y = with_gradient(divide(centred, _deviation(wide, eps)), (wide,), Rule(_rule, (eps,)))
    if weight is not None:
        y = multiply(y, broadcast_to(reshape(astype(weight, y.dtype), (count,)), y.shape))
    if bias is not None:
        y = add(y, broadcast_to(reshape(astype(bias, y.dtype), (count,)), y.shape))
    return astype(reshape(y, x.shape), x.dtype)


def layer_norm(x: Any, normalized_shape: int | Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Give the last axes of x mean 0 and variance 1, then scale and shift them.

    y = (x - mean) / sqrt(var + eps) weight + bias

    x                 (..., *normalized_shape) float
    normalized_shape  sizes of the last axes that are taken together: an int or ints
    weight, bias      (*normalized_shape), or None
    eps               added to the variance
    returns           shape and dtype of x; computed in float32 or wider, by two passes over differences from the first element
    raises            ShapeError when x does not end in these sizes, or weight or bias have others; DTypeError for integers
    source            Ba, Kiros, Hinton 2016, arXiv:1607.06450
    """
    sizes = sh.sizes("layer_norm", normalized_shape)
    if not sizes or x.shape[-len(sizes):] != sizes:
        raise ShapeError(f"layer_norm: x must end in the sizes {sizes}, got shape {x.shape}")
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and value.shape != sizes:
            raise ShapeError(f"layer_norm: {name} must be {sizes}, got {value.shape}")
    return x if x.size == 0 else _normalised(x, weight, bias, len(sizes), eps)
