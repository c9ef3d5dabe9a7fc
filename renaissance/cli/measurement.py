"""Measurements of convolutions: how long each engine takes, with caches as they are in a training step."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from renaissance.compile.choice import Convolution, by_model, engines_on, most_of
from renaissance.compile.pipeline import compile_graph
from renaissance.ir import shape as sh
from renaissance.ir.dtype import dtype, float32
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, unique
from renaissance.ir.target import Target
from renaissance.ops.composed import expanded
from renaissance.ops.convolution import CONV_WEIGHT
from renaissance.ops.elementwise import astype
from renaissance.ops.movement import concat, flatten
from renaissance.ops.reduce import max as largest
from renaissance.ops.value import LEAF, Value
from renaissance.progress import Bar
from renaissance.runtime.link import link
from renaissance.runtime.storage import Storage

_TIME_S = 1.0  # for one convolution, all engines together, as far as the least and most numbers of rounds allow
_LEAST_ROUNDS, _MOST_ROUNDS = 7, 50
_OTHER_BYTES = 128 << 20  # what is read between two runs, so that caches hold nothing else: several times the last level
_BYTE = 0x3F  # of what is computed with: 0.747 in float32, 0.746 in bfloat16


@dataclass(frozen=True)
class Measurement:
    """The times of a convolution.

    nodes     how many nodes of the models' training steps are such
    chosen    the engine that the cost model chooses
    times_ms  by engine, one for each round
    """

    convolution: Convolution
    nodes: int
    chosen: str
    times_ms: Mapping[str, Sequence[float]]

    def quantile_ms(self, engine: str, share: float = 0.5) -> float:
        """What a share of an engine's times is at most; the median unless another share is asked for."""
        return float(np.quantile(self.times_ms[engine], share))

    @property
    def engine(self) -> str:
        """The engine to use: the model's choice, unless another one is quicker by a clear margin and beyond the spread of both.

        The margin is on medians (see choice.most_of); three quarters of its times must be below three quarters of the others.
        """
        best = min(self.times_ms, key=self.quantile_ms)
        margin = self.quantile_ms(best) < most_of(self.chosen) * self.quantile_ms(self.chosen)
        return best if margin and self.quantile_ms(best, 0.75) < self.quantile_ms(self.chosen, 0.25) else self.chosen


def measure(found: Mapping[Convolution, int], target: Target, threads: int) -> list[Measurement]:
    """The times of convolutions by every engine, those that a step takes longest for first.

    found  with the number of nodes of each
    """
    bar, measured = Bar(sys.stdout), []
    try:
        for done, (convolution, nodes) in enumerate(found.items()):
            bar.draw("tune", done, len(found), f"{done}/{len(found)} convolutions")
            times = times_ms(convolution, target, threads)
            measured.append(Measurement(convolution, nodes, by_model(convolution, target), times))
    finally:
        bar.clear()
    return sorted(measured, key=lambda m: -m.nodes * m.quantile_ms(m.chosen))


def times_ms(c: Convolution, target: Target, threads: int) -> dict[str, list[float]]:
    """The times of a convolution by engine; engines take turns, and begin in turn."""
    graph, before = as_in_a_step(c)
    runs = {engine: Run(graph, replace(target, overrides=((c.name, engine),)), threads) for engine in engines_on(target)}
    elements = unique(LEAF, (_OTHER_BYTES // float32.size,), float32)
    others = Run(Graph((elements,), (), (largest(Value(elements)).node,)), target, threads)

    def time_ms(run: Run) -> float:
        others.run()
        run.touch(before)
        began = time.perf_counter()
        run.run()
        return (time.perf_counter() - began) * 1e3

    for run in runs.values():
        time_ms(run)  # touches its memory
    began = time.perf_counter()
    times = {engine: [time_ms(run)] for engine, run in runs.items()}
    rounds = int(_TIME_S / (time.perf_counter() - began))
    for number in range(1, max(_LEAST_ROUNDS, min(_MOST_ROUNDS, rounds))):
        for engine in sorted(runs, reverse=number % 2 == 1):
            times[engine].append(time_ms(runs[engine]))
    return times


def as_in_a_step(c: Convolution) -> tuple[Graph, int]:
    """A convolution with what a training step always has around it; and which of its leaves was computed right before.

    The result is rounded to the dtype of the image; the gradient of kernels lies in a flat run beside those of other parameters.
    """
    narrow = dtype(c.dtype)
    x = unique(LEAF, c.x, narrow)
    if c.op == CONV_WEIGHT.name:
        y, beside = unique(LEAF, c.y, narrow), unique(LEAF, (1,), float32)
        run = concat([flatten(Value(c.of(x, y))), Value(beside)])
        return Graph((x, y, beside), (), (run.node,)), 1
    w = unique(LEAF, c.w, narrow)
    return Graph((x, w), (), (astype(Value(c.of(x, w)), narrow).node,)), 0


class Run:
    """A graph linked for a Target, with memory for its leaves and outputs."""

    def __init__(self, graph: Graph, target: Target, threads: int):
        self._executable = link(compile_graph(expanded(graph), target), target, threads)
        self._leaves, self._outputs = ([_memory(n) for n in nodes] for nodes in (graph.leaves, graph.outputs))
        for leaf in range(len(self._leaves)):
            self.touch(leaf)

    def touch(self, leaf: int) -> None:
        """Write a leaf anew."""
        memory = self._leaves[leaf]
        ctypes.memset(memory.address, _BYTE, memory.size_bytes)

    def run(self) -> None:
        """Run once.

        raises  KeyboardInterrupt after Ctrl-C
        """
        self._executable.run([m.address for m in self._leaves], [m.address for m in self._outputs])


def _memory(n: Node) -> Storage:
    return Storage(sh.size(n.shape) * n.dtype.size)
