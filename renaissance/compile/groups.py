"""Groups: the nodes that one item will compute together, and the index space they share."""

from __future__ import annotations

from dataclasses import dataclass, field

from renaissance.errors import PlanError
from renaissance.ir.indexmap import Affine, Extents, IndexMap, NeedsSplit, NotAffine
from renaissance.ir.node import Node
from renaissance.ir.shape import row_strides, size

IMAGE_INPUTS = {"image_dot": 0, "image_sums": 1}  # which input is an image


ALONE = ("scatter", "winograd", "host")  # kinds of op that nothing is computed with, written to a buffer of their own


@dataclass(eq=False)
class Group:
    """Nodes computed by one item.

    kind     'map', 'row', 'column', 'contraction', or one of ALONE
    sizes    map (N,); row (outer, row length); column (outer, chain length, kept); contraction (batch, m, n); else ()
    members  in an order where inputs come first
    kept     row and column: members with one value per reduced row; the others have one per element
    """

    kind: str
    sizes: tuple[int, ...]
    members: list[Node]
    kept: set[Node] = field(default_factory=set)


def group_of(node: Node) -> Group:
    """The group of one node alone."""
    kind = node.op.kind
    if kind == "reduce":
        shape = node.inputs[0].shape
        axes = node.attr("axes") if "axes" in node.op.attrs else (node.attr("axis") % len(shape),)
        first, last = axes[0], axes[-1] + 1
        if tuple(axes) != tuple(range(first, last)):
            raise PlanError(f"{node!r}: reduced axes must be neighbours, got {axes} of shape {shape}")
        outer, length, kept = size(shape[:first]), size(shape[first:last]), size(shape[last:])
        if last == len(shape):
            return Group("row", (outer, length), [node], {node})
        return Group("column", (outer, length, kept), [node], {node})
    if kind == "contraction":  # its last axis along the columns, those before it as rows of one product unless there are three
        shape = node.shape if len(node.shape) == 3 else (1, size(node.shape[:-1]), node.shape[-1])
        return Group("contraction", shape, [node])
    if kind in ALONE:
        return Group(kind, (), [node])
    return Group("map", (size(node.shape),), [node])


@dataclass(frozen=True)
class Space:
    """The index space of an item, and the positions its points have in the values it computes.

    full   flat index, in a value with one element per point
    kept   flat index, in a value with one element per reduced row (stride 0 along the row); None where nothing is reduced
    fixed  the last dimensions that must stay whole
    """

    extents: Extents
    full: Affine
    kept: Affine | None = None
    fixed: int = 0

    @staticmethod
    def of(group: Group) -> Space:
        """The coarsest space of a group."""
        sizes = group.sizes
        full = Affine(row_strides(sizes))
        if group.kind == "row":
            return Space(sizes, full, Affine((1, 0)), fixed=1)
        if group.kind == "column":
            return Space(sizes, full, Affine((sizes[2], 0, 1)), fixed=2)
        return Space(sizes, full, fixed=3 if group.kind == "contraction" else 0)

    def map(self, kept: bool = False) -> IndexMap:
        return IndexMap(self.kept if kept and self.kept is not None else self.full)

    def split(self, need: NeedsSplit) -> Space:
        """The space with one dimension in two, as a map asked for.

        raises  NotAffine when the dimension must stay whole
        """
        d, rank = need.dim, len(self.extents)
        if d == rank - 1 and self.fixed == 2:  # the kept dimension of a column space: its outer part moves before the chain
            return self._divided(d, need.inner, to=rank - 2)
        if d >= rank - self.fixed:
            raise NotAffine(need.node)
        return self._divided(d, need.inner, to=d)

    def _divided(self, d: int, inner: int, to: int) -> Space:
        def strides(a: Affine) -> Affine:
            return Affine(_moved(a.strides[d] * inner, a.strides, d, a.strides[d], to))

        extents = _moved(self.extents[d] // inner, self.extents, d, inner, to)
        return Space(extents, strides(self.full), None if self.kept is None else strides(self.kept), self.fixed)


def _moved(outer: int, values: tuple[int, ...], d: int, inner: int, to: int) -> tuple[int, ...]:
    """`values` with entry d replaced by `inner`, and `outer` put in before entry `to`."""
    replaced = (*values[:d], inner, *values[d + 1:])
    return (*replaced[:to], outer, *replaced[to:])
