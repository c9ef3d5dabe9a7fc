"""The null device: it takes plans as the CPU does, runs nothing, and reports what a run would need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from renaissance.errors import PlanError
from renaissance.ir.plan import Plan
from renaissance.ir.target import Target
from renaissance.runtime.cost import Peaks, floor_s, nominal, predicted_s


@dataclass(frozen=True)
class ReportRow:
    """Items of equal name: how many, what they compute and move, and the least time they can take."""

    name: str
    count: int
    flops: int
    bytes: int
    floor_s: float


@dataclass(frozen=True)
class Report:
    """What a plan needs.

    input_bytes  leaves, state among them
    state_bytes  the part of the inputs that the plan writes
    """

    rows: tuple[ReportRow, ...]
    items: int
    arena_bytes: int
    input_bytes: int
    state_bytes: int
    output_bytes: int
    predicted_s: float
    notes: tuple[str, ...]

    @property
    def total_bytes(self) -> int:
        """Memory while the plan runs."""
        return self.arena_bytes + self.input_bytes + self.output_bytes

    def __str__(self) -> str:
        width = max([len(row.name) for row in self.rows], default=0)
        lines = [
            f"{row.name:<{width}}  {row.count:>4} x  {row.flops * 1e-9:>10.3f} GFLOP  {row.bytes / 2**20:>9.2f} MiB moved  "
            f"{row.floor_s * 1e3:>9.3f} ms" for row in self.rows
        ]
        parts = ("scratch", self.arena_bytes), ("inputs", self.input_bytes), ("outputs", self.output_bytes)
        memory = ", ".join(f"{name} {size / 2**20:.2f} MiB" for name, size in parts)
        total, time_ms = self.total_bytes / 2**20, self.predicted_s * 1e3
        lines.append(f"{self.items} items; memory {total:.2f} MiB ({memory}); at best {time_ms:.3f} ms")
        return "\n".join([*lines, *self.notes])


def report(plan: Plan, peaks: Peaks) -> Report:
    """What a plan needs on a machine of given peaks; items of one name are one row, in plan order."""
    counts = Counter(item.name for item in plan.items)
    rows = []
    for name in dict.fromkeys(item.name for item in plan.items):
        group = [item for item in plan.items if item.name == name]
        flops, moved, floor = (sum(part) for part in zip(*((i.flops, i.bytes, floor_s(i, peaks)) for i in group)))
        rows.append(ReportRow(name, counts[name], flops, moved, floor))
    written = {o.buffer for item in plan.items for o in item.operands if o.mode == "out"} | {target for _, target in plan.copies}
    sizes = {place: sum(b.size_bytes for b in plan.buffers if b.place == place) for place in ("input", "output")}
    state = sum(b.size_bytes for n, b in enumerate(plan.buffers) if b.place == "input" and n in written)
    return Report(
        tuple(rows), len(plan.items), arena_bytes=plan.arena_bytes, input_bytes=sizes["input"], state_bytes=state,
        output_bytes=sizes["output"], predicted_s=predicted_s(plan, peaks), notes=plan.notes,
    )


class NullExecutable:
    """A plan with the interface of a linked one."""

    finishes = 0

    def __init__(self, plan: Plan, target: Target, threads: int):
        self.plan = plan
        self.report = report(plan, nominal(target, threads))

    def run(self, inputs: Sequence[int], outputs: Sequence[int | None], scalars: Sequence[int | float] = ()) -> None:
        """Run nothing.

        raises   PlanError when the plan has another number of outputs or scalars
        """
        if (len(outputs), len(scalars)) != (len(self.plan.outputs), len(self.plan.scalars)):
            raise PlanError(
                f"run: got {len(outputs)} outputs and {len(scalars)} scalars; "
                f"the plan has {len(self.plan.outputs)} and {len(self.plan.scalars)}"
            )


def link(plan: Plan, target: Target, threads: int) -> NullExecutable:
    """Make a plan "ready" without compiling or allocating anything."""
    return NullExecutable(plan, target, threads)
