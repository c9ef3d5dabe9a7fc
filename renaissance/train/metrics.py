"""Metrics worked out inside the compiled step and read once an epoch; every average is weighted by samples."""

from __future__ import annotations

from typing import Any

from renaissance.ir import dtype as dt
from renaissance.ops.elementwise import astype, equal, greater, less, lit, logical_and, logical_or, where
from renaissance.ops.index import arange_like, one_hot
from renaissance.ops.reduce import sum
from renaissance.tensor import Tensor, zeros


def top_k_hits(scores: Any, target: Any, k: int) -> Any:
    """How many targets are among the k highest scores; equal scores rank by lowest class.

    scores   (B, C) float
    target   (B,) integers
    returns  () int64
    """
    wide = astype(scores, dt.float32)
    batch, classes = wide.shape
    hit = one_hot(target, classes)
    own = sum(where(hit, wide, lit(0, wide)), -1).reshape(batch, 1).broadcast_to(wide.shape)
    number = arange_like(classes, target.dtype, Tensor).reshape(1, classes).broadcast_to(wide.shape)
    before = less(number, target.reshape(batch, 1).broadcast_to(wide.shape))
    ahead = logical_or(greater(wide, own), logical_and(equal(wide, own), before))
    rank = sum(ahead, -1)
    return sum(less(rank, lit(k, rank)))


class Totals:
    """Running totals of an epoch, kept as state of the plan: loss times samples, samples, hits.

    loss     mean loss per sample
    top1     share of hits among all samples; top5 likewise
    """

    def __init__(self) -> None:
        self.loss_sum = zeros((), dt.float64)
        self.samples = zeros((), dt.int64)
        self.hits1 = zeros((), dt.int64)
        self.hits5 = zeros((), dt.int64)

    def reset(self) -> None:
        """Start from nothing."""
        for t in (self.loss_sum, self.samples, self.hits1, self.hits5):
            t.copy_(zeros((), t.dtype))

    def add_loss(self, loss: Any, samples: int) -> None:
        """Count a batch's mean loss."""
        self.loss_sum.copy_(self.loss_sum + astype(loss.detach(), dt.float64) * float(samples))
        self.samples.copy_(self.samples + samples)

    def add_hits(self, scores: Any, target: Any) -> None:
        """Count a batch's hits."""
        self.hits1.copy_(self.hits1 + top_k_hits(scores, target, 1))
        self.hits5.copy_(self.hits5 + top_k_hits(scores, target, min(5, scores.shape[-1])))

    @property
    def loss(self) -> float:
        return self.loss_sum.item() / max(1, self.samples.item())

    @property
    def top1(self) -> float:
        return self.hits1.item() / max(1, self.samples.item())

    @property
    def top5(self) -> float:
        return self.hits5.item() / max(1, self.samples.item())
