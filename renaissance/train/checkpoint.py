"""Checkpoints: folders of safetensors and JSON, written aside and renamed, with checksums; damaged ones are named, passed over.

Nothing in them is ever executed: tensors are bytes with a shape and a dtype, everything else is JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save as save_tensors

from renaissance.errors import CheckpointError

_NAME = re.compile(r"checkpoint-(\d+)")
_ASIDE = ".aside-"  # being written or removed; the number of the process ends the name
_SUMS = "sums.json"
_STATE = "state.json"
_TENSORS = ".safetensors"
_DTYPES = {
    "BOOL": np.dtype(bool), "U8": np.dtype(np.uint8), "U16": np.dtype(np.uint16), "U32": np.dtype(np.uint32),
    "U64": np.dtype(np.uint64), "I8": np.dtype(np.int8), "I16": np.dtype(np.int16), "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64), "F16": np.dtype(np.float16), "BF16": np.dtype(ml_dtypes.bfloat16), "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
}

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as read: its folder, the arrays of each safetensors file (by its name without suffix), and state.json."""

    path: Path
    tensors: dict[str, dict[str, np.ndarray]]
    state: dict[str, Any]


def numbered(folder: Path) -> list[Path]:
    """The checkpoints below a folder, whole or not, oldest first."""
    found = [(int(match[1]), path) for path in folder.glob("checkpoint-*") if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def is_checkpoint(path: Path) -> bool:
    """Whether a path is named as one checkpoint is, not as a folder of them."""
    return _NAME.fullmatch(path.name) is not None


def save(folder: Path, tensors: Mapping[str, Arrays], state: Mapping[str, Any]) -> Path:
    """Write a checkpoint below `folder`, numbered behind those that are there: it appears whole or not at all.

    tensors   for each file name the arrays in it
    state     what goes to state.json
    returns   the checkpoint's folder
    raises    CheckpointError when it cannot be written (no space, no permission): nothing is left behind, older ones stay
    source    definition
    """
    contents = {file + _TENSORS: save_tensors({k: np.asarray(v, order="C") for k, v in arrays.items()})
                for file, arrays in tensors.items()}
    contents[_STATE] = json.dumps(state, indent=1).encode()
    contents[_SUMS] = json.dumps({file: hashlib.sha256(data).hexdigest() for file, data in contents.items()}, indent=1).encode()
    taken = numbered(folder)
    final = folder / f"checkpoint-{int(taken[-1].name.rpartition('-')[2]) + 1 if taken else 1:06d}"
    aside = _aside(final)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _clear_aside(folder)
        aside.mkdir()
        for file, data in contents.items():
            _write(aside / file, data)
        _sync(aside)
        aside.rename(final)
        _sync(folder)
    except OSError as e:
        shutil.rmtree(aside, ignore_errors=True)
        raise CheckpointError(f"{final}: cannot be written: {e.strerror or e}; older checkpoints are untouched") from e
    return final


def remove(paths: Sequence[Path]) -> None:
    """Remove checkpoints; each is gone as a whole before its files go."""
    for path in paths:
        aside = _aside(path)
        try:
            path.rename(aside)
        except OSError:
            continue  # gone already, or not ours to remove: then it stays whole
        shutil.rmtree(aside, ignore_errors=True)


def _aside(path: Path) -> Path:
    return path.with_name(f"{_ASIDE}{path.name}-{os.getpid()}")


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
    """Remove what killed processes left half-written or half-removed."""
    for path in folder.glob(f"{_ASIDE}*"):
        owner = path.name.rpartition("-")[2]
        if owner == str(os.getpid()) or not Path("/proc", owner).exists():
            shutil.rmtree(path, ignore_errors=True)


def load(path: Path) -> Checkpoint:
    """Read one checkpoint, every file checked against its sum before anything is used.

    path      the checkpoint's folder
    returns   the Checkpoint
    raises    CheckpointError naming the file that is missing or damaged
    source    definition
    """
    sums = _object(path / _SUMS, _read(path / _SUMS))
    if _STATE not in sums:
        raise CheckpointError(f"{path / _SUMS}: does not list {_STATE}; use an older checkpoint")
    contents: dict[str, bytes] = {}
    for file, expected in sums.items():
        if Path(file).name != file or "\0" in file:
            raise CheckpointError(f"{path / _SUMS}: lists {file!r}, which is no file of a checkpoint; use an older checkpoint")
        contents[file] = _read(path / file)
        if hashlib.sha256(contents[file]).hexdigest() != expected:
            raise CheckpointError(f"{path / file}: damaged (its checksum differs); use an older checkpoint")
    tensors = {f.removesuffix(_TENSORS): _tensors(path / f, data) for f, data in contents.items() if f.endswith(_TENSORS)}
    return Checkpoint(path, tensors, _object(path / _STATE, contents[_STATE]))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise CheckpointError(f"{path}: cannot be read: {e.strerror or e}") from e


def _object(path: Path, data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise CheckpointError(f"{path}: not JSON: {e}") from e
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: must hold a JSON object")
    return value


def _tensors(path: Path, data: bytes) -> dict[str, np.ndarray]:
    try:
        found = deserialize(data)
    except SafetensorError as e:
        raise CheckpointError(f"{path}: not a safetensors file: {e}") from e
    arrays = {}
    for name, entry in found:
        if entry["dtype"] not in _DTYPES:
            raise CheckpointError(f"{path}: {name} has dtype {entry['dtype']}; supported are {', '.join(_DTYPES)}")
        arrays[name] = np.frombuffer(entry["data"], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def newest(folder: Path) -> tuple[Checkpoint, list[str]]:
    """The newest checkpoint below a folder that is whole.

    returns   the Checkpoint, and what was wrong with newer ones
    raises    CheckpointError when there is none
    source    definition
    """
    faults: list[str] = []
    for path in reversed(numbered(folder)):
        try:
            return load(path), faults
        except CheckpointError as e:
            faults.append(str(e))
    raise CheckpointError(f"{folder}: no whole checkpoint: {'; '.join(faults) or 'there is none'}")
