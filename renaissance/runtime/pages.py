"""Memory taken from the operating system in whole pages, and how much of it there is."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from renaissance.errors import DeviceError
from renaissance.runtime import libc

PAGE_BYTES = mmap.PAGESIZE
HUGE_BYTES = 2 << 20
_MAP_FAILED = 2**64 - 1
_MAP_NORESERVE = 0x4000
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_CGROUP = Path("/sys/fs/cgroup")


def round_up(size_bytes: int, unit: int) -> int:
    """The smallest multiple of `unit` that is at least `size_bytes`."""
    return -(-size_bytes // unit) * unit


def allocate(size_bytes: int) -> int | None:
    """Address of new zero pages, or None when the system has none; from 2 MiB on aligned to, and asking for, huge pages."""
    size = round_up(size_bytes, PAGE_BYTES)
    if size < HUGE_BYTES:
        return _map(size, mmap.PROT_READ | mmap.PROT_WRITE, _PRIVATE)
    address = _map(size + HUGE_BYTES, mmap.PROT_READ | mmap.PROT_WRITE, _PRIVATE)
    if address is None:
        return None
    start = round_up(address, HUGE_BYTES)
    release(address, start - address)
    release(start + size, address + HUGE_BYTES - start)
    advise_huge(start, size)
    return start


def release(address: int, size_bytes: int) -> None:
    """Give pages back to the system."""
    if size_bytes > 0:
        libc.library().munmap(address, size_bytes)


def reserve(size_bytes: int) -> int | None:
    """A range of addresses, aligned to huge pages, that holds no memory yet; None when the system refuses."""
    address = _map(size_bytes + HUGE_BYTES, 0, _PRIVATE | _MAP_NORESERVE)
    return None if address is None else round_up(address, HUGE_BYTES)


def commit(address: int, size_bytes: int) -> None:
    """Turn whole pages of a reserved range into usable memory.

    raises   DeviceError when the system refuses
    """
    if libc.library().mprotect(address, size_bytes, mmap.PROT_READ | mmap.PROT_WRITE) != 0:
        raise DeviceError(f"the system refused {size_bytes >> 20} MiB of memory: {libc.error_text()}")
    advise_huge(address, size_bytes)


def advise_huge(address: int, size_bytes: int) -> None:
    """Ask for huge pages. A kernel built without them refuses, which costs speed only, so the answer is not looked at."""
    libc.library().madvise(address, size_bytes, mmap.MADV_HUGEPAGE)


def total_bytes() -> int:
    """Memory this process may use at most: the machine's, or its control group's limit."""
    machine = os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES
    limit = _cgroup_number("memory.max", "memory/memory.limit_in_bytes")
    return machine if limit is None else min(machine, limit)


def available_bytes() -> int:
    """Memory that can still be taken without swapping: the machine's MemAvailable, cut to the control group's remainder."""
    machine = total_bytes()
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            machine = int(line.split()[1]) << 10
    limit = _cgroup_number("memory.max", "memory/memory.limit_in_bytes")
    used = _cgroup_number("memory.current", "memory/memory.usage_in_bytes")
    if limit is None or used is None:
        return machine
    return max(0, min(machine, limit - used + _cgroup_file_cache()))


def _map(size_bytes: int, protection: int, flags: int) -> int | None:
    address = libc.library().mmap(None, size_bytes, protection, flags, -1, 0)
    return None if address in (None, _MAP_FAILED) else address


def _cgroup_number(*names: str) -> int | None:
    """The first of the control group's files (version 2, then version 1) that holds a number."""
    for name in names:
        try:
            text = (_CGROUP / name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            return int(text)
    return None


def _cgroup_file_cache() -> int:
    """Bytes counted as used that the kernel drops when memory is wanted."""
    for name in ("memory.stat", "memory/memory.stat"):
        try:
            lines = (_CGROUP / name).read_text().splitlines()
        except OSError:
            continue
        return sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
    return 0
