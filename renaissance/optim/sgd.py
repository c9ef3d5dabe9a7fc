"""Gradient descent, with momentum, and with layer-wise rates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from renaissance.errors import ArgumentError
from renaissance.ops.elementwise import equal, lit, logical_or, negative, sqrt, where
from renaissance.ops.movement import broadcast_to
from renaissance.ops.reduce import sum
from renaissance.optim.group import ParamGroup
from renaissance.optim.optimizer import Optimizer
from renaissance.optim.schedule import Schedule


def not_negative(optimizer: str, group: ParamGroup, *names: str) -> None:
    """Raise ArgumentError for a negative hyperparameter."""
    for n in names:
        if not isinstance(group[n], (Schedule, int, float)):
            raise ArgumentError(f"{optimizer}: {n} must be a number, got {group[n]!r}")
        if not isinstance(group[n], Schedule) and not group[n] >= 0:
            raise ArgumentError(f"{optimizer}: {n} must not be negative, got {group[n]}")


class SGD(Optimizer):
    """Stochastic gradient descent with momentum; weight decay is L2, added to the gradient.

    g = g + weight_decay p;   b = momentum b + (1 - dampening) g  (first step: b = g)
    p = p - lr b,   nesterov: p = p - lr (g + momentum b)

    params        parameters or groups
    lr            rate or Schedule
    momentum      how much of the last direction is kept
    dampening     how much of the gradient is left out of the direction
    weight_decay  share of p added to its gradient
    nesterov      look ahead along the direction
    maximize      go up instead of down
    keep_grads    keep gradients readable after step()
    raises        ArgumentError for negative values, or nesterov without momentum or with dampening
    source        Sutskever et al. 2013; PyTorch, SGD
    """

    state_names = ("momentum_buffer",)

    def __init__(self, params: Iterable[Any], lr: float | Schedule = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
                 weight_decay: float = 0.0, nesterov: bool = False, *, maximize: bool = False, keep_grads: bool = False):
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize}, keep_grads=keep_grads)

    def names(self, group: ParamGroup) -> tuple[str, ...]:
        return self.state_names if group["momentum"] else ()

    def check(self, group: ParamGroup) -> None:
        not_negative("SGD", group, "lr", "momentum", "weight_decay")
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ArgumentError("SGD: nesterov needs a momentum above 0 and dampening 0")

    def scalars(self, group: ParamGroup, lr: float, step: int) -> dict[str, float]:
        fresh = 1.0 if step == 1 else 1.0 - group["dampening"]
        return {"step_size": -lr, "momentum": group["momentum"], "fresh": fresh, "decay": group["weight_decay"]}

    def update(self, p: Any, g: Any, state: dict[str, Any], s: dict[str, Any], group: ParamGroup) -> tuple[Any, dict[str, Any]]:
        g = negative(g) if group["maximize"] else g
        if group["weight_decay"]:
            g = g + s["decay"] * p
        if not state:
            return p + s["step_size"] * g, {}
        buffer = s["momentum"] * state["momentum_buffer"] + s["fresh"] * g
        direction = g + s["momentum"] * buffer if group["nesterov"] else buffer
        return p + s["step_size"] * direction, {"momentum_buffer": buffer}


class LARS(Optimizer):
    """Momentum with a rate of its own for each parameter, in proportion to its norm over its gradient's.

    r = trust_coefficient |p| / (|g| + weight_decay |p| + eps), 1 where a norm is 0
    b = momentum b + lr r (g + weight_decay p);   p = p - b

    params             parameters or groups; `decay_groups` keeps biases and norms free of decay
    lr                 rate or Schedule
    momentum           how much of the last direction is kept
    weight_decay       share of p added to its gradient
    trust_coefficient  size of a step in relation to the norm of p
    eps                same unit as the gradient
    keep_grads         keep gradients readable after step()
    raises             ArgumentError for negative values
    source             You, Gitman, Ginsburg 2017, arXiv:1708.03888
    """

    state_names = ("momentum_buffer",)
    per_parameter = True

    def __init__(self, params: Iterable[Any], lr: float | Schedule, momentum: float = 0.9, weight_decay: float = 0.0, *,
                 trust_coefficient: float = 1e-3, eps: float = 1e-8, keep_grads: bool = False):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay,
                                  "trust_coefficient": trust_coefficient, "eps": eps}, keep_grads=keep_grads)

    def check(self, group: ParamGroup) -> None:
        not_negative("LARS", group, "lr", "momentum", "weight_decay", "trust_coefficient", "eps")

    def scalars(self, group: ParamGroup, lr: float, step: int) -> dict[str, float]:
        return {"lr": lr, "momentum": group["momentum"], "decay": group["weight_decay"], "trust": group["trust_coefficient"],
                "eps": group["eps"]}

    def update(self, p: Any, g: Any, state: dict[str, Any], s: dict[str, Any], group: ParamGroup) -> tuple[Any, dict[str, Any]]:
        p_norm, g_norm = sqrt(sum(p * p)), sqrt(sum(g * g))
        zero = lit(0, p_norm)
        still = logical_or(equal(p_norm, zero), equal(g_norm, zero))
        divisor = where(still, lit(1, p_norm), g_norm + s["decay"] * p_norm + s["eps"])
        rate = s["lr"] * where(still, lit(1, p_norm), s["trust"] * p_norm / divisor)
        buffer = s["momentum"] * state["momentum_buffer"] + broadcast_to(rate, p.shape) * (g + s["decay"] * p)
        return p - buffer, {"momentum_buffer": buffer}
