"""Whose turn it is to run a plan: one thread at a time, first come, first served."""

from __future__ import annotations

import os
import threading
from collections import deque

from renaissance.errors import PlanError


class Turn:
    """A lock that is handed on in the order of asking and refuses its own holder.

    Taking it is safe against an exception from a signal handler when written as

        try:
            turn.take(me)
            ...
        finally:
            turn.leave(me)
    """

    def __init__(self) -> None:
        self.owner = 0  # threading.get_ident() of the thread whose turn it is; 0: nobody
        self._guard = threading.Lock()
        self._queue: deque[tuple[int, threading.Event]] = deque()

    def take(self, me: int) -> None:
        """Wait for one's turn."""
        if self.owner == 0 and not self._queue:
            with self._guard:
                if self.owner == 0 and not self._queue:
                    self.owner = me
                    return
        called = threading.Event()
        with self._guard:
            if self.owner == 0 and not self._queue:
                self.owner = me
                return
            self._queue.append((me, called))
        called.wait()

    def leave(self, me: int) -> None:
        """End one's turn, or one's waiting for it; does nothing for a thread that has neither."""
        with self._guard:
            if self.owner != me:
                self._queue = deque(entry for entry in self._queue if entry[0] != me)
                return
            self.owner = 0
            if self._queue:
                self.owner, called = self._queue.popleft()
                called.set()

    def refuse_nested(self, me: int) -> None:
        """Raise PlanError when this thread is already inside a plan."""
        if self.owner == me:
            raise PlanError(
                "a plan was started from inside a host function of another plan; compute with NumPy there, "
                "or make the inner computation part of the outer one"
            )


class ProcessTurn(Turn):
    """The turn of a process: a fork waits until no plan runs, unless a plan's own host function forks; the child starts free."""

    def __init__(self) -> None:
        super().__init__()
        self._forking = False
        os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._start_free)

    def _before(self) -> None:
        me = threading.get_ident()
        if self.owner != me:
            self.take(me)
            self._forking = True

    def _after(self) -> None:
        if self._forking:
            self._forking = False
            self.leave(threading.get_ident())

    def _start_free(self) -> None:
        self._forking = False
        self.owner = 0
        self._guard = threading.Lock()
        self._queue = deque()

