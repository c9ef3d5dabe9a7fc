"""Checkpoints: a folder of safetensors and JSON, written aside and renamed, with checksums; damaged ones are named and passed over."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from renaissance.errors import CheckpointError

_PREFIX = "checkpoint-"
_ASIDE = ".writing-"
_SUMS = "sums.json"


def save(folder: Path, name: str, tensors: Mapping[str, Mapping[str, np.ndarray]], state: Mapping[str, Any]) -> Path:
    """Write one checkpoint below `folder`: it appears whole or not at all.

    name      what follows 'checkpoint-' in its folder's name; later ones must sort later
    tensors   for each file name a dict of arrays
    state     what goes to state.json
    returns   the checkpoint's folder
    raises    CheckpointError when it cannot be written (no space, no permission): nothing is left behind, older ones stay
    source    definition
    """
    final = folder / f"{_PREFIX}{name}"
    aside = folder / f"{_ASIDE}{name}-{os.getpid()}"
    contents = {f"{file}.safetensors": save_tensors({k: np.ascontiguousarray(v) for k, v in arrays.items()})
                for file, arrays in tensors.items()}
    contents["state.json"] = json.dumps(state, indent=1).encode()
    contents[_SUMS] = json.dumps({file: hashlib.sha256(data).hexdigest() for file, data in contents.items()}, indent=1).encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _clear_aside(folder)
        aside.mkdir()
        for file, data in contents.items():
            _write(aside / file, data)
        _sync(aside)
        if final.exists():
            shutil.rmtree(final)
        aside.rename(final)
        _sync(folder)
    except OSError as e:
        shutil.rmtree(aside, ignore_errors=True)
        raise CheckpointError(f"{final}: cannot be written: {e.strerror or e}; older checkpoints are untouched") from e
    return final


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())


def _sync(folder: Path) -> None:
    """Have the names in a folder reach the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _clear_aside(folder: Path) -> None:
    """Remove what killed processes left half-written."""
    for path in folder.glob(f"{_ASIDE}*"):
        owner = path.name.rpartition("-")[2]
        if not (owner.isdecimal() and Path(f"/proc/{owner}").exists() and int(owner) != os.getpid()):
            shutil.rmtree(path, ignore_errors=True)


def load(path: Path) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, Any]]:
    """Read one checkpoint, every file checked against its sum before anything is used.

    path      the checkpoint's folder
    returns   the tensors by file name (without suffix), and the state
    raises    CheckpointError naming the file that is missing or damaged
    source    definition
    """
    sums = _json(path / _SUMS, _read(path / _SUMS))
    contents: dict[str, bytes] = {}
    for file, expected in sums.items():
        data = _read(path / file)
        if Path(file).name != file or hashlib.sha256(data).hexdigest() != expected:
            raise CheckpointError(f"{path / file}: damaged (its checksum differs); use an older checkpoint")
        contents[file] = data
    if "state.json" not in contents:
        raise CheckpointError(f"{path / 'state.json'}: not listed in {_SUMS}; this is no checkpoint")
    tensors: dict[str, dict[str, np.ndarray]] = {}
    for file, data in contents.items():
        if file.endswith(".safetensors"):
            try:
                tensors[file.removesuffix(".safetensors")] = load_tensors(data)
            except SafetensorError as e:
                raise CheckpointError(f"{path / file}: not a safetensors file: {e}") from e
    return tensors, _json(path / "state.json", contents["state.json"])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise CheckpointError(f"{path}: cannot be read: {e.strerror or e}") from e


def _json(path: Path, data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError as e:
        raise CheckpointError(f"{path}: not JSON: {e}") from e
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: must hold a JSON object")
    return value


def newest(folder: Path) -> tuple[Path, dict[str, dict[str, np.ndarray]], dict[str, Any], list[str]]:
    """The newest checkpoint below a folder that is whole.

    returns   its folder, tensors and state, and what was wrong with newer ones
    raises    CheckpointError when there is none
    source    definition
    """
    faults: list[str] = []
    for path in sorted(folder.glob(f"{_PREFIX}*"), key=lambda p: p.name, reverse=True):
        try:
            return path, *load(path), faults
        except CheckpointError as e:
            faults.append(str(e))
    told = "; ".join(faults) or "there is none"
    raise CheckpointError(f"{folder}: no whole checkpoint: {told}")


def keep_last(folder: Path, count: int) -> None:
    """Remove all but the last `count` checkpoints."""
    for path in sorted(folder.glob(f"{_PREFIX}*"), key=lambda p: p.name)[:-count]:
        shutil.rmtree(path, ignore_errors=True)
