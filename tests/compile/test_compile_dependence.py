"""Dependence against a plain graph: every question answered by walking edges."""

from __future__ import annotations

import random

from renaissance.compile.dependence import Dependence


class Plain:
    """Groups as sets of numbers, edges as pairs; everything by search."""

    def __init__(self) -> None:
        self.group: list[int] = []
        self.edges: set[tuple[int, int]] = set()  # (waits, for)

    def add(self, needs) -> None:
        self.group.append(len(self.group))
        self.edges |= {(len(self.group) - 1, n) for n in needs}

    def before(self, g: int) -> set[int]:
        """Groups that g waits for."""
        found: set[int] = set()
        stack = [self.group[g]]
        while stack:
            k = stack.pop()
            for a, b in self.edges:
                b = self.group[b]
                if self.group[a] == k and b != k and b not in found:
                    found.add(b)
                    stack.append(b)
        return found

    def circular(self) -> bool:
        return any(g in self.before(g) for g in set(self.group))

    def copy(self) -> Plain:
        other = Plain()
        other.group, other.edges = list(self.group), set(self.edges)
        return other

    def merge(self, a: int, b: int) -> None:
        a, b = self.group[a], self.group[b]
        self.group = [a if g == b else g for g in self.group]


def test_random_growth_agrees_with_search():
    rng = random.Random(1)
    merged = refused = 0
    for _ in range(60):
        fast, plain = Dependence(), Plain()
        for number in range(14):
            needs = set(rng.sample(range(number), min(number, rng.randint(0, 3))))
            assert fast.add(needs) == number
            plain.add(needs)
            a, b = rng.randrange(number + 1), rng.randrange(number + 1)
            if plain.group[a] != plain.group[b]:
                trial = plain.copy()
                trial.merge(a, b)
                assert fast.may_merge(a, b) == (not trial.circular())
                if fast.may_merge(a, b) and rng.random() < 0.6:
                    fast.merge(a, b)
                    plain = trial
                    merged += 1
                else:
                    refused += 1
            a, b = rng.randrange(number + 1), rng.randrange(number + 1)
            trial = plain.copy()
            trial.edges.add((a, b))
            assert fast.may_need(a, [b]) == (not trial.circular())
            if fast.may_need(a, [b]) and rng.random() < 0.4:
                fast.need(a, [b])
                plain = trial
            same = {g: fast.find(g) for g in range(number + 1)}
            for g in range(number + 1):
                assert (same[g] == same[a]) == (plain.group[g] == plain.group[a])
            ranks = {g: fast.rank(g) for g in range(number + 1)}
            for g in range(number + 1):
                assert all(ranks[g] > ranks[h] for h in plain.before(g))
    assert merged > 50 and refused > 50
