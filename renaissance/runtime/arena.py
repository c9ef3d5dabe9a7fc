"""The scratch memory of the process: one arena that all plans share, and a private piece for each thread."""

from __future__ import annotations

import ctypes
import threading

from renaissance.errors import DeviceError
from renaissance.runtime import pages
from renaissance.runtime.storage import stock

_LINE_BYTES = 64
_SMALLEST_RESERVE = 1 << 30


class Arena:
    """Scratch memory at an address that never changes, so that addresses in linked plans stay good while it grows.

    All of the machine's memory is reserved as addresses; only what plans have asked for is memory, touched in advance.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self._lock = threading.Lock()
        self._reserved = pages.round_up(max(pages.total_bytes(), _SMALLEST_RESERVE), pages.HUGE_BYTES)
        address = pages.reserve(self._reserved)
        while address is None and self._reserved > _SMALLEST_RESERVE:  # an address limit (ulimit -v) is set
            self._reserved = pages.round_up(self._reserved // 2, pages.HUGE_BYTES)
            address = pages.reserve(self._reserved)
        if address is None:
            raise DeviceError(f"the system refused to reserve {self._reserved >> 20} MiB of addresses; raise `ulimit -v`")
        self.address = address

    def require(self, size_bytes: int) -> int:
        """Make the arena at least this large and return its address.

        raises   DeviceError saying how much is needed and how much there is
        """
        with self._lock:
            if size_bytes > self.size_bytes:
                self._grow(pages.round_up(size_bytes, pages.HUGE_BYTES))
        return self.address

    def fill(self, byte: int) -> None:
        """Set every byte: 255 makes each float a NaN, so that a test sees a read of what was never written."""
        ctypes.memset(self.address, byte, self.size_bytes)

    def _grow(self, size_bytes: int) -> None:
        more = size_bytes - self.size_bytes
        stock.trim()  # what was made on the way here, first weights for example, must not lie beside it for ever
        _check_available(more, size_bytes)
        if size_bytes > self._reserved:
            raise DeviceError(f"plan: {size_bytes >> 20} MiB of scratch needed, {self._reserved >> 20} MiB of addresses reserved")
        start = self.address + self.size_bytes
        pages.commit(start, more)
        ctypes.memset(start, 0, more)  # touch every page now, not in the first step
        self.size_bytes = size_bytes


class ThreadScratch:
    """One private piece of scratch for each thread of a pool: `address + thread * stride_bytes`."""

    def __init__(self) -> None:
        self.address = 0
        self.stride_bytes = 0
        self._size_bytes = 0

    def require(self, threads: int, size_bytes: int) -> None:
        """Make the pieces at least this large; only while no plan runs, because they may move.

        raises   DeviceError saying how much is needed and how much there is
        """
        stride = max(self.stride_bytes, pages.round_up(size_bytes, _LINE_BYTES) + _LINE_BYTES)
        total = pages.round_up(stride * threads, pages.PAGE_BYTES)
        if total <= self._size_bytes and stride == self.stride_bytes:
            return
        _check_available(total, total)
        address = pages.allocate(total)
        if address is None:
            raise DeviceError(f"plan: {total >> 20} MiB of scratch for {threads} threads refused by the system")
        ctypes.memset(address, 0, total)
        pages.release(self.address, self._size_bytes)
        self.address, self.stride_bytes, self._size_bytes = address, stride, total


def _check_available(more: int, size_bytes: int) -> None:
    available = pages.available_bytes()
    if more > available:
        stock.trim()
        available = pages.available_bytes()
    if more > available:
        raise DeviceError(
            f"plan: {size_bytes >> 20} MiB of scratch needed, {more >> 20} MiB of them new; {available >> 20} MiB available. "
            "Make the batch smaller or set a memory budget"
        )
