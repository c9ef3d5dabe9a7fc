"""Metrics against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import renaissance as rn
from renaissance.train.metrics import Totals, ranks


def plain_ranks(scores, target):
    """Places in a stable sort by falling score: NaN first, a target that is NaN or no class last."""
    found = []
    for row, t in zip(scores.astype(np.float32), target):
        if not 0 <= t < len(row) or np.isnan(row[t]):
            found.append(len(row))
        else:
            found.append(sum(np.isnan(s) or s > row[t] or (s == row[t] and j < t) for j, s in enumerate(row)))
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_ranks(dtype):
    rng = np.random.default_rng(0)
    scores, target = rng.integers(-2, 3, (60, 7)).astype(np.float32), rng.integers(0, 7, 60)  # many ties
    scores[3, target[3]], scores[4] = np.nan, np.nan
    scores[5, (target[5] + 1) % 7] = np.nan
    scores[6], scores[7, target[7]], scores[8] = np.inf, -np.inf, -np.inf
    target[10], target[11], target[12] = -100, 7, -1
    assert ranks(rn.tensor(scores, dtype=getattr(rn, dtype)), rn.tensor(target)).tolist() == plain_ranks(scores, target)


@pytest.mark.parametrize("classes", [1, 3, 12])
def test_totals_of_unequal_batches(classes):
    rng = np.random.default_rng(1)
    totals, sums = Totals(), np.zeros(4)
    add = rn.compile(lambda loss, scores, target: totals.add(loss, scores.shape[0], scores, target))
    for size in (8, 8, 3, 8, 1):
        loss, scores = np.float32(rng.random()), rng.standard_normal((size, classes)).astype(np.float32)
        target = rng.integers(0, classes, size)
        add(rn.tensor(loss), rn.tensor(scores), rn.tensor(target))
        place = np.array(plain_ranks(scores, target))
        sums += float(loss) * size, size, (place < 1).sum(), (place < 5).sum()
    read = totals.read()
    assert (read.loss, read.top1, read.top5) == (sums[0] / sums[1], sums[2] / 28, sums[3] / 28)
    totals.reset()
    assert (totals.read().loss, totals.read().top1, totals.read().top5) == (0.0, None, None)


def test_a_weight_may_be_a_tensor_and_nothing_judged_gives_no_share():
    totals = Totals()
    totals.add(rn.tensor(2.0), rn.tensor(3))
    totals.add(rn.tensor(6.0), 1)
    totals.add(rn.tensor(0.0), rn.tensor(0), rn.tensor([[1.0, 2.0]]), rn.tensor([-100]))
    read = totals.read()
    assert read.loss == 3.0 and read.top1 is None and read.top5 is None


def test_sums_do_not_lose_what_is_small():
    totals = Totals()
    add = rn.compile(lambda loss: totals.add(loss, 200))
    for _ in range(1000):
        add(rn.tensor(np.float32(0.1)))
    assert totals.read().loss == pytest.approx(float(np.float32(0.1)), rel=1e-12)
