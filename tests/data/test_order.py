"""The order of samples: a pure function of (seed, epoch), each sample once, also when an epoch is resumed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from renaissance.data.order import batch_count, batches, permutation
from renaissance.errors import ArgumentError
from renaissance.ir.philox import philox4x32

sizes = st.integers(0, 200)


@given(n=sizes, seed=st.integers(-(2**63), 2**64 - 1), epoch=st.integers(0, 2**63 - 1))
def test_a_permutation_holds_each_sample_once_and_repeats(n, seed, epoch):
    order = permutation(n, seed=seed, epoch=epoch)
    assert order.dtype == np.int64 and np.array_equal(np.sort(order), np.arange(n))
    assert np.array_equal(order, permutation(n, seed=seed, epoch=epoch))


def test_the_order_is_that_of_the_stated_keys():
    seed, epoch = 7 + (9 << 32), 3 + (5 << 32)
    keys = []
    for i in range(51):
        counter = [np.array([half], np.uint64) for half in (i // 2, 0, 3, (1 << 31) + 5)]
        words = [int(word[0]) for word in philox4x32(tuple(counter), (7, 9))]
        keys.append((words[2 * (i % 2)] << 32) + words[2 * (i % 2) + 1])
    assert list(permutation(51, seed=seed, epoch=epoch)) == sorted(range(51), key=keys.__getitem__)


def test_equal_keys_keep_the_order_of_their_samples(monkeypatch):
    def two_keys(counter, key):
        return (counter[0] % 2,) * 4

    monkeypatch.setattr("renaissance.data.order.philox4x32", two_keys)
    assert list(permutation(8, seed=0, epoch=0)) == [0, 1, 4, 5, 2, 3, 6, 7]


def test_seeds_and_epochs_give_different_orders():
    orders = {tuple(permutation(50, seed=seed, epoch=epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_every_sample_is_as_likely_at_every_place():
    """2,000 orders of 8 samples: chi-squared of the 8 x 8 counts, 49 degrees of freedom, below its 1 - 1e-6 quantile."""
    counts = np.zeros((8, 8))
    for epoch in range(2000):
        counts[np.arange(8), permutation(8, seed=1, epoch=epoch)] += 1
    assert ((counts - 250) ** 2 / 250).sum() < 110


@given(n=sizes, size=st.integers(1, 60), start=st.integers(0, 200), shuffle=st.booleans(), drop=st.booleans())
def test_batches_cut_the_order(n, size, start, shuffle, drop):
    start = min(start, n)
    drop = drop and n >= size
    cut = list(batches(n, size, seed=3, epoch=2, shuffle=shuffle, drop_last=drop, start=start))
    order = permutation(n, seed=3, epoch=2) if shuffle else np.arange(n)
    rest = order[start:]
    assert np.array_equal(np.concatenate([np.empty(0, int), *cut]), rest[: len(rest) // size * size] if drop else rest)
    assert all(len(batch) == size for batch in cut[:-1])
    if start == 0:
        assert len(cut) == batch_count(n, size, drop_last=drop)


def test_an_epoch_resumed_with_another_batch_size_sees_each_sample_once():
    first = list(batches(100, 7, seed=9, epoch=4))[:5]
    rest = list(batches(100, 16, seed=9, epoch=4, start=35))
    assert np.array_equal(np.concatenate(first + rest), permutation(100, seed=9, epoch=4))


@pytest.mark.parametrize(
    "arguments, keywords, words",
    [
        ((10, 0), {}, "batch_size must be at least 1, got 0"),
        ((10, 11), {"drop_last": True}, "drops all 10 samples"),
        ((10, 2), {"start": 11}, "0 ... 10"),
        ((10, 2), {"start": -1}, "got -1"),
        ((10, 2), {"epoch": -1}, "epoch must be"),
        ((-1, 2), {"shuffle": False}, "n must be at least 0, got -1"),
    ],
)
def test_mistakes_are_named_at_the_call(arguments, keywords, words):
    with pytest.raises(ArgumentError) as caught:
        batches(*arguments, **{"seed": 0, "epoch": 0, **keywords})
    assert words in str(caught.value)
    with pytest.raises(ArgumentError, match="got -1"):
        permutation(-1, seed=0, epoch=0)
