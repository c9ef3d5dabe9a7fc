"""A folder of checked files, one per key, that several processes may share. It holds a limited size: the oldest go first."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LIMIT_BYTES = 512 << 20  # a training program takes one or two MiB

_PACKAGE = Path(__file__).resolve().parent.parent
_DIGEST_BYTES = hashlib.sha256().digest_size
_BLOCK_BYTES = 4096  # the disk gives whole blocks, and most entries are smaller than one
_SCANS_IN_LIMIT = 64  # of 130,000 small files, one scan takes half a second and comes after 2,000 new ones
_ASIDE = ".part"
_ABANDONED_S = 3600.0
_OURS = re.compile(r"[0-9a-f]{40}\.[a-z]+(\.\w+\.part)?")
_told: set[Path] = set()


@functools.cache
def sources_digest(*packages: str) -> str:
    """A hash of all Python sources in sub-packages of this one: part of a key whose value those sources make."""
    digest = hashlib.sha256()
    for package in packages:
        for path in sorted((_PACKAGE / package).rglob("*.py")):
            digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


class DiskCache:
    """Bytes by key in a folder.

    Each file starts with a SHA-256 over key and content; an entry that fails it counts as absent, so it is made anew and
    replaced. Files are written aside and renamed, so a reader sees a whole entry or none. A folder that cannot be written
    is named once in a warning; after that nothing is stored in it.

    A file's time of change is when it was last used. An entry that is written has the folder trimmed with a chance of its
    size over a 64th of the limit, drawn from the hash in its name. So scans come in proportion to what is written, by
    however many processes and however short, with nothing to count or to lock; the folder exceeds its limit by a 64th of it
    on average, and with a chance of exp(-n) by n times that.
    """

    def __init__(self, folder: Path, suffix: str, *, limit_bytes: int = LIMIT_BYTES):
        self.folder = folder
        self.suffix = suffix
        self.limit_bytes = limit_bytes

    def path(self, key: str) -> Path:
        """Where the entry of a key is kept."""
        return self.folder / (hashlib.sha256(key.encode()).hexdigest()[:40] + self.suffix)

    def get(self, key: str) -> bytes | None:
        """The content stored under a key, or None when there is none or it is damaged."""
        path = self.path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        content = data[_DIGEST_BYTES:]
        if data[:_DIGEST_BYTES] != _digest(key, content):
            return None
        with contextlib.suppress(OSError):  # removed since by another process, or a folder that may only be read
            os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Store the content of a key, replacing what was there."""
        if self.folder in _told:
            return
        path = self.path(key)
        try:
            self._write(path, _digest(key, content) + content)
        except OSError as error:
            _told.add(self.folder)
            warnings.warn(
                f"the cache folder {self.folder} cannot be written ({error.strerror}): compiled code is kept in memory only. "
                "Set RENAISSANCE_CACHE to a folder that can be written",
                stacklevel=2,
            )
            return
        drawn = int(path.name[:8], 16) / 2**32
        if drawn * self.limit_bytes < _SCANS_IN_LIMIT * _disk_bytes(_DIGEST_BYTES + len(content)):
            trim(self.folder, self.limit_bytes)

    def _write(self, path: Path, data: bytes) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=self.folder, prefix=f"{path.name}.", suffix=_ASIDE)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)  # not synced: what a crash leaves half-written fails its checksum and is made again
            with contextlib.suppress(FileNotFoundError):  # held up for so long that another process took it for abandoned
                os.replace(aside, path)
        except BaseException:
            _remove(aside)
            raise


def usage(folder: Path) -> tuple[int, int]:
    """How many files of the cache a folder holds, and the bytes they take, in whole blocks of the disk."""
    sizes = [file.size_bytes for file in _files(folder)]
    return len(sizes), sum(sizes)


def trim(folder: Path, limit_bytes: int) -> None:
    """Remove the entries used longest ago until the rest takes at most a limit, and what killed writers left behind.

    Only files with names that this cache gives are touched. Several processes may trim at once: they remove the same files.
    """
    entries = []
    for file in _files(folder):
        if not file.path.endswith(_ASIDE):
            entries.append(file)
        elif time.time() - file.used_s > _ABANDONED_S:
            _remove(file.path)
    excess = sum(file.size_bytes for file in entries) - limit_bytes
    for file in sorted(entries):
        if excess <= 0:
            return
        _remove(file.path)
        excess -= file.size_bytes  # also when it stays, being another user's: a newer one of ours need not go in its place


class _File(NamedTuple):
    """A file of the cache; files sort by when they were last used."""

    used_s: float
    size_bytes: int
    path: str


def _files(folder: Path) -> Iterator[_File]:
    """The files of a cache folder; those that vanish meanwhile are left out."""
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        for entry in listing:
            if _OURS.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    facts = entry.stat(follow_symlinks=False)
                    yield _File(facts.st_mtime, _disk_bytes(facts.st_size), entry.path)


def _disk_bytes(length: int) -> int:
    return -(-length // _BLOCK_BYTES) * _BLOCK_BYTES


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _digest(key: str, content: bytes) -> bytes:
    digest = hashlib.sha256(key.encode())
    digest.update(b"\0" + content)
    return digest.digest()
