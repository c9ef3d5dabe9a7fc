"""The size of the cache folder: held, with little looking, whatever else happens to its files, its disk and its processes."""

import ctypes
import errno
import multiprocessing
import os
import resource
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hand_kernels import TARGET, TEXTS

from renaissance.runtime import disk_cache
from renaissance.runtime.disk_cache import LIMIT_BYTES, DiskCache, trim, usage
from renaissance.runtime.jit import Compiler, Source

BLOCK = 4096
ONE_BLOCK = b"x" * 1000


def filled(folder, count, *, suffix=".o"):
    """A folder of entries 'key 0', 'key 1', ... of a block each: the one of number n was used at second n of 1970."""
    cache = DiskCache(folder, suffix)
    for number in range(count):
        cache.put(f"key {number}", ONE_BLOCK)
        os.utime(cache.path(f"key {number}"), (number, number))
    return cache


def kept(cache, count):
    return [number for number in range(count) if cache.path(f"key {number}").exists()]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@contextmanager
def counted_scans(monkeypatch):
    scans, real = [], os.scandir
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", lambda folder: (scans.append(folder), real(folder))[1])
        yield scans


# ---- the limit -------------------------------------------------------------------------------------------------------------

def test_trim_removes_those_used_longest_ago(tmp_path):
    cache = filled(tmp_path, 20)
    trim(tmp_path, 8 * BLOCK)
    assert kept(cache, 20) == list(range(12, 20))
    trim(tmp_path, 8 * BLOCK)
    assert usage(tmp_path) == (8, 8 * BLOCK)
    trim(tmp_path, 8 * BLOCK - 1)
    assert kept(cache, 20) == list(range(13, 20))
    trim(tmp_path, 0)
    assert names(tmp_path) == []


def test_an_entry_that_was_read_is_used(tmp_path):
    cache = filled(tmp_path, 20)
    for number in (0, 7):
        assert cache.get(f"key {number}") == ONE_BLOCK
    assert time.time() - cache.path("key 0").stat().st_mtime < 60
    trim(tmp_path, 4 * BLOCK)
    assert kept(cache, 20) == [0, 7, 18, 19]


def test_a_damaged_entry_is_not_used(tmp_path):
    cache = filled(tmp_path, 2)
    cache.path("key 1").write_bytes(b"damaged")
    os.utime(cache.path("key 1"), (1, 1))
    assert cache.get("key 1") is None
    assert cache.path("key 1").stat().st_mtime == 1


def test_objects_and_plans_share_a_limit(tmp_path):
    objects, plans = filled(tmp_path, 10), filled(tmp_path, 10, suffix=".plan")
    trim(tmp_path, 6 * BLOCK)
    assert kept(objects, 10) == kept(plans, 10) == [7, 8, 9]


@pytest.mark.parametrize("length", [100, 10_000, 100_000])
def test_writing_holds_the_limit(tmp_path, length):
    limit_bytes = 256 * BLOCK if length < 100_000 else 1024 * BLOCK
    entry_bytes = -(-(length + 32) // BLOCK) * BLOCK
    cache = DiskCache(tmp_path, ".o", limit_bytes=limit_bytes)
    held = []
    for number in range(3 * limit_bytes // entry_bytes):
        cache.put(f"key {number}", bytes(length))
        held.append(usage(tmp_path)[1])
    assert limit_bytes - entry_bytes < max(held) < 1.25 * limit_bytes
    assert np.mean(held[len(held) // 2:]) < 1.1 * limit_bytes
    assert cache.get(f"key {number}") == bytes(length)


def test_the_folder_is_looked_through_seldom(tmp_path, monkeypatch):
    # 400 short entries are a 330th of the limit: one scan in five such runs. A scan at each write, or each start, fails.
    with counted_scans(monkeypatch) as scans:
        cache = DiskCache(tmp_path, ".o")
        for number in range(400):
            cache.put(f"key {number}", ONE_BLOCK)
            assert DiskCache(tmp_path, ".o").get(f"key {number}") == ONE_BLOCK
    assert len(scans) <= 2
    assert 400 * BLOCK * 300 < LIMIT_BYTES


def test_large_entries_bring_more_scans(tmp_path, monkeypatch):
    limit_bytes = 64 << 20
    with counted_scans(monkeypatch) as scans:
        cache = DiskCache(tmp_path, ".o", limit_bytes=limit_bytes)
        for number in range(40):
            cache.put(f"key {number}", bytes(limit_bytes >> 7))
    assert 8 <= len(scans) <= 32  # a chance of a half each


# ---- what is not its own ---------------------------------------------------------------------------------------------------

def test_other_files_are_neither_counted_nor_removed(tmp_path):
    folder, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    filled(folder, 3)
    filled(elsewhere, 1)
    others = ["notes.txt", "thesis.o", "a" * 40, "a" * 40 + ".O", "a" * 40 + ".o.bak", "a" * 41 + ".o", "b" * 64 + ".o", "c" * 39 + ".o", ".part", "model.part"]
    for name in others:
        (folder / name).write_bytes(bytes(9 * BLOCK))
        os.utime(folder / name, (0, 0))
    (folder / ("d" * 40 + ".o")).mkdir()
    (folder / ("e" * 40 + ".o")).symlink_to(next(elsewhere.iterdir()))
    assert usage(folder) == (3, 3 * BLOCK)
    trim(folder, 0)
    assert names(folder) == sorted([*others, "d" * 40 + ".o", "e" * 40 + ".o"])
    assert len(names(elsewhere)) == 1


def test_a_folder_that_is_not_there_is_empty(tmp_path):
    trim(tmp_path / "none", 0)
    assert usage(tmp_path / "none") == (0, 0)
    assert names(tmp_path) == []


# ---- several processes -----------------------------------------------------------------------------------------------------

def test_files_that_vanish_meanwhile(tmp_path, monkeypatch):
    cache = filled(tmp_path, 20)

    class Listing:
        """What `os.scandir` gave, some of whose files another process removes before they are looked at."""

        def __init__(self, folder):
            self.entries = sorted(real_scandir(folder), key=lambda entry: entry.stat(follow_symlinks=False).st_mtime)
            for number in (1, 3):
                real_unlink(cache.path(f"key {number}"))

        def __enter__(self):
            return iter([Vanishing(entry) for entry in self.entries])

        def __exit__(self, *error):
            return None

    class Vanishing:
        def __init__(self, entry):
            self.name, self.path, self.is_file = entry.name, entry.path, entry.is_file

        def stat(self, *, follow_symlinks):
            return os.stat(self.path, follow_symlinks=follow_symlinks)

    def removed_by_another_first(path):
        real_unlink(path)
        real_unlink(path)

    real_scandir, real_unlink = os.scandir, os.unlink
    monkeypatch.setattr(os, "scandir", Listing)
    monkeypatch.setattr(os, "unlink", removed_by_another_first)
    trim(tmp_path, 10 * BLOCK)
    assert kept(cache, 20) == list(range(10, 20))


def test_files_of_another_user_do_not_cost_ours(tmp_path, monkeypatch):
    cache, real = filled(tmp_path, 20), os.unlink

    def refuse_some(path):
        if Path(path) in [cache.path(f"key {number}") for number in range(5)]:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        real(path)

    monkeypatch.setattr(os, "unlink", refuse_some)
    trim(tmp_path, 10 * BLOCK)
    assert kept(cache, 20) == [*range(5), *range(10, 20)]


def test_a_folder_that_is_removed_while_an_entry_is_written(tmp_path, monkeypatch):
    folder, real = tmp_path / "cache", os.replace

    def replace(aside, path):
        os.unlink(aside)
        folder.rmdir()
        real(aside, path)

    cache = DiskCache(folder, ".o")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        cache.put("key", b"content")
    assert cache.get("key") is None
    cache.put("key", b"content")
    assert cache.get("key") == b"content"


def _put_and_get(folder, first, wrong):
    cache = DiskCache(Path(folder), ".o", limit_bytes=40 * BLOCK)
    for turn in range(400):
        key = f"key {(first + 7 * turn) % 100}"
        if cache.get(key) not in (None, key.encode() * 100):
            wrong.put(key)
        cache.put(key, key.encode() * 100)


def _put_for_ever(folder, started):
    cache = DiskCache(Path(folder), ".o", limit_bytes=40 * BLOCK)
    number = 0
    while True:
        cache.put(f"long {number % 100}", bytes(20_000))
        number += 1
        if number == 20:
            started.set()


def test_processes_share_a_limit_and_some_are_killed(tmp_path):
    context = multiprocessing.get_context("spawn")
    wrong, started = context.Queue(), context.Event()
    victim = context.Process(target=_put_for_ever, args=(str(tmp_path), started))
    workers = [context.Process(target=_put_and_get, args=(str(tmp_path), first, wrong)) for first in (0, 50)]
    for process in (victim, *workers):
        process.start()
    assert started.wait(60)
    victim.kill()
    for process in (victim, *workers):
        process.join()
    assert [worker.exitcode for worker in workers] == [0, 0] and wrong.empty()
    trim(tmp_path, 40 * BLOCK)
    files, size_bytes = usage(tmp_path)
    left_behind = [path for path in tmp_path.iterdir() if path.suffix == ".part"]
    assert files - len(left_behind) >= 4  # eight long entries fill the limit, of which a race may cost some
    assert size_bytes <= (40 + 5 * len(left_behind)) * BLOCK
    for path in left_behind:
        os.utime(path, (0, 0))
    trim(tmp_path, 40 * BLOCK)
    assert all(path.suffix == ".o" for path in tmp_path.iterdir())


def test_what_a_killed_writer_leaves_goes_after_an_hour(tmp_path, monkeypatch):
    cache = DiskCache(tmp_path, ".o")

    def killed(aside, path):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        patch.setattr(os, "unlink", lambda path: None)
        with pytest.raises(SystemExit):
            cache.put("key", ONE_BLOCK)
    (aside,) = tmp_path.iterdir()
    now = time.time()
    os.utime(aside, (now - 3000, now - 3000))
    trim(tmp_path, 0)
    assert aside.exists()  # its writer may live
    os.utime(aside, (now - 4000, now - 4000))
    trim(tmp_path, LIMIT_BYTES)
    assert names(tmp_path) == []


def test_a_writer_held_up_for_hours_goes_on(tmp_path, monkeypatch):
    real = os.replace

    def replace_late(aside, path):
        os.utime(aside, (0, 0))
        trim(tmp_path, LIMIT_BYTES)
        real(aside, path)

    cache = DiskCache(tmp_path, ".o")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_late)
        cache.put("key", b"content")
    assert cache.get("key") is None and names(tmp_path) == []
    cache.put("key", b"content")
    assert cache.get("key") == b"content"


# ---- the disk --------------------------------------------------------------------------------------------------------------

def test_a_write_that_fails_halfway_leaves_nothing(tmp_path):
    cache = filled(tmp_path, 3)
    before = names(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.warns(UserWarning, match="cannot be written") as told:
            cache.put("long", bytes(50_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(told) == 1 and names(tmp_path) == before and cache.get("long") is None


def test_a_full_disk_is_named_once_and_what_is_stored_is_still_read(tmp_path, monkeypatch):
    cache = filled(tmp_path, 3)

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk_cache.tempfile, "mkstemp", full)
    with pytest.warns(UserWarning, match="No space left on device") as told:
        cache.put("key 3", ONE_BLOCK)
        cache.put("key 4", ONE_BLOCK)
    assert len(told) == 1 and cache.get("key 0") == ONE_BLOCK and cache.get("key 3") is None


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_folder_that_may_only_be_read_serves_what_it_has(tmp_path, monkeypatch, code):
    Compiler(tmp_path).load([Source("one", "add", lambda: TEXTS["add"])], TARGET)
    before = [(path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir()]

    def refuse(*arguments, **options):
        raise OSError(code, os.strerror(code))

    for module, function in ((os, "utime"), (os, "unlink"), (os, "replace"), (disk_cache.tempfile, "mkstemp")):
        monkeypatch.setattr(module, function, refuse)
    second = Compiler(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert second.load([Source("one", "add", lambda: TEXTS["add"])], TARGET)
        trim(tmp_path, 0)
    assert second.compiled == 0
    assert [(path.name, path.stat().st_mtime_ns) for path in tmp_path.iterdir()] == before


def test_code_that_was_loaded_needs_its_file_no_more(tmp_path):
    source = Source("one", "add", lambda: TEXTS["add"])
    Compiler(tmp_path).load([source], TARGET)
    compiler = Compiler(tmp_path)
    (address,) = compiler.load([source], TARGET)
    trim(tmp_path, 0)
    assert names(tmp_path) == [] and compiler.compiled == 0
    taken, given = np.arange(8), np.zeros(8, np.int64)
    slots = np.array([given.ctypes.data, taken.ctypes.data, 4, 100])
    add = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(address)
    for chunk in range(2):
        add(slots.ctypes.data, chunk, None)
    assert given.tolist() == [100, 101, 102, 103, 104, 105, 106, 107]
    assert compiler.load([source], TARGET) == [address]
