"""Batch norm: every channel brought to mean 0 and variance 1 over the batch and all places, or by statistics kept from before.

Computed with the channels last, as (M, C), cut into leaves of L rows. A leaf's sums are of differences from its first row, and
the mean is never rounded to one number, so that a large mean costs no digits. Leaves depend on the logical shape alone.
"""

from __future__ import annotations

from typing import Any

from renaissance.errors import ArgumentError, DTypeError, ShapeError
from renaissance.ir import dtype as dt
from renaissance.ops.composed import call, composed
from renaissance.ops.convolution import channels_first, channels_last
from renaissance.ops.elementwise import astype, lit, sqrt
from renaissance.ops.leaf import by_leaves, in_leaves
from renaissance.ops.movement import reshape
from renaissance.ops.reduce import sum
from renaissance.ops.value import Rule, need_tensor, with_gradient


def check_batch_norm(x: Any, *channels: Any) -> None:
    """Raise unless x is (N, C, ...) of floats, and all of `channels` that are not None are (C,) too."""
    need_tensor("batch_norm", x)
    if x.ndim < 2:
        raise ShapeError(f"batch_norm: x must be (N, C, ...), got shape {x.shape}")
    if not x.dtype.is_float:
        raise DTypeError(f"batch_norm: takes floats, got {x.dtype.name}")
    for value in channels:
        if value is not None and value.shape != (x.shape[1],):
            raise ShapeError(f"batch_norm: statistics, weight and bias must be (C,) = ({x.shape[1]},) for x of shape {x.shape}, "
                             f"got {value.shape}")


# ---- in training -------------------------------------------------------------------------------------------------------


def _moments(x: Any) -> tuple[Any, Any, Any]:
    """(first row, mean - first row, sum of squared differences from the mean) of leaves (B, L, C), each (C,)."""
    count, rows, channels = x.shape
    pivots = reshape(x[:, :1], (count, channels))
    first = reshape(pivots[:1], (channels,))
    means = pivots - first
    inner = None
    if rows > 1:
        apart = x - x[:, :1]
        total, squares = sum(apart, 1), sum(apart * apart, 1)
        shift = total / lit(rows, total)
        means, inner = means + shift, squares - total * shift
    offset = sum(means, 0)
    offset = offset / lit(count, offset)
    between = means - offset
    between = between * between * lit(rows, between)
    return first, offset, sum(between if inner is None else inner + between, 0)


def _rule(ct: Any, out: Any, inputs: Any, affine: tuple[bool, bool]) -> tuple[Any, ...]:
    """Two sums over the leaves, which are the gradients of weight and bias too; then one pointwise pass."""
    x, first, offset, scale, *parameters = inputs
    count = lit(x.size // x.shape[-1], x)
    normal = (x - first - offset) * scale
    bias, weight = (sum(by_leaves(in_leaves(v)), 0) for v in (ct, ct * normal))
    inner = (ct - bias / count) - normal * (weight / count)
    factor = scale * parameters[0] if affine[0] else scale
    return (inner * factor, None, None, None, *([weight] if affine[0] else []), *([bias] if affine[1] else []))


def _in_training(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    last = astype(channels_last(x), dt.accumulator(x.dtype))
    rows = x.size // x.shape[1]
    first, offset, squares = _moments(in_leaves(last))
    variance = squares / lit(rows, squares)
    scale = lit(1, variance) / sqrt(variance + lit(eps, variance))
    parameters = [astype(p, last.dtype) for p in (weight, bias) if p is not None]
    y = (last - first - offset) * (scale if weight is None else scale * parameters[0])
    if bias is not None:
        y = y + parameters[-1]
    affine = (weight is not None, bias is not None)
    y = with_gradient(y, (last, first, offset, scale, *parameters), Rule(_rule, (affine,)))
    y = channels_first(astype(y, x.dtype))
    return y, first + offset, squares / lit(rows - 1, squares)


def batch_norm_in_training(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """Normalise by the batch's own statistics.

    y = (x - mean_c) / sqrt(var_c + eps) weight_c + bias_c,  var the sum of squares over the count

    x             (N, C, ...) float
    weight, bias  (C,) or None: 1 and 0
    eps           keeps the root away from 0
    returns       y of the shape and dtype of x; the mean; the sum of squares over the count - 1: (C,), float32 or wider
    raises        ArgumentError for one value per channel; ShapeError, DTypeError
    source        Ioffe, Szegedy 2015, arXiv:1502.03167; shifted sums and their merging: Chan, Golub, LeVeque 1983
    """
    check_batch_norm(x, weight, bias)
    if x.shape[1] and x.size == x.shape[1]:
        raise ArgumentError(f"batch_norm: training needs more than 1 value per channel, got 1 in x of shape {x.shape}")
    if x.size == 0:
        raise ArgumentError(f"batch_norm: x of shape {x.shape} has no statistics")
    values = [v for v in (x, weight, bias) if v is not None]
    return call(_in_training, _in_training, values, (x, weight, bias, eps), {})


@composed
def moved_towards(kept: Any, new: Any, momentum: Any) -> Any:
    """A running statistic a step nearer to a new one.

    y = kept + momentum (new - kept)

    kept, new  (C,)
    momentum   a number or a 0-d tensor
    returns    (C,), dtype of kept
    raises     ShapeError, DTypeError
    source     Ioffe, Szegedy 2015, arXiv:1502.03167; PyTorch, BatchNorm
    """
    return kept + (astype(new, kept.dtype) - kept) * momentum


# ---- in evaluation -----------------------------------------------------------------------------------------------------


@composed
def batch_norm_by(x: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Normalise by given statistics: a shift and a scale for each channel.

    y = (x - mean_c) / sqrt(var_c + eps) weight_c + bias_c

    x             (N, C, ...) float
    mean, var     (C,)
    weight, bias  (C,) or None: 1 and 0
    eps           keeps the root away from 0
    returns       shape and dtype of x; computed in float32 or wider
    raises        ShapeError, DTypeError
    source        Ioffe, Szegedy 2015, arXiv:1502.03167
    """
    check_batch_norm(x, mean, var, weight, bias)
    wide = astype(channels_last(x), dt.accumulator(x.dtype))
    variance = astype(var, wide.dtype)
    scale = lit(1, variance) / sqrt(variance + lit(eps, variance))
    if weight is not None:
        scale = scale * astype(weight, wide.dtype)
    y = (wide - astype(mean, wide.dtype)) * scale
    if bias is not None:
        y = y + astype(bias, wide.dtype)
    return channels_first(astype(y, x.dtype))
