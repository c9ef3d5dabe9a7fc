"""Print how long the passes take: `python -m tests.compile.time_passes`. 1,500 nodes should need less than a second."""

from __future__ import annotations

import time

from renaissance import autodiff
from renaissance.compile.pipeline import compile_graph
from renaissance.ir.graph import Graph
from renaissance.ops import compose, contraction
from renaissance.ops import elementwise as ew
from renaissance.ops import reduce as rd
from renaissance.ops.composed import expanded
from renaissance.ops.value import Value, variable
from tests.compile.golden import leaf


def blocks(count: int) -> Graph:
    """A training step of residual blocks (norm, linear, gelu), each parameter with a state of its own."""
    width = 32
    x = leaf(16, width)
    parameters, marked = [], []

    def parameter(*shape: int) -> Value:
        parameters.append(leaf(*shape))
        marked.append(variable(parameters[-1]))
        return Value(marked[-1])

    h = Value(x)
    for _ in range(count):
        centred = h - rd.mean(h, -1, keepdims=True)
        z = centred / ew.sqrt(rd.mean(centred * centred, -1, keepdims=True) + 1e-5) * parameter(width) + parameter(width)
        h = h + compose.gelu(contraction.linear(z, parameter(width, width), parameter(width)))
    loss = rd.mean(h * h)
    gradients = autodiff.vjp([loss.node], [ew.lit(1.0, loss).node], marked)
    states = [(p, (Value(p) - Value(g) * 0.01).node) for p, g in zip(parameters, gradients) if g is not None]
    return expanded(Graph((x, *parameters), (), (loss.node,), tuple(states)))


if __name__ == "__main__":
    for count in (3, 12, 24):
        graph = blocks(count)
        best: dict[str, float] = {}
        for _ in range(5):
            timings: dict[str, float] = {}
            start = time.perf_counter()
            plan = compile_graph(graph, None, timings=timings)
            timings["all"] = (time.perf_counter() - start) * 1e3
            best = {name: min(best.get(name, ms), ms) for name, ms in timings.items()}
        print(f"{len(graph.nodes())} nodes, {len(plan.items)} items:", ", ".join(f"{k} {ms:.0f} ms" for k, ms in best.items()))
