"""The progress bar: drawn on terminals alone, over itself, and gone afterwards."""

from __future__ import annotations

import io

import pytest

from renaissance import progress
from renaissance.progress import Bar


class Terminal(io.StringIO):
    def isatty(self):
        return True

    @property
    def line(self):
        """What stands on the line after all that was written."""
        shown = ""
        for text in self.getvalue().split("\r"):
            shown = text + shown[len(text):]
        return shown.rstrip()


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, as a list to write to."""
    now = [100.0]
    monkeypatch.setattr(progress, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now[0])}))
    return now


def test_a_bar_shows_how_far_and_how_long(clock):
    terminal = Terminal()
    bar = Bar(terminal)
    bar.draw("epoch 1", 0, 40, "0/40 steps")
    clock[0] += 30
    bar.draw("epoch 1", 10, 40, "10/40 steps")
    assert terminal.line == f"epoch 1 [{'#' * 10}{'.' * 30}] 10/40 steps, 1:30 left"
    bar.clear()
    assert terminal.line == ""


def test_a_bar_is_drawn_ten_times_a_second_and_starts_anew(clock):
    terminal = Terminal()
    bar = Bar(terminal)
    for done in range(100):
        bar.draw("epoch 1", done, 100, "")
        clock[0] += 0.01
    assert 8 <= terminal.getvalue().count("\r") <= 11
    clock[0] += 1000  # a long pause between two epochs says nothing about the second
    bar.draw("epoch 2", 0, 100, "")
    clock[0] += 1
    bar.draw("epoch 2", 50, 100, "")
    assert terminal.line.endswith("0:01 left")


def test_short_work_shows_nothing(clock):
    terminal = Terminal()
    bar = Bar(terminal, patience_s=2.0)
    for done in range(30):
        bar.draw("decoding", done, 100, "")
        assert (terminal.getvalue() != "") == (done >= 8)
        clock[0] += 0.25


def test_nothing_is_drawn_where_there_is_no_terminal():
    stream = io.StringIO()
    bar = Bar(stream)
    bar.draw("epoch 1", 1, 2, "")
    bar.clear()
    assert stream.getvalue() == ""
