"""Depthwise convolutions, one kernel for each channel: what convolutions with as many groups as channels are made into."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from renaissance.errors import ShapeError
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Op, Shape
from renaissance.ops.convolution import Geometry, taps

LEAF_PLACES = 1024


def leaf_rows(windows: tuple[int, ...]) -> int:
    """Rows of windows in one chain of a weight's gradient: whole rows, about LEAF_PLACES windows."""
    return max(1, min(windows[1], LEAF_PLACES // windows[2]))


def leaf_count(images: int, windows: tuple[int, ...]) -> int:
    """Chains of a weight's gradient, all planes of all images."""
    return images * windows[0] * -(-windows[1] // leaf_rows(windows))


def _infer(inputs: tuple[Node, ...], geometry: Geometry, out_dtype: DType) -> tuple[Shape, DType]:
    x, w = inputs
    if w.shape != (math.prod(geometry.kernel), x.shape[4]):
        raise ShapeError(f"depthwise: {w.shape} is not (taps, channels) of {x.shape} and {geometry}")
    return (x.shape[0], *geometry.windows(x.shape[1:4]), x.shape[4]), out_dtype


def _infer_sums(inputs: tuple[Node, ...], geometry: Geometry, out_dtype: DType) -> tuple[Shape, DType]:
    x, y = inputs
    windows = geometry.windows(x.shape[1:4])
    if y.shape != (x.shape[0], *windows, x.shape[4]):
        raise ShapeError(f"depthwise_sums: {y.shape} is not one value for each window and channel of {x.shape}")
    return (leaf_count(x.shape[0], windows), math.prod(geometry.kernel), x.shape[4]), out_dtype


def _reference(arrays: Any, geometry: Geometry, out_dtype: DType, out: Any) -> Any:
    x, w = (a.astype(np.float64) for a in arrays)
    y = np.zeros(out[0])
    with np.errstate(all="ignore"):
        for number, (_, seen) in enumerate(taps(x, geometry, out[0][1:4])):
            y += seen * w[number]
    return y.astype(out_dtype.numpy)


def _reference_sums(arrays: Any, geometry: Geometry, out_dtype: DType, out: Any) -> Any:
    x, y = (a.astype(np.float64) for a in arrays)
    windows = y.shape[1:4]
    rows = leaf_rows(windows)
    starts = np.arange(0, windows[1], rows)
    sums = np.zeros((out[0][0], out[0][1], x.shape[4]))
    with np.errstate(all="ignore"):
        for number, (_, seen) in enumerate(taps(x, geometry, windows)):
            by_leaf = np.add.reduceat((seen * y).sum(axis=3), starts, axis=2)
            sums[:, number] = by_leaf.reshape(-1, x.shape[4])
    return sums.astype(out_dtype.numpy)


# y[n, p, c] = sum over taps of x[n, window p at the tap, c] w[tap, c]: one chain over the taps
DEPTHWISE = Op("depthwise", "contraction", _infer, _reference, attrs=("geometry", "out_dtype"))
# s[leaf, tap, c] = sum over the windows p of a leaf of x[n, window p at the tap, c] y[n, p, c]: one chain
DEPTHWISE_SUMS = Op("depthwise_sums", "contraction", _infer_sums, _reference_sums, attrs=("geometry", "out_dtype"))
