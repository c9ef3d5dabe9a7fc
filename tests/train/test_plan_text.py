"""The plan as people read it: kept as golden texts for a fixed machine, and never wrapped."""

from __future__ import annotations

import dataclasses
import re

import pytest

import renaissance as rn
from renaissance import data, nn, optim
from renaissance.config import settings
from renaissance.errors import BudgetError
from renaissance.ir.target import Target
from renaissance.train.plan_text import layers_of

from .runs import augmented_digits, small_model, small_task

MACHINE = Target("avx512", vector_bytes=64, registers=32, bf16_dot=True, fma=True, cpu="", features="")


@pytest.fixture
def fixed_machine(monkeypatch):
    """Plans for a machine of two threads that never changes; nothing is compiled for it."""
    two = dataclasses.replace(settings(), threads=2)
    for module in ("engine", "train.task"):
        monkeypatch.setattr(f"renaissance.{module}.host_target", lambda: MACHINE)
        monkeypatch.setattr(f"renaissance.{module}.settings", lambda: two)
    with rn.executor("null"):
        yield


def regression():
    x = [[1.0, 2.0, 3.0]] * 40
    dataset = data.ArrayDataset(x, [[1.0]] * 40)
    rn.seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return small_task(dataset, model, loss=nn.MSELoss(), optimizer=optimizer, clip_norm=None)


def classifier():
    return small_task(augmented_digits(), small_model(), precision="bf16", clip_norm=None)


@pytest.mark.parametrize("make", [classifier, regression], ids=lambda make: make.__name__)
def test_plans_are_as_they_were(fixed_machine, golden, make):
    golden(f"plan_{make.__name__}", make().compile())


def test_what_a_plan_tells(fixed_machine):
    text = classifier().compile()
    title, layers, kernels, end = text.split("\n\n")
    assert title == "Sequential: training step of 16 samples, bf16, 2 threads, avx512"
    *rows, total = layers.splitlines()
    assert [row.split() for row in rows[1:]] == [
        ["0", "Flatten", "16x100", "0"], ["1", "Linear", "16x32", "3,232"], ["2", "ReLU", "16x32", "0"],
        ["3", "Dropout", "16x32", "0"], ["4", "Linear", "16x10", "330"]]
    assert total == "3,562 parameters" and len({len(row) for row in rows}) == 1
    *rows, total = kernels.splitlines()
    assert len({len(row) for row in rows}) == 1 and total.startswith(f"{len(rows) - 1} kernels, ")
    product = next(row for row in rows if row.startswith("dot 16x32x100 bf16"))
    assert re.search(r" bias relu\b.* +0\.\d\d +0\.0\d +0\.00\d$", product)
    assert re.match(r"peak memory +\d+\.\d\d MiB \(scratch [\d.]+, state [\d.]+, data [\d.]+, outputs [\d.]+\)\n"
                    r"predicted step +\d+\.\d{3} ms, assuming 256 GFLOP/s in float32, 512 in bfloat16 and 36 GB/s$", end)


def test_the_text_is_printed_as_it_is(fixed_machine, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    text = small_task(show=True).compile()
    assert max(map(len, text.splitlines())) > 60
    assert capsys.readouterr().out == text + "\n"


def test_layers_in_the_order_of_their_calls():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            self.scale = nn.Parameter([1.0, 2.0, 3.0, 4.0])

        def forward(self, x):
            return self.inner(self.inner(x)) * self.scale

    model = Twice()
    rows = [tuple(row) for row in layers_of(model, lambda: model(rn.zeros((2, 4))))]
    once, again = [("inner.0", "Linear", "2x4", 20), ("inner.1", "ReLU", "2x4", 0)], ("inner.0", "Linear", "2x4", 0)
    assert rows == [*once, again, once[1], ("-", "Twice", "2x4", 4)]
    assert sum(row[3] for row in rows) == sum(p.size for p in model.parameters())


def test_a_budget_is_kept_to_and_told_of(fixed_machine):
    def deep(budget):
        rn.seed(0)
        layers = [layer for i in range(8) for layer in (nn.Linear(64 if i else 3, 64), nn.Tanh())]
        dataset = data.ArrayDataset([[1.0, 2.0, 3.0]] * 512, [[1.0]] * 512)
        model = nn.Sequential(*layers, nn.Linear(64, 1))
        return small_task(dataset, model, loss=nn.MSELoss(), batch_size=512, memory_budget=budget)

    whole = deep(None).dry_run()
    budget = whole.total_bytes - whole.arena_bytes // 4
    assert deep(budget).dry_run().total_bytes <= budget < whole.total_bytes
    assert f"memory budget {budget} bytes, needed " in deep(budget).compile()
    with pytest.raises(BudgetError, match="smallest budget"):
        deep("1 KiB").compile()
