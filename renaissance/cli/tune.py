"""Finding out which engine does each convolution of some models fastest on this machine."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from renaissance import models
from renaissance.cli.measurement import Measurement, measure
from renaissance.compile.choice import Convolution, engines_on
from renaissance.compile.engines import undecided
from renaissance.compile.pipeline import compile_graph
from renaissance.errors import ArgumentError
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node
from renaissance.ir.target import Target
from renaissance.linear import Linear
from renaissance.nn import Conv2d, Module
from renaissance.nn.functional import cross_entropy
from renaissance.ops.composed import expanded
from renaissance.ops.elementwise import add
from renaissance.ops.precision import precision as precision_of
from renaissance.tensor import zeros
from renaissance.trace.recorder import Recorder
from renaissance.tuned import write_overrides

MODELS: dict[str, Callable[[], Module]] = {
    name: make for name, make in vars(models).items() if inspect.isfunction(make) and name != "mlp"}
_SIZES = {"lenet": 28, "resnet20": 32, "resnet32": 32, "resnet44": 32, "resnet56": 32, "inception_v3": 299, "unet": 512}
_USUAL_SIZE = 224


def tune(names: Sequence[str], *, batch_size: int, size: int | None, precision: str, target: Target, threads: int,
         out: Path) -> None:
    """Measure the convolutions of models, print a table of them, and write where the cost model was wrong to a file.

    raises  ArgumentError for an unknown model or precision, models with nothing to choose, or a file that cannot be written
    """
    with precision_of(precision):
        pass
    for name in names:
        if name not in MODELS:
            raise ArgumentError(f"no model {name!r}; known are {', '.join(MODELS)}")
    if out.is_dir() or not out.resolve().parent.is_dir():
        raise ArgumentError(f"{out}: cannot be written: it is a folder, or in none")
    found: Counter[Convolution] = Counter()
    for name in names:
        found += convolutions(MODELS[name](), batch_size, size or _SIZES.get(name, _USUAL_SIZE), precision, target)
    if not found or len(engines_on(target)) < 2:
        why = "" if target.winograd else " under RENAISSANCE_WINOGRAD=0"
        raise ArgumentError(f"{', '.join(names)}: no convolution that several engines can do{why}: there is nothing to measure")
    measured = measure(found, target, threads)
    print(table(measured, engines_on(target)))
    others = [m for m in measured if m.engine != m.chosen]
    write_overrides(out, target, threads, {m.convolution.name: m.engine for m in others},
                    {m.convolution.name: {e: round(m.quantile_ms(e), 4) for e in m.times_ms} for m in measured})
    less_ms = sum(m.nodes * (m.quantile_ms(m.chosen) - m.quantile_ms(m.engine)) for m in others)
    print(f"{len(others)} of {len(measured)} are quicker by another engine than the model's: {less_ms:.2f} ms less in a step")
    print(f"written: {out}; runs use it under RENAISSANCE_TUNED={out}")


def convolutions(model: Module, batch_size: int, size: int, precision: str, target: Target) -> Counter[Convolution]:
    """The convolutions in a training step of a model that several engines can do, and how many nodes are such.

    The step is traced; nothing is computed.
    """
    channels = next(m.in_channels for m in model.modules() if isinstance(m, Conv2d))
    images = zeros((batch_size, channels, size, size))
    recorder = Recorder([images])
    with precision_of(precision), recorder.recording():
        results = model(recorder.argument(0, images))
        losses = [_loss(y) for y in (results if isinstance(results, tuple) else (results,))]
        functools.reduce(add, losses).backward()
    gradients = [g for _, g in recorder.graded if isinstance(g, Node)]
    traced = Linear.traced(gradients, ())
    graph = expanded(Graph(tuple(traced.leaves), tuple(traced.scalars), tuple(gradients)))
    laid_out: Any = compile_graph(graph, target, stop="layout")
    return undecided(laid_out)


def _loss(scores: Any) -> Any:
    """Cross entropy of scores (N, K, ...), every target being the first class."""
    return cross_entropy(scores, zeros((scores.shape[0], *scores.shape[2:]), "int64"))


def table(measured: Sequence[Measurement], engines: Sequence[str]) -> str:
    """A line for each convolution: nodes in a step, the model's engine, the median of each engine's times in ms, the fastest."""
    head = ("convolution", "nodes", "model", *(f"{engine} ms" for engine in engines), "measured")
    rows = [head, *(
        (m.convolution.name, str(m.nodes), m.chosen, *(f"{m.quantile_ms(engine):.2f}" for engine in engines),
         m.engine + " *" * (m.engine != m.chosen)) for m in measured)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    text = (0, 2, len(head) - 1)  # columns; the others are numbers
    lines = [[cell.ljust(w) if i in text else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))] for row in rows]
    return "\n".join("  ".join(line).rstrip() for line in lines)
