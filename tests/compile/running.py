"""Compile a graph, run its plan in the interpreter, and compare every bit with the graph's meaning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from renaissance.compile.pipeline import compile_graph
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node
from renaissance.ir.plan import Plan
from tests.compile.oracle import evaluate
from tests.compile.plan_interpreter import CheckFailed, run_plan


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal shape, dtype and bits, all NaNs being one."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "iub":
        return a.tobytes() == b.tobytes()
    nan_a, nan_b = np.isnan(a.astype(np.float64)), np.isnan(b.astype(np.float64))
    zero = np.zeros((), a.dtype)
    return bool((nan_a == nan_b).all()) and np.where(nan_a, zero, a).tobytes() == np.where(nan_b, zero, b).tobytes()


def check_plan(graph: Graph, inputs: Sequence[np.ndarray], scalars: Sequence[float] = ()) -> Plan:
    """Compile and run; outputs and state must be those of the graph, or no state may change when a check fails.

    Checks are compared with those of the simplified graph: a check dies with the value it guards.
    """
    plan = compile_graph(graph, None, verify=True)
    mine = [np.ascontiguousarray(a).copy().reshape(a.shape) for a in inputs]
    try:
        evaluate(compile_graph(graph, None, stop="simplify"), [a.copy() for a in inputs], scalars)
    except CheckFailed:
        try:
            run_plan(plan, mine, scalars)
        except CheckFailed:
            for before, after in zip(inputs, mine):
                assert same_bits(before, after), "state changed although a check failed"
            return plan
        raise AssertionError("a failed check was not seen") from None
    outputs, states = evaluate(graph, [a.copy() for a in inputs], scalars, check=False)
    for n, want, got in zip(graph.outputs, outputs, run_plan(plan, mine, scalars)):
        assert same_bits(want, got), (n, want, got)
    new: dict[Node, np.ndarray] = dict(zip((leaf for leaf, _ in graph.assigns), states))
    for leaf, before, after in zip(graph.leaves, inputs, mine):
        assert same_bits(new.get(leaf, before), after), leaf
    return plan


def words(plan: Plan, item: int) -> list[str]:
    """The words of all bodies of an item, in order."""
    spec = plan.items[item].spec
    parts = [s.body for s in spec.stages] if hasattr(spec, "stages") else [spec.a, spec.b, spec.epilogue]
    return [i.op for body in parts for i in body]
