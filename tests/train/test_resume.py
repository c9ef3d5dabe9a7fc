"""Runs that stop, by wish, fault or force, and go on: to the last bit as if they had never stopped."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import signal
import subprocess

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn, optim
from renaissance.errors import ArgumentError, CheckpointError, NonFiniteError
from renaissance.train import checkpoint

from .runs import augmented_digits, digest, digits, python, small_model, small_task, weights

STEPS = 6


@pytest.fixture(scope="module")
def whole():
    """The run that nothing stops."""
    task = small_task()
    task.run()
    return task


def same_run(task, whole):
    assert digest(task) == digest(whole)
    ours, theirs = ([dataclasses.replace(r, seconds=0.0) for r in t.result.history] for t in (task, whole))
    assert ours == theirs and task.result.best_epoch == whole.result.best_epoch
    return True


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


def interrupted(task, epoch, step):
    """Run until Ctrl-C in a given step (counted from 1)."""
    show = task._display.step

    def press(at_epoch, done):
        if (at_epoch, done) == (epoch, step):
            press_ctrl_c()
        show(at_epoch, done)

    task._display.step = press
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return task.run()
    finally:
        signal.signal(signal.SIGINT, before)


# ---- going on --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_resumed_at_the_end_of_an_epoch(tmp_path, precision):
    expected = small_task(precision=precision)
    expected.run()
    first = small_task(epochs=3, precision=precision, out=tmp_path)
    interrupted(first, 1, STEPS)
    task = small_task(model=small_model(seed=99), precision=precision, out=tmp_path)  # its own weights count for nothing
    assert task.resume() == tmp_path / "checkpoint-000001"
    task.run()
    assert same_run(task, expected)


@pytest.mark.parametrize("epoch, step", [(1, 1), (2, 3), (3, 5)])
def test_resumed_in_the_middle_of_an_epoch(tmp_path, whole, epoch, step):
    stopped = small_task(out=tmp_path)
    result = interrupted(stopped, epoch, step)
    assert result.stopped == "interrupted" and len(result.history) == epoch - 1
    assert stopped.optimizer.steps == (epoch - 1) * STEPS + step
    task = small_task(model=small_model(seed=99), out=tmp_path)
    task.resume()
    task.run()
    assert same_run(task, whole)
    assert stopped.run().stopped == "" and same_run(stopped, whole)  # the same Task can go on, too


def test_interrupted_twice_in_one_epoch(tmp_path, whole):
    interrupted(small_task(out=tmp_path), 2, 2)
    second = small_task(out=tmp_path)
    second.resume()
    interrupted(second, 2, 4)
    third = small_task(out=tmp_path)
    third.resume()
    third.run()
    assert same_run(third, whole)


@pytest.mark.parametrize("step", [STEPS, None], ids=["last step", "validation"])
def test_interrupted_at_the_end_of_an_epoch(tmp_path, whole, step, monkeypatch):
    task = small_task(out=tmp_path)
    if step is None:
        validate = task.validate
        monkeypatch.setattr(task, "validate", lambda: (len(task.result.history) == 1 and press_ctrl_c(), validate())[1])
        result = interrupted(task, -1, -1)
    else:
        result = interrupted(task, 2, step)
    assert result.stopped == "interrupted" and len(result.history) == 2  # the epoch is finished and written down
    again = small_task(out=tmp_path)
    again.resume()
    again.run()
    assert same_run(again, whole)


def test_a_second_interrupt_does_not_wait(tmp_path):
    task = small_task(out=tmp_path)
    show = task._display.step
    task._display.step = lambda epoch, done: (show(epoch, done), press_ctrl_c(), press_ctrl_c())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            task.run()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_without_a_folder_says_that_nothing_was_saved(capsys):
    interrupted(small_task(show=True), 2, 1)
    assert "interrupted in epoch 2 after 16 of its samples; nothing was saved (give out=...)" in capsys.readouterr().out


def test_an_interrupt_says_where_the_checkpoint_is(tmp_path, capsys):
    interrupted(small_task(show=True, out=tmp_path), 1, 2)
    assert f"interrupted in epoch 1 after 32 of its samples; saved in {tmp_path / 'checkpoint-000001'}" in capsys.readouterr().out


def test_the_learning_rate_goes_on_where_it_was(tmp_path):
    def task(epochs=10):
        model = small_model()
        optimizer = optim.SGD(model.parameters(), lr=optim.Cosine(1e-3))
        return small_task(model=model, optimizer=optimizer, epochs=epochs, out=tmp_path)

    first = task()
    interrupted(first, 1, STEPS)
    second = task()
    second.resume()
    assert second.optimizer.lr(second.optimizer.param_groups[0]) == optim.Cosine(1e-3).bind(STEPS, 10)(STEPS)


RUN = """
import sys
from pathlib import Path
from renaissance.train import checkpoint
from tests.train.runs import digest, small_task
task = small_task(out=sys.argv[1], epochs=12)
if checkpoint.numbered(Path(sys.argv[1])):  # the first one may have been cut short
    task.resume()
print("begun", flush=True)
task.run()
print(digest(task), task.result.best_epoch)
"""


def test_killed_at_random_moments_and_resumed_until_the_end(tmp_path):
    (cut := tmp_path / "cut").mkdir()
    (straight := tmp_path / "straight").mkdir()
    expected = python(RUN, straight).communicate(timeout=120)[0]
    rng = np.random.default_rng(0)
    for _ in range(3):
        with python(RUN, cut, RENAISSANCE_THREADS=str(rng.integers(1, 4))) as process:
            assert process.stdout.readline() == "begun\n"
            try:
                process.wait(rng.uniform(0.2, 0.6))
            except subprocess.TimeoutExpired:
                process.kill()
    assert python(RUN, cut).communicate(timeout=120)[0] == expected


# ---- which checkpoints are kept, and which is found ------------------------------------------------------------------------


def test_the_last_three_and_the_best_are_kept(tmp_path, monkeypatch):
    task = small_task(out=tmp_path, epochs=7)
    merits = iter([0.1, 0.9, 0.2, 0.3, 0.4, 0.5, 0.6])
    validate = task.validate
    monkeypatch.setattr(task, "validate", lambda: rn.train.metrics.Scores(validate().loss, next(merits), 1.0))
    result = task.run()
    assert [p.name for p in checkpoint.numbered(tmp_path)] == [f"checkpoint-00000{n}" for n in (2, 5, 6, 7)]
    assert result.best_epoch == 2 and result.best_checkpoint == tmp_path / "checkpoint-000002"
    assert result.checkpoint == tmp_path / "checkpoint-000007"
    again = small_task(out=tmp_path, epochs=8)
    again.resume()
    assert again.result.best_checkpoint == tmp_path / "checkpoint-000002" and again.result.best_top1 == 0.9


def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path, whole, capsys):
    interrupted(small_task(out=tmp_path), 3, 2)
    newest = checkpoint.numbered(tmp_path)[-1]
    data = (newest / "model.safetensors").read_bytes()
    (newest / "model.safetensors").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    task = small_task(out=tmp_path, show=True)
    assert task.resume() == tmp_path / "checkpoint-000002"
    assert f"passed over: {newest / 'model.safetensors'}: damaged" in capsys.readouterr().out.replace("\n", "")
    task.run()
    assert same_run(task, whole)


def test_one_checkpoint_can_be_named(tmp_path, whole):
    small_task(out=tmp_path).run()
    task = small_task()
    assert task.resume(tmp_path / "checkpoint-000001") == tmp_path / "checkpoint-000001"
    task.run()
    assert same_run(task, whole)


def test_two_runs_never_share_a_folder(tmp_path):
    small_task(out=tmp_path, epochs=1).run()
    before = sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(CheckpointError, match="of an earlier run, the newest is checkpoint-000001; go on from it"):
        small_task(out=tmp_path).run()
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_a_run_that_also_saves_elsewhere_goes_on(tmp_path, whole):
    task = small_task(out=tmp_path / "out")
    interrupted(task, 1, STEPS)
    task.save(tmp_path / "elsewhere")
    task.run()
    assert same_run(task, whole)


def test_a_run_whose_disk_was_full_for_a_while_goes_on(tmp_path, whole, monkeypatch):
    task = small_task(out=tmp_path)
    interrupted(task, 1, STEPS)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(CheckpointError, match="checkpoint-000002: cannot be written: No space left on device"):
            task.run()
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint-000001"]
    task.run()
    assert same_run(task, whole)


def test_load_takes_the_weights_alone(tmp_path, whole):
    whole.save(tmp_path)
    task = small_task(model=small_model(seed=42), optimizer=None, seed=77)
    task.load(tmp_path)
    for ours, theirs in zip(weights(task), weights(whole)):
        np.testing.assert_array_equal(ours, theirs)
    assert task.optimizer.steps == 0 and task.result.history == []


def test_shared_weights_are_stored_once_and_stay_shared(tmp_path):
    def tied():
        rn.seed(3)
        model = nn.Sequential(nn.Flatten(), nn.Linear(100, 100), nn.Linear(100, 100), nn.Linear(100, 10))
        model[2].weight = model[1].weight
        return small_task(model=model, out=tmp_path)

    first = tied()
    interrupted(first, 1, STEPS)
    stored = checkpoint.newest(tmp_path)[0].tensors["model"]
    assert sum(a.size for a in stored.values()) == 100 * 100 + 200 + 1010
    second = tied()
    second.resume()
    assert second.model[2].weight is second.model[1].weight and digest(second) == digest(first)


# ---- checkpoints of something else -----------------------------------------------------------------------------------------


def others():
    wide = nn.Sequential(nn.Flatten(), nn.Linear(100, 33), nn.ReLU(), nn.Dropout(), nn.Linear(33, 10))
    named = nn.Sequential(nn.Flatten(), nn.Linear(100, 32), nn.Linear(32, 10))
    adam, sgd = (small_model() for _ in range(2))
    grouped = small_model()
    return [
        ("seed", {"seed": 6}, "was made with seed 5, this Task has 6"),
        ("batch", {"batch_size": 8}, "was made with batch_size 16, this Task has 8"),
        ("precision", {"precision": "bf16"}, "was made with precision 'fp32', this Task has 'bf16'"),
        ("samples", {"dataset": augmented_digits(count=87)}, "was made with samples 88, this Task has 87"),
        ("clip", {"clip_norm": None}, "was made with clip_norm 1.0, this Task has None"),
        ("shape", {"model": wide}, "is of another model: 1.weight is float32 (32, 100), not float32 (33, 100)"),
        ("layers", {"model": named}, "is of another model: 2.bias is only in the model"),
        ("adam", {"model": adam, "optimizer": optim.Adam(adam.parameters(), lr=0.1)}, "'AdamW', this Task has 'Adam'"),
        ("sgd", {"model": sgd, "optimizer": optim.SGD(sgd.parameters(), lr=0.1)}, "'AdamW', this Task has 'SGD'"),
        ("groups", {"model": grouped, "optimizer": optim.AdamW(optim.decay_groups(grouped, 0.1))}, "has 1 parameter groups"),
    ]


@pytest.fixture(scope="module")
def saved(tmp_path_factory, whole):
    folder = tmp_path_factory.mktemp("saved")
    whole.save(folder)
    return folder


@pytest.mark.parametrize("changes, words", [pytest.param(*rest, id=name) for name, *rest in others()])
def test_a_foreign_checkpoint_is_refused_before_anything_changes(saved, changes, words):
    task = small_task(**changes)
    before, drawn = digest(task), task._generator.state
    with pytest.raises(CheckpointError) as caught:
        task.resume(saved)
    assert words in str(caught.value) and str(saved) in str(caught.value)
    assert digest(task) == before and task._generator.state == drawn and task.optimizer.steps == 0
    assert task.result.history == [] and task.result.checkpoint is None


def forged(path, change):
    """The checkpoint with another state.json, its checksum in order."""
    found = checkpoint.load(path)
    state = json.loads(json.dumps(found.state))
    change(state)
    return checkpoint.save(path.parent, found.tensors, state)


@pytest.mark.parametrize("change, words", [
    (lambda s: s.pop("epoch"), "epoch must be int, got None"),
    (lambda s: s.update(epoch=True), "epoch must be int, got True"),
    (lambda s: s.update(version=2), "version 2; this package reads version 1"),
    (lambda s: s.update(position=-1), "totals or position are none of this run"),
    (lambda s: s.update(position=88), "totals or position are none of this run"),
    (lambda s: s.update(generator=[1]), "generator must be two whole numbers, got [1]"),
    (lambda s: s.update(run=3), "run must be dict, got 3"),
    (lambda s: s.update(history=[3]), "history must hold objects"),
    (lambda s: s["history"][0].update(top1="x"), "top1 must be int or float or NoneType, got 'x'"),
    (lambda s: s["optimizer"].update(groups=[]), "belongs to no group of parameters"),
    (lambda s: s["optimizer"].update(steps=None), "steps must be int, got None"),
    (lambda s: s["optimizer"]["groups"][0].update(counts=[1]), "the state is for parameters"),
    (lambda s: s["optimizer"]["groups"][0]["hyper"].update(beta=1), "the state sets beta"),
])
def test_a_state_that_makes_no_sense_is_refused_before_anything_changes(saved, change, words):
    task = small_task()
    before = digest(task)
    with pytest.raises(CheckpointError) as caught:
        task.resume(forged(saved / "checkpoint-000001", change))
    assert words in str(caught.value)
    assert digest(task) == before and task.optimizer.steps == 0


@pytest.mark.parametrize("method", ["save", "resume", "load"])
def test_a_folder_must_be_given(method):
    with pytest.raises(ArgumentError, match=f"{method}: give a folder, here or as out=... of the Task"):
        getattr(small_task(), method)()


# ---- losses that are not finite --------------------------------------------------------------------------------------------


class Log(nn.Module):
    """log, of whatever it gets."""

    def forward(self, x):
        return rn.log(x)


def logged_task(tmp_path):
    """Finite at first; later steps push the Linear's output below 0, and its log is NaN."""
    rn.seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(100, 10), Log())
    with rn.no_grad():
        model[1].weight.copy_(rn.zeros((10, 100)))
        model[1].bias.copy_(rn.full((10,), 0.2))
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    return small_task(dataset=digits(), model=model, optimizer=optimizer, out=tmp_path, clip_norm=None)


def test_a_loss_that_is_not_finite_stops_the_run_and_says_where(tmp_path):
    task = logged_task(tmp_path)
    with pytest.raises(NonFiniteError) as caught:
        task.run()
    told = str(caught.value)
    assert "the loss is not finite: epoch 1, step 2 of 6, before its update" in told
    assert re.search(r"first made by log of float32\[16, 10\] at \S*test_resume.py:\d+ in layer 2 \(Log\)", told)
    assert "Weights are those of the step before; no checkpoint was written" in told
    assert task.result.stopped == "not finite" and task.optimizer.steps == 1 and task._position == 16
    assert all(np.isfinite(w).all() for w in weights(task))


def test_the_last_good_checkpoint_is_kept_and_named(tmp_path):
    task = small_task(out=tmp_path, optimizer=None)
    interrupted(task, 1, STEPS)
    good = digest(task)
    ticket = task._generator.state
    task.loss = lambda out, y: rn.log(rn.mean(out) * 0.0 - 1.0)
    task.train_step = rn.compile(task._train_step)
    with pytest.raises(NonFiniteError) as caught:
        task.run()
    assert "in the loss. Weights are those of the step before" in str(caught.value)
    assert task._generator.state == ticket  # dropout draws the same numbers when the run goes on
    assert f"the last good checkpoint is {tmp_path / 'checkpoint-000001'}" in str(caught.value)
    again = small_task(out=tmp_path)
    again.resume()
    assert digest(again) == good == digest(task)


def test_inputs_that_are_not_finite_are_named():
    x = np.ones((32, 100), np.float32)
    x[7, 3] = np.nan
    with pytest.warns(UserWarning, match="sample 7"):
        dataset = rn.data.ArrayDataset(x, np.arange(32) % 10)
    with pytest.raises(NonFiniteError, match="the inputs of the batch are not finite"):
        small_task(dataset=dataset).run()


def test_weights_that_are_not_finite_are_named_and_never_saved(tmp_path):
    task = small_task(out=tmp_path)
    interrupted(task, 1, STEPS)
    spoiled = task.model[1].weight.numpy().copy()
    spoiled[0, 0] = np.inf
    task.model[1].weight.copy_(spoiled)
    with pytest.raises(NonFiniteError, match="parameter 1.weight is not finite after epoch 1: nothing was saved"):
        task.save()
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint-000001"]
    with pytest.raises(NonFiniteError, match="parameter 1.weight was not finite before this step"):
        task.run()


def test_a_gradient_that_is_not_finite_is_caught_by_clipping():
    task = small_task(loss=lambda out, y: rn.mean(rn.sqrt(rn.abs(out) * 0.0)))  # the slope of sqrt at 0 is infinite
    before = digest(task)
    with pytest.raises(NonFiniteError, match="clip_grad_norm_: .* is NaN or infinite.*epoch 1, step 1 of 6"):
        task.run()
    assert digest(task) == before
