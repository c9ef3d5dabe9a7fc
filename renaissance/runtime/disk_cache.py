"""A folder of checked files, one per key, that several processes may share."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import warnings
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_DIGEST_BYTES = hashlib.sha256().digest_size
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
    """

    def __init__(self, folder: Path, suffix: str):
        self.folder = folder
        self.suffix = suffix

    def path(self, key: str) -> Path:
        """Where the entry of a key is kept."""
        return self.folder / (hashlib.sha256(key.encode()).hexdigest()[:40] + self.suffix)

    def get(self, key: str) -> bytes | None:
        """The content stored under a key, or None when there is none or it is damaged."""
        try:
            data = self.path(key).read_bytes()
        except OSError:
            return None
        content = data[_DIGEST_BYTES:]
        return content if data[:_DIGEST_BYTES] == _digest(key, content) else None

    def put(self, key: str, content: bytes) -> None:
        """Store the content of a key, replacing what was there."""
        if self.folder in _told:
            return
        try:
            self._write(self.path(key), _digest(key, content) + content)
        except OSError as error:
            _told.add(self.folder)
            warnings.warn(
                f"the cache folder {self.folder} cannot be written ({error.strerror}): compiled code is kept in memory only. "
                "Set RENAISSANCE_CACHE to a folder that can be written",
                stacklevel=2,
            )

    def _write(self, path: Path, data: bytes) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=self.folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)  # not synced: what a crash leaves half-written fails its checksum and is made again
            os.replace(aside, path)
        except BaseException:
            os.unlink(aside)
            raise


def _digest(key: str, content: bytes) -> bytes:
    digest = hashlib.sha256(key.encode())
    digest.update(b"\0" + content)
    return digest.digest()
