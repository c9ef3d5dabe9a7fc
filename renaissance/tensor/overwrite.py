"""Overwriting: giving tensors new elements, in place where nobody else can see the bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from renaissance import engine
from renaissance.ir.node import Node
from renaissance.linear import Linear
from renaissance.ops.value import LEAF, method
from renaissance.region import STALE, Region, copied, leaf
from renaissance.tensor.handle import Tensor, detached, region_of, sole_holder
from renaissance.tensor.make import as_tensor, join_flat, tensor
from renaissance.tensor.promises import CHECK_ERRORS, bare, chosen, give_up_histories, kept_promises, written_down
from renaissance.tensor.tracing import tracing


class Part:
    """Elements of a 1-d tensor from `start` on, as a place to overwrite."""

    def __init__(self, base: Tensor, start: int):
        self._place = (base, start)

    def place(self) -> tuple[Tensor, int]:
        return self._place


def overwrite(pairs: list[tuple[Tensor | Part, Tensor]], then: Callable[[], None] | None = None) -> None:
    """Give each tensor the value beside it, in place where nobody else can see the bytes; all reads see the old values.

    Promises that depend on the old values are kept in the same run. A tensor that is a part of another (a parameter of a flat
    run) has its part replaced. The list is emptied: values that nobody else holds are no promises.

    then  what else must be done once the new elements are there: it is done also when Ctrl-C comes after that
    """
    whole = [(t, detached(value.node)) for t, value in _wholes(pairs)]
    pairs.clear()
    if tracing.recorder is not None:
        for t, n in whole:
            t.refill(n)
        if then is not None:
            tracing.recorder.effect(then)
        return
    with engine.lock:
        leaves = [own_leaf(t) for t, _ in whole]
        in_place = [(old, n) for old, (_, n) in zip(leaves, whole) if not old.data.storage.exported]
        fresh = {old: n for old, (_, n) in zip(leaves, whole) if old.data.storage.exported}

        def settle(computed: dict[Node, Region]) -> None:
            if then is not None:
                then()
            give_up_histories(others, linear.reads)
            for old, (t, _) in zip(leaves, whole):
                if old in fresh:
                    t.refill(leaf(old, copied(computed[fresh[old]], old)))
                else:
                    renew(t, old)

        candidates, linear = written_down(lambda found: Linear([*found, *fresh.values()], in_place, set(leaves)))
        others = chosen(candidates, linear)
        try:
            engine.compute([*others, *fresh.values()], in_place, linear if len(others) == len(candidates) else None, settle)
        except CHECK_ERRORS:
            others = kept_promises(others)
            engine.compute(list(fresh.values()), in_place, settle=settle)


def _wholes(pairs: Sequence[tuple[Tensor | Part, Tensor]]) -> list[tuple[Tensor, Tensor]]:
    """The same overwriting in terms of tensors that are no parts of others; of several values for one tensor the last."""
    result: dict[int, tuple[Tensor, Tensor]] = {}
    parts: dict[int, tuple[Tensor, list[tuple[int, Tensor]]]] = {}
    for t, value in pairs:
        base, start = t.place()
        if base is t or value.shape == base.shape:
            result[id(base)] = (base, value)
        else:
            parts.setdefault(id(base), (base, []))[1].append((start, value))
    for base, pieces in parts.values():
        joined, at = [], 0
        for start, value in sorted(pieces, key=lambda piece: piece[0]):
            if start > at:
                joined.append(base[at:start])
            joined.append(value)
            at = start + value.size
        if at < base.size:
            joined.append(base[at:])
        result[id(base)] = (base, join_flat(joined))
    return list(result.values())


def renew(t: Tensor, old: Node) -> None:
    """After the bytes of leaf `old` were overwritten: the tensor is a new leaf on them, the old one is stale."""
    old.data.storage.version += 1
    t.refill(leaf(old, old.data))
    old.data = STALE  # last: an interrupt in between must not leave the tensor without bytes


def own_leaf(t: Tensor) -> Node:
    """The leaf a tensor stands for, whose bytes nobody else looks at."""
    region = region_of(t)
    n = bare(t._node)
    if n.op is not LEAF or not sole_holder(n, t):
        n = leaf(n, copied(region, n))
        t.refill(n)
    return n


@method(of=Tensor)
def copy_(self: Tensor, source: Any) -> Tensor:
    """Overwrite the elements with those of another tensor.

    source   number, tensor or array that broadcasts to the shape; converted to the dtype
    returns  the tensor itself
    raises   ShapeError when it does not broadcast
    source   PyTorch, copy_
    """
    given = tensor(source, self.dtype) if isinstance(source, (bool, int, float)) else as_tensor(source)
    overwrite([(self, given.detach().astype(self.dtype).broadcast_to(self.shape))])
    return self
