"""Affine maps, and layers that only reshape."""

from __future__ import annotations

from typing import Any

from renaissance.errors import ArgumentError
from renaissance.nn import functional as F
from renaissance.nn.init import linear_default
from renaissance.nn.module import Module
from renaissance.ops.movement import flatten
from renaissance.parameter import Parameter


class Linear(Module):
    """An affine map of the last axis.

    y = x W^T + b

    in_features   K
    out_features  N
    bias          whether there is a b; as an attribute b itself, (N,)
    weight        attribute: W, (N, K), at first uniform within 1 / sqrt(K), as b
    x             (..., K);  returns (..., N)
    raises        ArgumentError for negative sizes; ShapeError at the call when x does not end in K
    source        PyTorch, Linear
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        super().__init__()
        if not all(isinstance(n, int) for n in (in_features, out_features)):
            raise ArgumentError(f"Linear: sizes must be ints, got {in_features!r} and {out_features!r}")
        if in_features < 0 or out_features < 0:
            raise ArgumentError(f"Linear: sizes must not be negative, got {in_features} and {out_features}")
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(linear_default((out_features, in_features), in_features))
        self.register_parameter("bias", Parameter(linear_default((out_features,), in_features)) if bias else None)

    def forward(self, x: Any) -> Any:
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Identity(Module):
    """Gives back what it gets.

    y = x

    x       anything;  returns it
    raises  nothing
    source  PyTorch, Identity
    """

    def forward(self, x: Any) -> Any:
        return x


class Flatten(Module):
    """Merges neighbouring axes into one.

    y[n, k] = x[n, i, j, ...], k the row-major position of (i, j, ...)

    start_dim  first merged axis
    end_dim    last merged axis
    x          any shape;  returns (..., product of the merged, ...)
    raises     ArgumentError at the call when an axis is out of range
    source     PyTorch, Flatten
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Any) -> Any:
        return flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
