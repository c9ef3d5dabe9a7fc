"""Ops with no rule of their own: compositions of primitives. Some state their gradient too, where the derived one would lose
digits or fuse badly; a test compares both in float64."""

from __future__ import annotations

import math
from typing import Any

from renaissance.errors import ArgumentError, DTypeError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ops.composed import composed
from renaissance.ops.elementwise import (
    absolute,
    add,
    astype,
    clip,
    divide,
    erf,
    exp,
    expm1,
    greater_equal,
    isfinite,
    less,
    less_equal,
    lit,
    log,
    log1p,
    multiply,
    negative,
    tanh,
    where,
)
from renaissance.ops.movement import broadcast_to, reshape
from renaissance.ops.reduce import max as reduce_max
from renaissance.ops.reduce import sum
from renaissance.ops.value import Rule, Value, with_gradient

# ---- activations -------------------------------------------------------------------------------------------------------


def _relu_rule(ct: Any, out: Any, inputs: Any) -> tuple[Any, ...]:
    return (where(less_equal(out, lit(0, out)), lit(0, ct), ct),)


@composed
def relu(x: Any) -> Any:
    """Keep what is positive; NaN stays NaN; the gradient at 0 is 0.

    y = max(x, 0)

    x        any shape, float
    returns  shape and dtype of x
    raises   DTypeError for bool
    source   Nair, Hinton 2010
    """
    return with_gradient(where(less_equal(x, lit(0, x)), lit(0, x), x), (x,), _relu_rule)


@composed
def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    """Keep what is positive, scale what is negative.

    y = x if x > 0, else negative_slope x

    x               any shape, float
    negative_slope  the slope below 0
    returns         shape and dtype of x
    raises          DTypeError for integers
    source          Maas, Hannun, Ng 2013
    """
    return where(less_equal(x, lit(0, x)), multiply(x, lit(negative_slope, x)), x)


def relu6(x: Any) -> Any:
    """Cut to the range from 0 to 6; the gradient at both ends is 0.

    y = min(max(x, 0), 6)

    x        any shape, float
    returns  shape and dtype of x
    raises   DTypeError for bool
    source   Krizhevsky 2010
    """
    return hardtanh(x, 0.0, 6.0)


@composed
def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """Cut to a range; the gradient at both ends is 0.

    y = min(max(x, min_val), max_val)

    x                 any shape, float
    min_val, max_val  the range
    returns           shape and dtype of x
    raises            ArgumentError when min_val is above max_val
    source            PyTorch, hardtanh
    """
    if min_val > max_val:
        raise ArgumentError(f"hardtanh: min_val {min_val} is above max_val {max_val}")
    low, high = lit(min_val, x), lit(max_val, x)
    y = where(less_equal(x, low), low, x)
    return where(greater_equal(y, high), high, y)


def _sigmoid_rule(ct: Any, out: Any, inputs: Any) -> tuple[Any, ...]:
    return (ct * (out * (lit(1, out) - out)),)


@composed
def sigmoid(x: Any) -> Any:
    """The logistic function, without overflow at either end.

    y = 1 / (1 + e^-x)

    x        any shape, float
    returns  shape and dtype of x
    raises   DTypeError for integers
    source   definition
    """
    e = exp(negative(absolute(x)))
    top = where(less(x, lit(0, x)), e, lit(1, x))
    return with_gradient(divide(top, add(e, lit(1, x))), (x,), _sigmoid_rule)


@composed
def silu(x: Any) -> Any:
    """x times its logistic function.

    y = x / (1 + e^-x)

    x        any shape, float
    returns  shape and dtype of x
    raises   DTypeError for integers
    source   Hendrycks, Gimpel 2016, arXiv:1606.08415; Elfwing et al. 2017, arXiv:1702.03118
    """
    return multiply(x, sigmoid(x))


def _softplus_rule(ct: Any, out: Any, inputs: Any) -> tuple[Any, ...]:
    return (ct * sigmoid(inputs[0]),)


@composed
def softplus(x: Any, beta: float = 1.0) -> Any:
    """A smooth ramp, exact at both ends.

    y = ln(1 + e^(beta x)) / beta

    x        any shape, float
    beta     sharpness of the bend
    returns  shape and dtype of x
    raises   ArgumentError unless beta is positive
    source   Dugas et al. 2001; PyTorch's threshold is not needed
    """
    if not beta > 0:
        raise ArgumentError(f"softplus: beta must be positive, got {beta}")
    if beta != 1.0:
        return divide(softplus(multiply(x, lit(beta, x))), lit(beta, x))
    ramp = where(less(x, lit(0, x)), lit(0, x), x)
    return with_gradient(add(ramp, log1p(exp(negative(absolute(x))))), (x,), _softplus_rule)


@composed
def elu(x: Any, alpha: float = 1.0) -> Any:
    """Identity above 0, a saturating exponential below.

    y = x if x > 0, else alpha (e^x - 1)

    x        any shape, float
    alpha    how far down it goes
    returns  shape and dtype of x
    raises   DTypeError for integers
    source   Clevert, Unterthiner, Hochreiter 2015, arXiv:1511.07289
    """
    low = less_equal(x, lit(0, x))
    return where(low, multiply(expm1(where(low, x, lit(0, x))), lit(alpha, x)), x)


@composed
def gelu(x: Any, approximate: str = "none") -> Any:
    """x times the probability that a normal variable is below x.

    y = x Phi(x) = x (1 + erf(x / sqrt 2)) / 2;  'tanh': x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2

    x            any shape, float
    approximate  'none' or 'tanh'
    returns      shape and dtype of x
    raises       ArgumentError for another approximation
    source       Hendrycks, Gimpel 2016, arXiv:1606.08415
    """
    half = multiply(x, lit(0.5, x))
    if approximate == "none":
        return half * (erf(multiply(x, lit(math.sqrt(0.5), x))) + lit(1, x))
    if approximate == "tanh":
        inner = x * (lit(1, x) + lit(0.044715, x) * (x * x))
        return half * (tanh(multiply(inner, lit(math.sqrt(2 / math.pi), x))) + lit(1, x))
    raise ArgumentError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")


@composed
def hardswish(x: Any) -> Any:
    """x times a straight-line logistic function.

    y = x min(max(x + 3, 0), 6) / 6

    x        any shape, float
    returns  shape and dtype of x
    raises   DTypeError for integers
    source   Howard et al. 2019, arXiv:1905.02244
    """
    return divide(x * relu6(x + lit(3, x)), lit(6, x))


@composed
def hardsigmoid(x: Any) -> Any:
    """A straight-line logistic function; the gradient at both ends is 0.

    y = min(max(x + 3, 0), 6) / 6

    x        any shape, float
    returns  shape and dtype of x
    raises   DTypeError for integers
    source   Courbariaux, Bengio, David 2015, arXiv:1511.00363
    """
    return divide(relu6(x + lit(3, x)), lit(6, x))


@composed
def mish(x: Any) -> Any:
    """x times the tanh of its softplus.

    y = x tanh(ln(1 + e^x))

    x        any shape, float
    returns  shape and dtype of x
    raises   DTypeError for integers
    source   Misra 2019, arXiv:1908.08681
    """
    return multiply(x, tanh(softplus(x)))


# ---- softmax family ----------------------------------------------------------------------------------------------------


def stretch(x: Any, reduced: Any, axis: int) -> Any:
    """`reduced`, which lacks one axis of x, stretched to the shape of x."""
    return broadcast_to(reshape(reduced, tuple(1 if a == axis else n for a, n in enumerate(x.shape))), x.shape)


def in_wide_floats(op: str, x: Any) -> Any:
    """x in float32 or wider, as softmax and losses are computed; raises DTypeError for other dtypes than floats."""
    if not isinstance(x, Value) or not x.dtype.is_float:
        raise DTypeError(f"{op}: x must be a float tensor, got {x.dtype.name if isinstance(x, Value) else type(x).__name__}")
    return astype(x, dt.accumulator(x.dtype))


def _softmax_rule(ct: Any, out: Any, inputs: Any, axis: int) -> tuple[Any, ...]:
    return (out * (ct - stretch(ct, sum(ct * out, axis), axis)),)


def _log_softmax_rule(ct: Any, out: Any, inputs: Any, axis: int) -> tuple[Any, ...]:
    return (ct - exp(out) * stretch(ct, sum(ct, axis), axis),)


def _logsumexp_rule(ct: Any, out: Any, inputs: Any, axes: Any) -> tuple[Any, ...]:
    x = inputs[0]
    share = exp(x - broadcast_to(out, x.shape))
    return (where(isfinite(broadcast_to(out, x.shape)), share, lit(0, x)) * broadcast_to(ct, x.shape),)


@composed
def softmax(x: Any, axis: int = -1) -> Any:
    """Positive numbers along an axis that add up to 1; a slice of only -inf gives NaN.

    y_i = e^(x_i - max x) / sum_j e^(x_j - max x)

    x        any shape, float
    axis     which
    returns  shape and dtype of x; computed in float32 or wider
    raises   ArgumentError when axis is out of range; DTypeError for integers
    source   definition
    """
    a = sh.axis_index("softmax", axis, x.ndim)
    if x.size == 0:
        return x
    wide = in_wide_floats("softmax", x)
    e = exp(wide - stretch(wide, reduce_max(wide, a), a))
    return astype(with_gradient(divide(e, stretch(wide, sum(e, a), a)), (wide,), Rule(_softmax_rule, (a,))), x.dtype)


@composed
def logsumexp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The logarithm of a sum of exponentials, without overflow; of only -inf, or of nothing, -inf.

    y = ln sum_i e^x_i

    x         any shape, float
    axis      int, ints or None (all)
    keepdims  True: reduced axes stay, with size 1
    returns   the shape without the axes, dtype of x; computed in float32 or wider
    raises    ArgumentError for bad axes; DTypeError for integers
    source    definition
    """
    axes = sh.axes_indices("logsumexp", axis, x.ndim)
    wide = in_wide_floats("logsumexp", x)
    kept = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    if sh.size(tuple(x.shape[a] for a in axes)):
        top = reshape(reduce_max(wide, axes), kept)
        top = where(isfinite(top), top, lit(0, top))
    else:
        top = reshape(sum(wide, axes), kept)
    total = reshape(sum(exp(wide - broadcast_to(top, x.shape)), axes), kept)

    y = with_gradient(add(log(total), top), (wide,), Rule(_logsumexp_rule, (axes,)))
    shape = kept if keepdims else tuple(n for a, n in enumerate(x.shape) if a not in axes)
    return reshape(astype(y, x.dtype), shape)


@composed
def log_softmax(x: Any, axis: int = -1) -> Any:
    """The logarithm of the softmax, by log-sum-exp.

    y_i = x_i - ln sum_j e^x_j

    x        any shape, float
    axis     which
    returns  shape and dtype of x; computed in float32 or wider
    raises   ArgumentError when axis is out of range; DTypeError for integers
    source   definition
    """
    a = sh.axis_index("log_softmax", axis, x.ndim)
    if x.size == 0:
        return x
    wide = in_wide_floats("log_softmax", x)
    shifted = wide - stretch(wide, reduce_max(wide, a), a)
    y = shifted - stretch(wide, log(sum(exp(shifted), a)), a)
    return astype(with_gradient(y, (wide,), Rule(_log_softmax_rule, (a,))), x.dtype)


def dropped(x: Any, keep: Any, p: float) -> Any:
    """Zero where `keep` is False, elsewhere x / (1 - p): dropout with its mask given."""
    scale = 1 / (1 - p) if p < 1.0 else 0.0  # p = 1 keeps nothing
    return where(keep, multiply(x, lit(scale, x)), lit(0, x))


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """Keep elements between two bounds: PyTorch's name for `clip`.

    y = min if x <= min, max if x >= max, else x

    x         any shape
    min, max  numbers or tensors; None: no bound
    returns   the broadcast shape, dtype of x
    raises    as clip
    source    PyTorch, clamp
    """
    return clip(x, min, max)
