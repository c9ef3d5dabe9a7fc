"""Learning-rate schedules: plain functions of the step, in float64, evaluated on the host.

Lengths are given in steps or in epochs; epochs need `bind`, which the Task does. Warm-up rises in a straight line from
start_factor times the base rate to the base rate; the schedule proper begins after it. Every schedule takes warmup_epochs,
warmup_steps and start_factor, as Schedule does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from renaissance.errors import ArgumentError


class Schedule:
    """A rate that depends on the step: warm-up, then `after(d, total)`.

    rate(t) = base (f + (1 - f) (t + 1) / (W + 1)) for t < W, else after(t - W, T - W)

    base           rate at the end of warm-up
    warmup_epochs  length of warm-up in epochs; or
    warmup_steps   in steps
    start_factor   f: where warm-up starts, as a share of base (default 0: the first step then uses base / (W + 1), never 0)
    raises         ArgumentError for negative lengths or both kinds at once; when called before `bind` if it needs epochs
    source         Goyal et al. 2017, arXiv:1706.02677 (warm-up)
    """

    def __init__(self, base: float, *, warmup_epochs: float = 0, warmup_steps: int = 0, start_factor: float = 0.0):
        if warmup_epochs and warmup_steps:
            raise ArgumentError(f"{type(self).__name__}: give warmup_epochs or warmup_steps, not both")
        if warmup_epochs < 0 or warmup_steps < 0 or not base >= 0 or not 0 <= start_factor <= 1:
            raise ArgumentError(f"{type(self).__name__}: base and warm-up must not be negative, start_factor from 0 to 1; "
                                f"got base {base}, warm-up {warmup_epochs or warmup_steps}, start_factor {start_factor}")
        self.base = base
        self.warmup_epochs = warmup_epochs
        self.warmup_steps = warmup_steps
        self.start_factor = start_factor
        self.steps_per_epoch: int | None = None
        self.total_steps: int | None = None

    def bind(self, steps_per_epoch: int, epochs: int) -> Schedule:
        """Say how long an epoch and the whole run are.

        total_steps = steps_per_epoch epochs

        steps_per_epoch  of the optimizer
        epochs           of the whole run
        returns          the schedule itself
        raises           ArgumentError unless both are positive
        source           definition
        """
        if steps_per_epoch < 1 or epochs < 1:
            raise ArgumentError(f"bind: steps_per_epoch and epochs must be at least 1, got {steps_per_epoch} and {epochs}")
        self.steps_per_epoch = steps_per_epoch
        self.total_steps = steps_per_epoch * epochs
        return self

    def steps(self, epochs: float) -> float:
        """A length in epochs, in steps."""
        if epochs == 0:
            return 0
        if self.steps_per_epoch is None:
            raise ArgumentError(f"{type(self).__name__} has lengths in epochs: call bind(steps_per_epoch, epochs) first "
                                "(a Task does it), or give lengths in steps")
        return epochs * self.steps_per_epoch

    def total(self) -> int:
        """Steps of the whole run."""
        if self.total_steps is None:
            raise ArgumentError(f"{type(self).__name__} needs the length of the run: call bind(steps_per_epoch, epochs) first "
                                "(a Task does it), or give total_steps")
        return self.total_steps

    def warmup(self) -> int:
        """Steps of warm-up."""
        return self.warmup_steps or round(self.steps(self.warmup_epochs))

    def __call__(self, step: int) -> float:
        """The rate of step 0, 1, 2, ..."""
        w = self.warmup()
        if step < w:
            return self.base * (self.start_factor + (1 - self.start_factor) * (step + 1) / (w + 1))
        return self.after(step - w)

    def after(self, d: int) -> float:
        """The rate d steps after warm-up."""
        return self.base


class Constant(Schedule):
    """The base rate, after warm-up.

    rate = base

    base           the rate
    warmup_epochs  length of warm-up in epochs; or
    warmup_steps   in steps
    start_factor   where warm-up starts, as a share of base
    raises         as Schedule
    source         definition
    """


class Step(Schedule):
    """The rate falls by a factor at equal distances, counted from the end of warm-up.

    rate = base gamma^floor(d / size)

    base        rate at the end of warm-up
    step_size   in epochs; or
    step_steps  in steps
    gamma       factor
    raises      ArgumentError unless exactly one positive size is given
    source      PyTorch, StepLR
    """

    def __init__(self, base: float, *, step_size: float = 0, step_steps: int = 0, gamma: float = 0.1, **warmup: float):
        super().__init__(base, **warmup)  # type: ignore[arg-type]
        if (step_size > 0) == (step_steps > 0):
            raise ArgumentError("Step: give step_size (epochs) or step_steps, positive")
        self.step_size, self.step_steps, self.gamma = step_size, step_steps, gamma

    def after(self, d: int) -> float:
        return self.base * self.gamma ** math.floor(d / (self.step_steps or self.steps(self.step_size)))


class MultiStep(Schedule):
    """The rate falls by a factor at given moments, counted from the start of the run.

    rate = base gamma^(number of milestones <= t)

    base             rate at the end of warm-up
    milestones       in epochs; or
    milestone_steps  in steps
    gamma            factor
    raises           ArgumentError unless exactly one list is given, increasing
    source           PyTorch, MultiStepLR
    """

    def __init__(self, base: float, *, milestones: Sequence[float] = (), milestone_steps: Sequence[int] = (), gamma: float = 0.1,
                 **warmup: float):
        super().__init__(base, **warmup)  # type: ignore[arg-type]
        given = tuple(milestones) or tuple(milestone_steps)
        if bool(milestones) == bool(milestone_steps) or list(given) != sorted(set(given)):
            raise ArgumentError(f"MultiStep: give increasing milestones (epochs) or milestone_steps, got {milestones} and "
                                f"{milestone_steps}")
        self.milestones, self.milestone_steps, self.gamma = tuple(milestones), tuple(milestone_steps), gamma

    def after(self, d: int) -> float:
        t = d + self.warmup()
        marks = self.milestone_steps or [self.steps(m) for m in self.milestones]
        return self.base * self.gamma ** sum(t >= m for m in marks)


class Exponential(Schedule):
    """The rate falls by a factor after every epoch (or every step), counted from the end of warm-up.

    rate = base gamma^floor(d / period)

    base      rate at the end of warm-up
    gamma     factor
    per_step  the period is one step, not one epoch
    raises    as Schedule
    source    PyTorch, ExponentialLR
    """

    def __init__(self, base: float, *, gamma: float, per_step: bool = False, **warmup: float):
        super().__init__(base, **warmup)  # type: ignore[arg-type]
        self.gamma, self.per_step = gamma, per_step

    def after(self, d: int) -> float:
        return self.base * self.gamma ** (d if self.per_step else math.floor(d / self.steps(1)))


class _Spanning(Schedule):
    """A schedule over a known span: total_steps, else the run's length from bind."""

    def __init__(self, base: float, *, total_steps: int = 0, **warmup: float):
        super().__init__(base, **warmup)  # type: ignore[arg-type]
        if total_steps < 0:
            raise ArgumentError(f"{type(self).__name__}: total_steps must not be negative, got {total_steps}")
        self._own_total = total_steps

    def total(self) -> int:
        return self._own_total or super().total()

    def share(self, d: int) -> float:
        """How much of the span after warm-up is over, from 0 to 1."""
        span = self.total() - self.warmup()
        return min(d / span, 1.0) if span > 0 else 1.0


class Polynomial(_Spanning):
    """The rate falls to its end along a power.

    rate = end + (base - end) (1 - d / D)^power

    base         rate at the end of warm-up
    end          rate at the end of the run
    power        1: a straight line
    total_steps  length of the run in steps; 0: from bind
    raises       as Schedule
    source       TensorFlow, PolynomialDecay
    """

    def __init__(self, base: float, *, end: float = 0.0, power: float = 1.0, total_steps: int = 0, **warmup: float):
        super().__init__(base, total_steps=total_steps, **warmup)
        self.end, self.power = end, power

    def after(self, d: int) -> float:
        return _between(self.end, self.base, (1 - self.share(d)) ** self.power)


class Cosine(_Spanning):
    """The rate falls to its end along half a cosine.

    rate = end + (base - end) (1 + cos(pi d / D)) / 2

    base         rate at the end of warm-up
    end          rate at the end of the run
    total_steps  length of the run in steps; 0: from bind
    raises       as Schedule
    source       Loshchilov, Hutter 2016, arXiv:1608.03983
    """

    def __init__(self, base: float, *, end: float = 0.0, total_steps: int = 0, **warmup: float):
        super().__init__(base, total_steps=total_steps, **warmup)
        self.end = end

    def after(self, d: int) -> float:
        return _half_cosine(self.base, self.end, self.share(d))


class CosineWarmRestarts(Schedule):
    """Half cosines one after the other, each factor times as long as the one before.

    rate = end + (base - end) (1 + cos(pi u / P_i)) / 2,  P_i = period factor^i, u steps into cycle i

    base          rate at the start of each cycle
    period        of the first cycle in epochs; or
    period_steps  in steps
    factor        growth of the period, at least 1
    end           rate that each cycle falls towards
    raises        ArgumentError unless exactly one positive period is given, and factor >= 1
    source        Loshchilov, Hutter 2016, arXiv:1608.03983
    """

    def __init__(self, base: float, *, period: float = 0, period_steps: int = 0, factor: float = 1, end: float = 0.0,
                 **warmup: float):
        super().__init__(base, **warmup)  # type: ignore[arg-type]
        if (period > 0) == (period_steps > 0) or factor < 1:
            raise ArgumentError("CosineWarmRestarts: give period (epochs) or period_steps, positive, and factor >= 1")
        self.period, self.period_steps, self.factor, self.end = period, period_steps, factor, end

    def after(self, d: int) -> float:
        length = self.period_steps or self.steps(self.period)
        u: float = d
        while u >= length:
            if self.factor == 1:
                u = math.fmod(u, length)
                break
            u -= length
            length *= self.factor
        return _half_cosine(self.base, self.end, u / length)


class WSD(_Spanning):
    """Warm-up, a stable stretch, then a straight fall to the end.

    rate = base while d < s D, else base + (end - base) (d - s D) / (D - s D)

    base         rate at the end of warm-up
    decay_start  s: share of the span after warm-up that is stable
    end          rate at the end of the run
    total_steps  length of the run in steps; 0: from bind
    raises       ArgumentError unless 0 <= decay_start <= 1
    source       Hu et al. 2024, arXiv:2404.06395
    """

    def __init__(self, base: float, *, decay_start: float = 0.8, end: float = 0.0, total_steps: int = 0, **warmup: float):
        super().__init__(base, total_steps=total_steps, **warmup)
        if not 0 <= decay_start <= 1:
            raise ArgumentError(f"WSD: decay_start must be from 0 to 1, got {decay_start}")
        self.decay_start, self.end = decay_start, end

    def after(self, d: int) -> float:
        share = self.share(d)
        if share < self.decay_start or self.decay_start == 1:
            return self.base
        return _between(self.base, self.end, (share - self.decay_start) / (1 - self.decay_start))


class OneCycle(_Spanning):
    """Up along half a cosine from base / div to base, then down along another to base / (div final_div).

    rate = a + (b - a) (1 - cos(pi u)) / 2 within each phase, u from 0 to 1

    base         the highest rate
    pct_start    share of the run that rises
    div          base over the first rate
    final_div    the first rate over the last, which belongs to the last step
    total_steps  length of the run in steps; 0: from bind
    raises       ArgumentError unless 0 < pct_start < 1; warm-up cannot be given: the rise is one
    source       Smith, Topin 2017, arXiv:1708.07120; PyTorch, OneCycleLR (two phases)
    """

    def __init__(self, base: float, *, pct_start: float = 0.3, div: float = 25.0, final_div: float = 1e4, total_steps: int = 0):
        super().__init__(base, total_steps=total_steps)
        if not 0 < pct_start < 1:
            raise ArgumentError(f"OneCycle: pct_start must be between 0 and 1, got {pct_start}")
        self.pct_start, self.div, self.final_div = pct_start, div, final_div

    def after(self, d: int) -> float:
        last = self.total() - 1
        peak = self.pct_start * self.total() - 1
        low, end = self.base / self.div, self.base / self.div / self.final_div
        d = min(d, last)
        if d <= peak:
            return _half_cosine(low, self.base, d / peak if peak > 0 else 1.0)
        return _half_cosine(self.base, end, (d - peak) / (last - peak))


def _between(a: float, b: float, u: float) -> float:
    """From a at u = 0 to b at u = 1 in a straight line, exact at both."""
    return a * (1 - u) + b * u


def _half_cosine(a: float, b: float, u: float) -> float:
    """From a at u = 0 to b at u = 1 along half a cosine, exact at both."""
    return _between(a, b, (1 - math.cos(math.pi * u)) / 2)
