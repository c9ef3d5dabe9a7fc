"""Reverse mode: from a result's cotangent to those of what it depends on, as new nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from renaissance.errors import GradientError
from renaissance.ir.node import Node, topological, unique
from renaissance.ops.composed import COMPOSED, Template, apart, substituted
from renaissance.ops.elementwise import CAST, OPS, add, astype, equal, lit, where
from renaissance.ops.value import LEAF, VARIABLE, Value, made, seen, variable


def _behind_a_choice(order: Sequence[Node], outputs: Sequence[Node], chosen: bool) -> set[Node]:
    """Nodes that some `where` may leave unused: there a zero cotangent must stay zero, whatever the local derivative."""
    tainted: set[Node] = set(outputs) if chosen else set()
    for n in reversed(order):
        if n.op is OPS["where"]:
            tainted.update(n.inputs[1:])
        elif n in tainted:
            tainted.update(n.inputs)
    return tainted


def _carries_wide(n: Node) -> bool:
    """Whether a cotangent wider than the node goes on as it is: through casts, and through what only moves elements."""
    return n.op is CAST or n.op.kind == "movement" or n.op is VARIABLE


def _needs_guard(n: Node) -> bool:
    """Whether a local derivative of `n` may be infinite where its cotangent is zero, element by element."""
    if n.op is COMPOSED:
        return n.attr("template").pointwise
    return n.op.kind == "scalar" and n.op.name not in ("add", "sub", "neg", "where", "cast", "check")


def _gradient_template(template: Template, index: int, chosen: bool) -> Template:
    """The cotangents of a template's inputs, over (inputs, cotangent of output `index`); made once.

    chosen  whether a `where` may leave parts of the output unused
    """
    found = template.gradients.get((index, chosen))
    if found is None:
        out = template.outputs[index]
        assert out is not None
        bare = [unique(LEAF, n.shape, n.dtype) for n in template.inputs]
        marks = [variable(n) if n.dtype.is_float else n for n in bare]
        again = substituted([out], dict(zip(template.inputs, marks)))
        ct = unique(LEAF, out.shape, out.dtype)
        with apart():
            given = iter(vjp(again, [ct], [m for m in marks if m.needs_grad], chosen=chosen))
        grads = [next(given) if m.needs_grad else None for m in marks]
        plain = iter(substituted([g for g in grads if g is not None], dict(zip(marks, bare))))
        found = template.gradients[index, chosen] = Template((*bare, ct), [None if g is None else next(plain) for g in grads])
    return found


def _composed_vjp(ct: Value, n: Node, *, chosen: bool) -> list[Value | None]:
    """A pointwise op is guarded as a whole, by its caller; inside any other each step is guarded that needs it."""
    template, index = n.attrs
    gradient = _gradient_template(template, index, chosen and not template.pointwise)
    nodes = seen((*n.inputs, ct.node))
    return [None if g is None else made(COMPOSED, nodes, (gradient, i), Value) for i, g in enumerate(gradient.outputs)]


def way_back(outputs: Sequence[Node], stop: Callable[[Node], bool]) -> list[Node]:
    """The nodes gradients go through from `outputs` to where `stop` holds, and those they reach, inputs before users."""
    return topological(outputs, lambda n: not n.needs_grad or stop(n))


def vjp(outputs: Sequence[Node], cotangents: Sequence[Node], wrt: Sequence[Node], *, chosen: bool = False,
        order: Sequence[Node] | None = None) -> list[Node | None]:
    """The cotangents of `wrt` when `outputs` have the given ones; None where nothing flows.

    chosen  whether a `where` outside may leave parts of the outputs unused
    order   the way back from `outputs` to `wrt`, if it is known already

    A cotangent has the dtype of its node, but one on its way back to a cast is not rounded to the narrow dtype first.
    Contributions are added in reverse order of creation of the nodes they come from.
    """
    targets = set(wrt)
    if order is None:
        order = way_back(outputs, targets.__contains__)
    tainted = _behind_a_choice(order, outputs, chosen)
    ct: dict[Node, Value] = {}

    def give(n: Node, value: Value) -> None:
        if value.dtype is not n.dtype and not _carries_wide(n):
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
        guarded = n in tainted and _needs_guard(n)
        if n.op is COMPOSED:
            grads = _composed_vjp(value, n, chosen=n in tainted)
        else:
            grads = n.op.vjp(value, Value(n), tuple(map(Value, n.inputs)), *n.attrs)
        for i, g in zip(n.inputs, grads):
            if g is not None and (i.needs_grad or i in targets):
                give(i, where(equal(value, lit(0, value)), lit(0, g), g) if guarded else g)
    return [astype(ct[w], w.dtype).node if w in ct else None for w in wrt]
