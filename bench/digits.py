"""Stand-ins for MNIST: as many grey images and labels, from a fixed seed. Times do not depend on what is on them."""

from __future__ import annotations

import numpy as np

TRAIN = 60_000
VALIDATION = 10_000
MEAN, STD = 0.1307, 0.3081


def images(count: int, seed: int) -> np.ndarray:
    """(count, 28, 28) uint8, mostly dark. Made in blocks, so that making them does not set the peak memory of a run."""
    random = np.random.default_rng(seed)
    out = np.empty((count, 28, 28), np.uint8)
    for block in np.split(out, range(1000, count, 1000)):
        block[...] = random.random(block.shape, np.float32) ** 4 * 255
    return out


def labels(count: int, seed: int) -> np.ndarray:
    """(count,) int64 in 0 ... 9."""
    return np.random.default_rng(seed).integers(0, 10, count)
