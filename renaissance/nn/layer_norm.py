"""Layer normalisation as a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renaissance.ir import shape as sh
from renaissance.nn import functional as F
from renaissance.nn.module import Module
from renaissance.parameter import Parameter
from renaissance.tensor import ones, zeros


class LayerNorm(Module):
    """Gives the last axes of x mean 0 and variance 1, then scales and shifts them; see nn.functional.layer_norm.

    y = (x - mean) / sqrt(var + eps) weight + bias

    normalized_shape    sizes of the last axes that are taken together: an int or ints
    eps                 added to the variance
    elementwise_affine  whether there are weight and bias; as attributes (*normalized_shape), at first 1 and 0
    bias                whether there is a bias
    x                   (..., *normalized_shape);  returns the same shape
    raises              ShapeError for sizes that are none; at the call what layer_norm raises
    source              PyTorch, LayerNorm
    """

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True,
                 bias: bool = True):
        super().__init__()
        self.normalized_shape = sh.sizes("LayerNorm", normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", Parameter(ones(self.normalized_shape)) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(zeros(self.normalized_shape)) if elementwise_affine and bias else None)

    def forward(self, x: Any) -> Any:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
