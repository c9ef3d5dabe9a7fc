"""engines: which kernels do a convolution, and in what form they take its operands.

Takes and gives a graph. The choice is a pure function of the node and the Target. Sums run in the order that the chosen form
states; a form is part of what the node means on that Target, whatever is fused with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from renaissance.compile.choice import TILES, Convolution, convolution_of, engine_of
from renaissance.compile.movement_rules import reshaped
from renaissance.compile.side_by_side import by_classes, by_neighbours, classes_of, classes_together, neighbours
from renaissance.compile.spread import interleaved, spread
from renaissance.compile.winograd import by_tiles, gradient_by_tiles
from renaissance.ir.dtype import bfloat16
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, node
from renaissance.ir.rewrite import Rule, rewrite
from renaissance.ir.shape import size
from renaissance.ir.target import Target
from renaissance.ops.contraction import DOT
from renaissance.ops.convolution import Geometry, convolved, weight_gradient
from renaissance.ops.depthwise import DEPTHWISE, DEPTHWISE_SUMS
from renaissance.ops.image_product import IMAGE_DOT, IMAGE_SUMS
from renaissance.ops.movement import PAD, PERMUTE, SLICE
from renaissance.ops.reduce import sum
from renaissance.ops.value import Value

Users = Mapping[Node, int]

_ONES = (1, 1, 1)
LEAF_PLACES = 4096  # products in one chain of a weight's gradient, where the places can be cut evenly


def engines(graph: Graph, target: Target) -> Graph:
    """The graph with every convolution in the form that a kernel computes."""
    def by_tiles_first(n: Node, users: Users) -> Node | None:
        tile = _tile(n, target)
        return None if tile is None else by_tiles(n, tile, target)

    def gradient_by_tiles_first(n: Node, users: Users) -> Node | None:
        tile = _tile(n, target)
        return None if tile is None else gradient_by_tiles(n, tile, target)

    return rewrite(graph, (
        Rule("a convolution by minimal filtering", ("conv",), by_tiles_first),
        Rule("the gradient of its weight likewise", ("conv_weight",), gradient_by_tiles_first), *RULES))


def _tile(n: Node, target: Target) -> int | None:
    convolution = convolution_of(n)
    return None if convolution is None else TILES[engine_of(convolution, target)]


def undecided(graph: Graph) -> Counter[Convolution]:
    """The convolutions that several engines can do, each with the number of its nodes, in a graph as this pass takes it."""
    found: dict[Node, Convolution] = {}

    def note(n: Node, users: Users) -> None:
        convolution = convolution_of(n)
        if convolution is not None:
            found[n] = convolution

    rewrite(graph, (Rule("a convolution is noted", ("conv", "conv_weight"), note), *RULES))
    return Counter(found.values())


def _spread_out(n: Node, users: Users) -> Node | None:
    """Spread images are not stored: places that meet the same taps are convolutions of their own, put in turn."""
    geometry: Geometry = n.attr("geometry")
    if geometry.spread == _ONES:
        return None
    x, w = Value(n.inputs[0]), Value(n.inputs[1])
    if geometry.strides != _ONES:
        return convolved(spread(x, geometry.spread), w, geometry._replace(spread=_ONES), n.dtype).node
    together = geometry.groups == 1 and classes_together(n.shape[4], classes_of(geometry, n.shape[1:4]))
    return (by_classes if together else interleaved)(x, w, geometry, n.shape[1:4], n.dtype).node


def _few_channels(n: Node, users: Users) -> Node | None:
    geometry: Geometry = n.attr("geometry")
    if geometry.groups > 1 or geometry.dilations[2] > 1 or geometry.kernel[2] == 1:
        return None
    count = neighbours(n.shape[4], n.shape[3], geometry.kernel[2], geometry.strides[2])
    return None if count == 1 else by_neighbours(Value(n.inputs[0]), Value(n.inputs[1]), geometry, count, n.dtype).node


def _spread_first(n: Node, users: Users) -> Node | None:
    geometry: Geometry = n.attr("geometry")
    if geometry.spread == _ONES:
        return None
    x, y = Value(n.inputs[0]), Value(n.inputs[1])
    return weight_gradient(spread(x, geometry.spread), y, geometry._replace(spread=_ONES), n.dtype).node


def _is_pointwise(geometry: Geometry) -> bool:
    """Whether every window is one place, in order: then a convolution is a matrix product."""
    return geometry == Geometry(_ONES, _ONES, ((0, 0),) * 3, geometry.dilations, 1)


def leaves_of(places: int) -> int:
    """Into how many equal leaves the places of a weight's gradient are cut: the fewest of at most LEAF_PLACES; 1 if too many."""
    fewest = -(-places // LEAF_PLACES)
    return next((n for n in range(fewest, 2 * fewest + 1) if places % n == 0), 1)


def _conv(n: Node, users: Users) -> Node | None:
    x, w = n.inputs
    geometry, out_dtype = n.attrs
    c, k = x.shape[4], w.shape[0]
    if _is_pointwise(geometry):
        rows = reshaped(x, (1, size(x.shape[:4]), c))
        columns = node(PERMUTE, (reshaped(w, (1, k, c)),), ((0, 2, 1),))
        return reshaped(node(DOT, (rows, columns), (out_dtype,)), n.shape)
    g = geometry.groups
    x, w, geometry = _even(x, w, geometry)
    by_tap = node(PERMUTE, (reshaped(w, (g, k // g, *w.shape[1:])),), ((0, 3, 4, 5, 2, 1),))
    b = reshaped(by_tap, (g, size(by_tap.shape[1:5]), k // g))
    y = node(IMAGE_DOT, (x, b), (geometry, out_dtype))
    return reshaped(y if g == 1 else node(PERMUTE, (y,), ((1, 0, 2),)), n.shape)


def _even(x: Node, w: Node, geometry: Geometry) -> tuple[Node, Node, Geometry]:
    """Elements side by side in an even number, where bfloat16 pairs are multiplied at once: with a channel of zeros, or a tap of
    zeros at the end of each row of taps."""
    each, taps = w.shape[1], geometry.kernel[2]
    if x.dtype is not bfloat16 or each % 2 == 0:
        return x, w, geometry
    if geometry.dilations[2] == 1 and taps % 2 == 0:
        return x, w, geometry
    if geometry.dilations[2] == 1 and each <= taps:
        low, high = geometry.padding[2]
        longer = geometry._replace(kernel=(*geometry.kernel[:2], taps + 1), padding=(*geometry.padding[:2], (low, high + 1)))
        return x, _padded(w, 4), longer
    g = geometry.groups
    wide = _padded(reshaped(x, (*x.shape[:4], g, each)), 5)
    return reshaped(wide, (*x.shape[:4], g * (each + 1))), _padded(w, 1), geometry


def _padded(x: Node, axis: int) -> Node:
    widths = tuple((0, int(a == axis)) for a in range(len(x.shape)))
    return node(PAD, (x,), (widths, bytes(x.dtype.size)))


def _conv_weight(n: Node, users: Users) -> Node | None:
    x, y = n.inputs
    geometry, out_dtype = n.attrs
    g, k, c = geometry.groups, y.shape[4], x.shape[4]
    places = size(y.shape[:4])
    leaves = leaves_of(places)
    each = places // leaves
    by_group = reshaped(y, (leaves, each, g, k // g))
    if g > 1:
        by_group = node(PERMUTE, (by_group,), ((2, 0, 1, 3),))
    left = node(PERMUTE, (reshaped(by_group, (g * leaves, each, k // g)),), ((0, 2, 1),))
    if _is_pointwise(geometry):
        sums = node(DOT, (left, reshaped(x, (leaves, each, c))), (out_dtype,))
    else:
        sums = node(IMAGE_SUMS, (left, x), (geometry, leaves, out_dtype))
    whole = sum(Value(reshaped(sums, (g, leaves, *sums.shape[1:]))), axis=1).node
    taps_first = reshaped(whole, (k, *geometry.kernel, c // g))
    return reshaped(node(PERMUTE, (taps_first,), ((0, 4, 1, 2, 3),)), n.shape)


def _points_first(n: Node, users: Users) -> Node | None:
    """With a kernel of one tap, the places that are seen are a slice of the image."""
    geometry: Geometry = n.attr("geometry")
    strides = geometry.strides
    if geometry != Geometry(_ONES, strides, ((0, 0),) * 3, geometry.dilations, 1) or strides == _ONES:
        return None
    x, other = n.inputs
    stops = tuple((p - 1) * s + 1 for p, s in zip(geometry.windows(x.shape[1:4]), strides))
    seen = node(SLICE, (x,), ((0,) * 5, (x.shape[0], *stops, x.shape[4]), (1, *strides, 1)))
    return node(n.op, (seen, other), (geometry._replace(strides=_ONES), n.dtype))


def _is_depthwise(geometry: Geometry, channels: int, made: int) -> bool:
    return geometry.groups == channels == made > 1


def _depthwise(n: Node, users: Users) -> Node | None:
    x, w = n.inputs
    geometry: Geometry = n.attr("geometry")
    if not _is_depthwise(geometry, x.shape[4], w.shape[0]) or _ONES not in (geometry.spread, geometry.strides):
        return None
    by_tap = node(PERMUTE, (reshaped(w, (w.shape[0], size(w.shape[1:]))),), ((1, 0),))
    return node(DEPTHWISE, (x, by_tap), n.attrs)


def _depthwise_sums(n: Node, users: Users) -> Node | None:
    x, y = n.inputs
    geometry: Geometry = n.attr("geometry")
    if not _is_depthwise(geometry, x.shape[4], y.shape[4]) or geometry.spread != _ONES:
        return None
    sums = node(DEPTHWISE_SUMS, (x, y), n.attrs)
    total = sum(Value(sums), axis=0).node
    return reshaped(node(PERMUTE, (total,), ((1, 0),)), n.shape)


RULES: tuple[Rule, ...] = (
    Rule("a convolution with one tap sees a slice of the image", ("conv", "conv_weight"), _points_first),
    Rule("a convolution of each channel alone", ("conv",), _depthwise),
    Rule("the gradient of its weight", ("conv_weight",), _depthwise_sums),
    Rule("a convolution of a spread image is several of the image", ("conv",), _spread_out),
    Rule("a spread image is written out where its weight's gradient is asked for", ("conv_weight",), _spread_first),
    Rule("a convolution that makes few channels makes several places at once", ("conv",), _few_channels),
    Rule("a convolution is a product", ("conv",), _conv),
    Rule("the gradient of its weight is one too", ("conv_weight",), _conv_weight),
)
