"""Composed ops as single nodes: a composition is traced once for each signature and kept as a template.

The TEMPLATES templates used last are kept, each with those of its gradients. A graph of composed nodes is short, so that
uncompiled programs are written down and looked up quickly. `expanded` puts the templates' nodes in their places before anything
is compiled: the compiler never meets a composed node, and bits are those of the composition.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from renaissance.errors import DTypeError, PlanError, TraceError
from renaissance.ir.dtype import DType
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, Op, Shape, node, topological, unique
from renaissance.ir.rewrite import rebuilt
from renaissance.locks import fork_safe_lock
from renaissance.ops.precision import narrow_dtype
from renaissance.ops.value import CONST, IOTA, LEAF, Value, enable_grad, made, observing, taken
from renaissance.recent import Recent

TEMPLATES = 1024


class Template:
    """A composition over placeholders; equal only to itself.

    inputs     placeholder leaves
    outputs    what is computed from them; None where a gradient does not flow
    pointwise  every element of an output depends on the same element of each input only
    gradients  templates of the cotangents, by output and whether a `where` is on the way; filled by reverse mode
    """

    def __init__(self, inputs: Sequence[Node], outputs: Sequence[Node | None]):
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.gradients: dict[tuple[int, bool], Template] = {}
        self.pointwise = _is_pointwise(self)


def _is_pointwise(template: Template) -> bool:
    moved = set(template.inputs)
    for n in topological([o for o in template.outputs if o is not None]):
        if n not in moved and not moved.isdisjoint(n.inputs):
            inner = n.op is COMPOSED and n.attr("template").pointwise
            if n.op.kind not in ("scalar", "identity") and not inner:
                return False
            moved.add(n)
    return True


def _infer(inputs: tuple[Node, ...], template: Template, index: int) -> tuple[Shape, DType]:
    out = template.outputs[index]
    if out is None:
        raise PlanError("a composed node stands for an output that does not exist")
    return out.shape, out.dtype


def _vjp(ct: Value, out: Value, inputs: tuple[Value, ...], template: Template, index: int) -> tuple[Any, ...]:
    raise PlanError("gradients of composed nodes are made by autodiff.vjp itself")


COMPOSED = Op("composed", "composed", _infer, vjp=_vjp, attrs=("template", "index"))

_templates: Recent[Template] = Recent(TEMPLATES)
_lock = fork_safe_lock()


def composed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: make a composition of ops one op, traced once for each signature.

    function  of tensors and hashable settings; returns a tensor. It must depend on nothing else but the precision in force.
    """

    @functools.wraps(function)
    def one(*args: Any, **kwargs: Any) -> Any:
        values = [a for a in (*args, *kwargs.values()) if isinstance(a, Value)]
        return call(function, function, values, args, kwargs)[0]

    return one


def call(name: Hashable, function: Callable[..., Any], values: Sequence[Value], args: tuple[Any, ...],
         kwargs: dict[str, Any]) -> Any:
    """The outputs of a composition as composed nodes.

    name    what it is known by, besides the signature of its arguments
    values  the tensors among args and kwargs, in order
    """
    if not values:
        given = ", ".join(type(a).__name__ for a in (*args, *kwargs.values()))
        raise DTypeError(f"{function.__name__}: takes a tensor, got {given or 'nothing'}; make it one with rn.tensor(...)")
    try:
        key = (name, narrow_dtype(), tuple([_described(a) for a in args]), tuple([(k, _described(a)) for k, a in kwargs.items()]))
        template = _templates.get(key)
    except TypeError:  # an argument that cannot be hashed: not an op's signature, the composition says what is wrong with it
        return _tuple(function(*args, **kwargs))
    if template is None:
        template = _made(key, function, values, args, kwargs)
    nodes, kind = taken(tuple(values))
    return tuple([made(COMPOSED, nodes, (template, i), kind) for i in range(len(template.outputs))])


def _made(key: Hashable, function: Callable[..., Any], values: Sequence[Value], args: tuple[Any, ...],
          kwargs: dict[str, Any]) -> Template:
    """A new template, kept under its key."""
    with _lock:
        try:
            template = _traced(function, args, kwargs)
        except _Looked:
            for v in values:
                if v.weak:
                    v.look()
            raise TraceError(f"{function.__name__}: looks at a number that stands for a value not known yet") from None
        _templates.put(key, template)
        return template


def _tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _described(a: Any) -> Hashable:
    if isinstance(a, Value):
        n = a.node
        return (n.shape, n.dtype, a.weak)
    if isinstance(a, tuple):
        if any(isinstance(x, Value) for x in a):
            raise TypeError("tensors inside a tuple are no signature")
        return (type(a), *map(_described, a))
    return (type(a), repr(a) if isinstance(a, (float, np.floating)) else a)  # 0.0 and -0.0 are equal but not the same


def _traced(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Template:
    inputs: list[Node] = []

    def stand_in(a: Any) -> Any:
        if not isinstance(a, Value):
            return a
        inputs.append(unique(LEAF, a.shape, a.dtype))
        return (WeakValue if a.weak else Value)(inputs[-1])

    positional = [stand_in(a) for a in args]
    named = {k: stand_in(a) for k, a in kwargs.items()}
    with apart():
        result = _tuple(function(*positional, **named))
    return Template(inputs, [v.node for v in result])


@contextmanager
def apart() -> Iterator[None]:
    """Inside, a template is made: it holds for every caller, so gradients are on and nobody is told of its nodes."""
    with enable_grad(), observing(None):
        yield


class _Looked(Exception):
    """A composition asked for the value of a number that it was given as a weak value."""


class WeakValue(Value):
    """A placeholder for a number: it takes the dtype of what it meets."""

    __slots__ = ()
    weak = True

    def look(self) -> None:
        raise _Looked

    def __bool__(self) -> bool:
        raise _Looked


def substituted(roots: Sequence[Node], known: dict[Node, Node]) -> list[Node]:
    """The roots with some nodes replaced, composed nodes kept."""
    new = dict(known)
    for n in topological(roots, new.__contains__):
        if n not in new:
            new[n] = rebuilt(n, tuple(new[i] for i in n.inputs))
    return [new[r] for r in roots]


def inlined(roots: Sequence[Node], known: dict[Node, Node]) -> list[Node]:
    """The roots with some nodes replaced and every composed node written out, as deep as compositions use each other.

    Equal constants become one node, also where they were kept apart: as the numbers of a trace are.
    """
    new = dict(known)
    for n in topological(roots, new.__contains__):
        if n in new:
            continue
        inputs = tuple(new[i] for i in n.inputs)
        if n.op is COMPOSED:
            template, index = n.attrs
            new[n] = inlined([template.outputs[index]], dict(zip(template.inputs, inputs)))[0]
        elif n.op is CONST or n.op is IOTA:
            new[n] = node(n.op, (), n.attrs)
        else:
            new[n] = rebuilt(n, inputs)
    return [new[r] for r in roots]


def expanded(graph: Graph) -> Graph:
    """The graph with every composed node written out; leaves and scalars stay the same nodes."""
    fixed = {n: n for n in (*graph.leaves, *graph.scalars)}
    roots = inlined([*graph.outputs, *(v for _, v in graph.assigns)], fixed)
    outputs = tuple(roots[:len(graph.outputs)])
    values = roots[len(graph.outputs):]
    return Graph(graph.leaves, graph.scalars, outputs, tuple((leaf, v) for (leaf, _), v in zip(graph.assigns, values)))
