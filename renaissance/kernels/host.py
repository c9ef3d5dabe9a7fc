"""What the running machine is, as a Target."""

from __future__ import annotations

import platform
from pathlib import Path

import llvmlite.binding as llvm

from renaissance.errors import DeviceError
from renaissance.ir.target import Target

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# What each instruction set needs before vectors of its width are used.
_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "fma", "f16c")
_AVX2 = ("avx2", "fma", "f16c")


def detect() -> Target:
    """The Target of this machine, from LLVM's view of its CPU and the kernel's of its caches.

    raises  DeviceError on a platform for which no kernels are made
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise DeviceError(f"platform {platform.system()} {platform.machine()} is not supported; supported is Linux x86_64")
    found = llvm.get_host_cpu_features()
    isa, vector_bytes, registers = "sse", 16, 16
    if all(found.get(f) for f in _AVX512):
        isa, vector_bytes, registers = "avx512", 64, 32
    elif all(found.get(f) for f in _AVX2):
        isa, vector_bytes = "avx2", 32
    return Target(
        isa=isa, vector_bytes=vector_bytes, registers=registers,
        bf16_dot=isa == "avx512" and bool(found.get("avx512bf16")), fma=bool(found.get("fma")),
        cpu=llvm.get_host_cpu_name(), features=found.flatten(),
        l1_bytes=_cache_bytes(1, 32 << 10), l2_bytes=_cache_bytes(2, 1 << 20))


def _cache_bytes(level: int, default: int) -> int:
    """Size of core 0's data cache of a level; the default where the kernel does not tell."""
    for entry in sorted(_CACHES.glob("index*")):
        try:
            kind = (entry / "type").read_text().strip()
            text = (entry / "size").read_text().strip()
            if int((entry / "level").read_text()) == level and kind in ("Data", "Unified"):
                return int(text[:-1]) * _UNITS[text[-1]]
        except (OSError, ValueError, KeyError):
            continue
    return default
