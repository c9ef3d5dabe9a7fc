"""Losses as modules."""

from __future__ import annotations

from typing import Any

from renaissance.errors import ArgumentError
from renaissance.nn import functional as F
from renaissance.nn.module import Module


class Loss(Module):
    """Base of losses: how single losses are reduced.

    reduction  'mean', 'sum' or 'none'
    raises     ArgumentError for another reduction
    """

    def __init__(self, reduction: str = "mean"):
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ArgumentError(f"{type(self).__name__}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
        self.reduction = reduction

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"


class CrossEntropyLoss(Loss):
    """Cross entropy of scores against classes or probabilities; see functional.cross_entropy.

    weight           (C,) or None
    ignore_index     a target that counts nowhere
    label_smoothing  from 0 to 1
    """

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0):
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class NLLLoss(Loss):
    """Negative log-likelihood of the target class, given log-probabilities; see functional.nll_loss."""

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"):
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Any:
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class MSELoss(Loss):
    """Squared difference; see functional.mse_loss."""

    def forward(self, input: Any, target: Any) -> Any:
        return F.mse_loss(input, target, self.reduction)


class L1Loss(Loss):
    """Absolute difference; see functional.l1_loss."""

    def forward(self, input: Any, target: Any) -> Any:
        return F.l1_loss(input, target, self.reduction)


class BCEWithLogitsLoss(Loss):
    """Cross entropy of yes/no labels against logits; see functional.binary_cross_entropy_with_logits."""

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None):
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Any, target: Any) -> Any:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)
