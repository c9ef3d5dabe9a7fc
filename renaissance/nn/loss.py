"""Losses as modules; each applies the function of its name."""

from __future__ import annotations

from typing import Any

from renaissance.errors import ArgumentError
from renaissance.nn import functional as F
from renaissance.nn.module import Module
from renaissance.tensor import Tensor, as_tensor


class Loss(Module):
    """Base of losses: how single losses are reduced.

    mean or sum of the single losses, or all of them

    reduction  'mean', 'sum' or 'none'
    raises     ArgumentError for another reduction
    source     PyTorch, torch.nn.modules.loss
    """

    def __init__(self, reduction: str = "mean"):
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ArgumentError(f"{type(self).__name__}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
        self.reduction = reduction

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"


def _optional(weight: Any) -> Tensor | None:
    return None if weight is None else as_tensor(weight)


class CrossEntropyLoss(Loss):
    """Cross entropy of the softmax of scores against classes or class probabilities; see functional.cross_entropy.

    l_i = -sum_c q_ic w_c ln softmax(x_i)_c;  q = (1 - s) onehot(t) + s / C;  mean divides by the sum of w[t_i] of kept targets

    weight           w, (C,) or None; a buffer
    ignore_index     a target that counts nowhere
    reduction        'mean', 'sum' or 'none'
    label_smoothing  s, from 0 to 1
    x, t             (N, C, ...) float and (N, ...) integers, or probabilities of the shape of x;  returns () or the shape of t
    raises           ArgumentError for settings out of range; at the call as functional.cross_entropy
    source           PyTorch, CrossEntropyLoss
    """

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0):
        super().__init__(reduction)
        if not 0.0 <= label_smoothing <= 1.0:
            raise ArgumentError(f"CrossEntropyLoss: label_smoothing must be from 0 to 1, got {label_smoothing}")
        self.register_buffer("weight", _optional(weight))
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}"


class NLLLoss(Loss):
    """Negative log-likelihood of the target class, given log-probabilities; see functional.nll_loss.

    l_i = -w[t_i] x[i, t_i];  mean divides by the sum of the weights of the kept targets

    weight        w, (C,) or None; a buffer
    ignore_index  a target that counts nowhere
    reduction     'mean', 'sum' or 'none'
    x, t          (N, C, ...) float and (N, ...) integers;  returns () or the shape of t
    raises        ArgumentError for another reduction; at the call as functional.nll_loss
    source        PyTorch, NLLLoss
    """

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"):
        super().__init__(reduction)
        self.register_buffer("weight", _optional(weight))
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Any:
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, ignore_index={self.ignore_index}"


class MSELoss(Loss):
    """Squared difference; see functional.mse_loss.

    l = (x - t)^2

    reduction  'mean', 'sum' or 'none'
    x, t       one shape, float;  returns () or that shape
    raises     ArgumentError for another reduction; ShapeError at the call when shapes differ
    source     PyTorch, MSELoss
    """

    def forward(self, input: Any, target: Any) -> Any:
        return F.mse_loss(input, target, self.reduction)


class L1Loss(Loss):
    """Absolute difference; its gradient at 0 is 0; see functional.l1_loss.

    l = |x - t|

    reduction  'mean', 'sum' or 'none'
    x, t       one shape, float;  returns () or that shape
    raises     ArgumentError for another reduction; ShapeError at the call when shapes differ
    source     PyTorch, L1Loss
    """

    def forward(self, input: Any, target: Any) -> Any:
        return F.l1_loss(input, target, self.reduction)


class BCEWithLogitsLoss(Loss):
    """Cross entropy of yes/no labels against logits of any size; see functional.binary_cross_entropy_with_logits.

    l = w ((1 - t) x + (1 + (p - 1) t) ln(1 + e^-x))

    weight      w, broadcasts with x, or None; a buffer
    reduction   'mean', 'sum' or 'none'
    pos_weight  p, broadcasts with x, or None; a buffer
    x, t        one shape, float;  returns () or that shape
    raises      ArgumentError for another reduction; ShapeError at the call when shapes differ
    source      PyTorch, BCEWithLogitsLoss
    """

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None):
        super().__init__(reduction)
        self.register_buffer("weight", _optional(weight))
        self.register_buffer("pos_weight", _optional(pos_weight))

    def forward(self, input: Any, target: Any) -> Any:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)
