"""A training step's plan as text for people: layers, kernels, memory, predicted time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from renaissance.engine import host_target
from renaissance.config import settings
from renaissance.ir.plan import Plan
from renaissance.nn.module import Module, watching
from renaissance.ops.value import Value
from renaissance.runtime.cost import nominal
from renaissance.runtime.null import Report, report


def layer_rows(model: Module, forward: Callable[[], Any]) -> list[tuple[str, str, str, int]]:
    """Path, kind, output shape and number of parameters of each layer, in the order of its first call in `forward`."""
    paths = {id(m): path for path, m in model.named_modules()}
    rows: list[tuple[str, str, str, int]] = []

    def note(module: Module, output: Any) -> None:
        if any(True for _ in module.children()) or id(module) not in paths:
            return
        shape = "x".join(map(str, output.shape)) if isinstance(output, Value) else "-"
        rows.append((paths[id(module)] or "-", type(module).__name__, shape, sum(p.size for p in module.parameters())))

    with watching(note):
        forward()
    return rows


def plan_report(plan: Plan) -> Report:
    """What a plan needs on this machine."""
    return report(plan, nominal(host_target(), settings().threads))


def plan_text(title: str, layers: list[tuple[str, str, str, int]], plan: Plan) -> str:
    """Layers, then kernels with flops, bytes and least time, then memory and predicted time."""
    head = ("layer", "kind", "output", "parameters")
    table = [head, *((path, kind, shape, f"{count:,}") for path, kind, shape, count in layers)]
    widths = [max(len(row[i]) for row in table) for i in range(4)]
    lines = [title, ""]
    lines += ["  ".join((*(cell.ljust(w) for cell, w in zip(row[:3], widths)), row[3].rjust(widths[3]))) for row in table]
    total = sum(count for *_, count in layers)
    return "\n".join([*lines, f"{total:,} parameters", "", str(plan_report(plan))])
