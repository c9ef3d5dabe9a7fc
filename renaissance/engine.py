"""The engine: from pending nodes to numbers. It finds or makes the plan for a graph, binds memory, and runs it.

Every run, compiled or not, goes through `Program`. A program is found by the structure of its graph: ops, attributes, shapes and
dtypes; never by the data of its leaves or the values of its run-time scalars. The PROGRAMS programs used last are kept (and with
them their plans and tables; kernels stay until the process ends, the scratch arena is one for all).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from operator import itemgetter
from typing import Any

from renaissance.compile import pipeline
from renaissance.config import settings
from renaissance.errors import ArgumentError
from renaissance.ir import shape as sh
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, forget_history
from renaissance.ir.target import Target
from renaissance.kernels.host import detect
from renaissance.linear import Linear
from renaissance.locks import fork_safe_lock
from renaissance.ops.composed import expanded
from renaissance.recent import Recent
from renaissance.region import Region
from renaissance.runtime import link as cpu
from renaissance.runtime import null
from renaissance.runtime.plan_cache import load_plan, store_plan
from renaissance.runtime.reference import ReferenceExecutable
from renaissance.runtime.storage import Storage
from renaissance.tuned import read_overrides

PROGRAMS = 256
_KEY_FORM = 3  # what a plan's key stands for: another number when that changes, so that no plan of old is taken for a new one

lock = fork_safe_lock()
_executor: ContextVar[str] = ContextVar("executor", default="cpu")


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


class Program:
    """A graph that can be run: what it needs is given by address and value.

    A plan found by its key knows leaves and scalars only by their places in the written-down form, so the expanded graph's own
    form says which they are: its order may be another than that of the graph of composed nodes, and some may not be needed.
    """

    def __init__(self, graph: Graph, on: str, budget_bytes: int | None = None):
        whole = expanded(graph)
        linear = Linear.of(whole)
        self._inputs, self._scalars = _picker(linear.leaves, graph.leaves), _picker(linear.scalars, graph.scalars)
        graph = Graph(tuple(linear.leaves), tuple(linear.scalars), whole.outputs, whole.assigns)
        self.output_sizes = [max(1, sh.size(n.shape) * n.dtype.size) for n in graph.outputs]
        self.plan = None
        if on == "reference":
            self.executable: Any = ReferenceExecutable(graph)
        else:
            target, threads = host_target(), settings().threads
            key = (_KEY_FORM, linear.key, target) if budget_bytes is None else (_KEY_FORM, linear.key, target, budget_bytes)
            text = hashlib.sha256(repr(key).encode()).hexdigest()
            self.plan = load_plan(text)
            if self.plan is None:
                self.plan = pipeline.compile_graph(graph, target, budget_bytes=budget_bytes)
                store_plan(text, self.plan)
            self.executable = (null if on == "null" else cpu).link(self.plan, target, threads)

    def run(self, inputs: Sequence[int], scalars: Sequence[int | float],
            settle: Callable[[list[Region]], None] | None = None) -> list[Region]:
        """Run once; the outputs are in fresh memory, assigned leaves are changed in place.

        settle  what must be done as soon as the outputs are computed and the leaves changed: it is done also when an exception
                (Ctrl-C) comes after that, which then goes on
        raises  what a failed check states, or an exception that came in time: then no leaf was changed
        """
        inputs, scalars = self._inputs(inputs), self._scalars(scalars)
        regions = [Region(Storage(size)) for size in self.output_sizes]
        executable = self.executable
        runs = executable.runs.value
        try:
            executable.run(inputs, [r.address for r in regions], scalars)
        finally:
            if settle is not None and executable.runs.value != runs:
                settle(regions)
        return regions


def _picker(needed: Sequence[Node], given: Sequence[Node]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What picks the values of the needed nodes out of those of the given ones."""
    if tuple(needed) == tuple(given):
        return lambda values: values
    place = {n: i for i, n in enumerate(given)}
    if len(needed) < 2:
        return lambda values: [values[place[n]] for n in needed]
    return itemgetter(*(place[n] for n in needed))


# Told of the roots of every uncompiled run before it, while somebody asks; see debug.py.
inspector: Callable[[Sequence[Node]], None] | None = None

_programs: Recent[Program] = Recent(PROGRAMS)
_halves: Recent[tuple[()] | tuple[Program, Program]] = Recent(PROGRAMS)
_target: Target | None = None


def host_target() -> Target:
    """The Target of this process: the machine's, narrowed by the settings, with the engines that were measured on it.

    raises  ArgumentError for a file of engines that cannot be used
    """
    global _target
    if _target is None:
        chosen, found = settings(), detect()
        if chosen.target != "native":
            found = found.restricted(chosen.target)
        found = replace(found, winograd=chosen.winograd)
        _target = found if chosen.tuned is None else replace(found, overrides=read_overrides(chosen.tuned, found))
    return _target


def program(linear: Linear, outputs: Sequence[Node], assigns: Sequence[tuple[Node, Node]],
            budget_bytes: int | None = None) -> Program:
    """The program of a graph: one made before for the same structure, if it is still kept, else a new one.

    The reference executor keeps the graph itself, leaves and all, so its programs are not kept; a budget means nothing to it.

    budget_bytes  the most memory that inputs, outputs and arena may take together; None: no bound
    raises        BudgetError where no plan needs so little
    """
    on = _executor.get()
    key = linear.key if budget_bytes is None else (linear.key, budget_bytes)
    found = _programs.get(key) if on == "cpu" else None
    if found is None:
        found = Program(Graph(tuple(linear.leaves), tuple(linear.scalars), tuple(outputs), tuple(assigns)), on, budget_bytes)
        if on == "cpu":
            _programs.put(key, found)
    return found


def halves(linear: Linear, outputs: Sequence[Node], steady: Sequence[int]) -> tuple[Program, Program] | None:
    """The program of a graph that changes no leaf in two: what depends on steady leaves alone, and the rest.

    The second is given what the whole is given, then what the first has made. Only the CPU has them in two.

    steady   places among the leaves
    returns  None where nothing is computed from steady leaves alone
    """
    on = _executor.get()
    if on != "cpu":
        return None
    key = (linear.key, tuple(steady))
    found = _halves.get(key)
    if found is None:
        whole = expanded(Graph(tuple(linear.leaves), tuple(linear.scalars), tuple(outputs)))
        parts = pipeline.halves(whole, steady, host_target())
        found = () if parts is None else (Program(parts.early, on), Program(parts.late, on))
        _halves.put(key, found)
    return found or None


def compute(outputs: Sequence[Node], assigns: Sequence[tuple[Node, Node]] = (), linear: Linear | None = None,
            settle: Callable[[dict[Node, Region]], None] | None = None) -> dict[Node, Region]:
    """Compute `outputs`, and give each assigned leaf's bytes their new contents, in one run.

    linear   the same outputs and assigns, if they were written down already
    settle   as for Program.run; it is given what is returned
    returns  where each output lies. A node holds that as its data from then on, but for constants: those are shared by all
             programs, so what stands for their values is the caller's to keep
    """
    with lock:
        wanted = list(dict.fromkeys([n for n in outputs if n.data is None]))
        computed: dict[Node, Region] = {n: n.data for n in outputs if n.data is not None}
        if not wanted and not assigns:
            if settle is not None:
                settle(computed)
            return computed
        if inspector is not None:
            inspector([*wanted, *(value for _, value in assigns)])
        if linear is None or len(wanted) != len(outputs):
            linear = Linear(wanted, assigns)

        def keep(regions: list[Region]) -> None:
            for n, region in zip(wanted, regions):
                computed[n] = region
                if not n.constant:
                    n.data = region
                    if not n.needs_grad:
                        forget_history(n)
            if settle is not None:
                settle(computed)

        made = program(linear, wanted, assigns)
        made.run([n.data.address for n in linear.leaves], [n.data for n in linear.scalars], keep)
        return computed
