"""What a run shows: a progress bar while an epoch runs, and a table with a line for each epoch."""

from __future__ import annotations

import sys

from renaissance.progress import Bar
from renaissance.train.result import EpochRecord

_HEAD = f"{'epoch':>6} {'train loss':>11} {'val loss':>10} {'top-1 %':>8} {'top-5 %':>8} {'lr':>10} {'time s':>8}"


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
        self._show = show
        self._bar: Bar | None = None
        self._steps = 0

    def start(self, steps: int, about: str) -> None:
        """Open the table; an epoch has `steps` steps."""
        self.say(about)
        self.say(_HEAD)
        if self._show:
            self._bar, self._steps = Bar(sys.stdout), steps

    def step(self, epoch: int, done: int) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.draw(f"epoch {epoch}", done, self._steps, f"{done}/{self._steps} steps")

    def epoch(self, record: EpochRecord, best: bool) -> None:
        """Add a line."""
        self.say(line(record, best))

    def say(self, text: str) -> None:
        """Print text as it is."""
        if not self._show:
            return
        if self._bar is not None:
            self._bar.clear()
        print(text, flush=True)

    def stop(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.clear()
            self._bar = None
