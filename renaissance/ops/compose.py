"""Ops with no rule of their own: compositions of primitives. Some state their gradient too, where the derived one would lose
digits or fuse badly; a test compares both in float64."""

from __future__ import annotations

import math
from typing import Any

from renaissance.errors import ArgumentError, DTypeError, ShapeError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ops.composed import composed
from renaissance.ops.elementwise import (
    absolute,
    add,
    astype,
    clip,
    divide,
    equal,
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
    logical_and,
    logical_or,
    multiply,
    negative,
    not_equal,
    subtract,
    tanh,
    where,
)
from renaissance.ops.index import check, one_hot
from renaissance.ops.movement import broadcast_to, reshape
from renaissance.ops.reduce import max as reduce_max
from renaissance.ops.reduce import mean, sum
from renaissance.ops.value import Rule, Value, need_tensor, with_gradient

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


def _stretch(x: Any, reduced: Any, axis: int) -> Any:
    return broadcast_to(reshape(reduced, tuple(1 if a == axis else n for a, n in enumerate(x.shape))), x.shape)


def _wide(op: str, x: Any) -> Any:
    if not isinstance(x, Value) or not x.dtype.is_float:
        raise DTypeError(f"{op}: x must be a float tensor, got {x.dtype.name if isinstance(x, Value) else type(x).__name__}")
    return astype(x, dt.accumulator(x.dtype))


def _softmax_rule(ct: Any, out: Any, inputs: Any, axis: int) -> tuple[Any, ...]:
    return (out * (ct - _stretch(ct, sum(ct * out, axis), axis)),)


def _log_softmax_rule(ct: Any, out: Any, inputs: Any, axis: int) -> tuple[Any, ...]:
    return (ct - exp(out) * _stretch(ct, sum(ct, axis), axis),)


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
    wide = _wide("softmax", x)
    e = exp(wide - _stretch(wide, reduce_max(wide, a), a))
    return astype(with_gradient(divide(e, _stretch(wide, sum(e, a), a)), (wide,), Rule(_softmax_rule, (a,))), x.dtype)


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
    wide = _wide("logsumexp", x)
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
    wide = _wide("log_softmax", x)
    shifted = wide - _stretch(wide, reduce_max(wide, a), a)
    y = shifted - _stretch(wide, log(sum(exp(shifted), a)), a)
    return astype(with_gradient(y, (wide,), Rule(_log_softmax_rule, (a,))), x.dtype)


# ---- losses ------------------------------------------------------------------------------------------------------------


def _reduced(op: str, losses: Any, reduction: str) -> Any:
    if reduction == "none":
        return losses
    if reduction in ("mean", "sum"):
        return mean(losses) if reduction == "mean" else sum(losses)
    raise ArgumentError(f"{op}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def _same_shape(op: str, x: Any, target: Any) -> None:
    need_tensor(op, x, "input")
    need_tensor(op, target, "target")
    if x.shape != target.shape:
        raise ShapeError(f"{op}: input and target must have one shape, got {x.shape} and {target.shape}; reshape one of them")


@composed
def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Squared difference.

    l = (x - t)^2, then the mean or sum over all elements

    input, target  one shape, float
    reduction      'mean', 'sum' or 'none'
    returns        () or the shape of input
    raises         ShapeError when shapes differ (they are not broadcast); ArgumentError for another reduction
    source         PyTorch, mse_loss
    """
    _same_shape("mse_loss", input, target)
    difference = subtract(input, target)
    return _reduced("mse_loss", difference * difference, reduction)


@composed
def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Absolute difference; its gradient at 0 is 0.

    l = |x - t|, then the mean or sum over all elements

    input, target  one shape, float
    reduction      'mean', 'sum' or 'none'
    returns        () or the shape of input
    raises         ShapeError when shapes differ (they are not broadcast); ArgumentError for another reduction
    source         PyTorch, l1_loss
    """
    _same_shape("l1_loss", input, target)
    return _reduced("l1_loss", absolute(subtract(input, target)), reduction)


@composed
def binary_cross_entropy_with_logits(input: Any, target: Any, weight: Any = None, reduction: str = "mean",
                                     pos_weight: Any = None) -> Any:
    """Cross entropy of a yes/no label against a logit, exact for logits of any size.

    l = w ((1 - t) x + (1 + (p - 1) t) ln(1 + e^-x))

    input, target  one shape, float
    weight         w, broadcasts with input; None: 1
    reduction      'mean', 'sum' or 'none'
    pos_weight     p, broadcasts with input; None: 1
    returns        () or the shape of input
    raises         ShapeError when shapes differ; ArgumentError for another reduction
    source         PyTorch, binary_cross_entropy_with_logits
    """
    op = "binary_cross_entropy_with_logits"
    _same_shape(op, input, target)
    x, t = _wide(op, input), _wide(op, target)
    one = lit(1, x)
    tail = softplus(negative(x))
    if pos_weight is not None:
        tail = tail * (one + (broadcast_to(pos_weight, x.shape) - one) * t)
    losses = (one - t) * x + tail
    return _reduced(op, losses if weight is None else multiply(losses, weight), reduction)


def _classes_last(op: str, input: Any, target: Any) -> tuple[Any, tuple[int, ...]]:
    """Scores with the class axis last, as (M, C), and the shape of their targets."""
    if input.ndim == 0:
        raise ShapeError(f"{op}: input must have a class axis, got shape ()")
    axis = 0 if input.ndim == 1 else 1
    order = (*(a for a in range(input.ndim) if a != axis), axis)
    moved = input.permute_dims(order)
    return reshape(moved, (sh.size(moved.shape[:-1]), moved.shape[-1])), moved.shape[:-1]


def _checked_classes(op: str, target: Any, classes: int, ignore_index: int) -> tuple[Any, Any]:
    """Targets in range (ignored ones as class 0) and whether each is kept."""
    wide = astype(target, dt.int64)
    kept = not_equal(wide, lit(ignore_index, wide))
    inside = logical_and(greater_equal(wide, lit(0, wide)), less(wide, lit(classes, wide)))
    allowed = logical_or(inside, equal(wide, lit(ignore_index, wide)))
    wide = check(wide, allowed, f"RangeError: {op}: target must be a class from 0 to {classes - 1}"
                                f" (or ignore_index {ignore_index})")
    return where(kept, wide, lit(0, wide)), kept


def _weighted_mean(total: Any, weights: Any) -> Any:
    """Sum of losses over sum of weights; 0 where all weights are 0."""
    amount, divisor = sum(total), sum(weights)
    empty = equal(divisor, lit(0, divisor))
    return where(empty, lit(0, amount), divide(amount, where(empty, lit(1, divisor), divisor)))


@composed
def nll_loss(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Any:
    """Negative log-likelihood of the target class, given log-probabilities.

    l_i = -w[t_i] x[i, t_i];  mean divides by the sum of the weights of the kept targets

    input         (N, C), (N, C, ...) or (C,) float: log-probabilities
    target        (N,), (N, ...) or () integers: classes, or ignore_index for targets that count nowhere
    weight        (C,) or None
    ignore_index  a target that counts nowhere
    reduction     'mean', 'sum' or 'none'
    returns       () or the shape of target
    raises        ShapeError when shapes differ; RangeError at run time for a class outside; ArgumentError for another reduction
    source        PyTorch, nll_loss
    """
    return _class_loss("nll_loss", input, target, lambda x: x, weight=weight, ignore_index=ignore_index, reduction=reduction)


@composed
def cross_entropy(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Any:
    """Cross entropy of the softmax of scores against classes or class probabilities, by log-sum-exp.

    l_i = -sum_c q_ic w_c ln softmax(x_i)_c;  q = (1 - s) onehot(t) + s / C;  mean divides by the sum of w[t_i] of kept targets

    input            (N, C), (N, C, ...) or (C,) float: scores
    target           (N,), (N, ...) or () integers, ignore_index counting nowhere; or probabilities of the shape of input
    weight           (C,) or None
    ignore_index     a target that counts nowhere
    reduction        'mean', 'sum' or 'none'
    label_smoothing  s, from 0 to 1
    returns          () or the shape of target; float32 or wider; 0 when all targets are ignored
    raises           ShapeError when shapes differ; RangeError at run time for a class outside; ArgumentError for other settings
    source           PyTorch, cross_entropy
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"cross_entropy: label_smoothing must be from 0 to 1, got {label_smoothing}")
    if isinstance(target, Value) and target.dtype.is_float:
        return _probability_loss(input, target, weight, reduction, label_smoothing)
    return _class_loss("cross_entropy", input, target, log_softmax, weight=weight, ignore_index=ignore_index, reduction=reduction,
                       smoothing=label_smoothing)


def _class_loss(op: str, input: Any, target: Any, log_probability: Any, *, weight: Any, ignore_index: int, reduction: str,
                smoothing: float = 0.0) -> Any:
    if not isinstance(target, Value) or not target.dtype.is_integer:
        kind = target.dtype.name if isinstance(target, Value) else type(target).__name__
        raise DTypeError(f"{op}: target must be integer classes, got {kind}")
    scores, shape = _classes_last(op, _wide(op, input), target)
    if target.shape != shape:
        raise ShapeError(f"{op}: target must have shape {shape} for input {input.shape}, got {target.shape}")
    classes = scores.shape[1]
    if weight is not None and weight.shape != (classes,):
        raise ShapeError(f"{op}: weight must be (C,) = ({classes},), got {weight.shape}")
    chosen, kept = _checked_classes(op, reshape(target, (scores.shape[0],)), classes, ignore_index)
    logp = log_probability(where(_stretch(scores, kept, 1), scores, lit(0, scores)))  # an ignored row may hold NaN
    hit = one_hot(chosen, classes)
    own = negative(sum(where(hit, logp, lit(0, logp)), -1))
    spread = negative(sum(logp if weight is None else multiply(logp, astype(weight, logp.dtype)), -1)) if smoothing else own
    nothing = lit(0, own)
    if weight is None:
        kept_weight = where(kept, lit(1, own), nothing)
    else:
        per_class = broadcast_to(astype(weight, logp.dtype), logp.shape)
        kept_weight = where(kept, sum(where(hit, per_class, lit(0, logp)), -1), nothing)
        own = own * kept_weight
    losses = where(kept, own, nothing)
    if smoothing:
        losses = losses * lit(1 - smoothing, losses) + where(kept, spread, nothing) * lit(smoothing / classes, losses)
    if reduction == "mean":
        return _weighted_mean(losses, kept_weight)
    return reshape(losses, shape) if reduction == "none" else _reduced(op, losses, reduction)


def _probability_loss(input: Any, target: Any, weight: Any, reduction: str, smoothing: float) -> Any:
    _same_shape("cross_entropy", input, target)
    scores, shape = _classes_last("cross_entropy", _wide("cross_entropy", input), target)
    wanted, _ = _classes_last("cross_entropy", astype(target, scores.dtype), target)
    if smoothing:
        wanted = wanted * lit(1 - smoothing, wanted) + lit(smoothing / scores.shape[1], wanted)
    logp = log_softmax(scores, -1)
    if weight is not None:
        wanted = wanted * broadcast_to(astype(weight, wanted.dtype), wanted.shape)
    zero = equal(wanted, lit(0, wanted))
    losses = negative(sum(where(zero, lit(0, logp), wanted * logp), -1))
    return reshape(losses, shape) if reduction == "none" else _reduced("cross_entropy", losses, reduction)


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
