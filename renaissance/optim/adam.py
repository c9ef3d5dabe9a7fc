"""Adam and AdamW."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from renaissance.errors import ArgumentError
from renaissance.ops.elementwise import maximum, negative, sqrt
from renaissance.optim.group import ParamGroup
from renaissance.optim.optimizer import Optimizer
from renaissance.optim.schedule import Schedule
from renaissance.optim.sgd import not_negative


class Adam(Optimizer):
    """Adaptive moments; weight decay is L2, added to the gradient.

    g = g + weight_decay p;   m = b1 m + (1 - b1) g;   v = b2 v + (1 - b2) g^2
    p = p - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps);   amsgrad: the largest v so far instead of v

    params        parameters or groups
    lr            rate or Schedule
    betas         b1, b2
    eps           same unit as the gradient
    weight_decay  share of p added to its gradient
    amsgrad       divide by the largest v so far
    maximize      go up instead of down
    keep_grads    keep gradients readable after step()
    raises        ArgumentError for negative values or betas outside [0, 1)
    source        Kingma, Ba 2014, arXiv:1412.6980; Reddi et al. 2018 (amsgrad); PyTorch, Adam
    """

    decoupled = False

    def __init__(self, params: Iterable[Any], lr: float | Schedule = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False,
                 keep_grads: bool = False):
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                                  "maximize": maximize}, keep_grads=keep_grads)

    def names(self, group: ParamGroup) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ()))

    def check(self, group: ParamGroup) -> None:
        not_negative(type(self).__name__, group, "lr", "eps", "weight_decay")
        if not all(0 <= b < 1 for b in group["betas"]):
            raise ArgumentError(f"{type(self).__name__}: betas must be in [0, 1), got {group['betas']}")

    def scalars(self, group: ParamGroup, lr: float, step: int) -> dict[str, float]:
        b1, b2 = group["betas"]
        values = {"b1": b1, "c1": 1 - b1, "b2": b2, "c2": 1 - b2, "eps": group["eps"], "step_size": -lr / (1 - b1**step),
                  "root": 1 / math.sqrt(1 - b2**step)}
        if decay := group["weight_decay"]:
            values["decay"], values["keep"] = decay, 1 - lr * decay
        return values

    def update(self, p: Any, g: Any, state: dict[str, Any], s: dict[str, Any], group: ParamGroup) -> tuple[Any, dict[str, Any]]:
        g = negative(g) if group["maximize"] else g
        if group["weight_decay"]:
            if self.decoupled:
                p = p * s["keep"]
            else:
                g = g + s["decay"] * p
        m = s["b1"] * state["exp_avg"] + s["c1"] * g
        v = s["b2"] * state["exp_avg_sq"] + s["c2"] * (g * g)
        new = {"exp_avg": m, "exp_avg_sq": v}
        if group["amsgrad"]:
            v = new["max_exp_avg_sq"] = maximum(state["max_exp_avg_sq"], v)
        return p + s["step_size"] * (m / (sqrt(v) * s["root"] + s["eps"])), new


class AdamW(Adam):
    """Adaptive moments with decoupled weight decay.

    p = p (1 - lr weight_decay), then Adam's step without decay in the gradient

    params        parameters or groups
    lr            rate or Schedule
    betas         decay of the two moments
    eps           same unit as the gradient
    weight_decay  share of p taken from it at each step, times lr
    amsgrad       divide by the largest second moment so far
    maximize      go up instead of down
    keep_grads    keep gradients readable after step()
    raises        ArgumentError for negative values or betas outside [0, 1)
    source        Loshchilov, Hutter 2017, arXiv:1711.05101; PyTorch, AdamW
    """

    decoupled = True

    def __init__(self, params: Iterable[Any], lr: float | Schedule = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 keep_grads: bool = False):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, keep_grads=keep_grads)
