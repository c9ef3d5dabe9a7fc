"""Links: from each computed node to the computed nodes it reads, through the views in between."""

from __future__ import annotations

from typing import NamedTuple

from renaissance.compile.groups import Space
from renaissance.ir.indexmap import Affine, NeedsSplit, NotAffine, is_view, through
from renaissance.ir.node import Node
from renaissance.ir.shape import size

# What one element costs, against about 1 for an addition; the rest of the vocabulary counts 1.
_COSTS = {"exp": 16, "expm1": 20, "log": 20, "log1p": 24, "sin": 24, "cos": 24, "tanh": 24, "erf": 24, "atan": 24, "pow": 40,
          "floordiv": 16, "mod": 16, "div": 3, "sqrt": 3, "random_bits": 40,
          "random_at": 40, "take": 8}
CHEAP = 4


class Link(NamedTuple):
    """One way a node reads another: through the views of `path`, the first being the nearest to the reader."""

    base: Node
    path: tuple[Node, ...]

    @property
    def relabels(self) -> bool:
        """Whether element i of what the reader sees is element i of the base."""
        return all(v.op.name == "reshape" for v in self.path)

    @property
    def stretches(self) -> bool:
        """Whether some element of the base is seen more than once."""
        return any(v.op.name == "expand" and size(v.shape) > size(v.inputs[0].shape) for v in self.path)


def cost_of(node: Node) -> int:
    """About how many additions one element of a node costs."""
    return _COSTS.get(node.op.name, 1)


def links_of(node: Node, solid: set[Node]) -> list[Link]:
    """What a computed node reads, one link for each input that scalar code follows; a solid view reads what lies behind it.

    solid  views that are stored, so that links end there
    """
    if is_view(node):
        return [_followed(node.inputs[0], solid, node)]
    return [_followed(i, solid) for i in node.inputs]


def _followed(node: Node, solid: set[Node], *path: Node) -> Link:
    while is_view(node) and node not in solid:
        path = (*path, node)
        node = node.inputs[0]
    return Link(node, path)


def seen_through(link: Link, space: Space) -> tuple[Affine, Space] | None:
    """The flat index in the base at each point of a space whose full value the reader has, and the space made fine enough.

    Returns None where there is none, or where padding gets in between.
    """
    while True:
        at = space.map()
        try:
            for view in link.path:
                at = through(view, at, space.extents)
        except NeedsSplit as need:
            try:
                space = space.split(need)
            except NotAffine:
                return None
            continue
        except NotAffine:
            return None
        return None if at.guards else (at.flat, space)


def is_row_constant(link: Link, outer: int, length: int) -> bool:
    """Whether the base has one value per row of an (outer, length) space and is seen with that value all along the row."""
    if size(link.base.shape) != outer:
        return False
    seen = seen_through(link, Space((outer, length), Affine((length, 1)), Affine((1, 0)), fixed=1))
    return seen is not None and _equal(seen[0], seen[1])


def _equal(flat: Affine, space: Space) -> bool:
    kept = space.kept
    assert kept is not None
    return flat.offset == kept.offset and all(s == k or e == 1 for s, k, e in zip(flat.strides, kept.strides, space.extents))

