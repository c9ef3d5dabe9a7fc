"""The command: what it prints, what it refuses and in which words, and how it ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from renaissance.cli.main import main
from renaissance.cli.recipes import Options, recipe
from renaissance.train import Task, checkpoint

from ..digits import write_digits
from ..pictures import write_pictures

ROOT = Path(__file__).resolve().parents[2]
SHORT = "--epochs", "2", "--batch-size", "32"


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder, 80)
    return folder


@pytest.fixture
def call(capsys, monkeypatch):
    """Runs the command in this process; gives exit code, output and errors."""
    monkeypatch.setenv("RENAISSANCE_THREADS", os.environ.get("RENAISSANCE_THREADS", "2"))  # --threads writes it: put back

    def run(*arguments):
        with pytest.raises(SystemExit) as caught:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return caught.value.code, out, err

    return run


def python(*arguments, **environment):
    """A Python process in the repository's root, its output and errors in one pipe."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)], cwd=ROOT, env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)


# ---- train -----------------------------------------------------------------------------------------------------------------


def test_train_prints_a_line_for_each_epoch_and_the_best(call, digits, tmp_path):
    out = tmp_path / "out"
    code, told, err = call("train", "mnist", *SHORT, "--data", digits, "--out", out, "--lr", "0.002", "--precision", "fp32",
                           "--seed", "-7", "--target", "1.0")
    assert (code, err) == (0, "")
    about, head, *epochs, best, saved = told.splitlines()
    assert about == "Sequential, 1,462,538 parameters, fp32; 80 samples, 3 steps of 32 an epoch"
    assert head.split() == ["epoch", "train", "loss", "val", "loss", "top-1", "%", "top-5", "%", "lr", "time", "s"]
    assert [line.split()[0] for line in epochs] == ["1", "2"]
    assert re.fullmatch(r"best top-1 \d+\.\d\d % \(top-5 \d+\.\d\d %\) in epoch [12]", best)
    assert saved == f"checkpoint: {out / 'checkpoint-000002'}"
    assert checkpoint.newest(out)[0].state["run"] == {
        "seed": -7, "batch_size": 32, "precision": "fp32", "samples": 80, "optimizer": "AdamW", "clip_norm": None,
        "engines": None}


def test_train_cifar10(call, tmp_path, monkeypatch):
    pictures, out = write_pictures(tmp_path, monkeypatch), tmp_path / "out"
    code, told, err = call("train", "cifar10", "--epochs", "2", "--batch-size", "40", "--data", pictures, "--out", out)
    assert (code, err) == (0, "")
    assert told.startswith("CifarResNet, 269,722 parameters, bf16; 120 samples, 3 steps of 40 an epoch\n")
    assert "best top-1" in told
    saved = checkpoint.newest(out)[0]
    assert saved.state["run"]["optimizer"] == "SGD" and saved.tensors["model"]["bn1.num_batches_tracked"] == 6


def test_a_run_goes_on_to_the_same_numbers(call, digits, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    expected = call("train", "mnist", *SHORT, "--data", digits, "--out", whole)[1].splitlines()
    shutil.copytree(whole / "checkpoint-000001", cut / "checkpoint-000001")
    code, told, err = call("train", "mnist", *SHORT, "--data", digits, "--out", cut, "--resume")
    assert (code, err) == (0, "")
    first, *lines = told.splitlines()
    assert first == f"going on from {cut / 'checkpoint-000001'}"
    assert lines[2].split()[:6] == expected[3].split()[:6] and lines[3] == expected[4]  # the epoch but for its time, the best
    a, b = (checkpoint.load(folder / "checkpoint-000002").tensors["model"] for folder in (whole, cut))
    assert all((a[name] == b[name]).all() for name in a)


def test_a_run_says_where_its_best_checkpoint_is(call, digits, tmp_path, monkeypatch):
    end = Task._end_epoch

    def worse_and_worse(self, record):
        end(self, record.__class__(**{**vars(record), "top1": 1 / record.epoch}))

    monkeypatch.setattr(Task, "_end_epoch", worse_and_worse)
    told = call("train", "mnist", *SHORT, "--data", digits, "--out", tmp_path / "out")[1]
    assert told.splitlines()[-2:] == [f"checkpoint: {tmp_path / 'out/checkpoint-000002'}",
                                      f"best checkpoint: {tmp_path / 'out/checkpoint-000001'}"]


def test_ctrl_c_saves_and_ends_with_130(digits, tmp_path):
    out = tmp_path / "out"
    # SIGINT may be ignored where tests run in the background; a shell's child has Python's own handler.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import renaissance.cli.__main__"
    long = "--epochs", "100000", "--batch-size", "32"
    with python("-c", code, "train", "mnist", *long, "--data", digits, "--out", out) as process:
        for line in process.stdout:
            if line.split()[:1] == ["2"]:
                break
        process.send_signal(signal.SIGINT)
        told = process.stdout.read()
    assert process.returncode == 130
    saved = re.search(r"interrupted (?:in epoch \d+ after [\d,]+ of its samples|after epoch \d+); saved in (\S+)\n", told)
    assert saved and checkpoint.load(Path(saved[1])).state["epoch"] >= 2
    assert "Traceback" not in told and checkpoint.numbered(out)[-1] == Path(saved[1])


# ---- plan and info ---------------------------------------------------------------------------------------------------------


def test_plan_prints_the_whole_text_in_any_width(digits):
    command = "-m", "renaissance.cli", "plan", "mnist", "--data", digits, "--batch-size", "64", "--threads", "3"
    wide, narrow = (python(*command, COLUMNS=columns) for columns in ("200", "30"))
    told = wide.communicate(timeout=60)[0]
    assert narrow.communicate(timeout=60)[0] == told and wide.returncode == 0
    assert told.startswith("Sequential: training step of 64 samples, bf16, 3 threads, ")
    assert re.search(r"^1 +Linear +64x1024 +803,840$", told, re.MULTILINE)
    assert re.search(r"^dot 64x1024x784 bf16 +cast bias relu +\d+\.\d\d +\d+\.\d\d +\d\.\d{3}$", told, re.MULTILINE)
    assert "peak memory" in told and "predicted step" in told


def test_plan_compiles_and_runs_nothing(call, digits, monkeypatch):
    def refuse(*_):
        raise AssertionError("kernels were compiled")

    monkeypatch.setattr("renaissance.runtime.link.link", refuse)
    assert call("plan", "mnist", "--data", digits)[0] == 0


def test_info(call):
    code, told, err = call("info")
    rows = dict(re.split(r"  +", line, maxsplit=1) for line in told.splitlines())
    assert (code, err) == (0, "")
    assert list(rows) == ["version", "CPU", "target", "engines", "fused multiply-add", "bfloat16 dot products", "caches", "threads",
                          "compiled code", "data"]
    assert rows["engines"] == "as the cost model chooses"
    assert re.match(r"(avx512|avx2|sse), \d+-bit vectors, \d+ registers", rows["target"])
    assert re.match(r"\d+, of \d+ CPUs", rows["threads"]) and rows["data"]
    assert re.search(r": [\d,]+ files, [\d.]+ of at most 512 MiB$", rows["compiled code"])


@pytest.mark.parametrize("arguments, words", [
    ([], ["train", "plan", "tune", "info", "Train a recipe and print a table of epochs."]),
    (["--help"], ["train", "plan", "info"]),
    (["train", "--help"], ["mnist, lenet, cifar10", "as the recipe has it", "--epochs", "--batch-size", "--lr", "--precision", "--seed", "--threads", "--data", "--out",
                           "--target", "--resume"]),
    (["plan", "--help"], ["--batch-size", "--precision", "--threads", "--data", "Nothing is compiled"]),
    (["tune", "--help"], ["MODEL", "--batch-size", "--batch", "--size", "--precision", "--threads", "--out", "tuned.json"]),
    (["info", "--help"], ["Print what this machine offers"]),
])
def test_help(call, arguments, words):
    code, told, err = call(*arguments)
    assert (code, err) == (0, "")
    assert all(word in told for word in words)


# ---- mistakes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, words", [
    (["train", "nope"], "no recipe 'nope'; known are mnist, lenet, cifar10"),
    (["train"], "Missing argument 'name'"),
    (["fly"], "No such command 'fly'"),
    (["train", "mnist", "--speed", "9"], "No such option: --speed"),
    (["train", "mnist", "--epochs", "0"], "Invalid value for '--epochs'"),
    (["train", "mnist", "--epochs", "many"], "Invalid value for '--epochs'"),
    (["train", "mnist", "--batch-size", "-3"], "Invalid value for '--batch-size'"),
    (["train", "mnist", "--lr", "-1"], "Invalid value for '--lr'"),
    (["train", "mnist", "--precision", "fp8"], "precision: 'fp8' is not supported; choose from 'fp32', 'bf16'"),
    (["train", "mnist", "--data", "/no/such/folder"], "/no/such/folder: no such folder"),
    (["train", "cifar10", "--data", "/no/such/folder"], "/no/such/folder: no such folder"),
    (["train", "mnist", "--resume"], "--resume goes on from a checkpoint in --out: give that folder"),
    (["plan", "mnist", "--lr", "1"], "No such option: --lr"),
])
def test_mistakes_are_told_in_a_sentence(call, arguments, words):
    code, told, err = call(*arguments)
    assert code == 1 and told == ""
    assert err.startswith("renaissance: ") and words in err and len(err.splitlines()) == 1


@pytest.mark.parametrize("arguments, words", [
    (["--target", "1.5"], "target_top1 is a share above 0, at most 1, got 1.5"),
    (["--out", "{empty}", "--resume"], "no whole checkpoint: there is none"),
    (["--out", "{used}"], "holds checkpoints of an earlier run, the newest is checkpoint-000004; go on from it (resume), or"),
    (["--out", "{used}/file"], "cannot be written: "),
])
def test_mistakes_of_a_run(call, digits, tmp_path, arguments, words):
    for name in ("empty", "used/checkpoint-000004"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "used/file").write_text("")
    places = {"empty": tmp_path / "empty", "used": tmp_path / "used"}
    code, _, err = call("train", "mnist", *SHORT, "--data", digits, *(a.format(**places) for a in arguments))
    assert code == 1 and words in err and len(err.splitlines()) == 1


def test_too_many_threads(digits):
    process = python("-m", "renaissance.cli", "plan", "mnist", "--data", digits, "--threads", "5000")
    told = process.communicate(timeout=60)[0]
    assert told == "renaissance: RENAISSANCE_THREADS must be a whole number from 1 to 1024, got '5000'\n"
    assert process.returncode == 1


def test_damaged_files_are_named(call, tmp_path):
    write_digits(tmp_path, 40)
    images = tmp_path / "train-images-idx3-ubyte.gz"
    images.write_bytes(images.read_bytes()[:-20])
    code, _, err = call("train", "mnist", "--data", tmp_path)
    assert code == 1 and err.startswith(f"renaissance: {images}: ") and len(err.splitlines()) == 1


def test_a_learning_rate_that_blows_up_is_told_in_a_sentence(call, digits):
    code, _, err = call("train", "mnist", "--epochs", "40", "--batch-size", "32", "--data", digits, "--lr", "1e20")
    assert code == 1 and "the loss is not finite: epoch" in err and len(err.splitlines()) == 1


def test_lenet_trains_as_the_perceptron_does(call, digits):
    code, told, err = call("train", "lenet", *SHORT, "--data", digits, "--lr", "0.002")
    assert (code, err) == (0, "") and "best top-1" in told


def test_recipes_have_numbers_of_their_own(digits, tmp_path, monkeypatch):
    task = recipe("mnist", Options(None, None, None, "fp32", 1, digits, None, None))
    assert (task.epochs, task.batch_size) == (100, 80) and task.optimizer.param_groups[0]["lr"].base == 1e-3
    pictures = write_pictures(tmp_path, monkeypatch)
    task = recipe("cifar10", Options(None, None, None, "fp32", 1, pictures, None, None))
    assert (task.epochs, task.batch_size) == (30, 120)
    weights, others = task.optimizer.param_groups
    assert (weights["lr"].base, weights["weight_decay"], others["weight_decay"]) == (0.1, 5e-4, 0.0)
    assert all(g["momentum"] == 0.9 and g["nesterov"] for g in (weights, others))
    assert [type(t).__name__ for t in task.dataset.augment] == ["Pad", "RandomCrop", "RandomHorizontalFlip"]
    task = recipe("cifar10", Options(7, 60, 0.0, "bf16", 1, pictures, None, None))
    assert (task.epochs, task.batch_size, task.optimizer.param_groups[0]["lr"].base) == (7, 60, 0.0)


def test_the_recipe_is_the_one_of_the_readme(digits):
    task = recipe("mnist", Options(100, 200, 1e-3, "bf16", 123, digits, None, 0.994))
    names = [type(transform).__name__ for transform in task.dataset.augment]
    assert names == ["Pad", "RandomCrop", "RandomRotation", "RandomScale", "RandomErasing"]
    assert (task.epochs, task.batch_size, task.precision, task.seed, task.target_top1) == (100, 80, "bf16", 123, 0.994)
    assert task.loss.label_smoothing == 0.1 and task.optimizer.param_groups[0]["weight_decay"] == 1e-4
    schedule = task.optimizer.param_groups[0]["lr"]
    assert schedule(4) < schedule(5) == 1e-3  # one step an epoch: five epochs of warm-up
