"""Convolutions and normalisation in NumPy, written for reading: one window, one sample at a time."""

from __future__ import annotations

from typing import Any

import numpy as np


def _windows(shape: Any, kernel: Any, stride: int, dilation: int, counts: Any) -> Any:
    """For every window: its place, and the index of its elements in the padded image."""
    for place in np.ndindex(*counts):
        yield place, tuple(slice(p * stride, p * stride + dilation * (r - 1) + 1, dilation) for p, r in zip(place, kernel))


def np_conv(x: Any, weight: Any, bias: Any = None, *, stride: int = 1, low: int = 0, high: int | None = None, dilation: int = 1,
            groups: int = 1) -> Any:
    """Convolution of (N, C, ...) with `low` zeros before and `high` (as many, if None) after the elements."""
    dims = x.ndim - 2
    x = np.pad(x, ((0, 0), (0, 0), *[(low, low if high is None else high)] * dims))
    counts = [(n - dilation * (r - 1) - 1) // stride + 1 for n, r in zip(x.shape[2:], weight.shape[2:])]
    y = np.zeros((len(x), len(weight), *counts))
    for place, key in _windows(x.shape, weight.shape[2:], stride, dilation, counts):
        for g in range(groups):
            seen = np.split(x, groups, 1)[g][(..., *key)].reshape(len(x), -1)
            kernels = np.split(weight, groups)[g].reshape(len(weight) // groups, -1)
            y[(slice(None), slice(g * len(kernels), (g + 1) * len(kernels)), *place)] = seen @ kernels.T
    return y if bias is None else y + bias.reshape(-1, *(1,) * dims)


def np_conv_transpose(x: Any, weight: Any, bias: Any = None, *, stride: int = 1, padding: int = 0, extra: int = 0, dilation: int = 1,
                      groups: int = 1) -> Any:
    """Every element adds kernels times itself to a window of the image, of which `padding` places at each end are then cut off."""
    dims, made = x.ndim - 2, weight.shape[1]
    sizes = [(n - 1) * stride + dilation * (r - 1) + 1 + extra for n, r in zip(x.shape[2:], weight.shape[2:])]
    y = np.zeros((len(x), made * groups, *sizes))
    for place, key in _windows(sizes, weight.shape[2:], stride, dilation, x.shape[2:]):
        for g in range(groups):
            elements = np.split(x, groups, 1)[g][(..., *place)]
            y[(slice(None), slice(g * made, (g + 1) * made), *key)] += np.tensordot(elements, np.split(weight, groups)[g], 1)
    y = y[(..., *[slice(padding, n - padding) for n in sizes])]
    return y if bias is None else y + bias.reshape(-1, *(1,) * dims)


def np_layer_norm(x: Any, axes: int, eps: float, weight: Any = 1.0, bias: Any = 0.0) -> Any:
    """The last axes with mean 0 and variance 1, scaled and shifted."""
    along = tuple(range(-axes, 0))
    centred = x - x.mean(along, keepdims=True)
    return centred / np.sqrt((centred**2).mean(along, keepdims=True) + eps) * weight + bias
