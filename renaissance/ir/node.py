"""What a program is: immutable nodes, equal nodes being one object, and the Op record that gives a node its meaning."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from renaissance.ir.dtype import DType
from renaissance.locks import fork_safe_lock

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Op:
    """One primitive operation: everything the rest of the system may ask about it.

    name       unique word
    kind       how the compiler treats it: 'scalar' (pointwise), 'movement' (an index map), 'reduce', 'contraction',
               'gather', 'scatter', 'winograd', 'random', 'index', 'leaf', 'host'
    infer      (inputs, *attrs) -> (shape, dtype); raises ShapeError / DTypeError
    reference  (arrays, *attrs, out) -> array: the meaning, in NumPy; out is (shape, dtype)
    vjp        (ct, out, inputs, *attrs) -> one Value or None per input; None as a whole: no gradient
    attrs      names of the static attributes, in order
    """

    name: str
    kind: str
    infer: Callable[..., tuple[Shape, DType]]
    reference: Callable[..., Any] | None = None
    vjp: Callable[..., tuple[Any, ...]] | None = None
    attrs: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Op({self.name})"


class Node:
    """A value in a program: an op applied to nodes. Never changed once made; compared by identity.

    data         a leaf's or a computed node's value (a runtime object); None while it is only a promise
    holders      who looks at a leaf's bytes, or collects a variable's gradient (runtime objects); None: nobody
    needs_grad   it is float, and some variable it depends on asks for a gradient with no stop_gradient on the way
    spent        a backward() went through it
    depth        how many promises are stacked up to here
    constant     depends on nothing that is bound later: such nodes are shared by all programs, and never hold data
    """

    __slots__ = ("op", "inputs", "attrs", "shape", "dtype", "needs_grad", "data", "holders", "spent", "depth", "constant",
                 "serial", "__weakref__")

    def __init__(self, op: Op, inputs: tuple[Node, ...], attrs: tuple[Any, ...], shape: Shape, dtype: DType):
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.shape = shape
        self.dtype = dtype
        self.data: Any = None
        self.holders: Any = None
        self.spent = False
        self.serial = next(_serials)
        needs_grad, depth = False, 0
        constant = bool(inputs) or op.reference is not None
        for i in inputs:
            if not i.constant:
                constant = False
            if i.needs_grad:
                needs_grad = True
            if i.depth > depth and i.data is None:
                depth = i.depth
        self.needs_grad = needs_grad and dtype.kind == "f" and (op.vjp is not None or op.kind != "identity")
        self.depth = depth + 1
        self.constant = constant

    def attr(self, name: str) -> Any:
        return self.attrs[self.op.attrs.index(name)]

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.dtype.name}{list(self.shape)} #{self.serial}>"


class _Entry(weakref.ref):
    """A node in the table, and the key it has there."""

    __slots__ = ("key",)


_serials = itertools.count()
_table: dict[tuple[Any, ...], _Entry] = {}  # a WeakValueDictionary would do the same in thrice the time
_lock = fork_safe_lock()


def _gone(entry: _Entry, table: dict[tuple[Any, ...], _Entry] = _table) -> None:  # bound early: at exit the module is emptied
    """A node is freed. Two threads may meet here: then an equal new node loses its entry too, and is merely not found again."""
    if table.get(entry.key) is entry:
        table.pop(entry.key, None)


def node(op: Op, inputs: tuple[Node, ...], attrs: tuple[Hashable, ...] = ()) -> Node:
    """The node of `op` on `inputs`: the existing one if an equal one is alive, else a new one."""
    key = (op, inputs, attrs)
    with _lock:
        entry = _table.get(key)
        found = None if entry is None else entry()
        if found is None:
            shape, dtype = op.infer(inputs, *attrs)
            found = Node(op, inputs, attrs, shape, dtype)
            entry = _table[key] = _Entry(found, _gone)
            entry.key = key
    return found


def unique(op: Op, shape: Shape, dtype: DType, attrs: tuple[Hashable, ...] = (), inputs: tuple[Node, ...] = ()) -> Node:
    """A node equal to no other: leaves and random draws."""
    return Node(op, inputs, attrs, shape, dtype)


def forget_history(n: Node) -> None:
    """Make a computed node (one with data) a leaf: what it was computed from may be freed and cannot be differentiated."""
    with _lock:
        _table.pop((n.op, n.inputs, n.attrs), None)
        n.inputs = ()
        n.needs_grad = False


def topological(roots: Iterable[Node], stop: Callable[[Node], bool] = lambda n: False) -> list[Node]:
    """All nodes that `roots` depend on, inputs before users, iteratively; nodes where `stop` holds count as leaves."""
    order: list[Node] = []
    opened: set[Node] = set()
    seen: set[Node] = set()
    stack = list(roots)
    stack.reverse()
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        if n in opened or not n.inputs or stop(n):
            seen.add(n)
            order.append(n)
        else:
            opened.add(n)
            stack.append(n)  # to be met again when its inputs have been
            stack.extend(reversed(n.inputs))
    return order
