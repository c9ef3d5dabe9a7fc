"""The profiler: where the time of plans goes, item by item, and how near each item comes to the machine's peak."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from renaissance.config import settings
from renaissance.errors import ArgumentError
from renaissance.ir.plan import Item
from renaissance.kernels.host import detect
from renaissance.runtime import timings
from renaissance.runtime.cost import Peaks, floor_s
from renaissance.runtime.peaks import measure as measured
from renaissance.runtime.timings import Timings


@dataclass(frozen=True)
class ProfileRow:
    """Launches of equal name and size.

    calls        launches
    time_s       seconds of all of them
    share        part of the time of all rows
    flops_per_s  arithmetic, flops per second
    bytes_per_s  memory traffic as the plan counts it
    peak_share   time at the machine's peak over time taken; above 1 where data came from caches, since the peak of traffic is
                 that of memory; None for what the plan gives no flops or bytes for
    """

    name: str
    calls: int
    time_s: float
    share: float
    flops_per_s: float
    bytes_per_s: float
    peak_share: float | None


class Profile:
    """What `profile` collects."""

    def __init__(self) -> None:
        self.timings = Timings()

    def rows(self, peaks: Peaks | None = None) -> list[ProfileRow]:
        """One row per name and size, the longest time first.

        peaks    what shares are taken of; None: those of this machine, measured now unless they have been
        """
        if peaks is None:
            peaks = measured(detect(), settings().threads)
        groups: dict[tuple[str, int, int], list[tuple[Item | None, int, int]]] = {}
        for executable, stamps, calls in self.timings.runs.values():
            items = executable.plan.items
            for number, (name, time_ns) in enumerate(zip(executable.names, stamps.tolist())):
                item = items[number] if number < len(items) else None
                flops, moved = (0, 0) if item is None else (item.flops, item.bytes)
                groups.setdefault((name, flops, moved), []).append((item, calls, time_ns))
        total_s = sum(time_ns for group in groups.values() for _, _, time_ns in group) * 1e-9
        rows = [_row(name, group, total_s, peaks) for (name, _, _), group in groups.items()]
        return sorted(rows, key=lambda row: -row.time_s)

    def text(self, peaks: Peaks | None = None) -> str:
        """The rows as a table, one line each, below a line of headings."""
        table = [("kernel", "calls", "ms", "share", "GFLOP/s", "GB/s", "of peak")]
        for row in self.rows(peaks):
            peak_share = "" if row.peak_share is None else f"{row.peak_share:.0%}"
            rates = f"{row.flops_per_s * 1e-9:.1f}", f"{row.bytes_per_s * 1e-9:.1f}"
            table.append((row.name, str(row.calls), f"{row.time_s * 1e3:.3f}", f"{row.share:.1%}", *rates, peak_share))
        widths = [max(len(cell) for cell in column) for column in zip(*table)]
        lines = [(name.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(cells, widths[1:]))) for name, *cells in table]
        return "\n".join("  ".join(cells) for cells in lines)

    def print(self, peaks: Peaks | None = None) -> None:
        """Print the table."""
        print(self.text(peaks))


@contextmanager
def profile() -> Iterator[Profile]:
    """Collect the times of all plans that run inside, in this process.

    returns  the Profile, complete once the block is left
    raises   ArgumentError inside another profile
    source   definition
    """
    if timings.current is not None:
        raise ArgumentError("profile: another profile is being taken; they cannot be nested")
    taken = Profile()
    timings.current = taken.timings
    try:
        yield taken
    finally:
        timings.current = None


def _row(name: str, group: list[tuple[Item | None, int, int]], total_s: float, peaks: Peaks) -> ProfileRow:
    calls = sum(n for _, n, _ in group)
    time_s = max(1e-9, sum(t for _, _, t in group) * 1e-9)
    flops = sum(n * item.flops for item, n, _ in group if item is not None)
    moved = sum(n * item.bytes for item, n, _ in group if item is not None)
    floor = sum(n * floor_s(item, peaks) for item, n, _ in group if item is not None)
    return ProfileRow(
        name, calls, time_s, share=time_s / max(total_s, 1e-9), flops_per_s=flops / time_s, bytes_per_s=moved / time_s,
        peak_share=floor / time_s if floor else None,
    )
