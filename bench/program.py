"""A measured program: a module of this package run in a process of its own, and what it reported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_RUN_S = 900
# glibc's malloc so that it keeps what it has been given, and large buffers are not mapped and faulted in anew each step.
TUNED_MALLOC = {"MALLOC_TRIM_THRESHOLD_": "10000000000", "MALLOC_MMAP_THRESHOLD_": "10000000000", "MALLOC_TOP_PAD_": "1000000000"}
# The line of a Python error that says what happened, rather than where or what to do about it.
_ERROR = re.compile(r"^([\w.]*(Error|Exception|Exit|Interrupt)\b.*)$", re.MULTILINE)


class ProgramError(Exception):
    """A program ended without a result; the message names the program and repeats its complaint."""


@dataclass(frozen=True)
class Program:
    """What to run.

    name         as it appears in the table
    module       run with `python -m`, with `arguments`, and after them `quick` where only a check is wanted
    environment  variables set for it
    empty_cache  begin with an empty cache of compiled code instead of the one that the other programs filled
    """

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    empty_cache: bool = False


@dataclass(frozen=True)
class Result:
    """What a program reported about itself, see `probe.report`."""

    seconds: float
    rss_mib: float
    faults_per_step: float | None = None
    flops_per_second: float | None = None
    note: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)


class Runner:
    """Runs programs one at a time, each in a fresh process.

    cache         directory for compiled code, shared by all programs
    quick         short runs, to see that everything works
    python        interpreter for our programs
    rival_python  interpreter for those of PyTorch
    """

    def __init__(self, cache: Path, *, quick: bool, python: str, rival_python: str) -> None:
        self.cache = cache
        self.quick = quick
        self.python = python
        self.rival_python = rival_python

    def run(self, program: Program) -> Result:
        """What the program reports; raises ProgramError if it reports nothing."""
        if not program.empty_cache:
            return Result(**self.answer(program, self.cache))
        with tempfile.TemporaryDirectory(dir=self.cache) as empty:
            return Result(**self.answer(program, Path(empty)))

    def answer(self, program: Program, cache: Path) -> dict:
        """The line of JSON that a program ends its output with."""
        python = self.rival_python if program.module.startswith("bench.rivals.") else self.python
        command = [python, "-m", program.module, *program.arguments, *(program.quick if self.quick else ())]
        try:
            ended = subprocess.run(command, cwd=ROOT, env=self._environment(program, cache), capture_output=True, text=True,
                                   timeout=LONGEST_RUN_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise ProgramError(f"{program.name}: no result after {LONGEST_RUN_S} s") from error
        if ended.returncode == 0 and ended.stdout.strip():
            return json.loads(ended.stdout.strip().splitlines()[-1])
        raise ProgramError(f"{program.name}: {_complaint(ended.stderr) or f'exit status {ended.returncode}, no output'}")

    @staticmethod
    def _environment(program: Program, cache: Path) -> dict[str, str]:
        """Ours without any setting of malloc, with the caches in their place and the program's own variables."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
        caches = {"RENAISSANCE_CACHE": str(cache / "renaissance"), "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor")}
        return {**inherited, **caches, **program.environment}


def _complaint(stderr: str) -> str:
    """The one line of a program's last words that names its error."""
    errors = _ERROR.findall(stderr)
    if errors:
        return errors[-1][0]
    return stderr.strip().splitlines()[-1] if stderr.strip() else ""
