"""Clipping of gradients by their common norm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from renaissance.errors import ArgumentError
from renaissance.ops.elementwise import absolute, divide, equal, isfinite, lit, minimum, sqrt, where
from renaissance.ops.index import check
from renaissance.ops.movement import broadcast_to
from renaissance.ops.reduce import max, sum
from renaissance.ops.value import no_grad
from renaissance.tensor import Tensor, as_tensor, join_flat


def clip_grad_norm_(parameters: Iterable[Any], max_norm: float) -> Tensor:
    """Scale all gradients so that their common norm is at most max_norm; the norm is worked out without overflow.

    n = a sqrt(sum (g / a)^2), a = max |g|;   g = g min(1, max_norm / (n + 1e-6))

    parameters  whose gradients are scaled; those without one do not count
    max_norm    positive
    returns     n, before clipping, 0-d
    raises      ArgumentError unless max_norm is positive; NonFiniteError at run time when a gradient is NaN or infinite: the step
                that reads the gradients then changes nothing
    source      Pascanu, Mikolov, Bengio 2013, arXiv:1211.5063; PyTorch, clip_grad_norm_
    """
    if not max_norm > 0:
        raise ArgumentError(f"clip_grad_norm_: max_norm must be positive, got {max_norm}")
    owners = [p for p in parameters if p.grad is not None]
    if not owners:
        return as_tensor(0.0)
    with no_grad():
        g = join_flat([p.grad for p in owners])
        largest = max(absolute(g))
        largest = check(largest, isfinite(largest), "NonFiniteError: clip_grad_norm_: a gradient is NaN or infinite; nothing was updated")
        unit = where(equal(largest, lit(0, largest)), lit(1, largest), largest)
        share = divide(g, broadcast_to(unit, g.shape))
        norm = unit * sqrt(sum(share * share))
        factor = minimum(lit(1, norm), divide(lit(max_norm, norm), norm + lit(1e-6, norm)))
        clipped = g * broadcast_to(factor, g.shape)
        at = 0
        for p in owners:
            p.grad = clipped[at:at + p.size].reshape(p.shape)
            at += p.size
    return norm
