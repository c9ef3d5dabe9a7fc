"""Again: a plan in which some values are dropped once the early items have read them, and computed again for the late ones.

What is computed again are items of the plan, each an excerpt with the values that are wanted. So every bit is the same.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from renaissance.compile.excerpt import excerpt
from renaissance.ir.plan import Buffer, Item, Operand, Plan
from renaissance.ir.traffic import Touch, has_check, reads, writes

FLOPS_PER_BYTE = 8  # arithmetic that takes as long as moving one byte, about: only the order of plans depends on it


class Part(NamedTuple):
    """What of an item runs again: its excerpt, the arena buffers it takes from others, and the item before which it must run."""

    item: Item
    sources: frozenset[int]
    limit: int


@dataclass(frozen=True)
class Again:
    """A plan, and the items in it that are computed again (less those that thereby need not run early)."""

    plan: Plan
    items: tuple[Item, ...]
    cost_bytes: int


def cost_bytes(item: Item) -> int:
    """About how long an item takes, as bytes moved in that time."""
    return max(item.bytes, item.flops // FLOPS_PER_BYTE)


class Dropping:
    """What a plan in order allows to be dropped.

    turn     late items are those after this one: as many bytes as ever lie idle after it (between forward and backward part)
    values   buffers that may be dropped, by their place in the order: written by early items, read by late ones
    made     for each arena buffer the item that writes it last
    early    for each arena buffer the last early item that reads it
    last     for each arena buffer the last item that touches it
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self._reads: dict[int, list[int]] = {}
        self._writers: dict[int, list[int]] = {}
        self._overwrites: dict[int, list[tuple[int, Touch]]] = {}
        self._parts: dict[tuple[int, frozenset[int]], Part] = {}
        for number, item in enumerate(plan.items):
            for o in item.operands:
                found = self._reads if o.mode == "in" else self._writers
                if plan.buffers[o.buffer].place == "arena":
                    found.setdefault(o.buffer, []).append(number)
            for touch in writes(item):
                if plan.buffers[touch.buffer].place == "input":
                    self._overwrites.setdefault(touch.buffer, []).append((number, touch))
        fixed = {source for source, _ in plan.copies}
        self.made = {b: found[-1] for b, found in self._writers.items()}
        self.last = {b: max(self.made[b], *self._reads.get(b, ())) if b in self._reads else self.made[b] for b in self.made}
        self.last.update({b: len(plan.items) for b in fixed if b in self.made})
        self.turn = self._turn()
        self.early = {b: max([made, *(r for r in self._reads.get(b, ()) if r <= self.turn)]) for b, made in self.made.items()}
        values = [b for b, made in self.made.items() if made <= self.turn < self.last[b] and b not in fixed and self.size(b)]
        self.values = sorted(values, key=lambda b: (self.made[b], b))

    def size(self, b: int) -> int:
        """Bytes of a buffer."""
        return self.plan.buffers[b].size_bytes

    def _turn(self) -> int:
        change = [0] * (len(self.plan.items) + 1)
        for b, made in self.made.items():
            touched = [made, *(r for r in self._reads.get(b, ()) if r > made)]
            for a, z in zip(touched, touched[1:]):
                if z - a > 2:
                    change[a] += self.size(b)
                    change[z] -= self.size(b)
        idle = most = turn = 0
        for number, c in enumerate(change):
            idle += c
            if idle > most:
                most, turn = idle, number
        return turn

    def part(self, number: int, wanted: frozenset[int]) -> Part:
        """What runs again of an item so that it writes the wanted buffers."""
        found = self._parts.get((number, wanted))
        if found is None:
            item = excerpt(self.plan.items[number], wanted, self.plan.buffers)
            own = {o.buffer for o in item.operands if o.mode == "out"}
            sources = frozenset(o.buffer for o in item.operands if o.mode == "in" and o.buffer not in own
                                and self.plan.buffers[o.buffer].place == "arena")
            read_again = {o.buffer for o in item.operands if o.mode == "in"} & own
            limit = min([w for read in reads(item) for w, touch in self._overwrites.get(read.buffer, ())
                         if w >= number and read.meets(touch)], default=len(self.plan.items))
            if any(len(self._writers.get(b, ())) > 1 for b in read_again):
                limit = -1  # it reads what others wrote to the buffer that it writes
            found = self._parts[number, wanted] = Part(item, sources, limit)
        return found

    def again(self, dropped: Collection[int], kept: Collection[int] = ()) -> Again | None:
        """The plan where late items read the dropped values from copies that are computed right before the first of them.

        dropped  some of `values`
        kept     buffers that are kept for what is computed again; others that are gone by then are computed again, too
        returns  None where that would read state after its update
        """
        return _Again(self, frozenset(dropped), frozenset(kept)).made()

    def rate(self, b: int) -> float:
        """What computing one byte of a value again costs (see cost_bytes), if nothing else is; infinite where it cannot be."""
        first = min(r for r in self._reads[b] if r > self.turn)
        again = _Again(self, frozenset([b]), frozenset()).before(b, first)
        return sum(map(cost_bytes, again)) / self.size(b) if again else math.inf

    def writers(self, b: int) -> list[int]:
        """The items that write an arena buffer."""
        return self._writers[b]


class _Again:
    """One such plan in the making."""

    def __init__(self, given: Dropping, dropped: frozenset[int], kept: frozenset[int]):
        self._given = given
        self._dropped = dropped
        self._kept = kept
        self._last = dict(given.last)
        self._copies: dict[int, int] = {}
        self._buffers: list[Buffer] = list(given.plan.buffers)
        self._items: list[Item] = []
        self._again: list[Item] = []

    def made(self) -> Again | None:
        plan, commit = self._given.plan, 0
        for number, item in enumerate(plan.items):
            if number > self._given.turn:
                missing = [o.buffer for o in item.operands if o.mode == "in" and o.buffer in self._dropped]
                if not self._make([b for b in missing if b not in self._copies], number):
                    return None
                item = _reading(item, self._copies)
            if number == plan.commit:
                commit = len(self._items)
            self._items.append(item)
        if plan.commit == len(plan.items):
            commit = len(self._items)
        items, idle, commit = _needed(self._items, self._buffers, {a for a, _ in plan.copies}, commit)
        cost = sum(map(cost_bytes, self._again)) - sum(map(cost_bytes, idle))
        return Again(replace(plan, items=tuple(items), buffers=tuple(self._buffers), commit=commit), tuple(self._again), cost)

    def before(self, b: int, number: int) -> list[Item]:
        """What computes a value before item `number`."""
        return self._again if self._make([b], number) else []

    def _make(self, wanted: list[int], number: int) -> bool:
        """Put what computes the wanted values before item `number`; False where it would read state after its update."""
        chosen: dict[int, frozenset[int]] = {}
        seen: set[int] = set()
        stack = [b for b in wanted if self._possible(b, number)]
        while stack:
            b = stack.pop()
            if b in seen:
                continue
            seen.add(b)
            for w in self._given.writers(b):
                chosen[w] = chosen.get(w, frozenset()) | self._with(w, b)
                for source in self._given.part(w, chosen[w]).sources:
                    if source not in self._copies and source not in seen and not self._lies(source, number):
                        stack.append(source)
        parts = [self._given.part(w, chosen[w]) for w in sorted(chosen)]
        for outs in chosen.values():
            for b in sorted(outs):
                self._copies[b] = self._new(b)
        for part in parts:
            if part.limit < number:
                return False
            for b in part.sources:
                if b not in self._copies:
                    self._last[b] = max(self._last[b], number)
            self._emit(part.item)
        return True

    def _with(self, w: int, b: int) -> frozenset[int]:
        """What an item is to write when it computes `b` again: with it all that is dropped and written by it alone."""
        others = (o.buffer for o in self._given.plan.items[w].operands if o.mode == "out" and o.buffer in self._dropped)
        return frozenset((b, *(x for x in others if x not in self._copies and self._given.writers(x) == [w])))

    def _possible(self, b: int, number: int) -> bool:
        """Whether what computes a value reads no state that is new by then."""
        return all(self._given.part(w, self._with(w, b)).limit >= number for w in self._given.writers(b))

    def _lies(self, b: int, number: int) -> bool:
        """Whether a value is read where it was written first."""
        if b not in self._dropped and (b in self._kept or self._last[b] >= number):
            return True
        return not self._possible(b, number)

    def _new(self, b: int) -> int:
        self._buffers.append(replace(self._buffers[b], place="arena", index=-1, offset=-1))
        return len(self._buffers) - 1

    def _emit(self, item: Item) -> None:
        own = {o.buffer: self._copies[o.buffer] if o.buffer in self._copies else self._new(o.buffer)
               for o in item.operands if o.mode == "out"}
        places = {**self._copies, **own}
        made = replace(item, operands=tuple(replace(o, buffer=places.get(o.buffer, o.buffer)) for o in item.operands))
        self._items.append(made)
        self._again.append(made)


def _reading(item: Item, copies: dict[int, int]) -> Item:
    """The item with its reads from copies, where there are any."""
    own = {o.buffer for o in item.operands if o.mode == "out"}

    def moved(o: Operand) -> Operand:
        return replace(o, buffer=copies[o.buffer]) if o.mode == "in" and o.buffer in copies and o.buffer not in own else o

    return replace(item, operands=tuple(map(moved, item.operands)))


def _needed(items: list[Item], buffers: list[Buffer], delivered: set[int], commit: int) -> tuple[list[Item], list[Item], int]:
    """The items without those that write only what nobody reads; these; and the commit point."""
    wanted = set(delivered)
    kept: list[Item] = []
    idle: list[Item] = []
    for number in reversed(range(len(items))):
        item = items[number]
        outs = [o.buffer for o in item.operands if o.mode == "out"]
        if has_check(item) or any(b in wanted or buffers[b].place != "arena" for b in outs):
            wanted.update(_ins(item))
            kept.append(item)
        else:
            idle.append(item)
            commit -= number < commit
    return kept[::-1], idle, commit


def _ins(item: Item) -> Iterable[int]:
    return (o.buffer for o in item.operands if o.mode == "in")
