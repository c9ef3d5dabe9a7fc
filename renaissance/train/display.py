"""What a run shows: a progress bar while an epoch runs, and a table with a line for each epoch."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from renaissance.train.result import EpochRecord

_HEAD = f"{'epoch':>6} {'train loss':>11} {'val loss':>10} {'top-1 %':>8} {'top-5 %':>8} {'lr':>10} {'time s':>8}"
_REDRAW_S = 0.1


def line(record: EpochRecord, best: bool) -> str:
    """A record as a line of the table; the best so far carries a star."""

    def percent(share: float | None) -> str:
        return "-" if share is None else f"{100 * share:.2f}"

    validation = "-" if record.validation_loss is None else f"{record.validation_loss:.4f}"
    return (f"{record.epoch:>6} {record.train_loss:>11.4f} {validation:>10} {percent(record.top1):>8} {percent(record.top5):>8} "
            f"{record.lr:>10.3g} {record.seconds:>8.2f}{' *' if best else ''}")


class Display:
    """Shows a run on a terminal, as plain lines elsewhere, or not at all.

    show  False: nothing
    """

    def __init__(self, show: bool):
        self._console = Console(file=sys.stdout) if show else None
        self._progress: Progress | None = None
        self._bar: TaskID | None = None
        self._next_s = 0.0

    def start(self, steps: int, about: str) -> None:
        """Open the table; an epoch has `steps` steps."""
        self.say(about)
        self.say(_HEAD)
        if self._console is not None and self._console.is_terminal:
            # Redrawn by `step`, not by a thread of its own, which would fight the pool for a core.
            progress = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
                                TimeRemainingColumn(), console=self._console, transient=True, auto_refresh=False)
            progress.start()
            self._progress, self._bar = progress, progress.add_task("epoch 1", total=steps)

    def step(self, epoch: int, done: int) -> None:
        """Move the bar, at most ten times a second."""
        if self._progress is None or self._bar is None or (now := time.perf_counter()) < self._next_s:
            return
        self._next_s = now + _REDRAW_S
        self._progress.update(self._bar, completed=done, description=f"epoch {epoch}", refresh=True)

    def epoch(self, record: EpochRecord, best: bool) -> None:
        """Add a line."""
        self.say(line(record, best), style="bold" if best else None)

    def say(self, text: str, style: str | None = None) -> None:
        """Print text as it is: not wrapped to the terminal's width, no markup."""
        if self._console is not None:
            self._console.print(text, style=style, soft_wrap=True, markup=False, emoji=False, highlight=False)

    def stop(self) -> None:
        """Close the bar."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = self._bar = None
