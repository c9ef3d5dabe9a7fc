"""What a run shows: a progress bar while an epoch runs, and a table with a line for each epoch."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from renaissance.progress import Bar


@dataclass(frozen=True)
class EpochRecord:
    """One line of the table; shares are from 0 to 1, times in seconds."""

    epoch: int
    train_loss: float
    validation_loss: float | None
    top1: float | None
    top5: float | None
    lr: float
    seconds: float


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
        self._epochs = self._steps = 0

    def start(self, epochs: int, steps: int, about: str) -> None:
        """Open the table."""
        if not self._show:
            return
        self.say(about)
        self.say(_HEAD)
        self._bar, self._epochs, self._steps = Bar(sys.stdout), epochs, steps

    def step(self, epoch: int, done: int) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.draw(f"epoch {epoch} of {self._epochs}", done, self._steps, f"{done}/{self._steps} steps")

    def epoch(self, record: EpochRecord, best: bool) -> None:
        """Add a line."""
        self.say(line(record, best))

    def say(self, text: str) -> None:
        """Print a sentence."""
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
