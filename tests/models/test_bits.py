"""A model's training has the same bits whatever the number of threads, compiled or not, and whatever is looked at on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .table import SMALL

ROOT = Path(__file__).parents[2]
RUNS = ((1, "compiled"), (2, "compiled"), (3, "uncompiled"), (1, "uncompiled"), (2, "realised"))


def digest(name: str, precision: str, threads: int, form: str, cache: Path) -> str:
    environment = {**os.environ, "RENAISSANCE_THREADS": str(threads), "RENAISSANCE_CACHE": str(cache)}
    done = subprocess.run([sys.executable, "-m", "tests.models.training_bits", name, precision, form], cwd=ROOT, env=environment,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", [case.name for case in SMALL])
def test_bits_of_training(name, precision, tmp_path):
    found = {(threads, form): digest(name, precision, threads, form, tmp_path) for threads, form in RUNS}
    assert len(set(found.values())) == 1, found
