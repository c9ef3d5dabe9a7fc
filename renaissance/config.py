"""The settings of the process: one frozen record, the only reader of the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from renaissance.errors import ArgumentError

_TARGETS = ("native", "avx512", "avx2", "sse")
_MAX_THREADS = 1024


@dataclass(frozen=True)
class Settings:
    """What the environment may choose.

    threads    threads that run kernels (RENAISSANCE_THREADS; else the CPUs this process may use)
    target     'native', or narrower vectors than the machine has: 'avx512', 'avx2', 'sse' (RENAISSANCE_TARGET)
    winograd   whether 3x3 convolutions may be done by minimal filtering (RENAISSANCE_WINOGRAD, 1 or 0; else they may)
    tuned      file of engines measured by `renaissance tune` (RENAISSANCE_TUNED; None: the cost model chooses all)
    cache_dir  where compiled kernels and plans are kept (RENAISSANCE_CACHE)
    data_dir   where data sets are kept (RENAISSANCE_DATA)
    """

    threads: int
    target: str
    winograd: bool
    tuned: Path | None
    cache_dir: Path
    data_dir: Path


def read(environment: Mapping[str, str]) -> Settings:
    """The settings an environment states.

    raises  ArgumentError naming the variable whose value is wrong
    """
    home = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "renaissance"
    target = environment.get("RENAISSANCE_TARGET") or "native"
    if target not in _TARGETS:
        raise ArgumentError(f"RENAISSANCE_TARGET must be one of {', '.join(_TARGETS)}, got {target!r}")
    winograd = environment.get("RENAISSANCE_WINOGRAD") or "1"
    if winograd not in ("0", "1"):
        raise ArgumentError(f"RENAISSANCE_WINOGRAD must be 0 or 1, got {winograd!r}")
    return Settings(
        threads=_threads(environment.get("RENAISSANCE_THREADS")),
        target=target,
        winograd=winograd == "1",
        tuned=Path(tuned).expanduser() if (tuned := environment.get("RENAISSANCE_TUNED")) else None,
        cache_dir=_directory("RENAISSANCE_CACHE", environment.get("RENAISSANCE_CACHE"), home / "kernels"),
        data_dir=_directory("RENAISSANCE_DATA", environment.get("RENAISSANCE_DATA"), home / "data"))


@cache
def settings() -> Settings:
    """The settings of this process, read once."""
    return read(os.environ)


def _threads(text: str | None) -> int:
    if not text:
        return usable_cpus()
    if not text.strip().isdecimal() or not 1 <= int(text) <= _MAX_THREADS:
        raise ArgumentError(f"RENAISSANCE_THREADS must be a whole number from 1 to {_MAX_THREADS}, got {text!r}")
    return int(text)


def _directory(variable: str, text: str | None, default: Path) -> Path:
    path = Path(text).expanduser() if text else default
    if path.exists() and not path.is_dir():
        raise ArgumentError(f"{variable} must be a directory, but {path} is a file")
    return path


def usable_cpus() -> int:
    """CPUs this process may use: its affinity, cut by the quota of its control group (rounded up), at least 1."""
    return max(1, min(len(os.sched_getaffinity(0)), _quota_cpus(Path("/sys/fs/cgroup"))))


def _quota_cpus(root: Path) -> int:
    """The CPU quota of a control group tree, version 2 or 1; a large number where there is none."""
    try:
        words = (root / "cpu.max").read_text().split()
    except OSError:
        try:
            words = [(root / "cpu" / f"cpu.cfs_{part}_us").read_text().strip() for part in ("quota", "period")]
        except OSError:
            return _MAX_THREADS
    if len(words) != 2 or not words[0].isdecimal() or not words[1].isdecimal() or int(words[1]) == 0:
        return _MAX_THREADS
    return max(1, -(-int(words[0]) // int(words[1])))
