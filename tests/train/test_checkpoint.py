"""Checkpoint files: whole or not there, checked byte by byte, and never executed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import shutil

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from renaissance.errors import CheckpointError
from renaissance.train import checkpoint

from .runs import python

TENSORS = {
    "model": {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "scale": np.array(3.0), "none": np.zeros((0, 4), np.float16),
              "half": np.array([1.5, -2.0], ml_dtypes.bfloat16), "transposed": np.arange(6).reshape(2, 3).T},
    "totals": {"sums": np.arange(5, dtype=np.uint8), "yes": np.array([True, False])},
}
STATE = {"epoch": 3, "lr": 0.1, "history": [{"loss": 1 / 3}, None]}


def same(tensors):
    for file, arrays in TENSORS.items():
        assert tensors[file].keys() == arrays.keys()
        for name, array in arrays.items():
            assert tensors[file][name].dtype == array.dtype and tensors[file][name].shape == array.shape, name
            np.testing.assert_array_equal(tensors[file][name], array)
    return True


def test_what_is_saved_comes_back(tmp_path):
    path = checkpoint.save(tmp_path / "new" / "folder", TENSORS, STATE)
    found = checkpoint.load(path)
    assert same(found.tensors) and found.state == STATE and found.path == path
    assert sorted(p.name for p in path.iterdir()) == ["model.safetensors", "state.json", "sums.json", "totals.safetensors"]
    assert os.listdir(path.parent) == ["checkpoint-000001"]


def test_every_checkpoint_has_a_number_behind_those_before(tmp_path):
    (tmp_path / "checkpoint-000009").mkdir()
    (tmp_path / "checkpoint-x").mkdir()
    paths = [checkpoint.save(tmp_path, TENSORS, {"n": n}) for n in range(3)]
    assert [p.name for p in paths] == ["checkpoint-000010", "checkpoint-000011", "checkpoint-000012"]
    assert checkpoint.newest(tmp_path)[0].state == {"n": 2}
    (tmp_path / "checkpoint-1000000").mkdir()  # more digits, still the newest
    assert checkpoint.save(tmp_path, TENSORS, STATE).name == "checkpoint-1000001"
    checkpoint.remove(checkpoint.numbered(tmp_path)[:-1])
    assert sorted(os.listdir(tmp_path)) == ["checkpoint-1000001", "checkpoint-x"]


# ---- damage ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A folder with two whole checkpoints."""
    folder = tmp_path_factory.mktemp("two")
    for n in (1, 2):
        checkpoint.save(folder, TENSORS, {"n": n})
    return folder


def damaged(data, kind, at, by):
    at %= max(1, len(data))
    if kind == "truncated":
        return data[:at]
    if kind == "longer":
        return data + bytes([by])
    return data[:at] + bytes([data[at] ^ by]) + data[at + 1:]


@pytest.mark.parametrize("file", ["model.safetensors", "totals.safetensors", "state.json", "sums.json"])
@given(damage=st.tuples(st.sampled_from(["truncated", "longer", "flipped"]), st.integers(0, 1 << 20), st.integers(1, 255)))
@examples(max_examples=60, deadline=None)
def test_any_damage_is_found_and_the_older_checkpoint_used(two, file, damage):
    path = two / "checkpoint-000002"
    whole = (path / file).read_bytes()
    try:
        (path / file).write_bytes(damaged(whole, *damage))
        try:
            found = checkpoint.load(path)
        except CheckpointError as e:
            assert str(path) in str(e)
            older, faults = checkpoint.newest(two)
            assert older.path.name == "checkpoint-000001" and len(faults) == 1 and str(path) in faults[0]
        else:  # JSON means the same after some changes of its white space
            assert file == "sums.json" and same(found.tensors) and found.state == {"n": 2}
    finally:
        (path / file).write_bytes(whole)


@pytest.mark.parametrize("file", ["model.safetensors", "state.json", "sums.json"])
def test_a_missing_file_is_named(two, tmp_path, file):
    shutil.copytree(two / "checkpoint-000001", copy := tmp_path / "checkpoint-000001")
    (copy / file).unlink()
    with pytest.raises(CheckpointError, match=f"{file}: cannot be read: No such file"):
        checkpoint.load(copy)


@pytest.mark.parametrize("sums, words", [
    ({}, "does not list state.json"),
    ({"state.json": None}, "damaged"),
    ({"../other": "", "state.json": ""}, "which is no file of a checkpoint"),
    ({"a\0b": "", "state.json": ""}, "which is no file of a checkpoint"),
    ([], "must hold a JSON object"),
])
def test_sums_that_make_no_sense(two, tmp_path, sums, words):
    shutil.copytree(two / "checkpoint-000001", copy := tmp_path / "checkpoint-000001")
    (copy / "sums.json").write_text(json.dumps(sums))
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(copy)
    assert words in str(caught.value)


def test_no_checkpoint_at_all(tmp_path):
    with pytest.raises(CheckpointError, match="no whole checkpoint: there is none"):
        checkpoint.newest(tmp_path / "nowhere")


def test_loading_never_unpickles(two, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(np, "load", refuse)
    assert checkpoint.newest(two)[0].state == {"n": 2}
    # A pickle in place of a file is refused like any other bytes, even with a fitting sum.
    path = checkpoint.save(tmp_path, TENSORS, STATE)
    evil = pickle.dumps(os.system)
    (path / "model.safetensors").write_bytes(evil)
    sums = json.loads((path / "sums.json").read_text())
    sums["model.safetensors"] = hashlib.sha256(evil).hexdigest()
    (path / "sums.json").write_text(json.dumps(sums))
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        checkpoint.load(path)


# ---- writing that fails ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["fsync", "rename", "mkdir"])
def test_a_failed_write_leaves_the_old_and_nothing_else(tmp_path, monkeypatch, call):
    checkpoint.save(tmp_path, TENSORS, STATE)

    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with pytest.raises(CheckpointError, match="checkpoint-000002: cannot be written: No space left on device; older"):
            checkpoint.save(tmp_path, TENSORS, STATE)
    assert os.listdir(tmp_path) == ["checkpoint-000001"] and same(checkpoint.newest(tmp_path)[0].tensors)
    assert checkpoint.save(tmp_path, TENSORS, STATE).name == "checkpoint-000002"


FULL_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from renaissance.errors import CheckpointError
from renaissance.train import checkpoint
folder = Path(sys.argv[1])
checkpoint.save(folder, {"model": {"w": np.ones(1000)}}, {})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # no file may grow past this
try:
    checkpoint.save(folder, {"model": {"w": np.ones(100_000)}}, {})
except CheckpointError as e:
    print(e)
print(checkpoint.newest(folder)[0].path.name, sorted(p.name for p in folder.iterdir()))
"""


def test_a_full_disk_is_an_error_and_the_old_checkpoint_stays(tmp_path):
    told = python(FULL_DISK, tmp_path).communicate(timeout=60)[0]
    assert "checkpoint-000002: cannot be written: File too large; older checkpoints are untouched" in told
    assert "checkpoint-000001 ['checkpoint-000001']" in told


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written: "):
        checkpoint.save(tmp_path / "file", TENSORS, STATE)


def test_what_a_killed_process_left_is_removed_by_the_next_save(tmp_path):
    killed = python("import os; print(os.getpid())")
    gone = int(killed.communicate(timeout=60)[0])
    for name in (f".aside-checkpoint-000001-{gone}", f".aside-checkpoint-000002-{os.getpid()}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text("half")
    (tmp_path / ".aside-checkpoint-000003-1").mkdir()  # of a process that is alive
    checkpoint.save(tmp_path, TENSORS, STATE)
    assert sorted(os.listdir(tmp_path)) == [".aside-checkpoint-000003-1", "checkpoint-000001"]


KILLS = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from renaissance.train import checkpoint
folder, rng = Path(sys.argv[1]), random.Random(7)
for round in range(20):
    if (child := os.fork()) == 0:
        n = 0
        while True:
            n += 1
            checkpoint.save(folder, {"model": {"w": np.full(50_000, n, np.float32)}, "totals": {"n": np.array(n)}}, {"n": n})
            checkpoint.remove(checkpoint.numbered(folder)[:-3])
    time.sleep(rng.uniform(0.02, 0.12))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if checkpoint.numbered(folder):
        found, faults = checkpoint.newest(folder)
        n = found.state["n"]
        assert not faults and found.tensors["totals"]["n"] == n and (found.tensors["model"]["w"] == n).all(), (faults, n)
checkpoint.save(folder, {}, {"n": 0})
checkpoint.remove(checkpoint.numbered(folder)[:-3])
print("alive", len(list(folder.iterdir())), found.path.name)
"""


def test_killed_twenty_times_while_saving(tmp_path):
    told = python(KILLS, tmp_path, PYTHONWARNINGS="ignore").communicate(timeout=120)[0].split()
    assert told[:2] == ["alive", "3"], told
    assert int(told[2].rpartition("-")[2]) > 3
