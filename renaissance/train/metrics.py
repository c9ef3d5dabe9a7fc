"""Metrics worked out inside the compiled step and read once an epoch; every average is weighted by samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from renaissance.ir import dtype as dt
from renaissance.ops.elementwise import (
    astype,
    equal,
    less,
    less_equal,
    lit,
    logical_and,
    logical_not,
    logical_or,
    not_equal,
    where,
)
from renaissance.ops.index import arange_like, one_hot
from renaissance.ops.reduce import sum
from renaissance.tensor import Tensor, zeros

_TOP = 5


@dataclass(frozen=True)
class Scores:
    """What a part of a data set scored.

    loss        mean over its samples
    top1, top5  share of targets that are the best, among the best five; None where the targets are no class numbers
    """

    loss: float
    top1: float | None
    top5: float | None


def ranks(scores: Any, target: Any) -> Any:
    """How many classes come before the target's in falling order of scores; equal scores rank by lowest class.

    rank = #{j : s_j > s_t, or s_j = s_t and j < t}

    scores   (B, C) float; a NaN comes before everything but a target's own NaN, which comes last
    target   (B,) integers
    returns  (B,) int64, from 0 to C; C for a target that is no class
    raises   nothing
    source   definition
    """
    wide = astype(scores, dt.float32)
    batch, classes = wide.shape
    number = arange_like(classes, target.dtype, Tensor).reshape(1, classes).broadcast_to(wide.shape)
    wanted = target.reshape(batch, 1).broadcast_to(wide.shape)
    own = sum(where(one_hot(target, classes), wide, lit(0, wide)), -1)
    known = logical_and(equal(own, own), logical_and(less_equal(lit(0, target), target), less(target, lit(classes, target))))
    own = own.reshape(batch, 1).broadcast_to(wide.shape)
    behind = logical_or(less(wide, own), logical_and(equal(wide, own), less_equal(wanted, number)))
    ahead = logical_and(logical_not(behind), not_equal(number, wanted))
    rank = sum(ahead, -1)
    return where(known, rank, lit(classes, rank))


class Totals:
    """Running totals, kept on the device as state of the plan: adding to them reads nothing back.

    sums   (5,) float64: loss times its weight, weight, hits among the best, hits among the best five, targets judged
    """

    def __init__(self) -> None:
        self.sums = zeros((5,), dt.float64)

    def reset(self) -> None:
        """Start from nothing."""
        self.sums.copy_(zeros((5,), dt.float64))

    def add(self, loss: Any, weight: Any, scores: Any = None, target: Any = None) -> None:
        """Count a batch.

        loss            () float, its mean loss
        weight          samples behind that mean: an int, or a 0-d tensor
        scores, target  (B, C) and (B,), as in `ranks`, if hits are to be counted
        """
        mean = astype(loss.detach(), dt.float64)
        heavy = lit(weight, mean) if isinstance(weight, int) else astype(weight, dt.float64)
        counts: list[Any] = []
        if scores is not None:
            rank = ranks(scores, target)
            classes = scores.shape[-1]
            hits = [sum(less(rank, lit(min(k, classes), rank))) for k in (1, _TOP)]
            judged = sum(logical_and(less_equal(lit(0, target), target), less(target, lit(classes, target))))
            counts = [astype(n, dt.float64) for n in (*hits, judged)]
        self.sums.copy_(self.sums + _side_by_side([mean * heavy, heavy, *counts]))

    def read(self) -> Scores:
        """The averages so far; a loss of 0 if nothing was counted."""
        loss, weight, first, five, judged = self.sums.tolist()
        return Scores(loss / weight if weight else 0.0, first / judged if judged else None, five / judged if judged else None)


def _side_by_side(numbers: list[Any]) -> Any:
    """0-d tensors as one of 5 elements, zeros behind them: chosen by position, which is a single kernel."""
    place = arange_like(5, dt.int64, Tensor)
    row = zeros((5,), dt.float64)
    for i, number in enumerate(numbers):
        row = where(equal(place, lit(i, place)), number.broadcast_to((5,)), row)
    return row
