"""Convolutions by Winograd's minimal filtering: where that pays, the nodes that a convolution becomes, and their specs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from renaissance.ir.dtype import DType, bfloat16, float32
from renaissance.ir.node import Node, Shape, node
from renaissance.ir.plan import Access, Instr, Store, Windows, Winograd, WinogradSums, WinogradWeightGradient, WinogradWeights
from renaissance.ir.shape import size
from renaissance.ir.target import Target
from renaissance.ops.convolution import Geometry
from renaissance.ops.winograd import (
    WINOGRAD,
    WINOGRAD_SUMS,
    WINOGRAD_WEIGHT_GRADIENT,
    WINOGRAD_WEIGHTS,
    Padding,
    places_of,
)

TILES = (2, 4)
_ONES = (1, 1, 1)
# Cycles, per thread, coarse: a multiply-add of one vector, with what a product costs beside it; a vector of a tile's transforms
# of either image, by tile; a pair of channels' transformed kernel, for each of its terms, which go to memory and come back.
_PRODUCT = 0.55
_TILE_VECTOR = {2: 120, 4: 320}
_KERNEL_TERM = 1.5
_NARROW = 2     # windows a row of them costs beside its own, directly: tiles are as long as a row
_PACKED = 1.6   # the gradient of a weight directly, against the convolution: windows are packed, a tap at a time
WORTH = 0.85  # of the time of the direct way: what must not be exceeded, for errors are larger
_FEWEST_CHANNELS = 16
# The gradient of a weight: tiles in a block, more of them for more channels; groups, and elements of all their sums.
_LEAST_BLOCK = 16
_CHANNELS_PER_TILE = 8
_MOST_GROUPS = 16
_MOST_SUMS = 1 << 23


# ---- choice ------------------------------------------------------------------------------------------------------------


def winograd_tile(x: Shape, w: Shape, geometry: Geometry, target: Target, dtype: DType = float32, *,
                  of_weight: bool = False) -> int | None:
    """The side of the tiles by which a convolution, or the gradient of its weight, costs least; None if that is the direct way.

    x, w       shapes (N, 1, H, W, C) of the image and (K, C, 1, 3, 3) of the kernels
    dtype      of the image
    of_weight  whether it is the gradient of the weight
    """
    if not target.winograd or dtype not in (float32, bfloat16) or not is_square(x, geometry):
        return None
    c, k = x[4], w[0]
    p, q = places_of(x, geometry.padding[1:])  # type: ignore[arg-type]
    if min(c, k) < _FEWEST_CHANNELS or min(x[0], p, q) < 1:
        return None
    costs = {tile: _cycles(x[0], p, q, c, k, tile, target) for tile in TILES}
    best = min(costs, key=lambda tile: costs[tile])
    at_once = target.lanes * (2 if dtype is bfloat16 and target.bf16_dot else 1)
    direct = x[0] * p * (q + _NARROW) * 9 * c * k * _PRODUCT / at_once * (_PACKED if of_weight else 1)
    return best if costs[best] < WORTH * direct else None


def is_square(x: Shape, geometry: Geometry) -> bool:
    """Whether a convolution is a 3x3 one of flat images, with stride 1 and nothing cut off."""
    same = (geometry.strides, geometry.dilations, geometry.spread) == (_ONES, _ONES, _ONES) and geometry.groups == 1
    padding = geometry.padding
    return same and geometry.kernel == (1, 3, 3) and x[1] == 1 and padding[0] == (0, 0) and min(map(min, padding)) >= 0


def _cycles(n: int, p: int, q: int, c: int, k: int, tile: int, target: Target) -> float:
    terms = (tile + 2) ** 2
    tiles = n * math.ceil(p / tile) * math.ceil(q / tile)
    products = tiles * terms * c * k * _PRODUCT / target.lanes
    return products + tiles * (c + k) / target.lanes * _TILE_VECTOR[tile] / 2 + terms * c * k * _KERNEL_TERM


def panel_width(target: Target) -> int:
    """Output channels of a panel: two vectors, as a register tile has."""
    return 2 * target.lanes


# ---- nodes -------------------------------------------------------------------------------------------------------------


def by_tiles(n: Node, tile: int, target: Target) -> Node:
    """What a `conv` node becomes for which `winograd_tile` has given a tile."""
    x, w = n.inputs
    u = node(WINOGRAD_WEIGHTS, (w,), (tile, panel_width(target)))
    return node(WINOGRAD, (x, u), (tile, w.shape[0], _padding(n)))


def gradient_by_tiles(n: Node, tile: int, target: Target) -> Node:
    """What a `conv_weight` node becomes for which `winograd_tile` has given a tile."""
    x, y = n.inputs
    c, k = x.shape[4], y.shape[4]
    blocks, groups = blocks_and_groups(size(y.shape[:1]), y.shape[2], y.shape[3], c, k, tile)
    sums = node(WINOGRAD_SUMS, (x, y), (tile, _padding(n), panel_width(target), blocks, groups))
    return node(WINOGRAD_WEIGHT_GRADIENT, (sums,), (tile, k))


def blocks_and_groups(n: int, p: int, q: int, c: int, k: int, tile: int) -> tuple[int, int]:
    """Into how many chains the tiles of a weight's gradient are cut, and into how many groups of them: by shape alone.

    A block's transformed tiles, of which there are fewer the more bytes a tile has, are multiplied at once. There are as many
    groups, a power of two, as threads may need, blocks allow, and do not fill the last-level cache.
    """
    tiles = n * math.ceil(p / tile) * math.ceil(q / tile)
    blocks = math.ceil(tiles / (_LEAST_BLOCK + (c + k) // _CHANNELS_PER_TILE))
    most = min(_MOST_GROUPS, blocks, max(1, _MOST_SUMS // ((tile + 2) ** 2 * c * k)))
    return blocks, 1 << (most.bit_length() - 1)


def _padding(n: Node) -> Padding:
    geometry: Geometry = n.attr("geometry")
    return geometry.padding[1:]  # type: ignore[return-value]


# ---- specs -------------------------------------------------------------------------------------------------------------


def extents_of(n: Node, x: Node) -> Shape:
    """The extents of the body of an input: its shape without the axis of one element along which nothing moves."""
    axis = 2 if n.op is WINOGRAD_WEIGHTS else 1
    return (*x.shape[:axis], *x.shape[axis + 1:])


def is_channels_last(body: Sequence[Instr], extents: Shape) -> bool:
    """Whether all that a body loads lies side by side along the channels: it is read more than once, vector by vector."""
    accesses = [i.attr for i in body if i.op == "load"]
    return extents[-1] == 1 or all(isinstance(a, Access) and a.strides[-1] in (0, 1) for a in accesses)


def _windows(x: Node, tile: int, padding: Padding) -> Windows:
    return Windows(tile, x.shape[0], (x.shape[2], x.shape[3]), places_of(x.shape, padding), (padding[0][0], padding[1][0]))


def winograd_of(n: Node, x: tuple[Instr, ...], u: int, epilogue: tuple[Instr, ...], stores: tuple[Store, ...]) -> Winograd:
    """The spec of a convolution's node, given the body of its image and the operand of its kernels."""
    windows = _windows(n.inputs[0], n.attr("tile"), n.attr("padding"))
    return Winograd(windows, n.inputs[0].shape[4], n.attr("k"), n.inputs[1].shape[3], x, u, epilogue, stores)


def weights_of(n: Node, bodies: Sequence[tuple[Instr, ...]], out: int) -> WinogradWeights:
    """The spec of a node that transforms kernels."""
    k, c = n.inputs[0].shape[:2]
    return WinogradWeights(n.attr("tile"), c, k, n.attr("width"), bodies[0], out)


def sums_of(n: Node, bodies: Sequence[tuple[Instr, ...]], out: int) -> WinogradSums:
    """The spec of a node that sums products of tiles."""
    x, y = n.inputs
    windows = _windows(x, n.attr("tile"), n.attr("padding"))
    return WinogradSums(windows, x.shape[4], y.shape[4], n.attr("width"), n.attr("blocks"), n.attr("groups"), bodies[0],
                        bodies[1], out)


def weight_gradient_of(n: Node, sums: int, out: int) -> WinogradWeightGradient:
    """The spec of a node that turns such sums into the gradient of kernels."""
    m = n.inputs[0].shape
    return WinogradWeightGradient(n.attr("tile"), m[3], n.attr("k"), m[4], m[0], sums, out)
