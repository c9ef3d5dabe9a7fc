"""Layers as functions, with PyTorch's names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from renaissance.errors import ArgumentError, ShapeError
from renaissance.nn.batch_norm import batch_norm as batch_norm
from renaissance.ops import compose
from renaissance.ops.adaptive import adaptive_avg_pool1d as adaptive_avg_pool1d
from renaissance.ops.adaptive import adaptive_avg_pool2d as adaptive_avg_pool2d
from renaissance.ops.adaptive import adaptive_avg_pool3d as adaptive_avg_pool3d
from renaissance.ops.adaptive import adaptive_max_pool1d as adaptive_max_pool1d
from renaissance.ops.adaptive import adaptive_max_pool2d as adaptive_max_pool2d
from renaissance.ops.adaptive import adaptive_max_pool3d as adaptive_max_pool3d
from renaissance.ops.compose import elu as elu
from renaissance.ops.compose import gelu as gelu
from renaissance.ops.compose import hardsigmoid as hardsigmoid
from renaissance.ops.compose import hardswish as hardswish
from renaissance.ops.compose import hardtanh as hardtanh
from renaissance.ops.compose import leaky_relu as leaky_relu
from renaissance.ops.compose import mish as mish
from renaissance.ops.compose import relu as relu
from renaissance.ops.compose import relu6 as relu6
from renaissance.ops.compose import sigmoid as sigmoid
from renaissance.ops.compose import silu as silu
from renaissance.ops.compose import softplus as softplus
from renaissance.ops.contraction import linear as linear
from renaissance.ops.conv_transpose import conv_transpose1d as conv_transpose1d
from renaissance.ops.conv_transpose import conv_transpose2d as conv_transpose2d
from renaissance.ops.conv_transpose import conv_transpose3d as conv_transpose3d
from renaissance.ops.convolution import conv1d as conv1d
from renaissance.ops.convolution import conv2d as conv2d
from renaissance.ops.convolution import conv3d as conv3d
from renaissance.ops.elementwise import tanh as tanh
from renaissance.ops.index import one_hot as one_hot
from renaissance.ops.layer_norm import layer_norm as layer_norm
from renaissance.ops.losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from renaissance.ops.losses import cross_entropy as cross_entropy
from renaissance.ops.losses import l1_loss as l1_loss
from renaissance.ops.losses import mse_loss as mse_loss
from renaissance.ops.losses import nll_loss as nll_loss
from renaissance.ops.movement import broadcast_to
from renaissance.ops.pooling import avg_pool1d as avg_pool1d
from renaissance.ops.pooling import avg_pool2d as avg_pool2d
from renaissance.ops.pooling import avg_pool3d as avg_pool3d
from renaissance.ops.pooling import max_pool1d as max_pool1d
from renaissance.ops.pooling import max_pool2d as max_pool2d
from renaissance.ops.pooling import max_pool3d as max_pool3d
from renaissance.random import Generator, dropout_mask

_ALIASES = {"input": "x", "dim": "axis"}  # PyTorch's names of arguments that bear NumPy's here


def _with_aliases(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{_ALIASES.get(k, k): v for k, v in kwargs.items()})

    return renamed


softmax = _with_aliases(compose.softmax)
log_softmax = _with_aliases(compose.log_softmax)


def dropout(x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Any:
    """Set elements to zero at random and scale the others up; in evaluation, or for p = 0, the identity, drawing nothing.

    y = x / (1 - p) with probability 1 - p, else 0;   p = 1: zeros, whatever x holds

    x          any shape, float
    p          from 0 to 1
    training   False: evaluation
    generator  what the draw is taken from; None: the default one
    returns    shape and dtype of x
    raises     ArgumentError for p outside
    source     Srivastava et al. 2014
    """
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"dropout: p must be from 0 to 1, got {p}")
    if not training or p == 0.0:
        return x
    return compose.dropped(x, dropout_mask(x.shape, p, generator=generator), p)


def dropout2d(x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Any:
    """Set whole channels of images to zero at random and scale the others up; in evaluation, or for p = 0, the identity.

    y[n, c] = x[n, c] / (1 - p) with probability 1 - p, else 0

    x          (N, C, H, W) float
    p          from 0 to 1
    training   False: evaluation
    generator  what the draw is taken from; None: the default one
    returns    shape and dtype of x
    raises     ArgumentError for p outside; ShapeError for another number of axes
    source     Tompson et al. 2015, arXiv:1411.4280
    """
    if x.ndim != 4:
        raise ShapeError(f"dropout2d: x must be (N, C, H, W), got shape {x.shape}")
    return _dropped_parts("dropout2d", x, 2, p, training, generator)


def stochastic_depth(x: Any, p: float, training: bool = True, *, generator: Generator | None = None) -> Any:
    """Set whole samples to zero at random and scale the others up: a residual branch that some samples skip.

    y[n] = x[n] / (1 - p) with probability 1 - p, else 0

    x          (N, ...) float
    p          from 0 to 1
    training   False: evaluation, the identity
    generator  what the draw is taken from; None: the default one
    returns    shape and dtype of x
    raises     ArgumentError for p outside
    source     Huang et al. 2016, arXiv:1603.09382
    """
    return _dropped_parts("stochastic_depth", x, 1, p, training, generator)


def _dropped_parts(op: str, x: Any, axes: int, p: float, training: bool, generator: Generator | None) -> Any:
    """One draw for each place along the first axes, which decides for all elements there."""
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{op}: p must be from 0 to 1, got {p}")
    if not training or p == 0.0:
        return x
    keep = dropout_mask((*x.shape[:axes], *(1,) * (x.ndim - axes)), p, generator=generator)
    return compose.dropped(x, broadcast_to(keep, x.shape), p)
