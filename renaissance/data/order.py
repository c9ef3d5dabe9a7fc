"""The order of samples: a pure function of (seed, epoch). To resume, an epoch's number and the samples used of it are enough."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from renaissance.errors import ArgumentError
from renaissance.ir.philox import philox4x32

# Random draws of a program take tickets counted up from 0; the order of an epoch takes one from the far half of their range,
# so that the same seed never gives both the same words.
_FIRST_TICKET = 1 << 63
_LOW, _HALF = 0xFFFFFFFF, 32


def permutation(n: int, *, seed: int, epoch: int) -> np.ndarray:
    """A random order of n samples: sample i gets a 64-bit random key, and the samples are sorted by key, ties by index.

    w = philox4x32(counter = (i // 2, 2^63 + epoch), key = seed), each of them as (low, high) halves
    key(i) = w[0] 2^32 + w[1] for even i, w[2] 2^32 + w[3] for odd i

    n         number of samples, >= 0
    seed      int; taken modulo 2^64
    epoch     int, 0 <= epoch < 2^63
    returns   (n,) int64
    raises    ArgumentError for n or epoch out of range
    source    sorting by random keys: Knuth, The Art of Computer Programming 3, 5.2; Philox: Salmon et al. 2011, "Parallel random
              numbers: as easy as 1, 2, 3"
    """
    if n < 0:
        raise ArgumentError(f"permutation: n must be at least 0, got {n}")
    if not 0 <= epoch < _FIRST_TICKET:
        raise ArgumentError(f"permutation: epoch must be in 0 ... 2^63 - 1, got {epoch}")
    ticket = _FIRST_TICKET + epoch
    block = np.arange(-(-n // 2), dtype=np.uint64)
    low, high = (np.full_like(block, half) for half in (ticket & _LOW, ticket >> _HALF))
    words = philox4x32((block & _LOW, block >> _HALF, low, high), (seed & _LOW, seed >> _HALF & _LOW))
    keys = np.stack([words[0] << _HALF | words[1], words[2] << _HALF | words[3]], axis=1).ravel()[:n]
    order = np.argsort(keys)
    ordered = keys[order]
    if (ordered[1:] == ordered[:-1]).any():  # a stable sort takes five times as long, and equal keys are hardly ever seen
        order = np.argsort(keys, kind="stable")
    return order.astype(np.int64, copy=False)


def batch_count(n: int, batch_size: int, *, drop_last: bool = False) -> int:
    """The number of batches n samples make: n / batch_size, rounded down with drop_last, else up.

    raises    ArgumentError for n below 0 or batch_size below 1, or if there is no batch because drop_last drops the only one
    source    definition
    """
    if n < 0:
        raise ArgumentError(f"batches: n must be at least 0, got {n}")
    if batch_size < 1:
        raise ArgumentError(f"batches: batch_size must be at least 1, got {batch_size}")
    if drop_last and 0 < n < batch_size:
        raise ArgumentError(f"batches: drop_last drops all {n} samples, since batch_size is {batch_size}; make it smaller")
    return n // batch_size if drop_last else -(-n // batch_size)


def batches(
    n: int, batch_size: int, *, seed: int, epoch: int, shuffle: bool = True, drop_last: bool = False, start: int = 0
) -> Iterator[np.ndarray]:
    """The sample numbers of each batch of one epoch.

    n            number of samples
    batch_size   samples in a batch; the last one is shorter if they do not come out even
    seed, epoch  as in `permutation`; unused without shuffle
    shuffle      random order; False: 0, 1, 2 ...
    drop_last    leave out a shorter last batch
    start        samples of this epoch already used: 0 ... n; the batches go on behind them
    returns      iterator over (batch_size,) int64 arrays; together with the first `start` they hold each sample at most once,
                 and exactly once unless drop_last leaves some out
    raises       ArgumentError for values out of range, at the call
    source       definition
    """
    batch_count(n, batch_size, drop_last=drop_last)  # refuses what makes no batch even from the start
    if not 0 <= start <= n:
        raise ArgumentError(f"batches: start must be in 0 ... {n}, the number of samples, got {start}")
    left = n - start
    count = left // batch_size if drop_last else -(-left // batch_size)
    order = permutation(n, seed=seed, epoch=epoch) if shuffle else np.arange(n, dtype=np.int64)
    return (order[start + b * batch_size : start + (b + 1) * batch_size] for b in range(count))
