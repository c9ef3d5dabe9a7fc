"""The compiler: the passes from a graph to a plan, in order, each with the reason for its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from renaissance.compile.budget import within
from renaissance.compile.cut import cut
from renaissance.compile.distribute import distribute
from renaissance.compile.divide import Divided, divided
from renaissance.compile.engines import engines
from renaissance.compile.fuse import fuse
from renaissance.compile.layout import layout
from renaissance.compile.memory import memory
from renaissance.compile.order import order
from renaissance.compile.simplify import simplify
from renaissance.errors import ArgumentError
from renaissance.ir.graph import Graph
from renaissance.ir.plan import Plan
from renaissance.ir.target import Target
from renaissance.ir.verify import verify_graph, verify_plan


@dataclass(frozen=True)
class Pass:
    """A pure function from graph to graph, graph to plan, or plan to plan, and why it stands where it does."""

    name: str
    run: Callable[[Any, Target], Any]
    reason: str


PASSES = (
    Pass("cut", cut, "first: no rule may look behind a leaf that was computed earlier"),
    Pass("simplify", simplify, "before fuse: fewer nodes, and marks such as stop_gradient are gone"),
    Pass("layout", layout, "after simplify, which brings permutations together; before engines"),
    Pass("engines", engines, "after layout, which shows the operands; before all that knows products only"),
    Pass("distribute", distribute, "after simplify, which shows what is concatenated; before fuse, which puts the parts to work"),
    Pass("fuse", fuse, "needs the simplified graph; makes items, which the rest orders and places"),
    Pass("order", lambda plan, target: order(plan), "before memory: the order decides what is live at the same time"),
    Pass("memory", lambda plan, target: memory(plan), "last: offsets hold for one order only"),
)


def passes(budget_bytes: int | None = None) -> tuple[Pass, ...]:
    """The passes, with one more where memory is bounded."""
    if budget_bytes is None:
        return PASSES
    reason = "after order, which says what lies idle and for how long; before memory, which places the copies as well"
    return (*PASSES[:-1], Pass("budget", lambda plan, target: within(plan, budget_bytes), reason), PASSES[-1])


def compile_graph(graph: Graph, target: Target, *, budget_bytes: int | None = None, stop: str | None = None, verify: bool = False,
                  timings: dict[str, float] | None = None) -> Plan:
    """The plan of a graph for a machine.

    graph    what to compute
    target   the machine
    budget_bytes  the most memory that inputs, outputs and arena may take together; None: no bound
    stop     name of the pass after which to return what there is (a Graph or an unfinished Plan)
    verify   check graph or plan after each pass
    timings  filled with milliseconds by pass
    raises   PlanError for a graph the compiler has no rule for; BudgetError for a budget that no plan meets; ArgumentError for
             an unknown pass
    """
    steps = passes(budget_bytes)
    if stop is not None and stop not in [p.name for p in steps]:
        raise ArgumentError(f"stop: no pass is called {stop!r}; the passes are {', '.join(p.name for p in steps)}")
    program: Any = graph
    if verify:
        verify_graph(graph)
    for step in steps:
        start = time.perf_counter()
        program = step.run(program, target)
        if timings is not None:
            timings[step.name] = (time.perf_counter() - start) * 1e3
        if verify:
            _verify(program, placed=step.name == "memory")
        if step.name == stop:
            break
    return program


def halves(graph: Graph, steady: Collection[int], target: Target) -> Divided | None:
    """A graph that changes no leaf in two, once the engines are chosen: see `divided`.

    steady  places among the leaves
    """
    for step in PASSES:
        graph = step.run(graph, target)
        if step.name == "engines":
            break
    return divided(graph, {graph.leaves[i] for i in steady})


def _verify(program: Graph | Plan, placed: bool) -> None:
    if isinstance(program, Graph):
        verify_graph(program)
    else:
        verify_plan(program, placed)
