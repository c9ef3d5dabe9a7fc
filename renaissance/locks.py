"""Locks that a fork waits for, so that a child never finds one held by a thread that it does not have."""

from __future__ import annotations

import os
import threading


def fork_safe_lock() -> threading.RLock:  # type: ignore[valid-type]
    """A re-entrant lock. A fork takes it first; parent and child let go of it afterwards.

    Locks are taken by a fork in the reverse order of their making: make one after those that are taken while it is held.
    """
    lock = threading.RLock()
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
