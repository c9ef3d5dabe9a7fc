"""choice: which engine does a convolution that several can do.

The one of least cost by the model, unless the Target has an override. Either way a pure function of the node and the Target: what
of a node counts is a Convolution, and its name is what overrides know it by.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from renaissance.compile.winograd import WORTH, is_square, winograd_tile
from renaissance.ir.dtype import bfloat16, dtype, float32
from renaissance.ir.node import Node, Shape, node
from renaissance.ir.target import Target
from renaissance.ops.convolution import CONV, CONV_WEIGHT, Geometry
from renaissance.ops.winograd import Padding, places_of

DIRECT = "direct"
TILES = {DIRECT: None, "winograd2": 2, "winograd4": 4}  # the engines, and the side of the tiles that each works by
_ONES = (1, 1, 1)
_CLEAR = 0.97  # of the time of the model's choice: what another engine must stay below to take its place
_NAME = re.compile(r"(conv|conv_weight) (float32|bfloat16) (\d+)x(\d+)x(\d+)x(\d+) to (\d+) padding (\d+) (\d+) (\d+) (\d+)")


class Convolution(NamedTuple):
    """A 3x3 convolution of flat images with stride 1, or the gradient of its weight.

    op       'conv' or 'conv_weight'
    dtype    of the image: 'float32' or 'bfloat16'
    image    (N, H, W, C)
    made     channels of the result, K
    padding  ((top, bottom), (left, right))
    """

    op: str
    dtype: str
    image: Shape
    made: int
    padding: Padding

    @property
    def name(self) -> str:
        """All of it as text: 'conv float32 16x56x56x64 to 64 padding 1 1 1 1'."""
        sides = " ".join(str(n) for pair in self.padding for n in pair)
        return f"{self.op} {self.dtype} {'x'.join(map(str, self.image))} to {self.made} padding {sides}"

    @property
    def x(self) -> Shape:
        """The shape (N, 1, H, W, C) of the image."""
        return (self.image[0], 1, *self.image[1:])

    @property
    def y(self) -> Shape:
        """The shape (N, 1, P, Q, K) of what the kernels make of it."""
        return (self.image[0], 1, *places_of(self.x, self.padding), self.made)

    @property
    def w(self) -> Shape:
        """The shape (K, C, 1, 3, 3) of the kernels."""
        return (self.made, self.image[3], 1, 3, 3)

    @property
    def geometry(self) -> Geometry:
        """How windows lie on the image."""
        return Geometry((1, 3, 3), _ONES, ((0, 0), *self.padding), _ONES, 1)

    def of(self, x: Node, other: Node) -> Node:
        """The node, of an image and its kernels; if it is the gradient of those, of an image and that of the result."""
        return node(CONV if self.op == CONV.name else CONV_WEIGHT, (x, other), (self.geometry, float32))


def convolution_of(n: Node) -> Convolution | None:
    """What a `conv` or `conv_weight` node is, if several engines can do it."""
    x, geometry = n.inputs[0], n.attr("geometry")
    if x.dtype not in (float32, bfloat16) or not is_square(x.shape, geometry):
        return None
    made = n.inputs[1].shape[0] if n.op is CONV else n.shape[0]
    return Convolution(n.op.name, x.dtype.name, (x.shape[0], *x.shape[2:]), made, geometry.padding[1:])


def convolution_named(name: str) -> Convolution | None:
    """The convolution of a name, if there is such a one."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    n, h, w, c, made, top, bottom, left, right = map(int, match.groups()[2:])
    found = Convolution(match[1], match[2], (n, h, w, c), made, ((top, bottom), (left, right)))
    return found if min(*found.image, *found.y) >= 1 and found.name == name else None


def engines_on(target: Target) -> tuple[str, ...]:
    """The engines that can do a Convolution on a Target."""
    return tuple(TILES) if target.winograd else (DIRECT,)


def by_model(c: Convolution, target: Target) -> str:
    """The engine of least cost."""
    tile = winograd_tile(c.x, c.w, c.geometry, target, dtype(c.dtype), of_weight=c.op == CONV_WEIGHT.name)
    return next(engine for engine, side in TILES.items() if side == tile)


def engine_of(c: Convolution, target: Target) -> str:
    """The engine that does a convolution: that of the Target's override, else the one of least cost."""
    return dict(target.overrides).get(c.name) or by_model(c, target)


def most_of(chosen: str) -> float:
    """What part of the time of the model's choice another engine may take at most to be used instead.

    In place of direct convolutions that is what the model asks for as well: errors are larger by tiles.
    """
    return WORTH if chosen == DIRECT else _CLEAR
