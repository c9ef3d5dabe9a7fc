"""Activations as modules; each applies the function of its name.

`inplace` is taken so that models port, and changes nothing: the compiler reuses memory by itself, and no other tensor sees it.
"""

from __future__ import annotations

from typing import Any

from renaissance.errors import ArgumentError
from renaissance.nn import functional as F
from renaissance.nn.module import Module


class ReLU(Module):
    """y = max(x, 0), element by element; see functional.relu."""

    def __init__(self, inplace: bool = False):
        super().__init__()

    def forward(self, x: Any) -> Any:
        return F.relu(x)


class ReLU6(Module):
    """y = min(max(x, 0), 6), element by element; see functional.relu6."""

    def __init__(self, inplace: bool = False):
        super().__init__()

    def forward(self, x: Any) -> Any:
        return F.relu6(x)


class LeakyReLU(Module):
    """y = x if x > 0, else negative_slope x; see functional.leaky_relu."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Any:
        return F.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """y = x if x > 0, else alpha (e^x - 1); see functional.elu."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Any) -> Any:
        return F.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class GELU(Module):
    """y = x Phi(x); see functional.gelu."""

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Any) -> Any:
        return F.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """y = x sigmoid(x), element by element; see functional.silu."""

    def __init__(self, inplace: bool = False):
        super().__init__()

    def forward(self, x: Any) -> Any:
        return F.silu(x)


class Sigmoid(Module):
    """y = 1 / (1 + e^-x), element by element; see functional.sigmoid."""

    def forward(self, x: Any) -> Any:
        return F.sigmoid(x)


class Tanh(Module):
    """y = tanh x, element by element; see functional.tanh."""

    def forward(self, x: Any) -> Any:
        return F.tanh(x)


class Softplus(Module):
    """y = ln(1 + e^(beta x)) / beta; see functional.softplus."""

    def __init__(self, beta: float = 1.0):
        super().__init__()
        self.beta = beta

    def forward(self, x: Any) -> Any:
        return F.softplus(x, self.beta)

    def extra_repr(self) -> str:
        return f"beta={self.beta}"


class Hardswish(Module):
    """y = x min(max(x + 3, 0), 6) / 6; see functional.hardswish."""

    def __init__(self, inplace: bool = False):
        super().__init__()

    def forward(self, x: Any) -> Any:
        return F.hardswish(x)


class Hardsigmoid(Module):
    """y = min(max(x + 3, 0), 6) / 6; see functional.hardsigmoid."""

    def __init__(self, inplace: bool = False):
        super().__init__()

    def forward(self, x: Any) -> Any:
        return F.hardsigmoid(x)


class Hardtanh(Module):
    """y = min(max(x, min_val), max_val); see functional.hardtanh."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
        super().__init__()
        self.min_val, self.max_val = min_val, max_val

    def forward(self, x: Any) -> Any:
        return F.hardtanh(x, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class Mish(Module):
    """y = x tanh(softplus(x)); see functional.mish."""

    def __init__(self, inplace: bool = False):
        super().__init__()

    def forward(self, x: Any) -> Any:
        return F.mish(x)


class Softmax(Module):
    """Positive numbers along an axis that add up to 1; see functional.softmax."""

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, x: Any) -> Any:
        return F.softmax(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of the softmax along an axis; see functional.log_softmax."""

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, x: Any) -> Any:
        return F.log_softmax(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Dropout(Module):
    """In training, sets elements to zero with probability p and scales the others; see functional.dropout."""

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ArgumentError(f"{type(self).__name__}: p must be from 0 to 1, got {p}")
        self.p = p

    def forward(self, x: Any) -> Any:
        return F.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Dropout2d(Dropout):
    """In training, sets whole channels to zero with probability p and scales the others; see functional.dropout2d."""

    def forward(self, x: Any) -> Any:
        return F.dropout2d(x, self.p, self.training)
