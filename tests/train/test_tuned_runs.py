"""Runs with measured engines: what is recorded, and that a run only goes on under the engines it began with."""

from __future__ import annotations

from dataclasses import replace

import pytest

import renaissance as rn
from renaissance import data, engine, nn, optim
from renaissance.compile.choice import Convolution, by_model
from renaissance.errors import CheckpointError
from renaissance.train import checkpoint
from renaissance.tuned import write_overrides

from .runs import digest, python, small_model, small_task

ONE = "conv float32 16x8x8x16 to 16 padding 1 1 1 1"
TWO = "conv_weight float32 16x8x8x16 to 16 padding 1 1 1 1"


@pytest.fixture
def using(monkeypatch):
    """Puts engines in force."""
    plain = engine.host_target()

    def use(**engines):
        names = {"one": ONE, "two": TWO}
        overrides = tuple(sorted((names[key], value) for key, value in engines.items()))
        monkeypatch.setattr(engine, "_target", replace(plain, overrides=overrides))

    return use


def test_a_run_records_its_engines_and_says_how_many(using, tmp_path, capsys):
    using(one="direct", two="winograd2")
    small_task(out=tmp_path, epochs=1, show=True).run()
    assert checkpoint.newest(tmp_path)[0].state["run"]["engines"] == {ONE: "direct", TWO: "winograd2"}
    assert capsys.readouterr().out.splitlines()[0].endswith("steps of 16 an epoch; 2 engines as measured")


def test_a_run_without_records_none(tmp_path, capsys):
    small_task(out=tmp_path, epochs=1, show=True).run()
    assert checkpoint.newest(tmp_path)[0].state["run"]["engines"] is None
    assert capsys.readouterr().out.splitlines()[0].endswith("steps of 16 an epoch")


SET = "set RENAISSANCE_TUNED to the file that it was made with (its engines stand in state.json) to go on"


@pytest.mark.parametrize("before, after, words", [
    ({}, {"one": "direct"}, "was made without measured engines, here RENAISSANCE_TUNED names some; unset it to go on"),
    ({"one": "direct"}, {}, f"was made with measured engines, here there are none; {SET}"),
    ({"one": "direct"}, {"one": "winograd2"}, f"was made with other measured engines: {ONE} by direct, here by winograd2; {SET}"),
    ({"one": "direct"}, {"one": "direct", "two": "direct"},
     f"was made with other measured engines: {TWO} by the cost model's choice, here by direct; {SET}"),
])
def test_a_run_goes_on_under_its_engines_only(using, tmp_path, before, after, words):
    using(**before)
    first = small_task(out=tmp_path, epochs=1)
    first.run()
    using(**after)
    task = small_task(out=tmp_path, model=small_model(seed=7))
    own = digest(task)
    with pytest.raises(CheckpointError) as caught:
        task.resume()
    assert words in str(caught.value) and digest(task) == own
    assert task.load() == first.result.checkpoint  # weights alone are of no run
    using(**before)
    assert small_task(out=tmp_path).resume() == first.result.checkpoint


def test_what_is_no_list_of_engines_is_refused(using, tmp_path):
    task = small_task(epochs=1)
    task.run()
    found = checkpoint.load(task.save(tmp_path))
    checkpoint.save(tmp_path, found.tensors, {**found.state, "run": {**found.state["run"], "engines": 3}})
    using(one="direct")
    with pytest.raises(CheckpointError, match="was made with"):
        small_task().resume(tmp_path)


def test_a_checkpoint_of_an_older_package_is_one_without_engines(tmp_path):
    task = small_task(epochs=1)
    task.run()
    found = checkpoint.load(task.save(tmp_path))
    run = {name: value for name, value in found.state["run"].items() if name != "engines"}
    checkpoint.save(tmp_path, found.tensors, {**found.state, "run": run})
    assert small_task().resume(tmp_path).name == "checkpoint-000002"


# ---- convolutions ----------------------------------------------------------------------------------------------------------

RUN = """
import sys
from tests.train.test_tuned_runs import pictures_task
from tests.train.runs import digest
task = pictures_task(sys.argv[1], epochs=int(sys.argv[2]))
if sys.argv[3:]:
    task.resume()
task.run()
names = {item.name.split("_")[0] for item in task._plan().items}
print(digest(task), *sorted(n for n in names if n.startswith("winograd")))
"""
CASE = Convolution("conv", "float32", (16, 32, 32, 16), 16, ((1, 1), (1, 1)))


def pictures_task(out, epochs):
    """Two convolutions on images of 32 x 32; the second is CASE."""
    rn.seed(1)
    x = rn.normal(shape=(32, 3, 32, 32)).numpy()
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(32),
                          nn.Flatten(), nn.Linear(16, 10))
    dataset = data.ArrayDataset(x, (x[:, 0, 0, 0] > 0).astype("int64"), num_classes=10)
    return rn.Task(model, dataset, loss=nn.CrossEntropyLoss(), optimizer=optim.SGD(model.parameters(), lr=0.1), epochs=epochs,
                   batch_size=16, seed=3, out=out, show=False)


def told(*arguments, **environment):
    return python(RUN, *arguments, **environment).communicate(timeout=120)[0].splitlines()[-1]


def test_a_run_with_measured_engines_stops_and_goes_on(tmp_path):
    target = engine.host_target()
    engines = {"direct": "winograd2", "winograd4": "winograd2", "winograd2": "winograd4"}
    file, changed = tmp_path / "tuned.json", engines[by_model(CASE, target)]
    write_overrides(file, target, 1, {CASE.name: changed}, {})
    plain = told(tmp_path / "plain", 2)
    whole = told(tmp_path / "whole", 2, RENAISSANCE_TUNED=str(file))
    assert changed in whole.split() and whole.split()[0] != plain.split()[0]
    told(tmp_path / "cut", 1, RENAISSANCE_TUNED=str(file), RENAISSANCE_THREADS="1")
    assert "was made with measured engines, here there are none" in told(tmp_path / "cut", 2, "resume")
    assert told(tmp_path / "cut", 2, "resume", RENAISSANCE_TUNED=str(file), RENAISSANCE_THREADS="3") == whole
