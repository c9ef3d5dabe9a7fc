"""Measurements as a table for people and as a file for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from bench.measure import Bar, Measurement, as_json


def seconds(value: float | None) -> str:
    """A duration in the unit that suits it; a dash for none."""
    if value is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _judged(measurement: Measurement, bars: Sequence[Bar]) -> str:
    words = {True: "[green]{}[/]", False: "[red]{} missed[/]", None: "{}"}
    return "\n".join(words[bar.met(measurement)].format(bar) for bar in bars)


def table(lines: Sequence[tuple[Measurement, Sequence[Bar]]]) -> Table:
    """One line a measurement, with its bars and whether they are met."""
    out = Table("row", "variant", "precision", "ours", "rival", "theirs", "ratio (range)", "of peak", "MiB ours / theirs",
                "faults", "load", "bar")
    for m, bars in lines:
        spread = "-" if m.ratio is None else f"{m.ratio:.3g} ({m.ratio_min:.3g} to {m.ratio_max:.3g})"
        out.add_row(m.row, m.variant, m.precision, seconds(m.ours_s), m.rival or "-", seconds(m.rival_s), spread,
                    _number(m.share_of_peak, ".0%"), f"{m.ours_rss_mib:.0f} / {_number(m.rival_rss_mib, '.0f')}",
                    _number(m.faults_per_step, ".3g"), f"{m.load_average:.2f}", _judged(m, bars))
    return out


def write_json(path: Path, measurements: Sequence[Measurement]) -> None:
    """An array with one object a measurement, each on its own line."""
    lines = ",\n".join(json.dumps(as_json(measurement)) for measurement in measurements)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
