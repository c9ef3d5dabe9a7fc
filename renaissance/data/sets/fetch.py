"""Downloading the files of a data set: from the first mirror that answers, checked by SHA-256, written aside and renamed."""

from __future__ import annotations

import hashlib
import http.client
import os
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

from renaissance.errors import DataError

PROBE_SECONDS = 6.0  # until some mirror must have answered; name look-up may hang far longer than any socket timeout
STALL_SECONDS = 10.0  # without a byte, after which a mirror is given up
_CHUNK_BYTES = 1 << 16
_FAULTS = (OSError, http.client.HTTPException, ValueError)


@dataclass(frozen=True)
class RemoteFile:
    """One file of a data set as its publisher made it."""

    name: str
    size_bytes: int
    sha256: str


def is_intact(path: Path, file: RemoteFile) -> bool:
    """Whether the file is there with the size and SHA-256 of the original."""
    try:
        if path.stat().st_size != file.size_bytes:
            return False
        return hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
    except OSError:
        return False


def fetch(files: Sequence[RemoteFile], mirrors: Sequence[str], folder: Path, *, name: str) -> None:
    """Make every file of a data set present and intact in a folder; those that already are cost no network.

    files      what must be there; each is held in memory once
    mirrors    URLs of folders that hold the files; the one that answers first is asked first
    folder     made if it does not exist
    name       the data set's name, for messages
    raises     DataError, with the reason of each mirror, if a file cannot be had; finished files stay, no part of any other does.
               Without a network this takes at most PROBE_SECONDS.
    source     definition
    """
    missing = [file for file in files if not is_intact(folder / file.name, file)]
    if not missing:
        return
    faults: dict[str, str] = {}
    mirrors = _answering(mirrors, min(missing, key=lambda file: file.size_bytes), faults)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(f"Downloading {name}", total=sum(file.size_bytes for file in missing))
        done_bytes = 0
        for file in missing:
            for mirror in mirrors:
                progress.update(bar, completed=done_bytes)
                try:
                    content = _download(mirror + file.name, file, progress, bar)
                except _FAULTS as fault:
                    faults[mirror] = _reason(fault)
                else:
                    break
            else:
                raise _unavailable(file.name, faults)
            _write(folder / file.name, content)
            done_bytes += file.size_bytes


def _answering(mirrors: Sequence[str], file: RemoteFile, faults: dict[str, str]) -> list[str]:
    """The mirrors worth asking: asked all at once, the first to answer first; those already known to fail are left out."""
    answers: queue.Queue[tuple[str, str | None]] = queue.Queue()

    def ask(mirror: str) -> None:
        try:
            _open(mirror + file.name, method="HEAD", timeout_s=PROBE_SECONDS).close()
            answers.put((mirror, None))
        except _FAULTS as fault:
            answers.put((mirror, _reason(fault)))

    for mirror in mirrors:
        threading.Thread(target=ask, args=(mirror,), daemon=True).start()
    deadline = time.monotonic() + PROBE_SECONDS
    while len(faults) < len(mirrors):
        try:
            mirror, reason = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            faults.update({m: f"no answer within {PROBE_SECONDS:.0f} s" for m in mirrors if m not in faults})
            break
        if reason is None:
            return [mirror] + [m for m in mirrors if m != mirror and m not in faults]
        faults[mirror] = reason
    raise _unavailable(file.name, faults)


def _download(url: str, file: RemoteFile, progress: Progress, bar: TaskID) -> bytes:
    """The content of one file from one mirror, once it is known to be whole and right."""
    chunks, size_bytes = [], 0
    with _open(url, method="GET", timeout_s=STALL_SECONDS) as response:
        while size_bytes <= file.size_bytes and (chunk := response.read(_CHUNK_BYTES)):
            chunks.append(chunk)
            size_bytes += len(chunk)
            progress.advance(bar, len(chunk))
    if size_bytes != file.size_bytes:
        difference = "longer" if size_bytes > file.size_bytes else f"{size_bytes:,} bytes long,"
        raise ValueError(f"{file.name} is {difference} not {file.size_bytes:,} bytes as the original")
    content = b"".join(chunks)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise ValueError(f"{file.name} has other bytes than the original: its SHA-256 differs")
    return content


def _write(path: Path, content: bytes) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(aside, "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as fault:
        remedy = "free some space, or set RENAISSANCE_DATA to another folder"
        raise DataError(f"{path}: cannot be written ({fault.strerror}); {remedy}") from None


def _open(url: str, *, method: str, timeout_s: float) -> http.client.HTTPResponse:
    try:
        return urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=timeout_s)
    except urllib.error.HTTPError as fault:
        fault.close()
        raise ConnectionError(f"HTTP {fault.code} {fault.reason}") from None


def _reason(fault: Exception) -> str:
    """A fault in a few words: the cause that urllib wrapped, without its error number."""
    if isinstance(fault, urllib.error.URLError) and isinstance(fault.reason, OSError):
        fault = fault.reason
    if isinstance(fault, TimeoutError):
        return "timed out"
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror
    return str(fault) or type(fault).__name__


def _unavailable(name: str, faults: dict[str, str]) -> DataError:
    reasons = "; ".join(f"{mirror}: {reason}" for mirror, reason in faults.items())
    return DataError(f"{name} could not be downloaded ({reasons}); check the network")
