"""Products of an image's windows with a matrix: what a convolution is made into where no special form of it is quicker.

The compiler makes these nodes after differentiation. The image stands for the matrix with a row for each window and a column for
each (tap, channel); that is never stored, kernels gather it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from renaissance.errors import ShapeError
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Op, Shape
from renaissance.ops.convolution import Geometry, taps


def _infer(inputs: tuple[Node, ...], geometry: Geometry, out_dtype: DType) -> tuple[Shape, DType]:
    x, b = inputs
    places = math.prod(geometry.windows(x.shape[1:4])) * x.shape[0]
    if b.shape[:2] != (geometry.groups, math.prod(geometry.kernel) * x.shape[4] // geometry.groups):
        raise ShapeError(f"image_dot: {b.shape} does not fit {x.shape} and {geometry}")
    return (geometry.groups, places, b.shape[2]), out_dtype


def _infer_sums(inputs: tuple[Node, ...], geometry: Geometry, leaves: int, out_dtype: DType) -> tuple[Shape, DType]:
    y, x = inputs
    places = math.prod(geometry.windows(x.shape[1:4])) * x.shape[0]
    if (y.shape[0], y.shape[2]) != (geometry.groups * leaves, places // leaves) or places % leaves:
        raise ShapeError(f"image_sums: {y.shape} does not fit {x.shape}, {geometry} and {leaves} leaves")
    return (*y.shape[:2], math.prod(geometry.kernel) * x.shape[4] // geometry.groups), out_dtype


def _windows(x: Any, geometry: Geometry) -> Any:
    """(groups, windows, taps * channels of a group) in float64."""
    counts = geometry.windows(x.shape[1:4])
    seen = np.stack([view for _, view in taps(x.astype(np.float64), geometry, counts)], axis=4)
    places, each = x.shape[0] * math.prod(counts), x.shape[4] // geometry.groups
    seen = seen.reshape(places, seen.shape[4], geometry.groups, each)
    return seen.transpose(2, 0, 1, 3).reshape(geometry.groups, places, -1)


def _reference(arrays: Any, geometry: Geometry, out_dtype: DType, out: Any) -> Any:
    x, b = arrays
    with np.errstate(all="ignore"):
        return np.matmul(_windows(x, geometry), b.astype(np.float64)).astype(out_dtype.numpy)


def _reference_sums(arrays: Any, geometry: Geometry, leaves: int, out_dtype: DType, out: Any) -> Any:
    y, x = arrays
    windows = _windows(x, geometry)
    windows = windows.reshape(geometry.groups * leaves, -1, windows.shape[2])
    with np.errstate(all="ignore"):
        return np.matmul(y.astype(np.float64), windows).astype(out_dtype.numpy)


# y[g, window, k] = sum over (tap, c) of x[window at tap, g's channel c] b[g, (tap, c), k]; one chain over (tap, c)
IMAGE_DOT = Op("image_dot", "contraction", _infer, _reference, attrs=("geometry", "out_dtype"))
# s[(g, leaf), k, (tap, c)] = sum over the windows of a leaf of y[(g, leaf), k, window] x[window at tap, g's channel c]
IMAGE_SUMS = Op("image_sums", "contraction", _infer_sums, _reference_sums, attrs=("geometry", "leaves", "out_dtype"))
