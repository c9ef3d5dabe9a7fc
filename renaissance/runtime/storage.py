"""Storage: the bytes of one tensor, aligned for vectors, taken from and given back to a stock of used blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from renaissance.errors import ArgumentError, DeviceError
from renaissance.ir.dtype import DType
from renaissance.runtime import pages

ALIGNMENT = 64
_LARGE_BYTES = 64 << 10  # blocks from here on are mapped, and unmapped, one by one; smaller ones are cut from slabs
_SLAB_BLOCKS = 32
# Blocks of whole huge pages begin at different distances from them: elements of one number in several large tensors, which
# kernels read together, would else meet in the same sets of every cache.
_COLORS = 15
_COLOR_BYTES = 4096 + 64


def size_class(size_bytes: int) -> int:
    """The block size that serves a request: multiples of 64 bytes, eight classes to an octave, so at most an eighth is lost."""
    if size_bytes <= ALIGNMENT:
        return ALIGNMENT
    step = max(ALIGNMENT, 1 << ((size_bytes - 1).bit_length() - 4))
    return -(-size_bytes // step) * step


def _room(capacity: int) -> int:
    """Bytes that are mapped for a large block, so that it may begin at any of its distances."""
    return capacity if capacity < pages.HUGE_BYTES else capacity + _COLORS * _COLOR_BYTES


class Stock:
    """Blocks that are free to be used again, by size class.

    It uses only list operations that are atomic in Python, because `give` runs in finalizers, which may interrupt `take`.
    Up to `keep_bytes` of large blocks are kept; beyond that they go back to the system.
    """

    def __init__(self, keep_bytes: int):
        self.keep_bytes = keep_bytes
        self.mapped_blocks = 0
        self._free: dict[int, list[int]] = {}

    def take(self, capacity: int) -> int:
        """Address of a block of a size class; its bytes are whatever was there.

        raises   DeviceError when the machine has no memory left, also after giving all free blocks back
        """
        try:
            return self._free[capacity].pop()
        except (KeyError, IndexError):
            pass
        if capacity < _LARGE_BYTES:
            return self._carve(capacity)
        return self._map(capacity)

    def give(self, address: int, capacity: int) -> None:
        """Put a block back."""
        if capacity >= _LARGE_BYTES and self.free_bytes() + capacity > self.keep_bytes:
            self._unmap(address, capacity)
        else:
            self._free.setdefault(capacity, []).append(address)

    def free_bytes(self) -> int:
        """Bytes of large blocks waiting to be used again."""
        return sum(size * len(blocks) for size, blocks in list(self._free.items()) if size >= _LARGE_BYTES)

    def trim(self) -> None:
        """Give all free large blocks back to the system."""
        for capacity in [size for size in self._free if size >= _LARGE_BYTES]:
            blocks = self._free[capacity]
            while blocks:
                self._unmap(blocks.pop(), capacity)

    def _map(self, capacity: int) -> int:
        room = _room(capacity)
        start = pages.allocate(room)
        if start is None:
            self.trim()
            start = pages.allocate(room)
        if start is None:
            raise DeviceError(
                f"{capacity >> 20} MiB of memory needed for a tensor, {pages.available_bytes() >> 20} MiB available; "
                "free tensors, or make the batch smaller"
            )
        self.mapped_blocks += 1
        return start if room == capacity else start + self.mapped_blocks % _COLORS * _COLOR_BYTES

    def _unmap(self, address: int, capacity: int) -> None:
        """Give a large block back to the system."""
        start = address if _room(capacity) == capacity else address // pages.HUGE_BYTES * pages.HUGE_BYTES
        pages.release(start, _room(capacity))

    def _carve(self, capacity: int) -> int:
        """Cut a new slab into blocks of this class; one is returned, the others are free."""
        slab_bytes = max(_LARGE_BYTES, _SLAB_BLOCKS * capacity)
        slab = self._map(slab_bytes)
        self._free.setdefault(capacity, []).extend(range(slab + capacity, slab + slab_bytes - capacity + 1, capacity))
        return slab


stock = Stock(keep_bytes=pages.total_bytes() // 4)


class Storage:
    """`size_bytes` bytes at a 64-byte aligned `address`, given back for others to use when nothing refers to them any more.

    New storage holds whatever its bytes held before.

    version  grows when a plan has overwritten the bytes, and when a NumPy view is made, through which anybody may do so
    raises   DeviceError when the machine has no memory left
    """

    __slots__ = ("address", "size_bytes", "version", "_capacity", "_lender", "_exports", "__weakref__")

    address: int
    size_bytes: int
    version: int

    def __init__(self, size_bytes: int):
        self._capacity = 0  # so that an interrupted take leaves nothing to give back
        self._lender: np.ndarray | None = None
        self._exports: list[None] = []  # one for each view that is alive: lists grow and shrink safely in any thread
        self.size_bytes = size_bytes
        self.version = 0
        capacity = size_class(size_bytes)
        self.address = stock.take(capacity)
        self._capacity = capacity

    @classmethod
    def borrow(cls, array: np.ndarray) -> Storage:
        """The bytes of a NumPy array, without a copy; the array is kept alive.

        raises   ArgumentError unless the array is dense, row-major, and aligned to its itemsize
        """
        if not array.flags.c_contiguous or array.ctypes.data % max(1, array.itemsize):
            raise ArgumentError(
                f"cannot borrow an array of shape {array.shape} with strides {array.strides}: it must be C-contiguous and "
                "aligned; borrow np.ascontiguousarray(array) instead"
            )
        self = cls.__new__(cls)
        self._capacity = 0
        self._lender = array
        self._exports = []
        self.size_bytes = array.nbytes
        self.version = 0
        self.address = array.ctypes.data
        return self

    @property
    def borrowed(self) -> bool:
        """Whether the bytes are those of a NumPy array, which its owner may change."""
        return self._lender is not None

    @property
    def exported(self) -> bool:
        """Whether someone outside can see these bytes: a NumPy view is alive, or they were borrowed."""
        return self._lender is not None or bool(self._exports)

    def view(self, dtype: DType, shape: Sequence[int], offset: int = 0) -> np.ndarray:
        """A NumPy array on these bytes, starting `offset` bytes in; it keeps the storage alive.

        raises   ArgumentError when the array would leave the storage
        """
        size = math.prod(shape) * dtype.size
        if offset < 0 or offset + size > self.size_bytes:
            raise ArgumentError(f"view: bytes {offset} to {offset + size} of a storage of {self.size_bytes} bytes")
        self.version += 1
        export = _Export(self, self.address + offset, size)
        return np.asarray(export).view(dtype.numpy).reshape(shape)

    def __del__(self, give: Callable[[int, int], None] = stock.give) -> None:  # bound early: at exit the module is emptied first
        if self._capacity:
            give(self.address, self._capacity)

    def __repr__(self) -> str:
        return f"Storage({self.size_bytes} bytes at {self.address:#x})"


class _Export:
    """What a NumPy view of a storage calls its base: alive as long as the view or any view of it."""

    __slots__ = ("_storage", "_exports", "__array_interface__")

    def __init__(self, storage: Storage, address: int, size_bytes: int):
        self._storage = storage
        self._exports = storage._exports
        self._exports.append(None)
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "typestr": "|u1",
            "shape": (size_bytes,),
            "data": (address, False),
        }

    def __del__(self) -> None:
        self._exports.pop()
