"""The Target of the running machine, and narrower ones made of it."""

from __future__ import annotations

import pytest

from renaissance.errors import ArgumentError, DeviceError
from renaissance.kernels import host


def test_detected_target_is_consistent():
    target = host.detect()
    assert {"avx512": 64, "avx2": 32, "sse": 16}[target.isa] == target.vector_bytes
    assert target.lanes * 4 == target.vector_bytes
    assert not target.bf16_dot or target.isa == "avx512"
    assert 8 << 10 <= target.l1_bytes < target.l2_bytes


def test_narrower_targets():
    narrow = host.detect().restricted("sse")
    assert narrow.vector_bytes == 16 and not narrow.bf16_dot and "-avx512f" in narrow.features
    with pytest.raises(ArgumentError, match="avx512"):
        narrow.restricted("avx512")


def test_cache_sizes(tmp_path, monkeypatch):
    caches = [(1, "Instruction", "64K"), (1, "Data", "48K"), (2, "Unified", "2M"), (3, "Unified", "?")]
    for n, (level, kind, size) in enumerate(caches):
        entry = tmp_path / f"index{n}"
        entry.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (entry / name).write_text(f"{text}\n")
    monkeypatch.setattr(host, "_CACHES", tmp_path)
    assert host._cache_bytes(1, 7) == 48 << 10
    assert host._cache_bytes(2, 7) == 2 << 20
    assert host._cache_bytes(3, 7) == 7


def test_other_platforms_are_named(monkeypatch):
    monkeypatch.setattr(host.platform, "machine", lambda: "riscv64")
    with pytest.raises(DeviceError, match="riscv64"):
        host.detect()
