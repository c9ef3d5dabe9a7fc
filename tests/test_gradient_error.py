"""The table of gradients' errors, with programs that only pretend to compute."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from bench import gradient_error
from bench.gradient_error import COMPARED, REFERENCE, errors, parameters
from bench.program import Program, Runner
from renaissance import nn


def test_errors_are_relative_to_the_reference_and_whole_ones_weigh_each_value():
    reference = {"first": [np.array([3.0]), np.array([4.0])], "second": [np.array([0.0, 12.0])]}
    gradient = {"first": [np.array([3.0]), np.array([4.5])], "second": [np.array([1.2, 12.0])]}
    together, each = errors(gradient, reference)
    assert each == pytest.approx({"first": 0.1, "second": 0.1})
    assert together == pytest.approx(0.1)
    assert errors(reference, reference) == (0.0, {"first": 0.0, "second": 0.0})


def test_weights_and_images_come_from_the_seed():
    first, again, other = parameters(1), parameters(1), parameters(2)
    assert all(np.array_equal(a, b) for layer in first for a, b in zip(first[layer], again[layer], strict=True))
    assert not np.array_equal(first["conv 1"][0], other["conv 1"][0])
    assert first["conv 2"][0].std() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.02)
    (images, labels), (same, _), (another, _) = (gradient_error.batch(seed, 5) for seed in (1, 1, 2))
    assert (images.shape, images.dtype, labels.shape) == ((5, 3, 32, 32), np.float32, (5,))
    assert np.array_equal(images, same)
    assert not np.array_equal(images, another)


def test_a_smooth_network_has_no_choices():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Sequential(nn.MaxPool2d(2, 2), nn.Dropout(0.5)))
    gradient_error.prepare(net, nn, smooth=False)
    assert [type(m) for m in net[2]] == [nn.MaxPool2d, nn.Dropout]
    assert net[2][1].p == 0.0
    gradient_error.prepare(net, nn, smooth=True)
    assert isinstance(net[1], nn.SiLU)
    assert isinstance(net[2][0], nn.AvgPool2d)


@pytest.mark.parametrize("program", [REFERENCE, *COMPARED], ids=str)
def test_programs_exist(program: Program):
    assert importlib.util.find_spec(program.module) is not None


def test_the_table_has_a_line_for_each_seed_and_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    def answer(_self: Runner, program: Program, _cache: Path) -> str:
        file, seed = program.arguments[0], int(program.arguments[2])
        scale = 1.0 if "float64" in program.arguments else 1.0 + 2.0 ** -seed
        values = [scale * value.astype(np.float64) for layer in parameters(0).values() for value in layer]
        np.savez(file, *values)
        return file

    monkeypatch.setattr(Runner, "answer", answer)
    monkeypatch.setattr(gradient_error, "COMPARED", COMPARED[:1])
    gradient_error.main(["--seeds", "3", "4", "--smooth"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["seed", "3", "4"]
    assert "1.25e-01" in lines[1] and "6.25e-02" in lines[2]
    assert all("renaissance, Winograd" in line for line in lines[1:])
