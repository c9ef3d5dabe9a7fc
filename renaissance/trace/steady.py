"""Steady: what a compiled function computes from tensors that it only reads, kept from call to call until they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from renaissance.engine import Program
from renaissance.region import Region
from renaissance.runtime.storage import Storage


class Steady:
    """The values of a program that depends on steady tensors alone.

    program  makes the values
    places   of the tensors among the inputs
    """

    def __init__(self, program: Program, places: Sequence[int]):
        self._program = program
        self._pick = itemgetter(*places, places[0])
        self._regions: list[Region] = []
        self._addresses: list[int] = []
        self._from: tuple[int, ...] = ()  # the addresses that the values were made from
        # Of their storages, which are held so that no other gets their addresses; None: they may change unseen.
        self._versions: list[tuple[Storage, int]] | None = None

    def addresses(self, inputs: Sequence[int], storages: Callable[[], Iterable[Storage]]) -> list[int]:
        """Where the values are, made again if an input lies elsewhere or its bytes may have changed.

        inputs    addresses of all inputs
        storages  says where the steady ones lie
        """
        if self._versions is None or self._pick(inputs) != self._from or any(s.version != v for s, v in self._versions):
            self._versions = None  # an interrupt must not leave half of it
            versions = [(s, s.version) for s in dict.fromkeys(storages())]
            regions = self._program.run(inputs, ())
            self._from, self._regions = self._pick(inputs), regions
            self._addresses = [r.address for r in regions]
            self._versions = None if any(s.exported for s, _ in versions) else versions
        return self._addresses
