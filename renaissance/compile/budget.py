"""budget: what is computed again so that a plan fits into so much memory.

Takes a plan in order. Gives the cheapest of a fixed list of plans, in each of which other values are dropped between forward and
backward part, whose memory is at most the budget. The list does not depend on the budget: so a smaller budget never gives a
higher peak, and the lowest peak in the list is the smallest budget that can be met.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from renaissance.compile.again import Again, Dropping
from renaissance.compile.memory import memory
from renaissance.compile.order import peak_bytes
from renaissance.errors import BudgetError
from renaissance.ir.plan import Item, Plan

_SHARES = 12  # of the values' bytes: steps in which single values are dropped
_LEVELS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # parts of the values' bytes that one segment makes
_DONE = (0.25, 0.5, 0.75, 1.0)  # shares of the segments whose values are dropped
_MOST_CUTS = 160  # places looked at for cuts between segments
_CHEAP = 4  # bytes' time to compute one byte again, up to which a value is dropped with any segment


class _Choice(NamedTuple):
    """Values that are dropped, and those that are kept for computing them again."""

    dropped: frozenset[int]
    kept: frozenset[int]


def needed_bytes(plan: Plan) -> int:
    """The memory of a placed plan while it runs: inputs (parameters, state, data), outputs and arena."""
    return plan.arena_bytes + sum(b.size_bytes for b in plan.buffers if b.place != "arena")


def within(plan: Plan, budget_bytes: int) -> Plan:
    """The plan with what has to be computed again so that it needs at most `budget_bytes`; its notes say what that is.

    raises  BudgetError, naming the smallest budget that can be met
    """
    whole = needed_bytes(memory(plan))
    if whole <= budget_bytes:
        return _noted(plan, (), budget_bytes, whole)
    smallest = whole
    for again in _by_cost(plan):
        peak = needed_bytes(memory(again.plan))
        if peak <= budget_bytes:
            return _noted(again.plan, again.items, budget_bytes, peak)
        smallest = min(smallest, peak)
    fixed = sum(b.size_bytes for b in plan.buffers if b.place != "arena")
    raise BudgetError(f"memory_budget: {budget_bytes} bytes are too few; the smallest budget that can be met is {smallest} bytes "
                      f"({smallest / 2**20:.2f} MiB), of which inputs and outputs are {fixed}; without a budget the plan needs "
                      f"{whole}. A smaller batch needs less")


def _by_cost(plan: Plan) -> list[Again]:
    """The plans in which something is dropped, the cheapest first, without those that need more live bytes than a cheaper one."""
    dropping = Dropping(plan)
    made = [again for choice in dict.fromkeys(_choices(dropping)) if (again := dropping.again(*choice)) is not None]
    least = math.inf
    found: list[Again] = []
    for again in sorted(made, key=lambda again: again.cost_bytes):
        live_bytes = peak_bytes(again.plan, range(len(again.plan.items)))
        if live_bytes < least:
            least = live_bytes
            found.append(again)
    return found


def _noted(plan: Plan, again: tuple[Item, ...], budget_bytes: int, peak: int) -> Plan:
    flops, moved = sum(i.flops for i in again), sum(i.bytes for i in again)
    return replace(plan, notes=(*plan.notes, f"budget {budget_bytes} bytes, needed {peak}; computed again: {len(again)} items, "
                                             f"{flops} flops, {moved} bytes moved"))


def _choices(dropping: Dropping) -> Iterator[_Choice]:
    """All choices that are looked at."""
    values = dropping.values
    if not values:
        return
    total = sum(map(dropping.size, values))
    rates = {b: dropping.rate(b) for b in values}
    cheap = frozenset(b for b in values if rates[b] <= _CHEAP)
    by_rate = sorted(values, key=lambda b: (rates[b], b))
    for share in range(1, _SHARES + 1):
        yield _Choice(frozenset(_first(dropping, by_rate, total * share // _SHARES)), frozenset())
    places = _places(dropping)
    for others in (frozenset(), cheap):
        left = [b for b in values if b not in others]
        for cuts in dict.fromkeys(_cuts(dropping, left, places, total // level) for level in _LEVELS):
            crossing = frozenset(b for t in cuts for b in _crossing(dropping, t))
            for done in _DONE:
                end = cuts[max(0, round(done * len(cuts)) - 1)] if cuts else -1
                dropped = frozenset(b for b in left if dropping.made[b] <= end and b not in crossing)
                yield _Choice(dropped | others - crossing, crossing)
                yield _Choice(dropped | others, crossing - others)


def _first(dropping: Dropping, values: Iterable[int], size_bytes: int) -> Iterator[int]:
    """The first of these values that have so many bytes together."""
    for b in values:
        if size_bytes <= 0:
            return
        size_bytes -= dropping.size(b)
        yield b


def _crossing(dropping: Dropping, t: int) -> list[int]:
    """The buffers that are written up to item t and read by early items after it: from them the next segment is computed."""
    return [b for b, made in dropping.made.items() if made <= t < dropping.early[b]]


def _places(dropping: Dropping) -> list[tuple[int, int]]:
    """(item, bytes that cross there) for the places where a segment may end: those that fewest bytes cross, in order."""
    change = [0] * (len(dropping.plan.items) + 1)
    for b, made in dropping.made.items():
        if made < dropping.early[b]:
            change[made] += dropping.size(b)
            change[dropping.early[b]] -= dropping.size(b)
    crossing, places = 0, []
    for t in range(dropping.turn):
        crossing += change[t]
        places.append((t, crossing))
    parts = min(len(places), _MOST_CUTS)
    bounds = [len(places) * i // parts for i in range(parts + 1)] if parts else []
    return [min(places[a:z], key=lambda place: place[1]) for a, z in pairwise(bounds)]


def _cuts(dropping: Dropping, values: list[int], places: list[tuple[int, int]], most: int) -> tuple[int, ...]:
    """Where to cut: no segment makes more than `most` bytes of the values, if it can be helped, and least crosses the cuts."""
    ends = [dropping.made[b] for b in values]
    sums = [0]
    for b in values:
        sums.append(sums[-1] + dropping.size(b))
    made = [sums[bisect.bisect_right(ends, t)] for t, _ in places] + [sums[-1]]
    costs = [c for _, c in places] + [0]
    best: list[tuple[int, int]] = []  # for each place: the bytes that cross up to it, and the cut before
    for i, done in enumerate(made):
        found = (costs[i], -1) if done <= most else None
        for j in reversed(range(i)):
            if done - made[j] > most and found is not None:
                break
            if found is None or best[j][0] + costs[i] < found[0]:
                found = (best[j][0] + costs[i], j)
            if done - made[j] > most:
                break
        best.append(found or (costs[i], -1))
    cuts, at = [], best[-1][1]
    while at >= 0:
        cuts.append(places[at][0])
        at = best[at][1]
    return tuple(reversed(cuts))
