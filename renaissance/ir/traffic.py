"""Traffic: which buffers an item reads and writes, where, and in which of its sweeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from renaissance.ir.plan import (
    Access,
    Contraction,
    Depthwise,
    Host,
    Instr,
    Item,
    Nest,
    Scatter,
    Store,
    Winograd,
    WinogradSums,
    WinogradWeightGradient,
    WinogradWeights,
)


class Body(NamedTuple):
    """One body of an item: its code and stores, the number of its sweep, and the space it runs over."""

    code: tuple[Instr, ...]
    stores: tuple[Store, ...]
    sweep: int
    extents: tuple[int, ...]


class Touch(NamedTuple):
    """One way an item touches a buffer.

    access  None where the elements are not known before the run: all of the buffer counts
    sweep   number of the stage; a contraction's operands are read in sweep 0, its epilogue is sweep 1
    extents of the space the access is over
    """

    buffer: int
    access: Access | None
    sweep: int
    extents: tuple[int, ...]

    def span(self) -> tuple[float, float]:
        """First and last element touched."""
        if self.access is None:
            return 0, float("inf")
        low = high = self.access.offset
        for s, e in zip(self.access.strides, self.extents):
            low, high = (low + s * (e - 1), high) if s < 0 else (low, high + s * (e - 1))
        return low, high

    def meets(self, other: Touch) -> bool:
        """Whether both may touch one element (never wrongly False)."""
        if self.buffer != other.buffer:
            return False
        (a, b), (c, d) = self.span(), other.span()
        return a <= d and c <= b


def reads(item: Item) -> list[Touch]:
    """All reads of an item."""
    spec = item.spec
    if isinstance(spec, Host):
        return [Touch(item.operands[i].buffer, None, 0, ()) for i in spec.inputs]
    found = [t for b in bodies(item) for t in _loads(item, b)]
    if isinstance(spec, (Winograd, WinogradWeightGradient)):
        whole = spec.u if isinstance(spec, Winograd) else spec.sums
        found.append(Touch(item.operands[whole].buffer, None, 0, ()))
    if isinstance(spec, Scatter) and spec.init is not None:
        found.append(Touch(item.operands[spec.init.operand].buffer, spec.init, 0, (spec.rows, spec.n)))
    return found


def writes(item: Item) -> list[Touch]:
    """All writes of an item."""
    spec = item.spec
    if isinstance(spec, Host):
        return [Touch(item.operands[i].buffer, None, 0, ()) for i in spec.outputs]
    if isinstance(spec, (Scatter, WinogradWeights, WinogradSums, WinogradWeightGradient)):
        return [Touch(item.operands[spec.out].buffer, None, 0, ())]
    return [Touch(item.operands[s.access.operand].buffer, s.access, b.sweep, b.extents) for b in bodies(item) for s in b.stores]


def has_check(item: Item) -> bool:
    """Whether the item can end the run with an error before anything is committed."""
    return any(i.op == "check" for b in bodies(item) for i in b.code)


def bodies(item: Item) -> list[Body]:
    """The bodies of an item; a Python function has none."""
    spec = item.spec
    if isinstance(spec, Nest):
        return [Body(stage.body, stage.stores, sweep, spec.extents) for sweep, stage in enumerate(spec.stages)]
    if isinstance(spec, Contraction):
        return [Body(spec.a, (), 0, spec.a_extents), Body(spec.b, (), 0, spec.b_extents),
                Body(spec.epilogue, spec.stores, 1, (spec.batch, spec.m, spec.n))]
    if isinstance(spec, Depthwise):
        return [Body(spec.image, (), 0, spec.extents), Body(spec.right, (), 0, spec.right_extents),
                Body(spec.epilogue, spec.stores, 1, spec.results)]
    if isinstance(spec, Winograd):
        return [Body(spec.x, (), 0, spec.windows.seen(spec.c)), Body(spec.epilogue, spec.stores, 1, spec.results)]
    if isinstance(spec, WinogradSums):
        return [Body(spec.x, (), 0, spec.windows.seen(spec.c)), Body(spec.y, (), 0, spec.windows.made(spec.k))]
    if isinstance(spec, WinogradWeights):
        return [Body(spec.w, (), 0, (spec.k, spec.c, 3, 3))]
    if isinstance(spec, Scatter):
        return [Body(spec.index, (), 0, (spec.m, spec.n)), Body(spec.value, (), 0, (spec.m, spec.n))]
    return []


def _loads(item: Item, body: Body) -> Iterator[Touch]:
    for i in body.code:
        if i.op == "load":
            assert isinstance(i.attr, Access)
            yield Touch(item.operands[i.attr.operand].buffer, i.attr, body.sweep, body.extents)
        elif i.op == "load_at":
            assert isinstance(i.attr, Access)
            yield Touch(item.operands[i.attr.operand].buffer, None, body.sweep, body.extents)


def may_overwrite(item: Item, source: int, target: int) -> bool:
    """Whether an item may write buffer `target` on the very bytes of buffer `source` that it reads.

    What is read must not be written, or be the element that is written at the same point, read no later: an item loads a point
    before it stores it, and rows do not see each other.
    """
    loads = [t for t in reads(item) if t.buffer == source]
    stores = [t._replace(buffer=source) for t in writes(item) if t.buffer == target]
    # The operands of products are read all over before the first tile is stored.
    product = isinstance(item.spec, (Contraction, Depthwise, Winograd))
    for load in loads:
        for store in stores:
            ordered = load.sweep <= store.sweep and not (product and load.sweep == 0)
            if load.meets(store) and not (ordered and _same_place(load, store)):
                return False
    return True


def _same_place(a: Touch, b: Touch) -> bool:
    """Whether two touches are of the same element at every point."""
    if a.access is None or b.access is None or a.extents != b.extents:
        return False
    strides = zip(a.access.strides, b.access.strides, a.extents)
    return a.access.offset == b.access.offset and all(s == t or e == 1 for s, t, e in strides)
