"""Promises: live tensors that have not been computed, and which of them must be before bytes are overwritten."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

from renaissance import engine
from renaissance.errors import GradientError, NonFiniteError, RangeError, TraceError
from renaissance.ir.node import Node, Op, forget_history, topological
from renaissance.linear import Linear
from renaissance.ops.value import LEAF, VARIABLE
from renaissance.region import PLACEHOLDER, STALE

CHECK_ERRORS = (NonFiniteError, RangeError)  # what a failed check in a program raises
LONG = 100  # promises stacked higher are computed along with the next run, so that a running total stays short
_LIMIT = 10_000  # and those stacked higher than this at once

handles: dict[int, weakref.ref[Any]] = {}  # by id: tensors that may be promises
companions: dict[int, weakref.ref[Any]] = {}  # by id: promises that are to be computed along with the next run
_some_long = False


def promised(t: Any, n: Node) -> None:
    """Note that a tensor stands for a node without data."""
    global _some_long
    handles[id(t)] = weakref.ref(t)
    if n.depth > LONG:
        _some_long = True
        if n.depth > _LIMIT and not n.constant:
            engine.compute([n])


def some_long() -> bool:
    """Whether promises may be stacked higher than LONG."""
    return _some_long


def _used_up(*_: Any) -> NoReturn:
    raise GradientError("backward: the history of this tensor was used up: backward() went through it, and then an optimizer "
                        "step or an in-place write changed what it was computed from; run the forward pass again")


# What a computed node becomes when its history is given up: a gradient that reaches it must not get lost.
SPENT = Op("spent", "leaf", _used_up, vjp=_used_up)


def give_up_histories(computed: Sequence[Node], changed: Collection[Node]) -> None:
    """Let go of what promises were computed from where nobody can want a gradient; else a loss that is kept would keep its batch.

    That is where backward() went through all of it and its leaves change, and where it goes back to such a history and would
    fail. A history that no backward() has seen stays: its gradient may need nothing of what changes.

    computed  promises that have been kept
    changed   among others those that depend on what changes
    """
    for n in computed:
        if n.needs_grad and _is_useless(n, n in changed):
            forget_history(n)
            n.op, n.needs_grad = SPENT, True


def _is_useless(n: Node, changed: bool) -> bool:
    history = topological([n], lambda v: not v.needs_grad or v.op is SPENT or (changed and v.spent))
    return any(v.op is SPENT for v in history) or (changed and not any(v.op is VARIABLE for v in history))


def bare(n: Node) -> Node:
    """The node behind marks that compute nothing."""
    while n.data is None and n.op.kind == "identity":
        n = n.inputs[0]
    return n


def sweep(watched: Collection[Node]) -> None:
    """Compute the promises that depend on leaves about to be overwritten, and those that are stacked high."""
    candidates, linear = written_down(lambda found: Linear(found, (), watched))
    give_up_histories(kept_promises(chosen(candidates, linear)), linear.reads)


def accompany(t: Any) -> None:
    """Have a promise computed along with whatever is looked at next.

    For state that every call changes, such as running statistics: as promises upon promises they would keep every batch.
    """
    companions[id(t)] = weakref.ref(t)


def along() -> list[Node]:
    """The promises that are to be computed along with the run that begins now."""
    found = []
    for key in list(companions):
        ref = companions.pop(key, None)
        t = None if ref is None else ref()
        n = None if t is None else bare(t._node)
        if n is not None and n.data is None and not n.constant and _complete(n):
            found.append(n)
    return found


def written_down(write: Callable[[list[Node]], Linear]) -> tuple[list[Node], Linear]:
    """All promises that can be kept, and what `write` makes of them."""
    found = _promises()
    try:
        return found, write(found)
    except (GradientError, TraceError):  # some cannot be kept: they leaked from a trace, or read what is overwritten already
        found = [n for n in found if _complete(n)]
        return found, write(found)


def _promises() -> list[Node]:
    global _some_long
    _some_long = False
    found: dict[Node, None] = {}
    for key in list(handles):  # keys only: making anything else may run finalizers, which change the table
        ref = handles.get(key)
        t = None if ref is None else ref()
        if t is None or bare(t._node).data is not None:
            handles.pop(key, None)
        else:
            found[t._node] = None
    return list(found)


def chosen(candidates: Sequence[Node], linear: Linear) -> list[Node]:
    """Those that depend on a watched leaf, or are stacked high."""
    return [n for n in candidates if n in linear.reads or (n.depth > LONG and not n.constant)]


def kept_promises(promises: Sequence[Node]) -> list[Node]:
    """Compute promises. One whose own check fails is left out: whoever reads it is told, nobody else."""
    try:
        engine.compute(promises)
        return list(promises)
    except CHECK_ERRORS:
        return [n for n in promises if _can_be_computed(n)]


def _can_be_computed(promise: Node) -> bool:
    try:
        engine.compute([promise])
    except CHECK_ERRORS:
        return False
    return True


def _complete(root: Node) -> bool:
    """Whether everything a node depends on has data: not what leaked from a trace, nor what reads overwritten bytes."""
    return all(n.data is not STALE and n.data is not PLACEHOLDER and (n.data is not None or n.op is not LEAF)
               for n in topological([root], lambda n: n.data is not None))
