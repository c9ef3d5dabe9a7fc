"""How busy others keep this machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def busy_seconds(stat: str) -> float:
    """Core-seconds spent since the machine started, by /proc/stat's text: all but idle and waiting for disks.

    Includes what a hypervisor gave to other machines: it was not ours to use.
    """
    user, nice, system, _idle, _wait, interrupts, soft_interrupts, stolen = map(int, stat.split("\n", 1)[0].split()[1:9])
    return (user + nice + system + interrupts + soft_interrupts + stolen) / _TICKS_PER_SECOND


def own_seconds() -> float:
    """Core-seconds of this process and of all its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class OtherLoad:
    """The load average that other programs make, from when this object was made.

    The system's own load average counts the benchmark too and would never be below the number of its threads.
    """

    def __init__(self) -> None:
        self.start = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.monotonic(), busy_seconds(Path("/proc/stat").read_text(encoding="ascii")) - own_seconds()

    def average(self) -> float:
        """Cores that others kept busy, averaged over the time since the start."""
        wall, others = (now - then for now, then in zip(self._now(), self.start))
        return max(0.0, others / wall) if wall else 0.0
