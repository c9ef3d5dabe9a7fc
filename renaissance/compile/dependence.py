"""Dependence: which groups come after which, kept up to date while groups grow and merge, so that no circle ever forms."""

from __future__ import annotations

from collections.abc import Iterable


class Dependence:
    """A growing acyclic graph over group numbers. Sets of groups are ints: bit g stands for group g.

    A merged group has several numbers; all of them name it, and a set that holds one holds all.
    """

    def __init__(self) -> None:
        self._same: list[int] = []  # for each number, the bits of all numbers of its group
        self._before: list[int] = []  # for each group (by its first number) the groups it waits for, directly or not
        self._first: list[int] = []

    def add(self, needs: Iterable[int]) -> int:
        """A new group that waits for `needs`; returns its number."""
        number = len(self._same)
        self._same.append(1 << number)
        self._first.append(number)
        self._before.append(self._all(needs))
        return number

    def find(self, group: int) -> int:
        """The number a group is known by."""
        return self._first[group]

    def rank(self, group: int) -> int:
        """A number larger than that of every group it waits for."""
        return self._before[self.find(group)].bit_count()

    def may_need(self, group: int, needs: Iterable[int]) -> bool:
        """Whether `group` may be made to wait for `needs` too."""
        return not self._all(n for n in needs if self.find(n) != self.find(group)) & self._same[self.find(group)]

    def need(self, group: int, needs: Iterable[int]) -> None:
        """Make `group` wait for `needs`, and with it all that wait for it."""
        group = self.find(group)
        mine = self._same[group]
        gained = self._all(n for n in needs if self.find(n) != group) & ~self._before[group]
        if gained:
            self._before[group] |= gained
            for g, first in enumerate(self._first):
                if g == first and self._before[g] & mine:
                    self._before[g] |= gained

    def may_merge(self, a: int, b: int) -> bool:
        """Whether two groups can be one: nothing outside both may wait for one and be waited for by the other."""
        a, b = self.find(a), self.find(b)
        if self._before[a] & self._same[b]:
            a, b = b, a
        if not self._before[b] & self._same[a]:
            return True
        mine = self._same[a]
        between = self._before[b] & ~self._before[a] & ~mine
        while between:
            lowest = between & -between
            g = self._first[lowest.bit_length() - 1]
            if self._before[g] & mine:
                return False
            between &= ~self._same[g]
        return True

    def merge(self, a: int, b: int) -> int:
        """Make two groups one; returns its number. Only after may_merge."""
        a, b = self.find(a), self.find(b)
        both = self._same[a] | self._same[b]
        before = (self._before[a] | self._before[b]) & ~both
        for g, first in enumerate(self._first):
            if first == b:
                self._first[g] = a
        self._same[a], self._before[a] = both, before
        for g, first in enumerate(self._first):
            if g == first and self._before[g] & both:
                self._before[g] |= both | before
        return a

    def _all(self, groups: Iterable[int]) -> int:
        """The given groups and all they wait for."""
        bits = 0
        for g in groups:
            g = self.find(g)
            bits |= self._same[g] | self._before[g]
        return bits
