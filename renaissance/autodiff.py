"""Reverse mode: from a result's cotangent to those of what it depends on, as new nodes. One screen, no state."""

from __future__ import annotations

from collections.abc import Sequence

from renaissance.errors import GradientError
from renaissance.ir.node import Node, topological
from renaissance.ops.elementwise import CAST, OPS, add, astype, equal, lit, where
from renaissance.ops.value import Value


def _behind_a_choice(order: Sequence[Node]) -> set[Node]:
    """Nodes that some `where` may leave unused: there a zero cotangent must stay zero, whatever the local derivative."""
    tainted: set[Node] = set()
    for n in reversed(order):
        if n.op is OPS["where"]:
            tainted.update(n.inputs[1:])
        elif n in tainted:
            tainted.update(n.inputs)
    return tainted


def _linear_in_cotangent(n: Node) -> bool:
    return n.op.kind != "scalar" or n.op.name in ("add", "sub", "neg", "where", "cast", "check")


def vjp(outputs: Sequence[Node], cotangents: Sequence[Node], wrt: Sequence[Node]) -> list[Node | None]:
    """The cotangents of `wrt` when `outputs` have the given ones; None where nothing flows.

    A cotangent has the dtype of its node, but one on its way through a cast is not rounded to the narrow dtype first.
    Contributions are added in reverse order of creation of the nodes they come from.
    """
    targets = set(wrt)
    order = topological(outputs, lambda n: not n.needs_grad or n in targets)
    tainted = _behind_a_choice(order)
    ct: dict[Node, Value] = {}

    def give(n: Node, value: Value) -> None:
        if value.dtype is not n.dtype and n.op is not CAST:
            value = astype(value, n.dtype)
        known = ct.get(n)
        ct[n] = value if known is None else add(known, value)

    for n, c in zip(outputs, cotangents):
        if n.needs_grad or n in targets:
            give(n, Value(c))
    for n in reversed(order):
        if n not in ct or n in targets or not n.needs_grad:
            continue
        if n.op.vjp is None:
            raise GradientError(f"{n.op.name} has no gradient; use detach() or stop_gradient where none should flow")
        value = ct.pop(n)
        guarded = n in tainted and not _linear_in_cotangent(n)
        grads = n.op.vjp(value, Value(n), tuple(Value(i) for i in n.inputs), *n.attrs)
        for i, g in zip(n.inputs, grads):
            if g is not None and (i.needs_grad or i in targets):
                give(i, where(equal(value, lit(0, value)), lit(0, g), g) if guarded else g)
    return [ct[w].node if w in ct else None for w in wrt]
