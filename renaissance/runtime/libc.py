"""The few C library functions the runtime calls by itself, typed, on the one platform it is built for."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys

from renaissance.errors import DeviceError

_SYS_FUTEX = 202  # x86-64
_FUTEX_WAKE_PRIVATE = 129
_ALL = 0x7FFFFFFF
_SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "mmap": (
        ctypes.c_void_p,
        (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long),
    ),
    "munmap": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_size_t)),
    "mprotect": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)),
    "madvise": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)),
    "pthread_create": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)),
    "pthread_join": (ctypes.c_int, (ctypes.c_ulong, ctypes.c_void_p)),
}


@functools.cache
def library() -> ctypes.CDLL:
    """The C library of this process.

    raises   DeviceError on anything but Linux on x86-64
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in ("x86_64", "AMD64"):
        raise DeviceError(
            f"running plans on {sys.platform} {machine} is not supported; supported is Linux on x86-64. "
            "The null device and the reference executor work everywhere."
        )
    loaded = ctypes.CDLL(None, use_errno=True)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def futex_wake_all(address: int) -> None:
    """Wake every thread of this process that waits on a futex word."""
    library().syscall(_SYS_FUTEX, ctypes.c_void_p(address), _FUTEX_WAKE_PRIVATE, _ALL)


def error_text() -> str:
    """What errno of the last failed call says."""
    return os.strerror(ctypes.get_errno())
