"""The public operations that random programs are made of, by name: each takes tensors, then plain settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import renaissance as rn
from renaissance import nn

F = nn.functional

FLOAT_UNARY = {
    "exp": rn.exp, "expm1": rn.expm1, "log": rn.log, "log1p": rn.log1p, "sin": rn.sin, "cos": rn.cos, "tanh": rn.tanh, "erf": rn.erf,
    "atan": rn.atan, "sqrt": rn.sqrt, "floor": rn.floor, "ceil": rn.ceil, "trunc": rn.trunc, "round": rn.round, "sigmoid": rn.sigmoid,
    "relu": F.relu, "relu6": F.relu6, "leaky_relu": F.leaky_relu, "silu": F.silu, "softplus": F.softplus, "elu": F.elu,
    "gelu": F.gelu, "hardswish": F.hardswish, "mish": F.mish, "hardtanh": F.hardtanh,
}
SIGNED_UNARY = {"negative": rn.negative, "abs": rn.abs, "sign": rn.sign}
ANY_UNARY = {"isnan": rn.isnan, "square": lambda x: x * x, "double": lambda x: x + x, "difference": lambda x: x - x}
FLOAT_TESTS = {"isfinite": rn.isfinite, "positive": lambda x: x > 0}
ARITHMETIC = {"add": rn.add, "subtract": rn.subtract, "multiply": rn.multiply}
FLOAT_BINARY = {"divide": rn.divide, "power": rn.power, "remainder": rn.remainder, "floor_divide": rn.floor_divide}
EXTREMES = {"maximum": rn.maximum, "minimum": rn.minimum}
COMPARISONS = {"less": rn.less, "less_equal": rn.less_equal, "equal": rn.equal, "not_equal": rn.not_equal, "greater": rn.greater,
               "greater_equal": rn.greater_equal}
BITS = {"bitwise_and": rn.bitwise_and, "bitwise_or": rn.bitwise_or, "bitwise_xor": rn.bitwise_xor}
WITH_NUMBER = {
    "x + c": lambda x, c: x + c, "x - c": lambda x, c: x - c, "c - x": lambda x, c: c - x, "x * c": lambda x, c: x * c,
    "maximum of c": lambda x, c: rn.maximum(x, c), "minimum of c": lambda x, c: rn.minimum(x, c), "x < c": lambda x, c: x < c,
}
FLOAT_WITH_NUMBER = {"x / c": lambda x, c: x / c, "c / x": lambda x, c: c / x, "x ** c": lambda x, c: x**c}
REDUCTIONS = {"sum": rn.sum, "mean": rn.mean, "max": rn.max, "min": rn.min, "prod": rn.prod, "var": rn.var, "std": rn.std,
              "any": rn.any, "all": rn.all, "logsumexp": rn.logsumexp}
ALONG_AXIS = {"argmax": rn.argmax, "argmin": rn.argmin, "softmax": F.softmax, "log_softmax": F.log_softmax}
LOSSES = {"mse_loss": F.mse_loss, "l1_loss": F.l1_loss, "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits}

OTHERS: dict[str, Callable[..., Any]] = {
    "astype": lambda x, dtype: x.astype(dtype),
    "where": rn.where,
    "clip": rn.clip,
    "reshape": rn.reshape,
    "permute_dims": rn.permute_dims,
    "index": lambda x, key: x[tuple(slice(*k) if isinstance(k, tuple) else k for k in key)],
    "pad": rn.pad,
    "flip": rn.flip,
    "windows": rn.windows,
    "concat": lambda *x: rn.concat(x[:-1], x[-1]),
    "stack": lambda *x: rn.stack(x[:-1], x[-1]),
    "broadcast_to": rn.broadcast_to,
    "expand_dims": rn.expand_dims,
    "matmul": rn.matmul,
    "linear": F.linear,
    "linear without bias": F.linear,
    "take": rn.take,
    "take_along_axis": rn.take_along_axis,
    "one_hot": F.one_hot,
    "scatter_rows": rn.scatter_rows,
    "cross_entropy": lambda x, target, smoothing, how: F.cross_entropy(x, target, label_smoothing=smoothing, reduction=how),
    "nll_loss": lambda x, target, how: F.nll_loss(x, target, reduction=how),
    "uniform": lambda shape: rn.uniform(-1.0, 1.0, shape),
    "normal": lambda shape: rn.normal(0.0, 1.0, shape),
    "bernoulli": lambda shape: rn.bernoulli(0.3, shape),
    "randint": lambda shape: rn.randint(-5, 9, shape),
    "dropout": F.dropout,
    "copy_": lambda state, x: state.copy_(x),
    "detach": lambda x: x.detach(),
}


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axes, keepdims: function(x, axes, keepdims=keepdims)


def _lost(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, target, how: function(x, target, reduction=how)


OPERATIONS: dict[str, Callable[..., Any]] = {
    **FLOAT_UNARY, **SIGNED_UNARY, **ANY_UNARY, **FLOAT_TESTS, **ARITHMETIC, **FLOAT_BINARY, **EXTREMES, **COMPARISONS, **BITS,
    "bitwise_invert": rn.bitwise_invert, **WITH_NUMBER, **FLOAT_WITH_NUMBER, **ALONG_AXIS, **OTHERS,
    **{name: _reduced(f) for name, f in REDUCTIONS.items()},
    **{name: _lost(f) for name, f in LOSSES.items()},
}
