"""Ours against a rival: which rival is the quickest, runs in turn, medians and their spread."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.load import OtherLoad
from bench.program import Program, ProgramError, Result

Run = Callable[[Program], Result]


@dataclass(frozen=True)
class Measurement:
    """One line of the table, one object of the JSON file.

    ours_s, rival_s    medians over the alternations
    ratio              rival / ours of the quantity compared (time, or peak memory), by medians; above 1 ours is better
    ratio_min, _max    smallest and largest ratio of a single alternation
    share_of_peak      our floating-point operations per second over the measured peak of all cores in this precision
    faults_per_step    minor page faults of ours per step after warm-up
    load_average       cores that other programs kept busy meanwhile
    """

    row: str
    variant: str
    precision: str
    ours_s: float
    rival: str | None
    rival_s: float | None
    ratio: float | None
    ratio_min: float | None
    ratio_max: float | None
    share_of_peak: float | None
    ours_rss_mib: float
    rival_rss_mib: float | None
    faults_per_step: float | None
    load_average: float


@dataclass(frozen=True)
class Bar:
    """A limit for one field of a measurement: at least `limit`, or at most where `at_most`."""

    field: str
    limit: float
    at_most: bool = False

    def met(self, measurement: Measurement) -> bool | None:
        """Whether the measurement keeps the limit; None where the field was not measured."""
        value = getattr(measurement, self.field)
        if value is None:
            return None
        return value <= self.limit if self.at_most else value >= self.limit

    def __str__(self) -> str:
        return f"{self.field} {'<=' if self.at_most else '>='} {self.limit:.3g}"


@dataclass(frozen=True)
class Case:
    """What is compared.

    rivals    candidates: the best of them is the rival
    compared  'seconds' or 'rss_mib'
    flops     floating-point operations in what `seconds` counts, where a share of peak means something
    part      which of the times its programs report is meant, where they measure several things; none: `seconds`
    """

    row: str
    variant: str
    precision: str
    ours: Program
    rivals: tuple[Program, ...] = ()
    compared: str = "seconds"
    flops: float | None = None
    bars: tuple[Bar, ...] = ()
    part: str = ""

    def __str__(self) -> str:
        return f"{self.row} {self.variant} {self.precision}"


def best_rival(case: Case, run: Run, *, tries: int, say: Callable[[str], None]) -> Program | None:
    """The candidate with the least of the compared quantity in the best of its tries; None if all of them fail.

    `say` is told every candidate's figure, and of those that fail why.
    """
    figures: dict[str, float] = {}
    name = f"{case} and all measured with it" if case.part else str(case)
    for rival in case.rivals:
        try:
            results = [run(rival) for _ in range(tries)]
        except ProgramError as error:
            say(f"{name}: left out {error}")
            continue
        figures[rival.name] = min(getattr(result, case.compared) for result in results)
        say(f"{name}: {rival.name} {min(r.seconds for r in results):.6f} s, {min(r.rss_mib for r in results):.0f} MiB")
    if not figures:
        return None
    return min((rival for rival in case.rivals if rival.name in figures), key=lambda rival: figures[rival.name])


def alternate(ours: Program, rival: Program | None, run: Run, alternations: int) -> list[tuple[Result, Result | None]]:
    """Results in pairs, one pair an alternation. Who goes first changes each time, so that a drift favours neither."""
    pairs = []
    for number in range(alternations):
        if rival is None:
            pairs.append((run(ours), None))
        elif number % 2:
            theirs = run(rival)
            pairs.append((run(ours), theirs))
        else:
            pairs.append((run(ours), run(rival)))
    return pairs


def together(cases: Iterable[Case]) -> list[list[Case]]:
    """The cases in groups that are measured at once: neighbours with the same programs."""
    return [list(group) for _, group in itertools.groupby(cases, key=lambda case: (case.ours, case.rivals, case.compared))]


def measure(cases: Sequence[Case], run: Run, *, alternations: int, tries: int, peaks: Mapping[str, float],
            say: Callable[[str], None]) -> list[tuple[Case, Measurement]]:
    """Measure cases that have their programs in common: fill the caches, choose the rival, run both in turn.

    peaks    flops per second of all cores, by precision
    returns  each case with what was measured, without those whose part the programs did not report
    raises   ProgramError if ours fails
    """
    load = OtherLoad()
    run(cases[0].ours)
    rival = best_rival(cases[0], run, tries=tries, say=say)
    pairs = alternate(cases[0].ours, rival, run, alternations)
    others = load.average()
    return [(case, _measurement(case, rival, [(_part(mine, case), other and _part(other, case)) for mine, other in pairs],
                                peaks=peaks, load=others))
            for case in cases if not case.part or case.part in pairs[0][0].parts]


def _part(result: Result, case: Case) -> Result:
    """The result of the part that is meant."""
    return dataclasses.replace(result, seconds=result.parts[case.part]) if case.part else result


def _measurement(case: Case, rival: Program | None, pairs: Sequence[tuple[Result, Result | None]], *,
                 peaks: Mapping[str, float], load: float) -> Measurement:
    """Medians and spread of a case's alternations."""
    ours = [mine for mine, _ in pairs]
    theirs = [other for _, other in pairs if other is not None]
    speed = _median(ours, "flops_per_second")
    if speed is None and case.flops is not None:
        speed = case.flops / statistics.median(result.seconds for result in ours)
    ratios = [getattr(other, case.compared) / getattr(mine, case.compared) for mine, other in zip(ours, theirs)]
    return Measurement(
        row=case.row, variant=case.variant, precision=case.precision,
        ours_s=statistics.median(result.seconds for result in ours),
        rival=_name(rival, theirs),
        rival_s=_median(theirs, "seconds"),
        ratio=_median(theirs, case.compared) / _median(ours, case.compared) if theirs else None,
        ratio_min=min(ratios, default=None), ratio_max=max(ratios, default=None),
        share_of_peak=None if speed is None else speed / peaks[case.precision],
        ours_rss_mib=statistics.median(result.rss_mib for result in ours),
        rival_rss_mib=_median(theirs, "rss_mib"),
        faults_per_step=_median(ours, "faults_per_step"),
        load_average=load)


def _median(results: list[Result], field: str) -> float | None:
    values = [getattr(result, field) for result in results]
    return None if not values or None in values else statistics.median(values)


def _name(rival: Program | None, results: list[Result]) -> str | None:
    """The rival's name, with what its own process added to it."""
    if rival is None:
        return None
    return ", ".join(part for part in (rival.name, results[0].note) if part)


def as_json(measurement: Measurement) -> dict:
    """The measurement as an object for JSON: the fields under their names, in their order."""
    return dataclasses.asdict(measurement)
