"""An Executable: a linked plan. A run binds addresses and scalars, has the driver walk the table, raises if a check failed."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from renaissance.ir.plan import Plan
from renaissance.runtime import native, timings
from renaissance.runtime.host_call import HostCall
from renaissance.runtime.pool import Pool, turn, walk
from renaissance.runtime.reference import check_error
from renaissance.runtime.values import Values

PATIENT_S = 0.05  # a plan predicted to take longer runs where Ctrl-C can reach its caller


@dataclass(frozen=True)
class Table:
    """A plan as the driver sees it; `link` makes it.

    names    of the rows: the items, then copies
    rows     (function, first slot of the argument block, chunks); a row of a host item has no function
    slots    all argument blocks
    patches  (slot, number of the value, bytes to add to it): slots that are written before each run
    errors   slots that hold the address of the error word
    hosts    calls by row
    commit   the first row that writes state
    """

    names: tuple[str, ...]
    rows: Sequence[tuple[int, int, int]]
    slots: np.ndarray
    patches: Sequence[tuple[int, int, int]]
    errors: Sequence[int]
    hosts: dict[int, HostCall]
    commit: int
    scratch_bytes: int


class Executable:
    """A plan linked for a pool.

    predicted_s   seconds a run should take
    finishes      how many runs have gone to their end; after an exception it tells whether this one has, and so written state
    """

    def __init__(self, plan: Plan, table: Table, values: Values, pool: Pool, *, predicted_s: float):
        self.plan = plan
        self.predicted_s = predicted_s
        self.names = table.names
        self.commit = table.commit
        self.pool = pool
        self._values = values
        self._hosts = table.hosts
        self._scratch_bytes = table.scratch_bytes
        self._shared = pool.threads > 1 and any(chunks > 1 for _, _, chunks in table.rows)
        self._error = ctypes.c_int64(0)
        self._cancel = ctypes.c_int64(0)
        self._finishes = ctypes.c_int64(0)
        self._stamps = np.zeros(len(table.rows), np.int64)
        self._slots = table.slots
        for slot in table.errors:
            self._slots[slot] = ctypes.addressof(self._error)
        base = self._slots.ctypes.data
        self._rows = np.array([(f, base + 8 * slot, chunks, 0) for f, slot, chunks in table.rows], np.uint64)
        self._patches = np.array([(base + 8 * slot, n, more & (2**64 - 1)) for slot, n, more in table.patches], np.uint64)
        self._segments = self._cut(len(table.rows))
        self._orders = [self._order(first, last) for first, last in self._segments]
        self._walk = walk()
        self._direct = len(self._segments) == 1 and not self._hosts and predicted_s <= PATIENT_S
        self._only_order = self._orders[0].ctypes.data if self._direct else 0
        self._row_count = len(table.rows)

    @property
    def finishes(self) -> int:
        return self._finishes.value

    def run(self, inputs: Sequence[int], outputs: Sequence[int | None], scalars: Sequence[int | float] = ()) -> None:
        """Run once.

        inputs   address of each leaf
        outputs  address for each output; None or 0 for one that lies in an input's bytes and is not wanted elsewhere
        scalars  value of each run-time scalar
        raises   what the plan's message says when a check failed, with all state as before; PlanError when called from inside
                 a plan; KeyboardInterrupt after Ctrl-C, the plan having run to its end or not reached its commit point
        """
        me = threading.get_ident()
        if turn.owner == me:
            turn.refuse_nested(me)
        pool = self.pool
        try:
            turn.take(me)
            self._values.put(inputs, outputs, scalars)
            if pool.scratch_bytes < self._scratch_bytes or (self._shared and not pool.started):
                pool.prepare(self._scratch_bytes, self._shared)
            if self._direct and timings.current is None:
                if self._walk(pool.state, self._only_order) != self._row_count:
                    self._raise_failed()
            else:
                self._run_segments()
        finally:
            turn.leave(me)

    def _run_segments(self) -> None:
        """The general way: host items between native parts, time stamps, a caller that can be interrupted."""
        collector = timings.current
        interrupt: BaseException | None = None
        self._cancel.value = 0
        self._stamps[:] = 0
        for (first, last), order in zip(self._segments, self._orders):
            if first in self._hosts:
                began = time.perf_counter_ns()
                self._hosts[first](self._values.__getitem__)
                self._stamps[first] = time.perf_counter_ns() - began
                continue
            order[native.ORDER_STAMPS // 8] = 0 if collector is None else self._stamps.ctypes.data
            done, asked = self._walk_segment(order.ctypes.data)
            interrupt = interrupt or asked
            if interrupt is not None and (done != last or last <= self.commit):
                raise interrupt
            if done != last:
                self._raise_failed()
        if not self._segments or self._segments[-1][0] in self._hosts:  # else the driver counts
            self._finishes.value += 1
        if collector is not None:
            collector.add(self, self._stamps)
        if interrupt is not None:
            raise interrupt

    def _walk_segment(self, order: int) -> tuple[int, BaseException | None]:
        if self.predicted_s > PATIENT_S:
            return self.pool.walk_patiently(order, self._cancel)
        return self._walk(self.pool.state, order), None

    def _raise_failed(self) -> None:
        raise check_error(self.plan.messages[self._error.value - 1])

    def _cut(self, rows: int) -> list[tuple[int, int]]:
        """Ranges of rows: each host row alone, and what lies between them."""
        marks = sorted({0, rows, *self._hosts, *(row + 1 for row in self._hosts)})
        return list(zip(marks, marks[1:]))

    def _order(self, first: int, last: int) -> np.ndarray:
        """The driver's orders for rows [first, last). Each patches the slots of the whole table, which costs next to nothing."""
        order = np.zeros(native.ORDER_BYTES // 8, np.uint64)
        fields = {
            native.ORDER_TABLE: self._rows.ctypes.data, native.ORDER_FIRST: first, native.ORDER_LAST: last,
            native.ORDER_COMMIT: self.commit, native.ORDER_ERROR: ctypes.addressof(self._error),
            native.ORDER_CANCEL: ctypes.addressof(self._cancel), native.ORDER_PATCHES: self._patches.ctypes.data,
            native.ORDER_PATCH_COUNT: len(self._patches), native.ORDER_VALUES: self._values.address,
            native.ORDER_FINISHES: ctypes.addressof(self._finishes) if last == len(self._rows) else 0,
        }
        for offset, value in fields.items():
            order[offset // 8] = value
        return order
