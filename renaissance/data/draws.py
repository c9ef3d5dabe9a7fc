"""Random numbers of the data path: a function of (seed, epoch, sample), whatever batch a sample lands in."""

from __future__ import annotations

from typing import Any

from renaissance.errors import ArgumentError
from renaissance.ir import dtype as dt
from renaissance.ops.random import random_at, unit_uniform
from renaissance.region import scalar
from renaissance.tensor import tracing

# Tickets: the program's own draws count up from 0, the order of samples uses the far half; augmentation lies between.
_FIRST_TICKET = 1 << 62
_DRAWS_PER_EPOCH = 1 << 10


class SampleDraws:
    """Draws for given samples in a given epoch; the epoch may change between runs of a compiled function.

    seed   int, modulo 2^64
    epoch  the epoch the next draws are for, from 0
    """

    def __init__(self, seed: int):
        self.seed = seed % (1 << 64)
        self.epoch = 0
        self._made = 0

    def start(self) -> None:
        """Begin the draws of a chain: its first draw is number 0 of the epoch."""
        self._made = 0

    def uniform(self, samples: Any, low: float = 0.0, high: float = 1.0) -> Any:
        """One float32 number in [low, high) for each of `samples` (int64 positions in the data set).

        u = philox(seed, ticket, sample),  ticket = 2^62 + 1024 epoch + number of the draw in the chain

        raises  ArgumentError for more draws in a chain than an epoch has tickets
        """
        made = self._made
        if made == _DRAWS_PER_EPOCH:
            raise ArgumentError(f"a chain of transforms may draw {_DRAWS_PER_EPOCH} numbers for a sample, not more")
        self._made += 1

        def values() -> dict[str, int]:
            return {"seed": self.seed, "ticket": _FIRST_TICKET + self.epoch * _DRAWS_PER_EPOCH + made}

        if tracing.recorder is not None:
            bound = {name: t.node for name, t in tracing.recorder.scalars(values, dt.uint64).items()}
        else:
            bound = {name: scalar(v, dt.uint64) for name, v in values().items()}
        u = unit_uniform(random_at(samples, bound["seed"], bound["ticket"]))
        return u * (high - low) + low
