"""Convolutions with 3x3 kernels by Winograd's minimal filtering F(m x m, 3x3): (m + 2)^2 products make m x m places.

The compiler makes these nodes out of convolutions, after differentiation. The result is cut into tiles of m x m places; a tile
sees (m + 2) x (m + 2) places of the image. Between transforms of tiles and of kernels there is one matrix product for each of the
`terms` = (m + 2)^2 numbers of a transformed tile. Transformed kernels, and the sums of a weight's gradient, lie in panels of
`width` output channels, as kernels read them; columns behind the last channel are 0.

    y = A^T ((G w G^T) * (B^T x B)) A        dw = G^T ((B^T x B) * (A dy A^T)) G

source: Lavin and Gray 2015, "Fast algorithms for convolutional neural networks", arXiv:1509.09308
"""

from __future__ import annotations

from typing import Any

import numpy as np

from renaissance.errors import DTypeError, ShapeError
from renaissance.ir.dtype import DType, bfloat16, float32
from renaissance.ir.node import Node, Op, Shape

Padding = tuple[tuple[int, int], tuple[int, int]]

_DATA = {2: ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
         4: ((4, 0, -5, 0, 1, 0), (0, -4, -4, 1, 1, 0), (0, 4, -4, -1, 1, 0), (0, -2, -1, 2, 1, 0), (0, 2, -1, -2, 1, 0),
             (0, 4, 0, -5, 0, 1))}
_KERNEL = {2: ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
           4: ((1 / 4, 0, 0), (-1 / 6, -1 / 6, -1 / 6), (-1 / 6, 1 / 6, -1 / 6), (1 / 24, 1 / 12, 1 / 6),
               (1 / 24, -1 / 12, 1 / 6), (0, 0, 1))}
_PLACES = {2: ((1, 1, 1, 0), (0, 1, -1, -1)),
           4: ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1))}


def places_of(image: Shape, padding: Padding) -> tuple[int, int]:
    """(P, Q) that a 3x3 kernel makes of an image (N, 1, H, W, C)."""
    (top, bottom), (left, right) = padding
    return image[2] + top + bottom - 2, image[3] + left + right - 2


def panels_shape(tile: int, c: int, k: int, width: int) -> Shape:
    """The shape of transformed kernels: (panels, terms, c, width)."""
    return -(-k // width), (tile + 2) ** 2, c, width


# ---- records -----------------------------------------------------------------------------------------------------------


def _need_image(op: str, x: Node, padding: Padding) -> tuple[int, int]:
    if len(x.shape) != 5 or x.shape[1] != 1:
        raise ShapeError(f"{op}: takes images (N, 1, H, W, C), got {x.shape}")
    if x.dtype not in (float32, bfloat16):
        raise DTypeError(f"{op}: takes float32 or bfloat16, got {x.dtype.name}")
    p, q = places_of(x.shape, padding)
    if min(p, q) < 1:
        raise ShapeError(f"{op}: a 3x3 kernel does not fit into {x.shape[2:4]} with padding {padding}")
    return p, q


def _infer(inputs: tuple[Node, ...], tile: int, k: int, padding: Padding) -> tuple[Shape, DType]:
    x, u = inputs
    p, q = _need_image("winograd", x, padding)
    if len(u.shape) != 4 or u.shape != panels_shape(tile, x.shape[4], k, u.shape[3]) or u.dtype is not float32:
        raise ShapeError(f"winograd: {u.dtype.name} {u.shape} are no transformed kernels from {x.shape[4]} to {k} channels")
    return (x.shape[0], 1, p, q, k), float32


def _infer_weights(inputs: tuple[Node, ...], tile: int, width: int) -> tuple[Shape, DType]:
    w, = inputs
    if len(w.shape) != 5 or w.shape[2:] != (1, 3, 3) or w.dtype not in (float32, bfloat16):
        raise ShapeError(f"winograd_weights: takes float32 or bfloat16 (K, C, 1, 3, 3), got {w.dtype.name} {w.shape}")
    return panels_shape(tile, w.shape[1], w.shape[0], width), float32


def _infer_sums(inputs: tuple[Node, ...], tile: int, padding: Padding, width: int, blocks: int,
                groups: int) -> tuple[Shape, DType]:
    x, y = inputs
    wanted = (x.shape[0], 1, *_need_image("winograd_sums", x, padding))
    if len(y.shape) != 5 or y.shape[:4] != wanted or y.dtype is not x.dtype:
        raise ShapeError(f"winograd_sums: takes one {x.dtype.name} value for each place {wanted}, got {y.dtype.name} {y.shape}")
    return (groups, *panels_shape(tile, x.shape[4], y.shape[4], width)), float32


def _infer_gradient(inputs: tuple[Node, ...], tile: int, k: int) -> tuple[Shape, DType]:
    m, = inputs
    if len(m.shape) != 5 or m.shape[1:] != panels_shape(tile, m.shape[3], k, m.shape[4]) or m.dtype is not float32:
        raise ShapeError(f"winograd_weight_gradient: {m.dtype.name} {m.shape} are no sums for {k} channels")
    return (k, m.shape[3], 1, 3, 3), float32


def _both(matrix: Any, blocks: Any) -> Any:
    """matrix @ block @ matrix^T over the last two axes."""
    matrix = np.asarray(matrix, np.float64)
    return np.einsum("ir,...rs,js->...ij", matrix, blocks, matrix, optimize=True)


def _cut(x: Any, size: int, tile: int, grid: tuple[int, int]) -> Any:
    """(N, tiles, channels, size, size): the squares of `size` that begin `tile` apart; behind the end there is 0."""
    high, wide = (tile * (n - 1) + size for n in grid)
    x = np.pad(x, ((0, 0), (0, max(0, high - x.shape[1])), (0, max(0, wide - x.shape[2])), (0, 0)))
    seen = [x[:, tile * i:tile * i + size, tile * j:tile * j + size] for i in range(grid[0]) for j in range(grid[1])]
    return np.stack(seen, axis=1).transpose(0, 1, 4, 2, 3)


def _windows(x: Any, tile: int, padding: Padding) -> tuple[Any, tuple[int, int]]:
    """B^T x B of all tiles, and how many there are along each axis."""
    p, q = places_of(x.shape, padding)
    grid = -(-p // tile), -(-q // tile)
    padded = np.pad(x[:, 0].astype(np.float64), ((0, 0), *padding, (0, 0)))
    return _both(_DATA[tile], _cut(padded, tile + 2, tile, grid)), grid


def _panels(u: Any, width: int) -> Any:
    """(terms, c, k) as (panels, terms, c, width)."""
    terms, c, k = u.shape
    panels = -(-k // width)
    u = np.pad(u, ((0, 0), (0, 0), (0, panels * width - k)))
    return u.reshape(terms, c, panels, width).transpose(2, 0, 1, 3)


def _unpaneled(u: Any, k: int) -> Any:
    """(..., panels, terms, c, width) as (..., terms, c, k)."""
    u = np.moveaxis(u, -4, -2)
    return u.reshape(*u.shape[:-2], -1)[..., :k]


def _reference(arrays: Any, tile: int, k: int, padding: Padding, out: Any) -> Any:
    x, u = arrays
    with np.errstate(all="ignore"):
        v, grid = _windows(x, tile, padding)
        size = tile + 2
        u = _unpaneled(u.astype(np.float64), k).reshape(size, size, x.shape[4], k)
        y = _both(_PLACES[tile], np.einsum("ntcij,ijck->ntkij", v, u, optimize=True))
    p, q = places_of(x.shape, padding)
    y = y.reshape(x.shape[0], *grid, k, tile, tile).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(x.shape[0], grid[0] * tile, grid[1] * tile, k)[:, :p, :q].reshape(out[0]).astype(np.float32)


def _reference_weights(arrays: Any, tile: int, width: int, out: Any) -> Any:
    w, = arrays
    u = _both(_KERNEL[tile], w[:, :, 0].astype(np.float64))
    return _panels(u.reshape(*u.shape[:2], -1).transpose(2, 1, 0), width).astype(np.float32)


def _reference_sums(arrays: Any, tile: int, padding: Padding, width: int, blocks: int, groups: int, out: Any) -> Any:
    x, y = arrays
    with np.errstate(all="ignore"):
        v, grid = _windows(x, tile, padding)
        z = _both(np.transpose(_PLACES[tile]), _cut(y[:, 0].astype(np.float64), tile, tile, grid))
        v, z = (a.reshape(-1, *a.shape[2:]) for a in (v, z))
        tiles = len(v)
        starts = [tiles * (blocks * g // groups) // blocks for g in range(groups + 1)]
        sums = [np.einsum("tcij,tkij->ijck", v[a:b], z[a:b], optimize=True) for a, b in zip(starts, starts[1:])]
    return np.stack([_panels(m.reshape(-1, *m.shape[2:]), width) for m in sums]).astype(np.float32)


def _reference_gradient(arrays: Any, tile: int, k: int, out: Any) -> Any:
    m, = arrays
    size = tile + 2
    m = _unpaneled(m.astype(np.float64).sum(0), k).reshape(size, size, m.shape[3], k)
    return _both(np.transpose(_KERNEL[tile]), m.transpose(3, 2, 0, 1)).reshape(out[0]).astype(np.float32)


# y (N, 1, P, Q, K) of x (N, 1, H, W, C) and transformed kernels
WINOGRAD = Op("winograd", "contraction", _infer, _reference, attrs=("tile", "k", "padding"))
# (panels, terms, C, width): the transformed kernels of w (K, C, 1, 3, 3)
WINOGRAD_WEIGHTS = Op("winograd_weights", "winograd", _infer_weights, _reference_weights, attrs=("tile", "width"))
# (groups, panels, terms, C, width): sums over the tiles of a group, block after block (see WinogradSums in ir/plan.py)
WINOGRAD_SUMS = Op("winograd_sums", "winograd", _infer_sums, _reference_sums,
                   attrs=("tile", "padding", "width", "blocks", "groups"))
# dw (K, C, 1, 3, 3) out of such sums
WINOGRAD_WEIGHT_GRADIENT = Op("winograd_weight_gradient", "winograd", _infer_gradient, _reference_gradient, attrs=("tile", "k"))
