"""The engine: from pending nodes to numbers. It finds or makes the plan for a graph, binds memory, and runs it.

Every run, compiled or not, goes through `Program`. A program is found by the structure of its graph: ops, attributes, shapes and
dtypes; never by the data of its leaves or the values of its run-time scalars.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from renaissance.compile.pipeline import compile_graph
from renaissance.config import settings
from renaissance.errors import ArgumentError, GradientError, TraceError
from renaissance.ir import shape as sh
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, forget_history, unique
from renaissance.ir.target import Target
from renaissance.kernels.host import detect
from renaissance.ops.composed import expanded
from renaissance.ops.value import LEAF, SCALAR
from renaissance.runtime import link as cpu
from renaissance.runtime import null
from renaissance.runtime.plan_cache import load_plan, store_plan
from renaissance.runtime.reference import ReferenceExecutable
from renaissance.runtime.storage import Storage

lock = threading.RLock()
_executor: ContextVar[str] = ContextVar("executor", default="cpu")


class Region:
    """The bytes of a dense row-major array inside a storage."""

    __slots__ = ("storage", "offset", "address")

    def __init__(self, storage: Storage, offset: int = 0):
        self.storage = storage
        self.offset = offset
        self.address = storage.address + offset


class Stale:
    """The data of a leaf whose bytes have been overwritten: graphs that still reach it cannot be computed any more."""


STALE = Stale()


class Placeholder:
    """The data of a node that has a value only while the plan of a compiled function runs."""


PLACEHOLDER = Placeholder()


def new_region(n: Node) -> Region:
    """Fresh memory for the value of a node."""
    return Region(Storage(max(1, sh.size(n.shape) * n.dtype.size)))


def leaf(n: Node, region: Region) -> Node:
    """A new leaf of the shape and dtype of `n` that holds the bytes of `region`."""
    made = unique(LEAF, n.shape, n.dtype)
    made.data = region
    return made


def scalar(value: int | float, dtype: Any) -> Node:
    """A run-time scalar: its value is bound when a plan runs and is no part of the plan."""
    made = unique(SCALAR, (), dtype)
    made.data = value
    return made


@contextmanager
def executor(name: str) -> Iterator[None]:
    """Inside, graphs run on 'cpu' (compiled kernels) or 'reference' (NumPy, node by node), or are planned only ('null').

    With 'null' nothing is computed: results hold whatever their memory held. It is for looking at plans.

    name    'cpu', 'reference' or 'null'
    raises  ArgumentError for another name
    source  definition
    """
    if name not in ("cpu", "reference", "null"):
        raise ArgumentError(f"executor: {name!r} is not supported; choose 'cpu', 'reference' or 'null'")
    token = _executor.set(name)
    try:
        yield
    finally:
        _executor.reset(token)


def executor_name() -> str:
    """The executor in force."""
    return _executor.get()


def copied(region: Region, like: Node) -> Region:
    """Memory of its own with the same bytes."""
    made = new_region(like)
    made.storage.view(like.dtype, like.shape)[...] = region.storage.view(like.dtype, like.shape, region.offset)
    return made


_KEY_FORM = 2  # what a plan's key stands for: another number when that changes, so that no plan of old is taken for a new one


class Program:
    """A graph that can be run: what it needs is given by address and value.

    A plan found by its key knows leaves and scalars only by their places in the written-down form, so the expanded graph's own
    form says which they are: its order may be another than that of the graph of composed nodes, and some may not be needed.
    """

    def __init__(self, graph: Graph, on: str):
        whole = expanded(graph)
        linear = Linear(whole.outputs, whole.assigns, set(), traced=True, known={*graph.leaves, *graph.scalars})
        self._inputs, self._scalars = _places(linear.leaves, graph.leaves), _places(linear.scalars, graph.scalars)
        graph = Graph(tuple(linear.leaves), tuple(linear.scalars), whole.outputs, whole.assigns)
        self.output_sizes = [max(1, sh.size(n.shape) * n.dtype.size) for n in graph.outputs]
        self.plan = None
        if on == "reference":
            self.executable: Any = ReferenceExecutable(graph)
        else:
            target, threads = host_target(), settings().threads
            text = hashlib.sha256(repr((_KEY_FORM, linear.key, target)).encode()).hexdigest()
            self.plan = load_plan(text)
            if self.plan is None:
                self.plan = compile_graph(graph, target)
                store_plan(text, self.plan)
            self.executable = (null if on == "null" else cpu).link(self.plan, target, threads)

    def run(self, inputs: Sequence[int], scalars: Sequence[int | float]) -> list[Region]:
        """Run once; the outputs are in fresh memory, assigned leaves are changed in place.

        An exception that comes from outside (Ctrl-C) when the plan has already run to its end is held back: the caller says
        what goes with the new state, and then raises it (`raise_held`).
        """
        if self._inputs is not None:
            inputs = [inputs[i] for i in self._inputs]
        if self._scalars is not None:
            scalars = [scalars[i] for i in self._scalars]
        regions = [Region(Storage(size)) for size in self.output_sizes]
        before = self.executable.finishes
        try:
            self.executable.run(inputs, [r.address for r in regions], scalars)
        except BaseException as e:
            if self.executable.finishes == before:
                raise
            _held.append(e)
        return regions


_held: list[BaseException] = []


def take_held() -> BaseException | None:
    """The exception that was held back while a run's new state is recorded, if there is one: the caller is to raise it."""
    return _held.pop() if _held else None


def raise_held() -> None:
    """Raise the exception that was held back."""
    held = take_held()
    if held is not None:
        raise held


def _places(needed: Sequence[Node], given: Sequence[Node]) -> list[int] | None:
    """Where each needed node is among the given ones; None: they are the same."""
    if tuple(needed) == tuple(given):
        return None
    place = {n: i for i, n in enumerate(given)}
    return [place[n] for n in needed]


# Told of the roots of every uncompiled run before it, while somebody asks; see debug.py.
inspector: Callable[[Sequence[Node]], None] | None = None

_programs: dict[tuple[Any, ...], Program] = {}
_target: Target | None = None


def host_target() -> Target:
    """The Target of this process: the machine's, narrowed by the settings."""
    global _target
    if _target is None:
        _target = detect()
        if settings().target != "native":
            _target = _target.restricted(settings().target)
    return _target


class Linear:
    """A graph written down in a canonical order: its leaves, its scalars, and a key that equal structures share."""

    __slots__ = ("leaves", "scalars", "order", "key", "reads", "_traced", "_known")

    def __init__(self, outputs: Sequence[Node], assigns: Sequence[tuple[Node, Node]], watched: set[Node], *, traced: bool = False,
                 known: set[Node] | None = None):
        self._traced = traced  # leaves may be placeholders, bound later
        self._known = known  # the leaves; None: every node with data. Writing out a composition may meet other nodes with data
        self.leaves: list[Node] = []
        self.scalars: list[Node] = []
        self.order: list[Node] = []  # the node of each row of the key
        number: dict[Node, int] = {}
        self.reads: set[Node] = set()  # nodes that depend on a watched leaf
        rows: list[Any] = []
        for root in (*outputs, *(v for _, v in assigns), *(leaf for leaf, _ in assigns)):
            self._walk(root, number, rows, watched)
        self.key = (tuple(rows), tuple(number[n] for n in outputs), tuple((number[a], number[v]) for a, v in assigns))

    def _walk(self, root: Node, number: dict[Node, int], rows: list[Any], watched: set[Node]) -> None:
        stack, known = [root], self._known
        while stack:
            n = stack[-1]
            if n in number:
                stack.pop()
                continue
            if n in known if known is not None else n.data is not None:
                stack.pop()
                self._leaf(n, number, rows)
                if n in watched:
                    self.reads.add(n)
                continue
            pending = [i for i in n.inputs if i not in number]
            if pending:
                stack.extend(reversed(pending))
                continue
            stack.pop()
            if watched and not self.reads.isdisjoint(n.inputs):
                self.reads.add(n)
            if n.op.kind == "identity":
                number[n] = number[n.inputs[0]]
                continue
            number[n] = len(rows)
            self.order.append(n)
            rows.append((n.op.name, n.attrs, tuple([number[i] for i in n.inputs])))

    def _leaf(self, n: Node, number: dict[Node, int], rows: list[Any]) -> None:
        if n.data is STALE:
            raise GradientError("this tensor depends on values that were overwritten (by optimizer.step() or an in-place write) "
                                "before it was read; read it earlier, or run the forward pass again")
        if not self._traced and n.data is PLACEHOLDER:
            raise TraceError("a tensor leaked out of a compiled function and has no value here; return it from the function")
        number[n] = len(rows)
        self.order.append(n)
        if n.op is SCALAR:
            self.scalars.append(n)
            rows.append(("scalar", n.dtype))
        else:
            self.leaves.append(n)
            rows.append(("leaf", n.shape, n.dtype))


def program(linear: Linear, outputs: Sequence[Node], assigns: Sequence[tuple[Node, Node]]) -> Program:
    """The program of a graph: the one made before for the same structure, else a new one.

    The reference executor keeps the graph itself, leaves and all, so its programs are not kept.
    """
    on = _executor.get()
    found = _programs.get(linear.key) if on == "cpu" else None
    if found is None:
        graph = Graph(tuple(linear.leaves), tuple(linear.scalars), tuple(outputs), tuple(assigns))
        found = Program(graph, on)
        if on == "cpu":
            _programs[linear.key] = found
    return found


def compute(outputs: Sequence[Node], assigns: Sequence[tuple[Node, Node]] = (), linear: Linear | None = None, *,
            hold: bool = False) -> dict[Node, Region]:
    """Compute `outputs`, and give each assigned leaf's bytes their new contents, in one run.

    linear   the same outputs and assigns, if they were written down already
    hold     leave it to the caller to call `raise_held`
    returns  where each output lies. A node holds that as its data from then on, but for constants: those are shared by all
             programs, so what stands for their values is the caller's to keep
    """
    with lock:
        wanted = list(dict.fromkeys(n for n in outputs if n.data is None))
        if not wanted and not assigns:
            return {n: n.data for n in outputs}
        if inspector is not None:
            inspector([*wanted, *(value for _, value in assigns)])
        if linear is None or len(wanted) != len(outputs):
            linear = Linear(wanted, assigns, set())
        made = program(linear, wanted, assigns)
        regions = made.run([n.data.address for n in linear.leaves], [n.data for n in linear.scalars])
        for n, region in zip(wanted, regions):
            if n.constant:
                continue
            n.data = region
            if not n.needs_grad:
                forget_history(n)
        if not hold:
            raise_held()
        return dict(zip(wanted, regions)) | {n: n.data for n in outputs if n.data is not None}
