"""The table of epochs and the progress bar."""

from __future__ import annotations

import io
import sys

from renaissance.train import display
from renaissance.train.result import EpochRecord, Result

FULL = EpochRecord(7, 0.51234, 0.4, 0.99405, 1.0, 3.32e-06, 2.125)
BARE = EpochRecord(12, 1.5, None, None, None, 0.001, 0.5)


def test_lines_of_the_table(capsys):
    shown = display.Display(True)
    shown.start(300, "[bold]Model[/bold] :smile:, " + "x" * 100)
    shown.epoch(FULL, best=True)
    shown.epoch(BARE, best=False)
    shown.stop()
    about, head, full, bare = capsys.readouterr().out.splitlines()
    assert about == "[bold]Model[/bold] :smile:, " + "x" * 100  # no markup, no wrapping
    assert full == "     7      0.5123     0.4000    99.41   100.00   3.32e-06     2.12 *"
    assert bare == "    12      1.5000          -        -        -      0.001     0.50"
    assert len(head) == len(bare) == len(full) - 2


def test_nothing_is_shown_unless_wanted(capsys):
    shown = display.Display(False)
    shown.start(3, "about")
    shown.step(1, 2)
    shown.epoch(FULL, best=True)
    shown.say("words")
    shown.stop()
    assert capsys.readouterr().out == ""


def test_lines_replace_the_bar_of_a_terminal(monkeypatch):
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stdout", screen)
    shown = display.Display(True)
    shown.start(100, "about")
    shown.step(1, 50)
    drawn = screen.getvalue().splitlines()[-1]
    assert drawn.startswith("epoch 1 [") and "50/100 steps" in drawn
    shown.epoch(FULL, best=True)
    shown.stop()
    shown.stop()
    assert screen.getvalue().endswith(f"{' ' * len(drawn)}\r{display.line(FULL, best=True)}\n")


def test_the_best_record():
    result = Result()
    records = [EpochRecord(n, 1.0, 1.0, top1, 1.0, 0.1, 1.0) for n, top1 in enumerate((0.5, 0.7, 0.7, 0.6), 1)]
    assert [result.note(r) for r in records] == [True, True, False, False]  # the first of equals
    assert (result.best_epoch, result.best_top1, result.best_top5) == (2, 0.7, 1.0)


def test_the_best_record_without_classes_has_the_lowest_loss():
    result = Result()
    losses = (float("nan"), 2.0, 1.0, float("nan"), 3.0)
    assert [result.note(EpochRecord(n, 1.0, loss, None, None, 0.1, 1.0)) for n, loss in enumerate(losses, 1)] == [
        False, True, True, False, False]
    assert result.best_epoch == 3 and result.best_top1 is None
