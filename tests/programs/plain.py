"""Plain NumPy versions, in float64, of what the programs under test do: an MLP with hand-written gradients, and optimizers."""

from __future__ import annotations

import numpy as np


class PlainMLP:
    """Affine maps with ReLU between; parameters in the order of the module: W1, b1, W2, b2, ..."""

    def __init__(self, parameters):
        self.p = [np.asarray(p, np.float64).copy() for p in parameters]

    def forward(self, x):
        """Outputs; keeps what the gradient needs."""
        self.inputs = []
        h = np.asarray(x, np.float64).reshape(len(x), -1)
        layers = len(self.p) // 2
        for i in range(layers):
            self.inputs.append(h)
            h = h @ self.p[2 * i].T + self.p[2 * i + 1]
            if i < layers - 1:
                h = np.maximum(h, 0)
        return h

    def backward(self, d):
        """Gradients of the parameters, and of the input, for a gradient of the outputs."""
        grads = [None] * len(self.p)
        for i in reversed(range(len(self.p) // 2)):
            grads[2 * i] = d.T @ self.inputs[i]
            grads[2 * i + 1] = d.sum(0)
            d = d @ self.p[2 * i]
            if i:
                d = d * (self.inputs[i] > 0)
        return grads, d


def cross_entropy(scores, target):
    """Mean loss and its gradient."""
    shifted = scores - scores.max(1, keepdims=True)
    logp = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    rows = np.arange(len(target))
    d = np.exp(logp)
    d[rows, target] -= 1
    return -logp[rows, target].mean(), d / len(target)


def bce_with_logits(scores, target):
    """Mean loss and its gradient."""
    loss = np.maximum(scores, 0) - scores * target + np.log1p(np.exp(-np.abs(scores)))
    return loss.mean(), (1 / (1 + np.exp(-scores)) - target) / scores.size


class PlainSGD:
    """Momentum SGD with L2 decay."""

    def __init__(self, lr, momentum=0.0, weight_decay=0.0):
        self.lr, self.momentum, self.weight_decay, self.buffers = lr, momentum, weight_decay, None

    def step(self, p, grads):
        grads = [g + self.weight_decay * w for g, w in zip(grads, p)]
        self.buffers = grads if self.buffers is None else [self.momentum * b + g for b, g in zip(self.buffers, grads)]
        for w, b in zip(p, self.buffers):
            w -= self.lr * b


class PlainAdamW:
    """Decoupled decay; a parameter whose gradient is None keeps its state and count."""

    def __init__(self, lr=1e-3, b1=0.9, b2=0.999, eps=1e-8, weight_decay=1e-2):
        self.lr, self.b1, self.b2, self.eps, self.weight_decay = lr, b1, b2, eps, weight_decay
        self.state = {}

    def step(self, p, grads):
        for i, (w, g) in enumerate(zip(p, grads)):
            if g is None:
                continue
            m, v, t = self.state.get(i, (0.0, 0.0, 0))
            m, v, t = self.b1 * m + (1 - self.b1) * g, self.b2 * v + (1 - self.b2) * g * g, t + 1
            self.state[i] = (m, v, t)
            w *= 1 - self.lr * self.weight_decay
            w -= self.lr / (1 - self.b1**t) * m / (np.sqrt(v) / np.sqrt(1 - self.b2**t) + self.eps)
