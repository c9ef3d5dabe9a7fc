"""order: in which order items run, and which state is updated in place.

Takes a plan whose items are in some valid order and whose state updates are all copies after the run. Gives a plan with an order
of low peak memory in which every read of old state comes before its overwriting, and with no copy where the item that computes
the new state can write it at once. Keeps what each item computes. Never lets a check come after a write to state.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, replace

from renaissance.ir.plan import Operand, Plan
from renaissance.ir.traffic import Touch, has_check, may_overwrite, reads, writes


def order(plan: Plan) -> Plan:
    """The plan with its items in order and its state updated in place where that is safe."""
    schedule = _Schedule(plan)
    moved = {source: state for source, state in plan.copies if schedule.try_in_place(source, state)}
    plan = _renamed(plan, moved)
    given = _sorted(schedule.after, range(len(plan.items)))
    greedy = _greedy(plan, schedule.after)
    orders = (greedy, given, _late(plan, schedule.after, greedy), _late(plan, schedule.after, given))
    chosen = min(orders, key=lambda numbers: peak_bytes(plan, numbers))
    items = tuple(plan.items[i] for i in chosen)
    copies = tuple(pair for pair in plan.copies if pair[0] not in moved)
    state = {b for b, buffer in enumerate(plan.buffers) if buffer.place == "input"}
    commit = next((i for i, item in enumerate(items) if any(t.buffer in state for t in writes(item))), len(items))
    return replace(plan, items=items, copies=copies, commit=commit)


class _Schedule:
    """What must come before what: `after[i]` are the items that must wait for item i."""

    def __init__(self, plan: Plan):
        self._items = plan.items
        self._reads = [reads(item) for item in plan.items]
        self._writes = [writes(item) for item in plan.items]
        self._checks = [i for i, item in enumerate(plan.items) if has_check(item)]
        self._external = {b for b, buffer in enumerate(plan.buffers) if buffer.place != "arena"}
        self._outputs = set(plan.outputs)
        self.after: list[set[int]] = [set() for _ in plan.items]
        written: dict[int, list[tuple[int, Touch]]] = {}
        for i in range(len(plan.items)):
            for read in self._reads[i]:
                for w, touch in written.get(read.buffer, ()):
                    if read.meets(touch):
                        self.after[w].add(i)
            for touch in self._writes[i]:
                written.setdefault(touch.buffer, []).append((i, touch))
        self._reach = self._closure()

    def _closure(self) -> list[int]:
        """For each item the set, as bits, of items that come after it by some chain."""
        reach = [0] * len(self._items)
        for i in reversed(range(len(self._items))):
            for j in self.after[i]:
                reach[i] |= reach[j] | 1 << j
        return reach

    def _edge(self, before: int, behind: int) -> None:
        self.after[before].add(behind)
        gained = self._reach[behind] | 1 << behind
        if gained & ~self._reach[before]:
            for i, bits in enumerate(self._reach):
                if i == before or bits >> before & 1:
                    self._reach[i] = bits | gained

    def try_in_place(self, source: int, state: int) -> bool:
        """Let the writers of buffer `source` write `state` instead, if reads of the old state and checks can come first."""
        writers = [i for i, touches in enumerate(self._writes) if any(t.buffer == source for t in touches)]
        if source in self._external or not writers or any(i in self._checks for i in writers):
            return False
        edges = [(check, w) for check in self._checks for w in writers]
        for r, touches in enumerate(self._reads):
            old = [t for t in touches if t.buffer == state]
            for w in writers:
                if any(t._replace(buffer=source).meets(new) for t in old for new in self._writes[w]):
                    if r != w:
                        edges.append((r, w))
                    elif not may_overwrite(self._items[w], state, source):
                        return False
        before = [set(s) for s in self.after], list(self._reach)
        for r, w in edges:
            if self._reach[w] >> r & 1:
                self.after, self._reach = before
                return False
            self._edge(r, w)
        return True


def _renamed(plan: Plan, moved: dict[int, int]) -> Plan:
    """The plan with some buffers replaced by others in all items and outputs."""
    if not moved:
        return plan

    def operand(o: Operand) -> Operand:
        return replace(o, buffer=moved[o.buffer]) if o.buffer in moved else o

    items = tuple(replace(item, operands=tuple(operand(o) for o in item.operands)) for item in plan.items)
    return replace(plan, items=items, outputs=tuple(moved.get(b, b) for b in plan.outputs))


def _sorted(after: list[set[int]], given: range) -> list[int]:
    """The first order, by item number, in which everything comes after what it waits for."""
    waiting = [0] * len(after)
    for followers in after:
        for j in followers:
            waiting[j] += 1
    ready = [i for i in given if not waiting[i]]
    result = []
    while ready:
        i = heapq.heappop(ready)
        result.append(i)
        for j in after[i]:
            waiting[j] -= 1
            if not waiting[j]:
                heapq.heappush(ready, j)
    return result


def _late(plan: Plan, after: list[set[int]], numbers: list[int]) -> list[int]:
    """The same order, but items that read nothing in the arena, so that no memory waits for them, run when they are needed."""
    touched, _ = _arena_touches(plan)
    makes = [{o.buffer for o in item.operands if o.mode == "out"} for item in plan.items]
    waits: list[list[int]] = [[] for _ in after]
    for i, followers in enumerate(after):
        for j in followers:
            waits[j].append(i)
    put_off: set[int] = set()
    result: list[int] = []

    def run(i: int) -> None:
        for w in sorted(waits[i]):
            if w in put_off:
                put_off.remove(w)
                run(w)
        result.append(i)

    for i in numbers:
        if after[i] and touched[i] and touched[i] <= makes[i]:
            put_off.add(i)
        else:
            run(i)
    for i in sorted(put_off, key=numbers.index):
        if i in put_off:
            put_off.remove(i)
            run(i)
    return result


@dataclass
class _Use:
    """How many items still have to read or write an arena buffer."""

    size_bytes: int
    left: int
    live: bool = False


def _arena_touches(plan: Plan) -> tuple[list[set[int]], dict[int, _Use]]:
    """For each item the arena buffers it touches, and for each such buffer its size and how many items touch it."""
    touched = [{o.buffer for o in item.operands if plan.buffers[o.buffer].place == "arena"} for item in plan.items]
    uses: dict[int, _Use] = {}
    for buffers in touched:
        for b in buffers:
            uses.setdefault(b, _Use(plan.buffers[b].size_bytes, 0)).left += 1
    for source, _ in plan.copies:
        if source in uses:
            uses[source].left += 1  # lives to the end
    return touched, uses


def peak_bytes(plan: Plan, numbers: Iterable[int]) -> int:
    """The most arena bytes that are live at once when items run in this order (nothing shared in place)."""
    touched, uses = _arena_touches(plan)
    live = most = 0
    for i in numbers:
        for b in touched[i]:
            if not uses[b].live:
                uses[b].live = True
                live += uses[b].size_bytes
        most = max(most, live)
        for b in touched[i]:
            uses[b].left -= 1
            if not uses[b].left:
                live -= uses[b].size_bytes
    return most


def _greedy(plan: Plan, after: list[set[int]]) -> list[int]:
    """Among the items that may run, always the one after which the fewest bytes are live; the first such."""
    touched, uses = _arena_touches(plan)
    waiting = [0] * len(after)
    for followers in after:
        for j in followers:
            waiting[j] += 1
    ready = {i for i in range(len(after)) if not waiting[i]}
    result = []

    def growth(i: int) -> tuple[int, int]:
        born = sum(uses[b].size_bytes for b in touched[i] if not uses[b].live)
        died = sum(uses[b].size_bytes for b in touched[i] if uses[b].left == 1)
        return born - died, i

    while ready:
        i = min(ready, key=growth)
        ready.remove(i)
        result.append(i)
        for b in touched[i]:
            uses[b].live = True
            uses[b].left -= 1
        for j in after[i]:
            waiting[j] -= 1
            if not waiting[j]:
                ready.add(j)
    return result

