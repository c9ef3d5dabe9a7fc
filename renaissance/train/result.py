"""What a run achieved: a record for each epoch, and which of them is best."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class EpochRecord:
    """One epoch; shares are from 0 to 1, times in seconds.

    epoch            counts from 1
    train_loss       mean over the samples of the epoch, each as of its own step
    validation_loss  mean over the validation part; None without one
    top1, top5       shares of the validation part; None without one, or where targets are no class numbers
    lr               of the first parameter group, in the epoch's first step
    """

    epoch: int
    train_loss: float
    validation_loss: float | None
    top1: float | None
    top5: float | None
    lr: float
    seconds: float


@dataclass
class Result:
    """What a run achieved.

    history          a record for each epoch
    best             the record of highest top-1; without classes that of lowest validation loss; None without a validation part
    stopped          '' after all epochs, else 'target', 'interrupted' or 'not finite'
    checkpoint       the last one written
    best_checkpoint  that of the best epoch
    raises           nothing
    source           definition
    """

    history: list[EpochRecord] = field(default_factory=list)
    best: EpochRecord | None = None
    stopped: str = ""
    checkpoint: Path | None = None
    best_checkpoint: Path | None = None

    def note(self, record: EpochRecord) -> bool:
        """Add a record; says whether it is the best so far."""
        self.history.append(record)
        merit = _merit(record)
        if math.isnan(merit) or (self.best is not None and merit <= _merit(self.best)):
            return False
        self.best = record
        return True

    @property
    def best_top1(self) -> float | None:
        """Validation top-1 of the best epoch."""
        return None if self.best is None else self.best.top1

    @property
    def best_top5(self) -> float | None:
        """Validation top-5 of the best epoch."""
        return None if self.best is None else self.best.top5

    @property
    def best_epoch(self) -> int | None:
        """Number of the best epoch, from 1."""
        return None if self.best is None else self.best.epoch


def _merit(record: EpochRecord) -> float:
    """What is compared: larger is better, NaN never is."""
    if record.top1 is not None:
        return record.top1
    return math.nan if record.validation_loss is None else -record.validation_loss
