"""Memory that shows its misuse: new storage and the arena hold NaN, and every storage is followed by bytes nobody may write."""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Iterator

from renaissance import engine
from renaissance.runtime import assemble
from renaissance.runtime.storage import Storage

_GUARD_BYTES = 64
_NAN = 0xFF


class GuardedStorage(Storage):
    """Storage full of NaN with a guard behind it."""

    __slots__ = ()

    def __init__(self, size_bytes: int):
        super().__init__(size_bytes + _GUARD_BYTES)
        self.size_bytes = size_bytes
        ctypes.memset(self.address, _NAN, size_bytes + _GUARD_BYTES)
        _alive.add(self)

    def guard(self) -> bytes:
        return ctypes.string_at(self.address + self.size_bytes, _GUARD_BYTES)


_alive: weakref.WeakSet[GuardedStorage] = weakref.WeakSet()


@contextlib.contextmanager
def poisoned() -> Iterator[None]:
    """Inside, fresh memory is full of NaN; at the end no byte behind a storage may have been written."""
    assemble.arena().fill(_NAN)
    before = engine.Storage
    engine.Storage = GuardedStorage
    try:
        yield
    finally:
        engine.Storage = before
    written = [s for s in _alive if s.guard() != bytes([_NAN]) * _GUARD_BYTES]
    assert not written, f"written behind its end: {written}"
