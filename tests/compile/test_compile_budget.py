"""Recomputation under a memory budget: every bit is the same, the peak is known and kept to, and it never rises as budgets fall."""

from __future__ import annotations

import re

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn, optim
from renaissance.compile.budget import needed_bytes
from renaissance.errors import ArgumentError, BudgetError
from renaissance.ir.verify import verify_plan
from renaissance.nn import functional as F
from renaissance.trace.size import parsed_size

from .running import same_bits


def mlp():
    layers = [layer for _ in range(12) for layer in (nn.Linear(48, 48), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(48, 10)), (512, 48)


def mlp_with_dropout():
    layers = [layer for _ in range(8) for layer in (nn.Linear(48, 48), nn.GELU(), nn.Dropout(0.2))]
    return nn.Sequential(*layers, nn.Linear(48, 10)), (512, 48)


def convolutions():
    layers = [layer for i in range(6)
              for layer in (nn.Conv2d(8 if i else 3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())]
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten(), nn.Linear(8 * 6 * 6, 10)), (16, 3, 12, 12)


class Skips(nn.Module):
    """Dense connections: each layer reads the concatenation of all before it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(
            nn.Sequential(nn.BatchNorm2d(4 + 4 * i), nn.ReLU(), nn.Conv2d(4 + 4 * i, 4, 3, padding=1)) for i in range(5)))
        self.head = nn.Linear(24, 10)

    def forward(self, x):
        for layer in self.layers.children():
            x = rn.concat([x, layer(x)], 1)
        return self.head(x.mean((2, 3)))


def dense_connections():
    return Skips(), (8, 4, 12, 12)


MODELS = (mlp, mlp_with_dropout, convolutions, dense_connections)


class Training:
    """A model with an optimizer, set up the same each time: what its steps return and leave behind, bit for bit."""

    def __init__(self, make, clip=False):
        rn.seed(3)
        self.model, shape = make()
        self.optimizer = optim.AdamW(self.model.parameters(), lr=1e-2)
        self.clip = clip
        generator = np.random.default_rng(1)
        self.x = rn.from_numpy(generator.standard_normal(shape, dtype=np.float32))
        self.y = rn.from_numpy(generator.integers(0, 10, shape[0]))

    def step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        if self.clip:
            optim.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def plan(self, budget=None):
        return rn.compile(self.step, memory_budget=budget).plan(self.x, self.y)

    def result(self, step, steps=2):
        losses = [step(self.x, self.y).numpy() for _ in range(steps)]
        return [*losses, *(t.numpy() for t in self.model.state_dict().values())]


def smallest_of(training, budget=1):
    with pytest.raises(BudgetError, match="smallest budget") as caught:
        training.plan(budget)
    found = re.search(r"can be met is (\d+) bytes", str(caught.value))
    return int(found[1])


@pytest.mark.parametrize("clip", [False, True], ids=["", "clipped"])
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_every_bit_is_the_same_under_every_budget(make, clip):
    whole = needed_bytes(Training(make, clip).plan())
    smallest = smallest_of(Training(make, clip))
    assert smallest < whole
    training = Training(make, clip)
    expected = training.result(training.step)
    for budget in (None, whole, (whole + smallest) // 2, smallest):
        training = Training(make, clip)
        got = training.result(rn.compile(training.step, memory_budget=budget))
        assert all(map(same_bits, expected, got)), budget


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_gradients_are_the_same_under_the_smallest_budget(make):
    training = Training(make)

    def gradients(x, y):
        parameters = list(training.model.parameters())
        loss = F.cross_entropy(training.model(x), y)
        for p in parameters:
            p.grad = None
        loss.backward()
        return [loss, *(p.grad for p in parameters)]

    rn.seed(5)
    expected = gradients(training.x, training.y)
    expected = [t.numpy().copy() for t in expected]
    with pytest.raises(BudgetError) as caught:
        rn.compile(gradients, memory_budget=1)(training.x, training.y)
    smallest = int(re.search(r"can be met is (\d+)", str(caught.value))[1])
    rn.seed(5)
    got = rn.compile(gradients, memory_budget=smallest)(training.x, training.y)
    assert all(same_bits(a, b.numpy()) for a, b in zip(expected, got))


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_smaller_budgets_never_give_higher_peaks(make):
    training = Training(make)
    whole, smallest = needed_bytes(training.plan()), smallest_of(training)
    peaks = []
    for part in range(9):
        budget = whole + (smallest - whole) * part // 8
        plan = training.plan(budget)
        verify_plan(plan)
        peaks.append(needed_bytes(plan))
        assert peaks[-1] <= budget
        assert any(f"budget {budget} bytes, needed {peaks[-1]}; computed again" in note for note in plan.notes)
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] == whole and peaks[-1] == smallest


def test_a_budget_that_cannot_be_met_changes_nothing():
    training = Training(mlp)
    before = training.result(training.step, 0)
    smallest = smallest_of(training)
    assert smallest_of(training, smallest - 1) == smallest
    with pytest.raises(BudgetError):
        rn.compile(training.step, memory_budget=smallest - 1)(training.x, training.y)
    assert all(map(same_bits, before, training.result(training.step, 0)))
    assert needed_bytes(training.plan(smallest)) == smallest


def test_a_deep_network_needs_a_fraction():
    """Segments: about the root of the layers' number, where all of it would be kept without a budget."""
    def deep():
        layers = [layer for _ in range(64) for layer in (nn.Linear(16, 16), nn.Tanh())]
        return nn.Sequential(*layers, nn.Linear(16, 10)), (4096, 16)

    training = Training(deep)
    plan = training.plan()
    fixed = needed_bytes(plan) - plan.arena_bytes
    assert 3 * (smallest_of(training) - fixed) < plan.arena_bytes


def test_without_a_budget_the_plan_is_as_ever():
    training = Training(mlp)
    plan = training.plan()
    within = training.plan(needed_bytes(plan))
    assert within.items == plan.items and within.buffers == plan.buffers
    assert not any("budget" in note for note in plan.notes)


def test_as_a_decorator():
    @rn.compile(memory_budget="1 MiB")
    def double(x):
        return x + x

    assert double(rn.tensor([1.0])).numpy() == [2.0]
    with pytest.raises(BudgetError):
        rn.compile(lambda x: x + x, memory_budget=7)(rn.tensor([1.0]))


@pytest.mark.parametrize(("text", "size"), [(5, 5), ("5", 5), ("2 KiB", 2048), ("1.5GiB", 3 * 2**29), ("3 mb", 3_000_000)])
def test_sizes(text, size):
    assert parsed_size(text) == size


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "", "much", "1 KiBs", "-3 MiB", "0 B"])
def test_what_is_no_size(wrong):
    with pytest.raises(ArgumentError, match="memory_budget"):
        rn.compile(lambda x: x, memory_budget=wrong)
