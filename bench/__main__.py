"""Renaissance against PyTorch on this machine: every row's times, memory and share of peak, both sides run in turn.

Each run is a process of its own; the rival is the best of its candidates on this machine. The load average in the table is
that of other programs: above 1, the numbers say little.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.measure import Bar, Case, Measurement, measure, together
from bench.program import Program, ProgramError, Runner
from bench.report import table, write_json
from bench.rows import ROWS

WIDTH = 160


def say(text: str) -> None:
    """Tell whoever waits what is going on, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW",
                        help=f"{', '.join(ROWS)}, or one variant as ROW/VARIANT; all rows unless told")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements to this file")
    parser.add_argument("--variant", help="only this variant of each row")
    parser.add_argument("--precision", choices=("fp32", "bf16"), help="only this precision")
    parser.add_argument("--alternations", type=int, default=5, help="runs of each side (default 5)")
    parser.add_argument("--quick", action="store_true", help="one short run each, one rival: shows that it works")
    parser.add_argument("--rival-python", default=sys.executable, metavar="PATH",
                        help="interpreter that has PyTorch (default: this one; pip install '.[bench]')")
    options = parser.parse_args(arguments)
    for name in options.rows:
        row, _, variant = name.partition("/")
        if row not in ROWS:
            parser.error(f"there is no row {row!r}; choose from {', '.join(ROWS)}")
        if variant and variant not in {case.variant for case in ROWS[row]()}:
            parser.error(f"row {row!r} has no variant {variant!r}")
    if options.alternations < 1:
        parser.error(f"--alternations must be at least 1, got {options.alternations}")
    return options


def chosen(options: argparse.Namespace) -> list[Case]:
    """The cases the options ask for, each with one rival only where a quick check will do."""
    named = [name.partition("/") for name in options.rows or ROWS]
    cases = [case for row, _, variant in named for case in ROWS[row]() if variant in ("", case.variant)
             if options.variant in (None, case.variant) and options.precision in (None, case.precision)]
    return [dataclasses.replace(case, rivals=case.rivals[:1]) for case in cases] if options.quick else cases


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table, write the file; 1 if a program of ours failed."""
    options = parse(arguments)
    lines: list[tuple[Measurement, Sequence[Bar]]] = []
    failed = False
    with tempfile.TemporaryDirectory(prefix="bench-") as cache:
        runner = Runner(Path(cache), quick=options.quick, python=sys.executable, rival_python=options.rival_python)
        peaks = runner.answer(Program("peak", "bench.peak"), runner.cache)
        say(f"measured peak: {peaks['fp32'] / 1e9:.0f} GFLOP/s fp32, {peaks['bf16'] / 1e9:.0f} bf16")
        for group in together(chosen(options)):
            try:
                measured = measure(group, runner.run, alternations=1 if options.quick else options.alternations,
                                   tries=1 if options.quick else 2, peaks=peaks, say=say)
            except ProgramError as error:
                say(f"{group[0]}: failed: {error}")
                failed = True
                continue
            lines += [(measurement, case.bars) for case, measurement in measured]
            if options.json is not None:
                write_json(options.json, [measurement for measurement, _ in lines])
    screen = Console()
    # A table squeezed to the 80 columns of a pipe cannot be read.
    screen.width = max(screen.width, WIDTH)
    screen.print(table(lines))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
