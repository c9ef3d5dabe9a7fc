"""Learning-rate schedules: each against its closed form, with and without warm-up, in steps and in epochs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from renaissance import optim
from renaissance.errors import ArgumentError

PER_EPOCH, EPOCHS = 8, 5
TOTAL = PER_EPOCH * EPOCHS
BASE, END = 0.3, 0.007


@dataclass(frozen=True)
class ScheduleCase:
    """A schedule under test.

    steps     made with lengths in steps
    epochs    the same with lengths in epochs, to be bound to 5 epochs of 8 steps
    closed    rate d steps after a warm-up of w steps, written down anew
    falls     whether it never rises after warm-up
    last      rate from the end of the run on; None: it has no end
    """

    name: str
    steps: Callable[..., optim.Schedule]
    epochs: Callable[..., optim.Schedule]
    closed: Callable[[int, int], float]
    falls: bool = True
    last: float | None = None


def half_cosine(a: float, b: float, u: float) -> float:
    return b + (a - b) * (1 + math.cos(math.pi * u)) / 2


def share(d: int, w: int) -> float:
    return min(1.0, d / (TOTAL - w))


def restarts(d: int, w: int) -> float:
    start, length = 0.0, 12.0
    while d >= start + length:
        start, length = start + length, 2 * length
    return half_cosine(BASE, END, (d - start) / length)


def restarts_of_one_length(d: int, w: int) -> float:
    return half_cosine(BASE, 0.0, d % 12 / 12)


TABLE = (
    ScheduleCase("constant", lambda **k: optim.Constant(BASE, **k), lambda **k: optim.Constant(BASE, **k), lambda d, w: BASE,
                 last=BASE),
    ScheduleCase("step", lambda **k: optim.Step(BASE, step_steps=12, gamma=0.5, **k),
                 lambda **k: optim.Step(BASE, step_size=1.5, gamma=0.5, **k), lambda d, w: BASE * 0.5 ** (d // 12)),
    ScheduleCase("multi step", lambda **k: optim.MultiStep(BASE, milestone_steps=[16, 30], **k),
                 lambda **k: optim.MultiStep(BASE, milestones=[2, 3.75], **k),
                 lambda d, w: BASE * (1.0 if d + w < 16 else 0.1 if d + w < 30 else 0.1**2)),
    ScheduleCase("exponential", lambda **k: optim.Exponential(BASE, gamma=0.9, per_step=True, **k),
                 lambda **k: optim.Exponential(BASE, gamma=0.9, per_step=True, **k), lambda d, w: BASE * 0.9**d),
    ScheduleCase("exponential by epochs", lambda **k: optim.Step(BASE, step_steps=8, gamma=0.9, **k),
                 lambda **k: optim.Exponential(BASE, gamma=0.9, **k), lambda d, w: BASE * 0.9 ** (d // 8)),
    ScheduleCase("polynomial", lambda **k: optim.Polynomial(BASE, end=END, power=2, total_steps=TOTAL, **k),
                 lambda **k: optim.Polynomial(BASE, end=END, power=2, **k),
                 lambda d, w: END + (BASE - END) * (1 - share(d, w)) ** 2, last=END),
    ScheduleCase("line", lambda **k: optim.Polynomial(BASE, total_steps=TOTAL, **k), lambda **k: optim.Polynomial(BASE, **k),
                 lambda d, w: BASE * (1 - share(d, w)), last=0.0),
    ScheduleCase("cosine", lambda **k: optim.Cosine(BASE, end=END, total_steps=TOTAL, **k),
                 lambda **k: optim.Cosine(BASE, end=END, **k), lambda d, w: half_cosine(BASE, END, share(d, w)), last=END),
    ScheduleCase("restarts", lambda **k: optim.CosineWarmRestarts(BASE, period_steps=12, factor=2, end=END, **k),
                 lambda **k: optim.CosineWarmRestarts(BASE, period=1.5, factor=2, end=END, **k), restarts, falls=False),
    ScheduleCase("restarts of one length", lambda **k: optim.CosineWarmRestarts(BASE, period_steps=12, **k),
                 lambda **k: optim.CosineWarmRestarts(BASE, period=1.5, **k), restarts_of_one_length, falls=False),
    ScheduleCase("wsd", lambda **k: optim.WSD(BASE, decay_start=0.75, end=END, total_steps=TOTAL, **k),
                 lambda **k: optim.WSD(BASE, decay_start=0.75, end=END, **k),
                 lambda d, w: BASE if share(d, w) < 0.75 else BASE + (END - BASE) * (share(d, w) - 0.75) / 0.25, last=END),
)
ROWS = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in TABLE])
WARMUPS = pytest.mark.parametrize(("by_steps", "by_epochs"), [
    ({}, {}), ({"warmup_steps": 4}, {"warmup_epochs": 0.5}),
    ({"warmup_steps": 8, "start_factor": 0.25}, {"warmup_epochs": 1, "start_factor": 0.25}),
])


def expected(case: ScheduleCase, t: int, warmup_steps: int = 0, start_factor: float = 0.0) -> float:
    if t < warmup_steps:
        return BASE * (start_factor + (1 - start_factor) * (t + 1) / (warmup_steps + 1))
    return case.closed(t - warmup_steps, warmup_steps)


@ROWS
@WARMUPS
def test_closed_form(case, by_steps, by_epochs):
    schedule = case.steps(**by_steps)
    for t in range(TOTAL + 10):
        assert schedule(t) == pytest.approx(expected(case, t, **by_steps), rel=1e-13, abs=1e-16)


@ROWS
@WARMUPS
def test_lengths_in_epochs_are_lengths_in_steps_once_bound(case, by_steps, by_epochs):
    schedule, other = case.epochs(**by_epochs), case.steps(**by_steps)
    assert schedule.bind(PER_EPOCH, EPOCHS) is schedule
    other.bind(PER_EPOCH, EPOCHS)
    assert [schedule(t) for t in range(TOTAL + 10)] == [other(t) for t in range(TOTAL + 10)]


@ROWS
def test_order_of_calls_does_not_matter(case):
    schedule = case.steps(warmup_steps=4)
    forward = [schedule(t) for t in range(TOTAL)]
    assert [schedule(t) for t in reversed(range(TOTAL))] == forward[::-1]


@ROWS
@WARMUPS
def test_ends_are_exact_and_the_way_is_monotonic(case, by_steps, by_epochs):
    schedule = case.steps(**by_steps)
    w = by_steps.get("warmup_steps", 0)
    rates = [schedule(t) for t in range(TOTAL + 10)]
    assert rates[w] == BASE
    assert all(a < b for a, b in zip(rates[:w], rates[1:w + 1]))
    assert all(0 < r < BASE for r in rates[:w])
    if case.falls:
        assert all(a >= b for a, b in zip(rates[w:], rates[w + 1:]))
    if case.last is not None:
        assert rates[TOTAL:] == [case.last] * 10
    assert min(rates) >= min(END, 0.0)


def test_warm_up_never_starts_at_zero_and_never_repeats_the_base_rate():
    schedule = optim.Constant(1.0, warmup_steps=4)
    assert [schedule(t) for t in range(6)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0], abs=1e-15)
    assert optim.Constant(1.0, warmup_steps=1, start_factor=1.0)(0) == 1.0


@pytest.mark.parametrize(("base", "end"), [(1e-3, 1e-5), (0.1, 0.3), (3.0, 1e-7), (1e-3, 0.0)])
def test_ends_are_exact_for_any_pair_of_rates(base, end):
    for made in (optim.Cosine(base, end=end, total_steps=7), optim.Polynomial(base, end=end, total_steps=7),
                 optim.WSD(base, end=end, total_steps=7)):
        assert made(0) == base and made(7) == end and made(1000) == end


def test_values_of_a_public_report_on_resuming():
    schedule = optim.Cosine(1e-3, total_steps=100)
    assert schedule(45) == pytest.approx(5.7821723e-4, abs=5e-12) and schedule(46) == pytest.approx(5.6266662e-4, abs=5e-12)
    drop = optim.MultiStep(1.0, milestone_steps=[4])
    assert [drop(t) for t in (2, 3, 4, 5)] == pytest.approx([1.0, 1.0, 0.1, 0.1])


def test_milestones_count_from_the_start_of_the_run_and_steps_from_the_end_of_warm_up():
    assert optim.MultiStep(1.0, milestone_steps=[4], warmup_steps=3)(4) == pytest.approx(0.1)
    step = optim.Step(1.0, step_steps=4, warmup_steps=3)
    assert [step(t) for t in (6, 7)] == [1.0, pytest.approx(0.1)]


@pytest.mark.parametrize("pct_start", [0.25, 0.3, 0.5])
def test_one_cycle(pct_start):
    schedule = optim.OneCycle(BASE, pct_start=pct_start, div=20.0, final_div=100.0, total_steps=TOTAL)
    peak = pct_start * TOTAL - 1
    low, end = BASE / 20, BASE / 2000
    for t in range(TOTAL):
        closed = half_cosine(low, BASE, t / peak) if t <= peak else half_cosine(BASE, end, (t - peak) / (TOTAL - 1 - peak))
        assert schedule(t) == pytest.approx(closed, rel=1e-12)
    rates = [schedule(t) for t in range(TOTAL + 5)]
    top = rates.index(max(rates))
    assert rates[0] == low and rates[TOTAL - 1:] == [end] * 6
    assert rates[:top + 1] == sorted(rates[:top + 1]) and rates[top:] == sorted(rates[top:], reverse=True)
    if peak == int(peak):
        assert top == peak and rates[top] == BASE
    by_epochs = optim.OneCycle(BASE, pct_start=pct_start, div=20.0, final_div=100.0).bind(PER_EPOCH, EPOCHS)
    assert [by_epochs(t) for t in range(TOTAL)] == rates[:TOTAL]


@pytest.mark.parametrize("made", [
    lambda: optim.Cosine(0.1), lambda: optim.Polynomial(0.1), lambda: optim.WSD(0.1), lambda: optim.OneCycle(0.1),
    lambda: optim.Step(0.1, step_size=1), lambda: optim.MultiStep(0.1, milestones=[1]), lambda: optim.Exponential(0.1, gamma=0.5),
    lambda: optim.CosineWarmRestarts(0.1, period=1), lambda: optim.Constant(0.1, warmup_epochs=1),
    lambda: optim.Cosine(0.1, total_steps=10, warmup_epochs=1),
])
def test_lengths_in_epochs_need_bind(made):
    with pytest.raises(ArgumentError, match=r"call bind\(steps_per_epoch, epochs\) first"):
        made()(0)
    assert made().bind(4, 3)(0) > 0



@pytest.mark.parametrize(("made", "message"), [
    (lambda: optim.Constant(-1.0), "base"), (lambda: optim.Constant(float("nan")), "base"),
    (lambda: optim.Constant(1.0, warmup_steps=-1), "must not be negative"),
    (lambda: optim.Constant(1.0, start_factor=2.0), "start_factor"),
    (lambda: optim.Cosine(1.0, warmup_steps=1, warmup_epochs=1), "not both"),
    (lambda: optim.Cosine(1.0, total_steps=-1), "total_steps"),
    (lambda: optim.Step(1.0), "give step_size"), (lambda: optim.Step(1.0, step_size=1, step_steps=1), "give step_size"),
    (lambda: optim.MultiStep(1.0), "increasing"), (lambda: optim.MultiStep(1.0, milestones=[3, 2]), "increasing"),
    (lambda: optim.MultiStep(1.0, milestones=[3, 3]), "increasing"),
    (lambda: optim.MultiStep(1.0, milestones=[1], milestone_steps=[1]), "increasing"),
    (lambda: optim.CosineWarmRestarts(1.0), "period"), (lambda: optim.CosineWarmRestarts(1.0, period=1, factor=0.5), "factor"),
    (lambda: optim.WSD(1.0, decay_start=1.5), "decay_start"), (lambda: optim.OneCycle(1.0, pct_start=1.0), "pct_start"),
    (lambda: optim.Constant(1.0).bind(0, 3), "at least 1"), (lambda: optim.Constant(1.0).bind(3, 0), "at least 1"),
])
def test_settings_out_of_range(made, message):
    with pytest.raises(ArgumentError, match=message):
        made()


def test_one_cycle_takes_no_warm_up():
    with pytest.raises(TypeError):
        optim.OneCycle(1.0, total_steps=10, warmup_steps=3)  # type: ignore[call-arg]


def test_all_schedules_are_tested():
    tested = {type(case.steps()) for case in TABLE} | {type(case.epochs()) for case in TABLE} | {optim.OneCycle, optim.Schedule}
    public: set[Any] = {v for v in vars(optim).values() if isinstance(v, type) and issubclass(v, optim.Schedule)}
    assert public == tested
