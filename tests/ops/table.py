"""One row for each op: everything the generic checks need to know."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import renaissance as rn
from renaissance import nn

F = nn.functional
FLOATS = ("float32", "float64", "bfloat16")
# Relative and absolute tolerance against float64, by dtype; a row may scale them, with a reason.
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "bfloat16": 1.6e-2, "float16": 2e-3}


@dataclass(frozen=True)
class OpCase:
    """An op under test.

    call     of tensors
    ref      the same of NumPy float64 arrays
    shapes   each a tuple with a shape for every argument
    domain   range the arguments are drawn from
    grad     whether gradients are checked
    dtypes   of the arguments
    loose    factor on the tolerance
    why      the reason for a factor other than 1
    errors   (arrays, error class, part of the message)
    """

    name: str
    call: Callable[..., Any]
    ref: Callable[..., Any]
    shapes: tuple[tuple[tuple[int, ...], ...], ...]
    domain: tuple[float, float] = (-2.0, 2.0)
    grad: bool = True
    dtypes: tuple[str, ...] = FLOATS
    loose: float = 1.0
    why: str = ""
    errors: tuple[tuple[tuple[Any, ...], type[Exception], str], ...] = field(default=())


ONE = (((),), ((1,),), ((7,),), ((3, 5),), ((2, 3, 33),), ((0, 4),), ((130,),))
TWO = (((), ()), ((5,), (5,)), ((3, 1), (1, 4)), ((2, 3, 17), (17,)), ((4, 1, 3), (5, 1)), ((0, 3), (1, 3)), ((65,), ()))
ROWS = (((5,),), ((3, 4),), ((2, 3, 17),), ((4, 64),), ((2, 131),))


def unary(name: str, ref: Any, domain: tuple[float, float] = (-2.0, 2.0), **more: Any) -> OpCase:
    return OpCase(name, getattr(rn, name), ref, ONE, domain, **more)


def activation(name: str, ref: Any, **more: Any) -> OpCase:
    return OpCase(name, getattr(F, name), ref, ONE, (-5.0, 5.0), **more)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


_ERF = np.vectorize(math.erf, otypes=[np.float64])


def log_softmax(x: Any) -> Any:
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


SHAPE_ERROR, DTYPE_ERROR, ARGUMENT_ERROR = rn.errors.ShapeError, rn.errors.DTypeError, rn.errors.ArgumentError
APART = (np.ones((2, 3), np.float32), np.ones((4,), np.float32))

POINTWISE = (
    unary("negative", np.negative), unary("abs", np.abs), unary("sign", np.sign), unary("exp", np.exp), unary("expm1", np.expm1),
    unary("log", np.log, (0.1, 4.0)), unary("log1p", np.log1p, (-0.5, 4.0)), unary("sin", np.sin, (-9.0, 9.0)),
    unary("cos", np.cos, (-9.0, 9.0)), unary("tanh", np.tanh), unary("erf", _ERF), unary("atan", np.arctan, (-9.0, 9.0)),
    unary("sqrt", np.sqrt, (0.1, 4.0)), unary("floor", np.floor), unary("ceil", np.ceil), unary("trunc", np.trunc),
    unary("round", np.rint), unary("sigmoid", sigmoid, (-9.0, 9.0)),
    OpCase("add", lambda a, b: a + b, np.add, TWO, errors=((APART, SHAPE_ERROR, "add: shapes (2, 3) and (4,)"),)),
    OpCase("subtract", lambda a, b: a - b, np.subtract, TWO),
    OpCase("multiply", lambda a, b: a * b, np.multiply, TWO),
    OpCase("divide", lambda a, b: a / b, np.divide, TWO, (0.5, 3.0)),
    OpCase("power", lambda a, b: a**b, np.power, TWO, (0.5, 3.0), loose=4, why="pow is good to 4 ulp"),
    OpCase("maximum", rn.maximum, np.maximum, TWO), OpCase("minimum", rn.minimum, np.minimum, TWO),
    OpCase("floor_divide", lambda a, b: a // b, np.floor_divide, TWO, (0.6, 3.0), grad=False, dtypes=("float32", "float64")),
    OpCase("remainder", lambda a, b: a % b, np.mod, TWO, (0.6, 3.0), grad=False, dtypes=("float32", "float64")),
    OpCase("less", lambda a, b: a < b, np.less, TWO, grad=False), OpCase("less_equal", lambda a, b: a <= b, np.less_equal, TWO, grad=False),
    OpCase("greater", lambda a, b: a > b, np.greater, TWO, grad=False),
    OpCase("greater_equal", lambda a, b: a >= b, np.greater_equal, TWO, grad=False),
    OpCase("equal", lambda a, b: a == b, np.equal, TWO, grad=False), OpCase("not_equal", lambda a, b: a != b, np.not_equal, TWO, grad=False),
    OpCase("where", lambda a, b: rn.where(a > 0.0, a, b), lambda a, b: np.where(a > 0, a, b), TWO),
    OpCase("clip", lambda x: rn.clip(x, -0.7, 0.9), lambda x: np.clip(x, -0.7, 0.9), ONE),
    OpCase("isnan", rn.isnan, np.isnan, ONE, grad=False), OpCase("isfinite", rn.isfinite, np.isfinite, ONE, grad=False),
    OpCase("number on the left", lambda x: 2.0 - 3.0 / (1.0 + x * x), lambda x: 2 - 3 / (1 + x * x), ONE),
)

REDUCTIONS = (
    OpCase("sum", lambda x: rn.sum(x), lambda x: np.sum(x), ONE), OpCase("sum last", lambda x: rn.sum(x, -1), lambda x: x.sum(-1), ROWS),
    OpCase("sum first", lambda x: rn.sum(x, 0), lambda x: x.sum(0), (((5,),), ((300, 7),), ((17, 3, 5),), ((0, 3),))),
    OpCase("sum middle, kept", lambda x: rn.sum(x, 1, keepdims=True), lambda x: x.sum(1, keepdims=True), (((3, 5, 7),), ((2, 0, 3),))),
    OpCase("sum outer and inner", lambda x: rn.sum(x, (0, 2)), lambda x: x.sum((0, 2)), (((3, 5, 7),),)),
    OpCase("long sum", lambda x: rn.sum(x), np.sum, (((5000,),), ((3, 4097),), ((700, 30),)), (0.5, 2.0)),
    OpCase("mean", lambda x: rn.mean(x, -1), lambda x: x.mean(-1), ROWS),
    OpCase("var", lambda x: rn.var(x, -1), lambda x: x.var(-1), ROWS, loose=4, why="a difference of rounded numbers, squared"),
    OpCase("std of a sample", lambda x: rn.std(x, 0, correction=1), lambda x: x.std(0, ddof=1), (((5, 3),), ((30,),)), loose=4, why="as var"),
    OpCase("max", lambda x: rn.max(x, -1), lambda x: x.max(-1), ROWS), OpCase("min", lambda x: rn.min(x, 0), lambda x: x.min(0), ROWS),
    OpCase("max of all", rn.max, np.max, ROWS, errors=(((np.ones((0, 3), np.float32),), ARGUMENT_ERROR, "empty"),)),
    OpCase("prod", lambda x: rn.prod(x, -1), lambda x: x.prod(-1), (((5,),), ((3, 4),)), (0.5, 1.5), loose=8, why="a product of 5"),
    OpCase("argmax", lambda x: rn.argmax(x, -1), lambda x: x.argmax(-1), ROWS, grad=False),
    OpCase("argmin", lambda x: rn.argmin(x, 0), lambda x: x.argmin(0), ROWS, grad=False),
    OpCase("argmax of all", rn.argmax, np.argmax, ROWS, grad=False),
    OpCase("any", lambda x: rn.any(x > 1.0, -1), lambda x: (x > 1).any(-1), ROWS, grad=False),
    OpCase("all", lambda x: rn.all(x > -1.875, -1), lambda x: (x > -1.875).all(-1), ROWS, grad=False),
    OpCase("logsumexp", lambda x: rn.logsumexp(x, -1), lambda x: np.log(np.exp(x).sum(-1)), ROWS, (-3.0, 3.0)),
    OpCase("softmax", lambda x: F.softmax(x, -1), lambda x: np.exp(log_softmax(x)), ROWS, (-3.0, 3.0)),
    OpCase("softmax over the first axis", lambda x: F.softmax(x, 0), lambda x: np.exp(log_softmax(x.T)).T, (((5, 3),),), (-3.0, 3.0)),
    OpCase("log_softmax", lambda x: F.log_softmax(x, -1), log_softmax, ROWS, (-3.0, 3.0)),
)

def np_windows(x: Any, sizes: Any, strides: Any, dilations: Any) -> Any:
    """(..., P_1 ... P_k, R_1 ... R_k)."""
    k = len(sizes)
    reach = tuple(d * (r - 1) + 1 for r, d in zip(sizes, dilations))
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(-k, 0)))
    return seen[(..., *(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilations))]


def np_pool(x: Any, size: int, stride: int, padding: int, dilation: int, ceil: bool, dims: int, reduce: Any) -> Any:
    """reduce(elements that exist, how many places of the padded array) for every window."""
    reach = dilation * (size - 1) + 1

    def starts(n: int) -> list[int]:
        count = (n + 2 * padding - reach + (stride - 1 if ceil else 0)) // stride + 1
        return [s for s in range(-padding, count * stride - padding, stride) if not ceil or s < n]

    lead = x.shape[:-dims]
    grid = [starts(n) for n in x.shape[-dims:]]
    out = np.zeros((*lead, *map(len, grid)))
    for place in np.ndindex(*map(len, grid)):
        keys, room = [], 1
        for k, (i, n) in enumerate(zip(place, x.shape[-dims:])):
            at = range(grid[k][i], grid[k][i] + reach, dilation)
            keys.append([j for j in at if 0 <= j < n])
            room *= sum(-padding <= j < n + padding for j in at)
        out[(..., *place)] = reduce(x[(..., *np.ix_(*keys))].reshape(*lead, -1), room)
    return out


def np_max(x: Any, room: int) -> Any:
    return x.max(-1)


def np_mean(x: Any, room: int) -> Any:
    return x.sum(-1) / room


def np_conv(x: Any, w: Any, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1) -> Any:
    """(N, C, ...) with (K, C/groups, kernel), window by window."""
    dims = w.ndim - 2
    x = np.pad(x, [(0, 0)] * 2 + [(padding, padding)] * dims)
    seen = np_windows(x, w.shape[2:], (stride,) * dims, (dilation,) * dims)
    parts = []
    for part, kernels in zip(np.split(seen, groups, axis=1), np.split(w, groups)):
        axes = tuple(range(2 + dims, 2 + 2 * dims))
        parts.append(np.moveaxis(np.tensordot(part, kernels, ((1, *axes), (1, *range(2, 2 + dims)))), -1, 1))
    return np.concatenate(parts, axis=1)


CONVOLUTIONS = (
    OpCase("conv1d", F.conv1d, np_conv, (((2, 3, 9), (4, 3, 3)), ((1, 20, 40), (17, 20, 5)))),
    OpCase("conv2d", F.conv2d, np_conv, (((2, 3, 7, 9), (4, 3, 3, 3)), ((1, 17, 5, 5), (33, 17, 2, 4)), ((0, 2, 4, 4), (3, 2, 3, 3))),
           errors=(((np.ones((1, 2, 2, 5), np.float32), np.ones((1, 2, 3, 3), np.float32)), SHAPE_ERROR, "does not fit into x of shape (1, 2, 2, 5)"),
                   ((np.ones((1, 2, 5, 5), np.float32), np.ones((1, 3, 3, 3), np.float32)), SHAPE_ERROR, "takes 3 channels"),
                   ((np.ones((1, 2, 5, 5), np.int32), np.ones((1, 2, 3, 3), np.int32)), DTYPE_ERROR, "takes floats, got int32"),
                   ((np.ones((1, 2, 5, 5), np.float32), np.ones((1, 2, 3), np.float32)), SHAPE_ERROR, "weight must have 4 axes"))),
    OpCase("conv2d of points", F.conv2d, np_conv, (((2, 18, 5, 7), (35, 18, 1, 1)),)),
    OpCase("conv2d with bias", lambda x, w, b: F.conv2d(x, w, b, padding="same"), lambda x, w, b: np_conv(x, w, 1, 1) + b[:, None, None],
           (((2, 3, 6, 5), (4, 3, 3, 3), (4,)),)),
    OpCase("conv2d 3x3, many channels", lambda x, w: F.conv2d(x, w, padding=1), lambda x, w: np_conv(x, w, 1, 1),
           (((2, 32, 14, 9), (40, 32, 3, 3)),), loose=10.0, why="sums of 288 products"),
    OpCase("conv2d strided", lambda x, w: F.conv2d(x, w, stride=2, padding=3), lambda x, w: np_conv(x, w, 2, 3),
           (((2, 3, 16, 15), (20, 3, 7, 7)), ((1, 2, 8, 8), (3, 2, 1, 1)))),
    OpCase("conv2d strided and dilated", lambda x, w: F.conv2d(x, w, stride=3, padding=2, dilation=2),
           lambda x, w: np_conv(x, w, 3, 2, 2), (((1, 2, 9, 10), (3, 2, 3, 2)),)),
    OpCase("conv2d in groups", lambda x, w: F.conv2d(x, w, padding=1, groups=3), lambda x, w: np_conv(x, w, 1, 1, 1, 3),
           (((2, 6, 5, 4), (9, 2, 3, 3)),)),
    OpCase("conv2d by depth", lambda x, w: F.conv2d(x, w, padding=1, groups=w.shape[0]),
           lambda x, w: np_conv(x, w, 1, 1, 1, w.shape[0]), (((2, 19, 9, 12), (19, 1, 3, 3)), ((1, 4, 40, 30), (4, 1, 5, 5)))),
    OpCase("conv2d by depth, strided", lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=3),
           lambda x, w: np_conv(x, w, 2, 1, 1, 3), (((2, 3, 8, 7), (3, 1, 3, 3)),)),
    OpCase("conv3d", lambda x, w: F.conv3d(x, w, stride=2, padding=1), lambda x, w: np_conv(x, w, 2, 1), (((2, 2, 4, 5, 6), (3, 2, 3, 2, 3)),)),
)

IMAGES = (((2, 3, 7, 9),), ((3, 5, 5),), ((1, 1, 16, 33),))
POOLING = (
    OpCase("windows", lambda x: rn.windows(x, (3,), (2,)) * 2.0, lambda x: np_windows(x, (3,), (2,), (1,)) * 2, (((7,),), ((2, 40),))),
    OpCase("windows of two axes", lambda x: rn.windows(x, (2, 3), (2, 1), (1, 2)), lambda x: np_windows(x, (2, 3), (2, 1), (1, 2)), IMAGES,
           errors=(((np.ones((2, 4), np.float32),), SHAPE_ERROR, "reach over (2, 5) elements"),)),
    OpCase("max_pool1d", lambda x: F.max_pool1d(x, 3, 1, 1), lambda x: np_pool(x, 3, 1, 1, 1, False, 1, np_max),
           (((2, 3, 8),), ((3, 37),)), errors=(((np.ones((4,), np.float32),), SHAPE_ERROR, "takes (N, C, W)"),)),
    OpCase("max_pool2d", lambda x: F.max_pool2d(x, 2), lambda x: np_pool(x, 2, 2, 0, 1, False, 2, np_max), IMAGES,
           errors=(((np.ones((1, 1, 1, 5), np.float32),), SHAPE_ERROR, "a window over 2 elements does not fit into 1"),)),
    OpCase("max_pool2d padded", lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), lambda x: np_pool(x, 3, 2, 1, 1, True, 2, np_max), IMAGES),
    OpCase("max_pool2d dilated", lambda x: F.max_pool2d(x, 2, 1, 1, 3), lambda x: np_pool(x, 2, 1, 1, 3, False, 2, np_max), IMAGES),
    OpCase("max_pool3d", lambda x: F.max_pool3d(x, 2, 1), lambda x: np_pool(x, 2, 1, 0, 1, False, 3, np_max), (((1, 2, 3, 4, 5),),)),
    OpCase("avg_pool1d", lambda x: F.avg_pool1d(x, 4, 3, 2, True), lambda x: np_pool(x, 4, 3, 2, 1, True, 1, np_mean), (((2, 3, 8),), ((3, 37),))),
    OpCase("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: np_pool(x, 3, 2, 1, 1, False, 2, np_mean), IMAGES),
    OpCase("avg_pool2d of elements", lambda x: F.avg_pool2d(x, 3, 2, 1, True, False),
           lambda x: np_pool(x, 3, 2, 1, 1, True, 2, lambda e, room: e.mean(-1)), IMAGES),
    OpCase("avg_pool2d by a divisor", lambda x: F.avg_pool2d(x, 2, divisor_override=3),
           lambda x: np_pool(x, 2, 2, 0, 1, False, 2, lambda e, room: e.sum(-1) / 3), IMAGES),
    OpCase("avg_pool3d", lambda x: F.avg_pool3d(x, 2), lambda x: np_pool(x, 2, 2, 0, 1, False, 3, np_mean), (((1, 2, 3, 4, 5),),)),
)

MOVEMENT = (
    OpCase("reshape", lambda x: rn.reshape(x, (3, -1)), lambda x: x.reshape(3, -1), (((6,),), ((3, 4),), ((2, 3, 5),)),
           errors=(((np.ones((4,), np.float32),), SHAPE_ERROR, "cannot infer -1"),)),
    OpCase("permute_dims", lambda x: rn.permute_dims(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1), (((2, 3, 5),), ((0, 1, 2),))),
    OpCase("transpose", lambda x: x.T * 2.0, lambda x: x.T * 2, (((2, 3),), ((17, 33),))),
    OpCase("broadcast_to", lambda x: rn.broadcast_to(x, (4, 3, 5)), lambda x: np.broadcast_to(x, (4, 3, 5)), (((3, 1),), ((5,),), ((),))),
    OpCase("flip", lambda x: rn.flip(x, 0) + 0.5, lambda x: np.flip(x, 0) + 0.5, (((5,),), ((3, 4),), ((0, 2),))),
    OpCase("slice", lambda x: x[1:, ::2], lambda x: x[1:, ::2], (((3, 5),), ((1, 4),), ((6, 6),))),
    OpCase("slice backwards", lambda x: x[::-2, 3:0:-1], lambda x: x[::-2, 3:0:-1], (((3, 5),), ((6, 6),))),
    OpCase("index", lambda x: x[-1, None], lambda x: x[-1, None], (((3, 5),), ((2, 3, 4),))),
    OpCase("pad", lambda x: rn.pad(x, [(1, 2)] * x.ndim, 0.5), lambda x: np.pad(x, [(1, 2)] * x.ndim, constant_values=0.5),
           (((3,),), ((2, 3),), ((0, 2),))),
    OpCase("concat", lambda a, b: rn.concat([a, b * 2.0, a], 0), lambda a, b: np.concatenate([a, b * 2, a]), (((2, 3), (4, 3)), ((5,), (0,)))),
    OpCase("stack", lambda a, b: rn.stack([a, b], 1), lambda a, b: np.stack([a, b], 1), (((2, 3), (2, 3)),)),
    OpCase("squeeze", lambda x: rn.squeeze(x) * 3.0, lambda x: np.squeeze(x) * 3, (((1, 3, 1),), ((2, 2),))),
    OpCase("flatten", lambda x: rn.flatten(x, 1), lambda x: x.reshape(x.shape[0], -1), (((2, 3, 4),), ((3, 5),))),
)

PRODUCTS = (
    OpCase("matmul", rn.matmul, np.matmul,
           (((2, 3), (3, 4)), ((17, 33), (33, 18)), ((5,), (5,)), ((5,), (5, 3)), ((4, 5), (5,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
            ((3, 1, 2, 4), (2, 4, 5)), ((0, 3), (3, 4)), ((2, 0), (0, 4)), ((1, 200), (200, 1))), loose=8, why="sums of up to 200 products",
           errors=(((np.ones((2, 3), np.float32), np.ones((4, 5), np.float32)), SHAPE_ERROR, "matmul"),)),
    OpCase("linear", lambda x, w, b: F.linear(x, w, b), lambda x, w, b: x @ w.T + b,
           (((4, 3), (5, 3), (5,)), ((3,), (2, 3), (2,)), ((2, 3, 65), (17, 65), (17,)), ((0, 3), (5, 3), (5,))), loose=8, why="as matmul",
           errors=(((np.ones((2, 3), np.float32), np.ones((4, 5), np.float32), np.ones((4,), np.float32)), SHAPE_ERROR, "(..., 5)"),)),
    OpCase("product of transposes", lambda a, b: a.T @ b.T, lambda a, b: a.T @ b.T, (((3, 2), (4, 3)), ((33, 17), (18, 33))), loose=8,
           why="as matmul"),
    OpCase("mse_loss", F.mse_loss, lambda a, b: ((a - b) ** 2).mean(), (((4,), (4,)), ((3, 5), (3, 5))), loose=4, why="a square",
           errors=((APART, SHAPE_ERROR, "must have one shape"),)),
    OpCase("l1_loss", F.l1_loss, lambda a, b: np.abs(a - b).mean(), (((4,), (4,)), ((3, 5), (3, 5)))),
    OpCase("binary_cross_entropy_with_logits", lambda x, t: F.binary_cross_entropy_with_logits(x, F.sigmoid(t)),
           lambda x, t: (softplus(x) - x * sigmoid(t)).mean(), (((4,), (4,)), ((3, 5), (3, 5)))),
)

TARGET = np.array([1, 0, 2, 1, -100])
WEIGHT = np.array([0.5, 1.0, 2.0])


def np_cross_entropy(x: Any) -> Any:
    logp, kept = log_softmax(x), TARGET != -100
    t = np.where(kept, TARGET, 0)
    w = WEIGHT[t] * kept
    own = -logp[np.arange(5), t] * w
    spread = -(logp * WEIGHT).sum(1) * kept
    return (0.9 * own + 0.1 / 3 * spread).sum() / w.sum()


LOSSES = (
    OpCase("cross_entropy", lambda x: F.cross_entropy(x, rn.tensor(TARGET), rn.tensor(WEIGHT.astype(np.float32)), label_smoothing=0.1),
           np_cross_entropy, (((5, 3),),), dtypes=("float32", "bfloat16")),
    OpCase("nll_loss", lambda x: F.nll_loss(x, rn.tensor(TARGET)), lambda x: -(x[0, 1] + x[1, 0] + x[2, 2] + x[3, 1]) / 4, (((5, 3),),)),
    OpCase("cross_entropy of probabilities", lambda x, t: F.cross_entropy(x, F.softmax(t)),
           lambda x, t: -(np.exp(log_softmax(t)) * log_softmax(x)).sum(-1).mean(), (((5, 3), (5, 3)),)),
)

ACTIVATIONS = (
    activation("relu", lambda x: np.maximum(x, 0)), activation("relu6", lambda x: np.clip(x, 0, 6)),
    activation("leaky_relu", lambda x: np.where(x > 0, x, 0.01 * x)), activation("hardtanh", lambda x: np.clip(x, -1, 1)),
    activation("silu", lambda x: x * sigmoid(x)), activation("softplus", softplus),
    activation("elu", lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
    activation("gelu", lambda x: x * (1 + _ERF(x / math.sqrt(2))) / 2, loose=4, why="1 + erf loses digits below zero"),
    OpCase("gelu tanh", lambda x: F.gelu(x, "tanh"), lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), ONE,
           loose=4, why="1 + tanh loses digits below zero"),
    activation("hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6), activation("mish", lambda x: x * np.tanh(softplus(x))),
)



def np_batch_norm(x: Any, w: Any, b: Any) -> Any:
    axes, each = (0, *range(2, x.ndim)), (-1, *(1,) * (x.ndim - 2))
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-3)
    return y * w.reshape(each) + b.reshape(each)


NORMS = (
    OpCase("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True, eps=1e-3), np_batch_norm,
           tuple((shape, (shape[1],), (shape[1],)) for shape in ((5, 3), (4, 2, 9), (2, 3, 20, 16), (2, 17, 5, 3), (1, 2, 3, 4, 5))),
           loose=8, why="a quotient of differences"),
    OpCase("batch_norm by statistics", lambda x, w, b: F.batch_norm(x, rn.tensor([0.5, -1.0, 2.0]), rn.tensor([0.5, 1.0, 2.0]), w, b, eps=1e-3),
           lambda x, w, b: np.swapaxes((np.swapaxes(x, 1, -1) - [0.5, -1, 2]) / np.sqrt(np.array([0.5, 1, 2]) + 1e-3) * w + b, 1, -1),
           (((5, 3), (3,), (3,)), ((2, 3, 4, 5), (3,), (3,)), ((0, 3, 4), (3,), (3,)))),
)

TABLE = (*POINTWISE, *NORMS, *REDUCTIONS, *MOVEMENT, *POOLING, *CONVOLUTIONS, *PRODUCTS, *LOSSES, *ACTIVATIONS)
