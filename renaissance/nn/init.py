"""Initial values of parameters, in place, with PyTorch's names and defaults.

Weights are (out, in, ...): fan_in is in times the kernel size, fan_out is out times the kernel size.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from renaissance.errors import ArgumentError
from renaissance.random import Generator, normal, uniform
from renaissance.tensor import Tensor, full

_REACH = 6.0  # no normal draw is so many standard deviations from its mean


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps variance through a nonlinearity.

    relu: sqrt 2;  leaky_relu: sqrt(2 / (1 + slope^2));  tanh: 5/3;  selu: 3/4;  linear, sigmoid: 1

    nonlinearity  one of these names
    param         slope of leaky_relu; None: 0.01
    returns       float
    raises        ArgumentError for another name
    source        PyTorch, calculate_gain
    """
    slope = 0.01 if param is None else param
    table = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "leaky_relu": math.sqrt(2 / (1 + slope**2)),
             "selu": 3 / 4}
    if nonlinearity not in table:
        raise ArgumentError(f"calculate_gain: {nonlinearity!r} is unknown; choose from {', '.join(table)}")
    return table[nonlinearity]


def fans(tensor: Any) -> tuple[int, int]:
    """Inputs and outputs of a weight.

    fan_in = in k_1 k_2 ...,  fan_out = out k_1 k_2 ...

    tensor   (out, in, k_1, k_2, ...)
    returns  fan_in, fan_out
    raises   ArgumentError below two axes
    source   PyTorch, init._calculate_fan_in_and_fan_out
    """
    if tensor.ndim < 2:
        raise ArgumentError(f"fan_in and fan_out need a weight with at least 2 axes, got shape {tensor.shape}")
    kernel = math.prod(tensor.shape[2:])
    return tensor.shape[1] * kernel, tensor.shape[0] * kernel


def _fan(tensor: Any, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f"mode must be 'fan_in' or 'fan_out', got {mode!r}")
    return max(1, fans(tensor)[mode == "fan_out"])  # 0 where there is nothing to fill


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Any:
    """Fill with numbers equally likely anywhere between two bounds.

    y = a + (b - a) u,  u in [0, 1)

    tensor     any shape
    a, b       bounds
    generator  what the draw is taken from; None: the default one
    returns    the tensor
    raises     ArgumentError when a is above b
    source     PyTorch, init.uniform_
    """
    return tensor.copy_(uniform(a, b, tensor.shape, generator=generator))


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Any:
    """Fill with normally distributed numbers.

    y = mean + std z

    tensor     any shape
    mean, std  of the distribution
    generator  what the draw is taken from; None: the default one
    returns    the tensor
    raises     ArgumentError for a negative std
    source     PyTorch, init.normal_
    """
    return tensor.copy_(normal(mean, std, tensor.shape, generator=generator))


def trunc_normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
                  generator: Generator | None = None) -> Any:
    """Fill with normally distributed numbers of those between two bounds.

    y = mean + std F^-1(u), u uniform between F((a - mean) / std) and F((b - mean) / std), F the normal distribution function

    tensor     any shape
    mean, std  of the distribution without bounds
    a, b       bounds; where no number drawn lies beyond them, this is normal_
    generator  what the draw is taken from; None: the default one
    returns    the tensor
    raises     ArgumentError when a is not below b, or std is not positive; TraceError inside a compiled function, unless this is
               normal_
    source     PyTorch, init.trunc_normal_
    """
    if not (a < b and std > 0):
        raise ArgumentError(f"trunc_normal_: needs a < b and a positive std, got a={a}, b={b}, std={std}")
    if a <= mean - _REACH * std and b >= mean + _REACH * std:
        return normal_(tensor, mean, std, generator)
    law = NormalDist(mean, std)
    low, high = law.cdf(a), law.cdf(b)
    drawn = uniform(0.0, 1.0, tensor.shape, generator=generator).numpy()
    middles = drawn.astype(np.float64) + 2.0**-25  # of the steps of the draw: never 0 nor 1
    values = np.vectorize(law.inv_cdf, otypes=[np.float64])(low + (high - low) * middles)
    return tensor.copy_(np.clip(values, a, b))


def constant_(tensor: Any, val: float) -> Any:
    """Fill with one value.

    y = val

    tensor   any shape
    val      the value
    returns  the tensor
    raises   nothing
    source   PyTorch, init.constant_
    """
    return tensor.copy_(full(tensor.shape, val, tensor.dtype))


def zeros_(tensor: Any) -> Any:
    """Fill with zeros.

    y = 0

    tensor   any shape
    returns  the tensor
    raises   nothing
    source   PyTorch, init.zeros_
    """
    return constant_(tensor, 0)


def ones_(tensor: Any) -> Any:
    """Fill with ones.

    y = 1

    tensor   any shape
    returns  the tensor
    raises   nothing
    source   PyTorch, init.ones_
    """
    return constant_(tensor, 1)


def kaiming_uniform_(tensor: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                     generator: Generator | None = None) -> Any:
    """Fill uniformly so that variance is kept through a rectifier.

    y uniform within gain sqrt(3 / fan)

    tensor        (out, in, ...)
    a             slope of leaky_relu
    mode          'fan_in' keeps variance forward, 'fan_out' backward
    nonlinearity  whose gain is used; see calculate_gain
    generator     what the draw is taken from; None: the default one
    returns       the tensor
    raises        ArgumentError for another mode or nonlinearity, or below two axes
    source        He et al. 2015, arXiv:1502.01852
    """
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3 / _fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                    generator: Generator | None = None) -> Any:
    """Fill with normally distributed numbers so that variance is kept through a rectifier.

    y = gain / sqrt(fan) z

    tensor        (out, in, ...)
    a             slope of leaky_relu
    mode          'fan_in' keeps variance forward, 'fan_out' backward
    nonlinearity  whose gain is used; see calculate_gain
    generator     what the draw is taken from; None: the default one
    returns       the tensor
    raises        ArgumentError for another mode or nonlinearity, or below two axes
    source        He et al. 2015, arXiv:1502.01852
    """
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)), generator)


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Generator | None = None) -> Any:
    """Fill uniformly so that variance is kept both ways.

    y uniform within gain sqrt(6 / (fan_in + fan_out))

    tensor     (out, in, ...)
    gain       see calculate_gain
    generator  what the draw is taken from; None: the default one
    returns    the tensor
    raises     ArgumentError below two axes
    source     Glorot, Bengio 2010
    """
    bound = gain * math.sqrt(6 / max(1, sum(fans(tensor))))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Generator | None = None) -> Any:
    """Fill with normally distributed numbers so that variance is kept both ways.

    y = gain sqrt(2 / (fan_in + fan_out)) z

    tensor     (out, in, ...)
    gain       see calculate_gain
    generator  what the draw is taken from; None: the default one
    returns    the tensor
    raises     ArgumentError below two axes
    source     Glorot, Bengio 2010
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2 / max(1, sum(fans(tensor)))), generator)


def linear_default(shape: tuple[int, ...], fan_in: int) -> Tensor:
    """What Linear starts from.

    y uniform within 1 / sqrt(fan_in), that is kaiming_uniform_ with a = sqrt 5

    shape    of the weight or bias
    fan_in   inputs of the layer
    returns  a new tensor
    raises   nothing
    source   PyTorch, Linear.reset_parameters
    """
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    return uniform(-bound, bound, shape)
