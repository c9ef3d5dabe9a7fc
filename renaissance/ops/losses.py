"""Losses: compositions with PyTorch's names, reduced by mean, sum or not at all."""

from __future__ import annotations

from typing import Any

from renaissance.errors import ArgumentError, DTypeError, ShapeError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ops.compose import in_wide_floats, log_softmax, softplus, stretch
from renaissance.ops.composed import composed
from renaissance.ops.elementwise import (
    absolute,
    astype,
    divide,
    equal,
    greater_equal,
    less,
    lit,
    logical_and,
    logical_or,
    multiply,
    negative,
    not_equal,
    subtract,
    where,
)
from renaissance.ops.index import check, one_hot
from renaissance.ops.movement import broadcast_to, reshape
from renaissance.ops.reduce import mean, sum
from renaissance.ops.value import Value, need_tensor


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
    x, t = in_wide_floats(op, input), in_wide_floats(op, target)
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
    scores, shape = _classes_last(op, in_wide_floats(op, input), target)
    if target.shape != shape:
        raise ShapeError(f"{op}: target must have shape {shape} for input {input.shape}, got {target.shape}")
    classes = scores.shape[1]
    if weight is not None and weight.shape != (classes,):
        raise ShapeError(f"{op}: weight must be (C,) = ({classes},), got {weight.shape}")
    chosen, kept = _checked_classes(op, reshape(target, (scores.shape[0],)), classes, ignore_index)
    logp = log_probability(where(stretch(scores, kept, 1), scores, lit(0, scores)))  # an ignored row may hold NaN
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
    scores, shape = _classes_last("cross_entropy", in_wide_floats("cross_entropy", input), target)
    wanted, _ = _classes_last("cross_entropy", astype(target, scores.dtype), target)
    if smoothing:
        wanted = wanted * lit(1 - smoothing, wanted) + lit(smoothing / scores.shape[1], wanted)
    logp = log_softmax(scores, -1)
    if weight is not None:
        wanted = wanted * broadcast_to(astype(weight, wanted.dtype), wanted.shape)
    zero = equal(wanted, lit(0, wanted))
    losses = negative(sum(where(zero, lit(0, logp), wanted * logp), -1))
    return reshape(losses, shape) if reduction == "none" else _reduced("cross_entropy", losses, reduction)
