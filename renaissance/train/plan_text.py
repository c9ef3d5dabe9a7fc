"""A training step's plan as text for people: layers, kernels, memory, predicted time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from renaissance.compile.describe import describe
from renaissance.ir.plan import Item, Plan
from renaissance.nn.module import Module, watching
from renaissance.ops.value import Value
from renaissance.runtime.cost import Peaks, floor_s
from renaissance.runtime.null import report

_MOST_WORDS = 8
_MIB = 2**20


class Layer(NamedTuple):
    """A layer's path in the model, its kind, its output's shape, and the number of its own parameters."""

    path: str
    kind: str
    output: str
    parameters: int


def layers_of(model: Module, forward: Callable[[], Any]) -> list[Layer]:
    """The layers in the order of their calls in `forward`: modules without others inside, or with parameters of their own.

    A layer that is called again has its parameters counted the first time.
    """
    paths = {id(m): path for path, m in model.named_modules()}
    rows: list[Layer] = []
    counted: set[int] = set()

    def note(module: Module, output: Any) -> None:
        own = [p for name, p in module.named_parameters() if "." not in name]
        if id(module) not in paths or (not own and any(True for _ in module.children())):
            return
        shape = _by(output.shape) if isinstance(output, Value) else "-"
        count = sum(p.size for p in own if id(p) not in counted)
        rows.append(Layer(paths[id(module)] or "-", type(module).__name__, shape, count))
        counted.update(id(p) for p in own)

    with watching(note):
        forward()
    return rows


def plan_text(title: str, layers: Sequence[Layer], plan: Plan, peaks: Peaks) -> str:
    """Layers; kernels with what is fused into them, their arithmetic, traffic and time at the peaks; memory; predicted time.

    title   first line
    peaks   what times are predicted from
    """
    total = report(plan, peaks)
    parts = {"scratch": total.arena_bytes, "state": total.state_bytes, "data": total.input_bytes - total.state_bytes,
             "outputs": total.output_bytes}
    memory = ", ".join(f"{name} {size / _MIB:.2f}" for name, size in parts.items())
    return "\n".join([
        title, "",
        *_table(("layer", "kind", "output", "parameters"), [(*row[:3], f"{row.parameters:,}") for row in layers], left=3),
        f"{sum(row.parameters for row in layers):,} parameters", "",
        *_table(("kernel", "fused", "MFLOP", "MiB moved", "ms"), [_kernel(item, peaks) for item in plan.items], left=2),
        f"{len(plan.items)} kernels, {1e-6 * sum(i.flops for i in plan.items):,.1f} MFLOP, "
        f"{sum(i.bytes for i in plan.items) / _MIB:,.1f} MiB moved", "",
        f"peak memory     {total.total_bytes / _MIB:.2f} MiB ({memory})",
        *(f"memory {note}" for note in plan.notes if note.startswith("budget")),
        f"predicted step  {total.predicted_s * 1e3:.3f} ms, assuming {peaks.f32_flops_per_s * 1e-9:,.0f} GFLOP/s in float32, "
        f"{peaks.bf16_flops_per_s * 1e-9:,.0f} in bfloat16 and {peaks.bytes_per_s * 1e-9:,.0f} GB/s",
    ])


def _kernel(item: Item, peaks: Peaks) -> tuple[str, ...]:
    """A row: kind, size and dtype; the words of what it does; 10^6 operations; MiB read and written; ms at the peaks."""
    kind, words, dtype, size = describe(item.spec, [operand.dtype for operand in item.operands])
    shown = " ".join(words[:_MOST_WORDS]) + (f" and {len(words) - _MOST_WORDS} more" if len(words) > _MOST_WORDS else "")
    name = " ".join(part for part in (kind, size, dtype) if part)
    return name, shown, f"{item.flops * 1e-6:.2f}", f"{item.bytes / _MIB:.2f}", f"{floor_s(item, peaks) * 1e3:.3f}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], left: int) -> list[str]:
    """Aligned columns: the first `left` to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return ["  ".join(cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths)))
            for row in (head, *rows)]


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "number"
