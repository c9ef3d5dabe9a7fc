"""A few real digits as idx files, for tests that train."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from renaissance.data.idx import read_idx, write_idx
from renaissance.data.sets.mnist import FILES, SAMPLE


def write_digits(folder: Path, count: int) -> None:
    """Write the first bundled digits of both parts, `count` of each, as MNIST's four files."""
    for file in FILES:
        write_idx(folder / file.name, np.ascontiguousarray(read_idx(SAMPLE / file.name)[:count]))
