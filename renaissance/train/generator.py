"""The default generator on loan to a run: layers draw from it, and afterwards it is as if they had not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from renaissance import random


class RunGenerator:
    """Where a run's own random numbers stand.

    seed  any int, taken modulo 2^64
    """

    def __init__(self, seed: int):
        start = random.Generator(seed)
        self._kept = start.seed, start.ticket
        self._lent = False

    @property
    def state(self) -> tuple[int, int]:
        """Seed and next ticket."""
        return (random.default.seed, random.default.ticket) if self._lent else self._kept

    @state.setter
    def state(self, value: tuple[int, int]) -> None:
        self._kept = value

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Inside, the default generator goes on where this run left it; afterwards where others left it."""
        generator = random.default
        others = generator.seed, generator.ticket
        generator.seed, generator.ticket = self._kept
        self._lent = True
        try:
            yield
        finally:
            self._lent = False
            self._kept = generator.seed, generator.ticket
            generator.seed, generator.ticket = others
