"""The file of measured engines: what is written is read, and what cannot be used is refused with what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from renaissance import engine
from renaissance.compile.choice import convolution_named
from renaissance.compile.pipeline import compile_graph
from renaissance.config import read
from renaissance.errors import ArgumentError
from renaissance.ir.dtype import float32
from renaissance.ir.graph import Graph
from renaissance.ir.node import unique
from renaissance.ir.target import Target
from renaissance.ops.value import LEAF
from renaissance.runtime.jit import compiler
from renaissance.runtime.link import link
from renaissance.tuned import read_overrides, write_overrides

from . import markdown

TARGET = Target("avx512", 64, 32, True, True, "cpu", "+this,-that")
DIRECT = "conv bfloat16 16x56x56x64 to 64 padding 1 1 1 1"
TILES = "conv_weight float32 2x5x6x3 to 4 padding 0 1 2 3"
ENGINES = {TILES: "winograd2", DIRECT: "direct"}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "tuned.json"
    write_overrides(path, TARGET, 2, ENGINES, {DIRECT: {"direct": 1.5, "winograd4": 2.25}})
    return path


def test_what_is_written_is_read(path):
    assert read_overrides(path, TARGET) == ((DIRECT, "direct"), (TILES, "winograd2"))
    assert [p.name for p in path.parent.iterdir()] == ["tuned.json"]
    content = json.loads(path.read_text())
    assert content["threads"] == 2 and content["times_ms"][DIRECT]["winograd4"] == 2.25 and content["engines"] == ENGINES


def test_choices_and_the_words_of_llvm_are_no_other_target(path):
    assert read_overrides(path, replace(TARGET, features="+other", overrides=((DIRECT, "direct"),)))


def test_a_file_is_replaced_as_a_whole(path, monkeypatch):
    before = path.read_text()
    write_overrides(path, TARGET, 1, {}, {})
    assert read_overrides(path, TARGET) == () and path.read_text() != before
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_overrides(path, TARGET, 1, ENGINES, {})
    assert read_overrides(path, TARGET) == () and [p.name for p in path.parent.iterdir()] == ["tuned.json"]


@pytest.mark.parametrize("place", ["", "tuned.json/below", "nowhere/tuned.json"])
def test_a_file_that_cannot_be_written_is_named(path, place):
    with pytest.raises(ArgumentError, match=r"cannot be written: \w+"):
        write_overrides(path.parent / place, TARGET, 1, {}, {})


def refused(path, target=TARGET):
    with pytest.raises(ArgumentError) as caught:
        read_overrides(path, target)
    told = str(caught.value)
    assert told.startswith(f"RENAISSANCE_TUNED: {path} ") and len(told.splitlines()) == 1
    assert told.endswith("; measure again with `renaissance tune`, or unset RENAISSANCE_TUNED")
    return told


@pytest.mark.parametrize("change, words", [
    (lambda c: c.pop("engines"), "is damaged: it has no entry engines"),
    (lambda c: c.update(engines=[]), "is damaged: it has no entry engines"),
    (lambda c: c.update(version=2), "is of version 2, this package reads version 1"),
    (lambda c: c.pop("version"), "is of version None"),
    (lambda c: c.pop("target"), "was measured on another Target: isa None, here 'avx512'"),
    (lambda c: c["target"].update(cpu="other"), "was measured on another Target: cpu 'other', here 'cpu'"),
    (lambda c: c["target"].update(l2_bytes=7), "was measured on another Target: l2_bytes 7, here 1048576"),
    (lambda c: c["engines"].update({DIRECT: "fft"}), f"engine 'fft' cannot do '{DIRECT}'; direct, winograd2, winograd4 can;"),
    (lambda c: c["engines"].update({DIRECT: None}), f"engine None cannot do '{DIRECT}'"),
    (lambda c: c["engines"].update({DIRECT: ["direct"]}), "engine ['direct'] cannot do"),
    (lambda c: c["engines"].update({"pool 3x3": "direct"}), "'pool 3x3' is no convolution that several engines can do"),
])
def test_a_file_that_does_not_fit_is_refused(path, change, words):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    assert words in refused(path)


def test_an_engine_that_a_setting_forbids_is_refused(path):
    assert "direct can under RENAISSANCE_WINOGRAD=0" in refused(path, replace(TARGET, winograd=False))


@pytest.mark.parametrize("data", [b"", b"{", b"[1, 2]", b"\xff\xfe", b"[" * 100_000, b"3"])
def test_a_damaged_file_is_refused(path, data):
    path.write_bytes(data)
    assert "is damaged" in refused(path)


def test_a_missing_file_is_refused(path):
    path.unlink()
    assert "cannot be read: No such file or directory" in refused(path)
    assert "cannot be read: Is a directory" in refused(path.parent)


# ---- in force --------------------------------------------------------------------------------------------------------------

RUN = """
import hashlib, sys
import numpy as np
import renaissance as rn
rng = np.random.default_rng(0)
x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 64, 32, 32), (64, 64, 3, 3)))
step = rn.compile(rn.nn.functional.conv2d)
y = step(x, w, None, 1, 1)
eager = rn.nn.functional.conv2d(rn.tensor(x), rn.tensor(w), None, 1, 1)
assert (y.numpy() == eager.numpy()).all()
tiles = any(item.name.startswith("winograd") for item in step.plan(x, w, None, 1, 1).items)
print("tiles" if tiles else "direct", hashlib.sha256(y.numpy().tobytes()).hexdigest())
"""
CASE = "conv float32 4x32x32x64 to 64 padding 1 1 1 1"


def told(**environment):
    running = subprocess.run([sys.executable, "-c", RUN], cwd=markdown.ROOT, env={**os.environ, **environment}, capture_output=True,
                             text=True, check=True)
    return running.stdout.split()


def test_a_run_uses_the_file_it_is_told_to_and_gets_the_bits_of_its_engine(tmp_path):
    path, target = tmp_path / "tuned.json", engine.host_target()
    write_overrides(path, target, 1, {CASE: "direct"}, {})
    by_model, direct = told(), told(RENAISSANCE_WINOGRAD="0")
    assert by_model[0] == "tiles" and direct[0] == "direct" and by_model[1] != direct[1]
    assert told(RENAISSANCE_TUNED=str(path)) == direct
    assert told(RENAISSANCE_TUNED=str(path), RENAISSANCE_THREADS="3") == direct
    write_overrides(path, target, 1, {CASE: "winograd4"}, {})
    assert told(RENAISSANCE_TUNED=str(path)) == by_model


def test_the_target_of_a_process_has_the_overrides_of_its_file(path, monkeypatch):
    found = engine.host_target()
    write_overrides(path, found, 2, ENGINES, {})
    monkeypatch.setattr(engine, "_target", None)
    monkeypatch.setattr(engine, "settings", lambda: read({"RENAISSANCE_TUNED": str(path)}))
    monkeypatch.setattr(engine, "detect", lambda: found.machine)
    assert engine.host_target().overrides == tuple(sorted(ENGINES.items()))


def test_a_file_that_is_refused_is_refused_each_time(path, monkeypatch):
    monkeypatch.setattr(engine, "_target", None)
    monkeypatch.setattr(engine, "settings", lambda: read({"RENAISSANCE_TUNED": str(path)}))
    for _ in range(2):
        with pytest.raises(ArgumentError, match="was measured on another Target"):
            engine.host_target()


def test_overrides_compile_no_kernel_anew():
    target, c = engine.host_target(), convolution_named(CASE)
    n = c.of(unique(LEAF, c.x, float32), unique(LEAF, c.w, float32))
    plan = compile_graph(Graph(n.inputs, (), (n,)), target)
    first = link(plan, target, 1)
    before = compiler().compiled, len(compiler()._addresses)
    second = link(plan, replace(target, overrides=((DIRECT, "direct"),), winograd=False), 1)
    assert (compiler().compiled, len(compiler()._addresses)) == before
    assert np.array_equal(first._rows[:, 0], second._rows[:, 0])
