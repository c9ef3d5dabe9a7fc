"""What a measured program says about itself: its times, memory and page faults, as one line of JSON.

Used inside the measured process, so it imports the standard library alone.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def cores() -> int:
    """Number of cores this process may run on."""
    return len(os.sched_getaffinity(0))


def peak_rss_mib() -> float:
    """Largest resident set of this process so far, in MiB.

    `VmHWM` belongs to this program's own address space. `getrusage` keeps the size of the process that started this one
    where that was larger, so it serves only where there is no /proc.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def minor_faults() -> int:
    """Page faults of this process so far that needed no disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def time_once(action: Callable[[], object]) -> float:
    """Seconds one call of `action` takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def time_steps(step: Callable[[], object], *, warmup: int, steps: int) -> dict[str, float]:
    """Median seconds of `steps` calls of `step` after `warmup` calls, and minor page faults per call."""
    for _ in range(warmup):
        step()
    seconds = array("d", [0.0]) * steps  # written to before, so that noting times takes no new memory
    faults = minor_faults()
    for i in range(steps):
        seconds[i] = time_once(step)
    return {"seconds": statistics.median(seconds), "faults_per_step": (minor_faults() - faults) / steps}


def time_first(make: Callable[[], Callable[..., object]], arguments: Sequence[object], *, later: int) -> float:
    """Seconds of `make` and of the first two calls of what it returns, less what two of `later` more calls take (the median)."""
    start = time.perf_counter()
    step = make()
    step(*arguments)
    step(*arguments)
    first = time.perf_counter() - start
    return first - 2 * statistics.median([time_once(lambda: step(*arguments)) for _ in range(later)] or [0.0])


def time_often(action: Callable[[], object], *, seconds: float, least: int) -> float:
    """Median seconds of calls of `action` after one that is not counted: `least` calls, and more until `seconds` are over."""
    action()
    taken: list[float] = []
    while len(taken) < least or sum(taken) < seconds:
        taken.append(time_once(action))
    return statistics.median(taken)


def report(*, seconds: float, faults_per_step: float | None = None, flops_per_second: float | None = None,
           rss_mib: float | None = None, note: str = "", parts: Mapping[str, float] | None = None) -> None:
    """Print the program's one line of JSON: what it measured, and its peak memory.

    rss_mib           where the program took its peak memory earlier, before work that is no part of the row
    flops_per_second  where the program knows it better than the harness: of a part of its work
    note              what the table should say about how it was done
    parts             seconds of each of the things it measured, by their names, where the table has a line for each
    """
    print(json.dumps({"seconds": seconds, "rss_mib": rss_mib or peak_rss_mib(), "faults_per_step": faults_per_step,
                      "flops_per_second": flops_per_second, "note": note, "parts": parts or {}}), flush=True)
