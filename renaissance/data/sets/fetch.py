"""Downloading the files of a data set: from the first mirror that answers, checked by SHA-256, written aside and renamed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from renaissance.errors import DataError
from renaissance.progress import Bar

PROBE_SECONDS = 6.0  # until some mirror must have answered; name look-up may hang far longer than any socket timeout
STALL_SECONDS = 10.0  # without a byte, after which a mirror is given up
_POLL_SECONDS = 0.02
_CHUNK_BYTES = 1 << 16
_DOWNLOAD = Path(__file__).with_name("download.py")


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
    bar = Bar(sys.stderr)
    try:
        for file in missing:
            for mirror in mirrors:
                try:
                    content = _download(mirror + file.name, file, bar, f"{name}: {file.name}")
                except (OSError, ValueError) as fault:
                    faults[mirror] = str(fault)
                else:
                    break
            else:
                raise _unavailable(file.name, faults)
            _write(folder / file.name, content)
    finally:
        bar.clear()


def _answering(mirrors: Sequence[str], file: RemoteFile, faults: dict[str, str]) -> list[str]:
    """The mirrors worth asking: asked all at once, the first to answer first; those already known to fail are left out."""
    deadline = time.monotonic() + PROBE_SECONDS
    with ExitStack() as stack:
        asked = {mirror: stack.enter_context(_downloading("HEAD", mirror + file.name, PROBE_SECONDS)) for mirror in mirrors}
        while len(faults) < len(asked):
            for mirror, process in asked.items():
                if mirror in faults or process.poll() is None:
                    continue
                if process.returncode == 0:
                    return [mirror] + [m for m in mirrors if m != mirror and m not in faults]
                faults[mirror] = _last_words(process)
            if time.monotonic() > deadline:
                faults.update({m: f"no answer within {PROBE_SECONDS:.0f} s" for m in mirrors if m not in faults})
            time.sleep(_POLL_SECONDS)
    raise _unavailable(file.name, faults)


def _download(url: str, file: RemoteFile, bar: Bar, label: str) -> bytes:
    """The content of one file from one mirror, once it is known to be whole and right."""
    chunks, size_bytes = [], 0
    with _downloading("GET", url, STALL_SECONDS) as process:
        assert process.stdout is not None
        while size_bytes <= file.size_bytes and (chunk := process.stdout.read(_CHUNK_BYTES)):
            chunks.append(chunk)
            size_bytes += len(chunk)
            bar.draw(label, size_bytes, file.size_bytes, f"{size_bytes / 1e6:.1f} of {file.size_bytes / 1e6:.1f} MB")
        if size_bytes <= file.size_bytes and process.wait() != 0:
            raise ConnectionError(_last_words(process))
    if size_bytes != file.size_bytes:
        difference = "longer" if size_bytes > file.size_bytes else f"{size_bytes:,} bytes long,"
        raise ValueError(f"{file.name} is {difference} not {file.size_bytes:,} bytes as the original")
    content = b"".join(chunks)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise ValueError(f"{file.name} has other bytes than the original: its SHA-256 differs")
    return content


@contextmanager
def _downloading(method: str, url: str, timeout_s: float) -> Iterator[subprocess.Popen[bytes]]:
    """The program `download.py` at work on a URL; ended at the end, whether it is done or not."""
    command = [sys.executable or "python3", "-I", str(_DOWNLOAD), method, url, str(timeout_s)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def _last_words(process: subprocess.Popen[bytes]) -> str:
    """Why a download failed."""
    assert process.stderr is not None
    lines = process.stderr.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"the download ended with status {process.returncode}"


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


def _unavailable(name: str, faults: dict[str, str]) -> DataError:
    reasons = "; ".join(f"{mirror}: {reason}" for mirror, reason in faults.items())
    return DataError(f"{name} could not be downloaded ({reasons}); check the network")
