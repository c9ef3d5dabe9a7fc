"""Clipping of gradients by their common norm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from renaissance.errors import ArgumentError
from renaissance.ir import dtype as dt
from renaissance.ops.elementwise import absolute, astype, divide, equal, greater, greater_equal, isfinite, lit, sqrt, where
from renaissance.ops.index import arange_like, check
from renaissance.ops.movement import broadcast_to
from renaissance.ops.reduce import max, min, sum
from renaissance.ops.value import is_number, no_grad
from renaissance.tensor import Tensor, as_tensor, join_flat


def clip_grad_norm_(parameters: Iterable[Any], max_norm: Any) -> Tensor:
    """Scale all gradients so that their common norm is at most max_norm; the norm is worked out without overflow.

    n = a sqrt(sum (g / a)^2), a = max |g|;   g = g min(1, max_norm / (n + 1e-6))

    parameters  whose gradients are scaled, or one of them; those without a gradient do not count
    max_norm    positive
    returns     n, before clipping, 0-d
    raises      ArgumentError unless max_norm is positive; NonFiniteError at run time, naming the parameter by its place, when a
                gradient is NaN or infinite: the step that reads the gradients then changes nothing
    source      Pascanu, Mikolov, Bengio 2013, arXiv:1211.5063; PyTorch, clip_grad_norm_
    """
    if is_number(max_norm) and not max_norm > 0:
        raise ArgumentError(f"clip_grad_norm_: max_norm must be positive, got {max_norm}")
    given = dict.fromkeys([parameters] if isinstance(parameters, Tensor) else parameters)
    owners = [(i, p) for i, p in enumerate(given) if p.grad is not None and p.size]
    if not owners:
        return as_tensor(0.0)
    with no_grad():
        wide = dt.float64 if any(p.dtype is dt.float64 for _, p in owners) else dt.float32
        g = join_flat([astype(p.grad, wide) for _, p in owners])
        largest = _finite(max(absolute(g)), g, owners)
        unit = where(equal(largest, lit(0, largest)), lit(1, largest), largest)
        share = divide(g, broadcast_to(unit, g.shape))
        relative = sqrt(sum(share * share))
        norm = unit * relative
        margin = lit(1e-6, norm)
        limit = divide(max_norm, relative + divide(margin, unit))  # of a share, so that no factor comes near underflow
        clipped = where(greater(norm + margin, max_norm), share * broadcast_to(limit, g.shape), g)
        at = 0
        for _, p in owners:
            p.grad = astype(clipped[at:at + p.size].reshape(p.shape), p.dtype)
            at += p.size
    return norm


def _finite(value: Any, g: Any, owners: list[tuple[int, Any]]) -> Any:
    """`value`, once all of the joined gradients are known to be finite; the owner of the first that is not is named."""
    position = arange_like(g.size, dt.int64)
    first = min(where(isfinite(g), lit(g.size, position), position))
    stop = 0
    for i, p in owners:
        stop += p.size
        value = check(value, greater_equal(first, lit(stop, first)),
                      f"NonFiniteError: clip_grad_norm_: the gradient of parameter {i}, shape {p.shape}, is NaN or infinite; "
                      "nothing was updated")
    return value
