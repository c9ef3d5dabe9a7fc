"""Index maps: where in a node's value a point of an index space looks. Movement ops become arithmetic on these maps.

A value has a *flat* index (row-major position in its logical shape). A map is an affine function from the points of an index
space (a box, given by its extents) to that flat index. Reshape leaves it as it is; the other movements need one affine function
per axis, which `unflatten` finds where it exists. Where it does not, it says which dimension of the space to split, or gives up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from renaissance.ir.node import Node, Shape
from renaissance.ir.shape import row_strides, size

Extents = tuple[int, ...]


class NeedsSplit(Exception):
    """Dimension `dim` of the space must become two, the inner one of extent `inner`, for the map into `node` to be affine."""

    def __init__(self, dim: int, inner: int, node: Node):
        super().__init__(dim, inner, node)
        self.dim = dim
        self.inner = inner
        self.node = node


class NotAffine(Exception):
    """No split of the space makes `node` reachable by an affine map: it must lie dense in memory."""

    def __init__(self, node: Node):
        super().__init__(node)
        self.node = node


class Affine(NamedTuple):
    """offset + sum(strides[d] * index[d]) over the dimensions of a space."""

    strides: tuple[int, ...]
    offset: int = 0

    def shifted(self, by: int) -> Affine:
        return Affine(self.strides, self.offset + by)

    def scaled(self, factor: int) -> Affine:
        return Affine(tuple(s * factor for s in self.strides), self.offset * factor)

    def bounds(self, extents: Extents) -> tuple[int, int]:
        """Smallest and largest value over the (non-empty) space."""
        low = high = self.offset
        for s, e in zip(self.strides, extents):
            if s < 0:
                low += s * (e - 1)
            else:
                high += s * (e - 1)
        return low, high


class Guard(NamedTuple):
    """A condition on points: 0 <= position < size. Where it fails the value is padding and memory must not be read."""

    position: Affine
    size: int


class IndexMap(NamedTuple):
    """From points to a value's flat index, with the guards met on the way; rows are the per-axis functions where known."""

    flat: Affine
    guards: tuple[Guard, ...] = ()
    rows: tuple[Affine, ...] | None = None


def dense(extents: Extents) -> IndexMap:
    """The map of a space onto a value with as many elements, in row-major order."""
    return IndexMap(Affine(row_strides(extents)))


def flatten(rows: tuple[Affine, ...], shape: Shape, dims: int) -> Affine:
    """The flat index in `shape` of the point that `rows` give along each axis."""
    total, offset = [0] * dims, 0
    for row, stride, n in zip(rows, row_strides(shape), shape):
        if n != 1:
            offset += row.offset * stride
            for d, s in enumerate(row.strides):
                total[d] += s * stride
    return Affine(tuple(total), offset)


def unflatten(flat: Affine, extents: Extents, shape: Shape, node: Node) -> tuple[Affine, ...]:
    """One affine function per axis of `shape` whose flat index is `flat`.

    Strides and offset are written in the mixed radix of the shape, digit by axis; that is right if no carry can happen.
    raises  NeedsSplit where splitting one dimension of the space keeps a carry from happening, NotAffine where nothing does;
            both name `node`, which would be read in row-major order if it lay dense
    """
    sizes = [(j, n) for j, n in enumerate(shape) if n != 1]
    zero = Affine((0,) * len(extents))
    if not sizes:
        return (zero,) * len(shape)
    base = flat.offset + sum(s * (e - 1) for s, e in zip(flat.strides, extents) if s < 0)
    columns: list[list[int]] = [[] for _ in sizes]
    for s, e in zip(flat.strides, extents):
        _digits(abs(s) if e > 1 else 0, sizes, columns)
    offsets: list[list[int]] = [[] for _ in sizes]
    _digits(base, sizes, offsets)
    rows = [zero] * len(shape)
    for (j, n), column, (start,) in reversed(list(zip(sizes, columns, offsets))):
        if start + sum(c * (e - 1) for c, e in zip(column, extents)) >= n or start < 0:
            _ask_split(column, extents, n, node)
            raise NotAffine(node)
        signed = tuple(-c if s < 0 else c for c, s in zip(column, flat.strides))
        rows[j] = Affine(signed, start + sum(c * (e - 1) for c, s, e in zip(column, flat.strides, extents) if s < 0))
    return tuple(rows)


def _digits(number: int, sizes: list[tuple[int, int]], columns: list[list[int]]) -> None:
    """Append the digits of `number` in the mixed radix `sizes`; what is too large stays in the first digit."""
    for k in range(len(sizes) - 1, 0, -1):
        number, digit = divmod(number, sizes[k][1])
        columns[k].append(digit)
    columns[0].append(number)


def _ask_split(column: list[int], extents: Extents, n: int, node: Node) -> None:
    """Raise NeedsSplit for the longest dimension whose steps along an axis of size n divide it evenly."""
    best, inner = -1, 0
    for d, (c, e) in enumerate(zip(column, extents)):
        if c and n % c == 0 and 1 < n // c < e and e % (n // c) == 0 and (best < 0 or e > extents[best]):
            best, inner = d, n // c
    if best >= 0:
        raise NeedsSplit(best, inner, node)


# ---- movements: the map into a movement's input, given the map into the movement ----------------------------------------
#
# Neighbouring axes that a movement treats as one are merged first, so that the space is split no finer than need be.


def _reshape(node: Node, at: IndexMap, extents: Extents) -> IndexMap:
    return IndexMap(at.flat, at.guards)


def _permute(node: Node, at: IndexMap, extents: Extents) -> IndexMap:
    axes = node.attr("axes")
    runs = _runs(node, at, lambda k: axes[k] == axes[k - 1] + 1)
    rows = _rows(node, at, extents, runs)
    order = sorted(range(len(runs)), key=lambda r: axes[runs[r][0]])
    return _mapped(node, at, [rows[r] for r in order], [size(_along(node.shape, runs[r])) for r in order])


def _expand(node: Node, at: IndexMap, extents: Extents) -> IndexMap:
    source = node.inputs[0].shape
    stretched: list[bool] = []
    for m, n in zip(source, node.shape):  # an axis of one element goes with the one before it
        stretched.append(stretched[-1] if n == 1 and stretched else m == 1 and n != 1)
    zero = Affine((0,) * len(extents))
    if size(source) == 1:
        return IndexMap(zero, at.guards)
    runs = _runs(node, at, lambda k: stretched[k] == stretched[k - 1])
    shape = [size(_along(source, run)) for run in runs]
    return _mapped(node, at, [zero if n == 1 else row for row, n in zip(_rows(node, at, extents, runs), shape)], shape)


def _slice(node: Node, at: IndexMap, extents: Extents) -> IndexMap:
    starts, steps, source = node.attr("starts"), node.attr("steps"), node.inputs[0].shape
    whole = [(start, step, n) == (0, 1, m) for start, step, n, m in zip(starts, steps, node.shape, source)]
    runs = _runs(node, at, lambda k: whole[k] and steps[k - 1] == 1)
    rows, shape = [], []
    for row, run in zip(_rows(node, at, extents, runs), runs):
        inner = size(_along(source, run[1:]))
        rows.append(row.scaled(steps[run[0]]).shifted(starts[run[0]] * inner))
        shape.append(source[run[0]] * inner)
    return _mapped(node, at, rows, shape)


def _pad(node: Node, at: IndexMap, extents: Extents) -> IndexMap:
    """Positions in the padding have no flat index, so from here on the map keeps its functions by axis."""
    rows, guards = list(_rows(node, at, extents, _runs(node, at, lambda k: False))), list(at.guards)
    for axis, ((low, _), n) in enumerate(zip(node.attr("widths"), node.inputs[0].shape)):
        rows[axis] = rows[axis].shifted(-low)
        least, most = rows[axis].bounds(extents)
        if least < 0 or most >= n:
            guards.append(Guard(rows[axis], n))
    return IndexMap(flatten(tuple(rows), node.inputs[0].shape, len(extents)), tuple(guards), tuple(rows))


def _shear(node: Node, at: IndexMap, extents: Extents) -> IndexMap:
    """Other axes may stay merged, unless some positions are outside: those have no flat index."""
    axis, along = node.attr("axis"), node.attr("along")
    n = node.inputs[0].shape[axis]
    for runs in (_runs(node, at, lambda k: not {k - 1, k} & {axis, along}), _runs(node, at, lambda k: False)):
        rows, shape = list(_rows(node, at, extents, runs)), [size(_along(node.shape, run)) for run in runs]
        moved, by = runs.index((axis,)), rows[runs.index((along,))].scaled(node.attr("step"))
        strides = tuple(a + b for a, b in zip(rows[moved].strides, by.strides))
        rows[moved], shape[moved] = Affine(strides, rows[moved].offset + by.offset + node.attr("start")), n
        least, most = rows[moved].bounds(extents)
        if least >= 0 and most < n:
            return _mapped(node, at, rows, shape)
    flat = flatten(tuple(rows), tuple(shape), len(extents))
    return IndexMap(flat, (*at.guards, Guard(rows[moved], n)), tuple(rows))


def _runs(node: Node, at: IndexMap, joins: Callable[[int], bool]) -> list[tuple[int, ...]]:
    """Axes in runs: axis k is in the run of axis k - 1 where `joins(k)`; each alone where the map has a function for each."""
    runs: list[tuple[int, ...]] = []
    for k in range(len(node.shape)):
        if runs and at.rows is None and joins(k):
            runs[-1] = (*runs[-1], k)
        else:
            runs.append((k,))
    return runs


def _along(shape: Shape, run: tuple[int, ...]) -> Shape:
    return tuple(shape[k] for k in run)


def _rows(node: Node, at: IndexMap, extents: Extents, runs: list[tuple[int, ...]]) -> tuple[Affine, ...]:
    """One function per run of axes of `node`.

    raises  NeedsSplit; NotAffine(node)
    """
    if at.rows is not None:
        return at.rows
    return unflatten(at.flat, extents, tuple(size(_along(node.shape, run)) for run in runs), node)


def _mapped(node: Node, at: IndexMap, rows: list[Affine], shape: list[int]) -> IndexMap:
    """The map into the input, given its functions along runs of these sizes."""
    flat = flatten(tuple(rows), tuple(shape), len(at.flat.strides))
    return IndexMap(flat, at.guards, tuple(rows) if at.rows is not None else None)


_MOVEMENTS: dict[str, Callable[[Node, IndexMap, Extents], IndexMap]] = {
    "reshape": _reshape, "permute": _permute, "expand": _expand, "slice": _slice, "pad": _pad, "shear": _shear}


def is_view(node: Node) -> bool:
    """Whether the node only says where elements are found (concat places them, so it is none)."""
    return node.op.name in _MOVEMENTS


def through(node: Node, at: IndexMap, extents: Extents) -> IndexMap:
    """The map into a view's input, given the map into the view.

    raises  NeedsSplit (make the space finer and begin again); NotAffine naming the node that must lie dense
    """
    return _MOVEMENTS[node.op.name](node, at, extents)
