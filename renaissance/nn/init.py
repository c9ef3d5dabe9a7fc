"""Initial values of parameters, in place, with PyTorch's names and defaults."""

from __future__ import annotations

import math
from typing import Any

from renaissance.errors import ArgumentError
from renaissance.random import Generator, normal, uniform
from renaissance.tensor import Tensor, full


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps variance through a nonlinearity.

    relu: sqrt 2;  leaky_relu: sqrt(2 / (1 + slope^2));  tanh: 5/3;  others: 1

    returns  float
    raises   ArgumentError for an unknown name
    source   PyTorch, calculate_gain
    """
    slope = 0.01 if param is None else param
    table = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "leaky_relu": math.sqrt(2 / (1 + slope**2))}
    if nonlinearity not in table:
        raise ArgumentError(f"calculate_gain: {nonlinearity!r} is unknown; choose from {', '.join(table)}")
    return table[nonlinearity]


def fans(tensor: Any) -> tuple[int, int]:
    """Inputs and outputs of a weight (out, in, ...): in times the kernel size, out times the kernel size.

    raises  ArgumentError below two axes
    """
    if tensor.ndim < 2:
        raise ArgumentError(f"fan-in and fan-out need a weight with at least 2 axes, got shape {tensor.shape}")
    kernel = math.prod(tensor.shape[2:])
    return tensor.shape[1] * kernel, tensor.shape[0] * kernel


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Any:
    """Fill with numbers equally likely anywhere from a to b; returns the tensor.

    source  PyTorch, init.uniform_
    """
    return tensor.copy_(uniform(a, b, tensor.shape, generator=generator))


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Any:
    """Fill with normally distributed numbers; returns the tensor.

    source  PyTorch, init.normal_
    """
    return tensor.copy_(normal(mean, std, tensor.shape, generator=generator))


def constant_(tensor: Any, val: float) -> Any:
    """Fill with one value; returns the tensor.

    source  PyTorch, init.constant_
    """
    return tensor.copy_(full(tensor.shape, val, tensor.dtype))


def zeros_(tensor: Any) -> Any:
    """Fill with zeros; returns the tensor.

    source  PyTorch, init.zeros_
    """
    return constant_(tensor, 0)


def ones_(tensor: Any) -> Any:
    """Fill with ones; returns the tensor.

    source  PyTorch, init.ones_
    """
    return constant_(tensor, 1)


def _fan(tensor: Any, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f"mode must be 'fan_in' or 'fan_out', got {mode!r}")
    return fans(tensor)[mode == "fan_out"]


def kaiming_uniform_(tensor: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Any:
    """Fill so that variance is kept through a rectifier, uniformly; returns the tensor.

    bound = gain sqrt(3 / fan)

    source  He et al. 2015, arXiv:1502.01852
    """
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3 / _fan(tensor, mode))
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Any:
    """Fill so that variance is kept through a rectifier, normally distributed; returns the tensor.

    std = gain / sqrt(fan)

    source  He et al. 2015, arXiv:1502.01852
    """
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)))


def xavier_uniform_(tensor: Any, gain: float = 1.0) -> Any:
    """Fill so that variance is kept both ways, uniformly; returns the tensor.

    bound = gain sqrt(6 / (fan_in + fan_out))

    source  Glorot, Bengio 2010
    """
    bound = gain * math.sqrt(6 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Any, gain: float = 1.0) -> Any:
    """Fill so that variance is kept both ways, normally distributed; returns the tensor.

    std = gain sqrt(2 / (fan_in + fan_out))

    source  Glorot, Bengio 2010
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(fans(tensor))))


def linear_default(shape: tuple[int, ...], fan_in: int) -> Tensor:
    """What Linear starts from: uniform within 1 / sqrt(fan_in) (kaiming_uniform_ with a = sqrt 5).

    source  PyTorch, Linear.reset_parameters
    """
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    return uniform(-bound, bound, shape)
