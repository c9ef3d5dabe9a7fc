"""Optimizers once more, in plain float64 NumPy: each gives one parameter after step t = 1, 2, ..., and changes its state."""

from __future__ import annotations

import numpy as np


def sgd(p, g, state, t, *, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False):
    g = (-g if maximize else g) + weight_decay * p
    if momentum:
        b = g if t == 1 else momentum * state["b"] + (1 - dampening) * g
        state["b"] = b
        g = g + momentum * b if nesterov else b
    return p - lr * g


def adam(p, g, state, t, *, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, maximize=False):
    g = (-g if maximize else g) + weight_decay * p
    m = betas[0] * state.get("m", 0) + (1 - betas[0]) * g
    v = betas[1] * state.get("v", 0) + (1 - betas[1]) * g**2
    state["m"], state["v"] = m, v
    state["top"] = np.maximum(state.get("top", 0), v)
    v = state["top"] if amsgrad else v
    return p - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)


def adamw(p, g, state, t, *, lr, weight_decay=1e-2, **more):
    return adam(p - lr * weight_decay * p, g, state, t, lr=lr, **more)


def lars(p, g, state, t, *, lr, momentum=0.9, weight_decay=0.0, trust_coefficient=1e-3, eps=1e-8):
    size, slope = np.linalg.norm(p), np.linalg.norm(g)
    ratio = trust_coefficient * size / (slope + weight_decay * size + eps) if size and slope else 1.0
    state["b"] = momentum * state.get("b", 0) + lr * ratio * (g + weight_decay * p)
    return p - state["b"]


class PlainOptimizer:
    """One of these rules over a list of arrays, changed in place; a parameter whose gradient is None is passed over."""

    def __init__(self, rule, **hyper):
        self.rule, self.hyper = rule, hyper
        self.states, self.counts = {}, {}

    def step(self, arrays, grads):
        for i, (p, g) in enumerate(zip(arrays, grads, strict=True)):
            if g is not None:
                self.counts[i] = self.counts.get(i, 0) + 1
                p[...] = self.rule(p, g, self.states.setdefault(i, {}), self.counts[i], **self.hyper)
