"""`renaissance tune`: what is measured, what is told and written, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import renaissance as rn
from renaissance import models
from renaissance.cli import measurement as measuring
from renaissance.cli import tune
from renaissance.cli.main import main
from renaissance.cli.measurement import Measurement, measure
from renaissance.cli.tune import MODELS, convolutions, table
from renaissance.compile.choice import TILES, Convolution, by_model, convolution_named
from renaissance.config import settings
from renaissance.engine import host_target
from renaissance.ir.target import Target
from renaissance.tuned import read_overrides
from tests import markdown

TARGET = Target("avx512", 64, 32, True, True, "", "")
CASE = Convolution("conv", "float32", (2, 8, 8, 16), 16, ((1, 1), (1, 1)))


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Runs the command in this process, in an empty folder; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RENAISSANCE_TUNED", "")

    def run(*arguments):
        with pytest.raises(SystemExit) as caught:
            main(["tune", *map(str, arguments)])
        out, err = capsys.readouterr()
        return caught.value.code, out, err

    return run


def measurement(chosen, nodes=1, **times_ms):
    return Measurement(CASE, nodes, chosen, {engine: [float(t) for t in times] for engine, times in times_ms.items()})


# ---- what is measured ------------------------------------------------------------------------------------------------------


def test_the_convolutions_of_a_step():
    found = convolutions(models.resnet_cifar.CifarResNet(1), 4, 8, "bf16", TARGET)
    named = {c.name: n for c, n in found.items()}
    # one block of two convolutions in each of three stages, of which the first of the later two has stride 2
    assert named["conv bfloat16 4x8x8x16 to 16 padding 1 1 1 1"] == 4
    assert named["conv bfloat16 4x2x2x64 to 64 padding 1 1 1 1"] == 2
    assert named["conv_weight bfloat16 4x8x8x16 to 16 padding 1 1 1 1"] == 2
    assert named["conv bfloat16 4x8x8x3 to 16 padding 1 1 1 1"] == 1  # the images themselves ask for no gradient
    assert len(named) == 8


def test_tracing_leaves_the_model_as_it_is():
    model = models.resnet_cifar.CifarResNet(1)
    model(rn.ones((2, 3, 8, 8)))
    before = {name: b.numpy().copy() for name, b in model.named_buffers()}
    convolutions(model, 2, 8, "fp32", TARGET)
    assert all((b.numpy() == before[name]).all() for name, b in model.named_buffers())
    assert all(p.grad is None for p in model.parameters())


def test_models_of_several_results():
    found = convolutions(models.inception_v3(init_weights=False), 2, 299, "fp32", TARGET)
    assert {c.dtype for c in found} == {"float32"} and {c.padding[0][0] for c in found} == {0, 1, 2}


def test_sizes_are_those_of_the_page_of_models():
    page = (markdown.ROOT / "docs" / "models.md").read_text()
    for name in MODELS:
        row = next(line for line in page.splitlines() if line.startswith(f"| `models.{name}` |"))
        assert int(row.split("|")[3]) == tune._SIZES.get(name, tune._USUAL_SIZE)
    assert set(tune._SIZES) < set(MODELS) and "mlp" not in MODELS


def test_a_measurement_of_every_engine():
    (m,) = measure({CASE: 3}, host_target(), settings().threads)
    assert (m.convolution, m.nodes, m.chosen) == (CASE, 3, by_model(CASE, host_target()))
    assert list(m.times_ms) == list(TILES) and {len(t) for t in m.times_ms.values()} <= set(range(7, 51))
    assert all(t > 0 for times in m.times_ms.values() for t in times)


# ---- what is chosen --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen, direct, tiles, wanted", [
    ("winograd4", [10, 10, 10, 10], [5, 5, 5, 5], "winograd4"),
    ("winograd4", [5, 5, 5, 5], [10, 10, 10, 10], "direct"),
    ("winograd4", [4.9, 4.9, 4.9, 4.9], [5, 5, 5, 5], "winograd4"),  # no clear margin
    ("winograd4", [4.8, 4.8, 4.8, 4.8], [5, 5, 5, 5], "direct"),
    ("winograd4", [1, 3, 5, 7], [2, 6, 6, 8], "winograd4"),  # within the spread
    ("direct", [10, 10, 10, 10], [9, 9, 9, 9], "direct"),  # errors by tiles are larger: that must be worth it
    ("direct", [10, 10, 10, 10], [8.4, 8.4, 8.4, 8.4], "winograd4"),
    ("direct", [10, 10, 10, 99], [8, 8, 8, 99], "direct"),
    ("direct", [10, 10, 10, 10, 10, 99], [8, 8, 8, 8, 8, 99], "winograd4"),  # one disturbance counts for nothing
])
def test_the_fastest_engine_is_one_by_a_clear_margin(chosen, direct, tiles, wanted):
    assert measurement(chosen, direct=direct, winograd4=tiles).engine == wanted


def test_the_best_of_several_others():
    assert measurement("direct", direct=[9] * 4, winograd2=[3] * 4, winograd4=[2] * 4).engine == "winograd4"
    assert measurement("winograd2", direct=[9] * 4, winograd2=[3] * 4, winograd4=[2] * 4).engine == "winograd4"


def test_the_table_is_plain_and_says_what_changed():
    rows = [measurement("winograd4", 10, direct=[1.5, 2.5, 100], winograd4=[12.25, 12.25, 12.25]),
            measurement("direct", direct=[1, 1, 1], winograd4=[3, 3, 3])]
    assert table(rows, ("direct", "winograd4")).splitlines() == [
        "convolution                                  nodes  model      direct ms  winograd4 ms  measured",
        "conv float32 2x8x8x16 to 16 padding 1 1 1 1     10  winograd4       2.50         12.25  winograd4",
        "conv float32 2x8x8x16 to 16 padding 1 1 1 1      1  direct          1.00          3.00  direct"]
    assert table([measurement("winograd4", direct=[1] * 4, winograd4=[2] * 4)], ("direct",)).endswith(" direct *")


# ---- the command -----------------------------------------------------------------------------------------------------------


def fixed(monkeypatch, **factors):
    """Times that are no measurements: each engine takes so many ms."""
    monkeypatch.setattr(measuring, "times_ms", lambda c, target, threads: {engine: [factors.get(engine, 5.0)] * 4 for engine in TILES})


def test_tune_prints_a_table_and_writes_a_file(call, tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "_TIME_S", 0.0)  # as few rounds as may be
    code, told, err = call("resnet20", "--batch-size", 2, "--size", 8, "--out", tmp_path / "t.json")
    assert (code, err) == (0, "")
    head, *rows, count, written = told.splitlines()
    assert head.split() == ["convolution", "nodes", "model", "direct", "ms", "winograd2", "ms", "winograd4", "ms", "measured"]
    assert len(rows) == 8 and all(row.startswith(("conv bfloat16 2x", "conv_weight bfloat16 2x")) for row in rows)
    assert count.split(" are quicker by another engine than the model's: ")[0].endswith(" of 8")
    assert written == f"written: {tmp_path / 't.json'}; runs use it under RENAISSANCE_TUNED={tmp_path / 't.json'}"
    overrides = read_overrides(tmp_path / "t.json", host_target())
    assert len(overrides) == sum(row.endswith("*") for row in rows) == int(count.split()[0])
    assert len(json.loads((tmp_path / "t.json").read_text())["times_ms"]) == 8


def test_only_what_the_model_got_wrong_is_overridden(call, monkeypatch):
    fixed(monkeypatch, direct=1.0)
    code, told, _ = call("resnet20", "--batch", 64, "--precision", "fp32")
    overrides = dict(read_overrides(Path("tuned.json"), host_target()))
    wrong = [name for name in json.loads(Path("tuned.json").read_text())["times_ms"]
             if by_model(convolution_named(name), host_target()) != "direct"]
    assert code == 0 and overrides == dict.fromkeys(wrong, "direct") and wrong
    assert f"{len(wrong)} of 8 are quicker by another engine" in told and "64x32x32x16" in told


def test_several_models_are_one_file(call, monkeypatch):
    fixed(monkeypatch)
    told = call("resnet20", "vgg11", "--size", 32, "--batch", 2)[1]
    assert "2x32x32x16 to 16" in told and "2x2x2x512 to 512" in told


def test_ctrl_c_leaves_nothing_half_written(call, monkeypatch, tmp_path):
    (tmp_path / "tuned.json").write_text("before")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "times_ms", interrupted)
    code, told, err = call("resnet20", "--batch", 2, "--size", 8)
    assert (code, told, err) == (130, "", "")
    assert (tmp_path / "tuned.json").read_text() == "before" and len(list(tmp_path.iterdir())) == 1


def test_an_earlier_file_is_not_asked(call, monkeypatch):
    monkeypatch.setenv("RENAISSANCE_TUNED", "/no/such/file")
    fixed(monkeypatch)
    assert call("resnet20", "--batch", 2, "--size", 8)[0] == 0


@pytest.mark.parametrize("arguments, words", [
    ([], "Missing argument 'MODEL'"),
    (["nope"], "no model 'nope'; known are convnext_tiny, densenet121"),
    (["mlp"], "no model 'mlp'"),
    (["resnet20", "--precision", "fp8"], "precision: 'fp8' is not supported"),
    (["resnet20", "--batch", "0"], "Invalid value for '--batch"),
    (["resnet20", "--size", "0"], "Invalid value for '--size'"),
    (["lenet"], "lenet: no convolution that several engines can do: there is nothing to measure"),
    (["resnet20", "--out", "."], ".: cannot be written: it is a folder, or in none"),
    (["resnet20", "--out", "nowhere/tuned.json"], "nowhere/tuned.json: cannot be written"),
])
def test_mistakes_are_told_in_a_sentence(call, arguments, words):
    code, told, err = call(*arguments)
    assert code == 1 and told == ""
    assert err.startswith("renaissance: ") and words in err and len(err.splitlines()) == 1


def test_where_tiles_are_off_there_is_nothing_to_measure(call, monkeypatch):
    off = replace(host_target(), winograd=False)
    monkeypatch.setattr("renaissance.cli.main.host_target", lambda: off)
    assert "no convolution that several engines can do under RENAISSANCE_WINOGRAD=0" in call("resnet20")[2]
