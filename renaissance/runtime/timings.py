"""The collector of time stamps: what executables report their items' times to while one is set."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from renaissance.ir.plan import Plan


class Timed(Protocol):
    """What was timed: a plan and the names of its rows, items first."""

    plan: Plan
    names: tuple[str, ...]


class Timings:
    """Nanoseconds by row, summed over the runs of each executable."""

    def __init__(self) -> None:
        self.runs: dict[int, tuple[Timed, np.ndarray, int]] = {}

    def add(self, executable: Timed, stamps: np.ndarray) -> None:
        """Count one run."""
        _, total, calls = self.runs.get(id(executable), (executable, np.zeros_like(stamps), 0))
        total += stamps
        self.runs[id(executable)] = executable, total, calls + 1


current: Timings | None = None  # set by `profiler.profile`
