"""A progress bar: one line of a terminal, drawn over itself; nothing at all where the stream is no terminal."""

from __future__ import annotations

import time
from typing import TextIO

_WIDTH = 40  # characters of the bar itself
_PAUSE_S = 0.1  # between two drawings


class Bar:
    """Shows how far something is, and how long the rest will take at the speed so far.

    stream      where it is drawn if that is a terminal
    patience_s  how long it waits, from the first drawing, before it shows: short work shows none
    """

    def __init__(self, stream: TextIO, *, patience_s: float = 0.0):
        self._stream = stream if stream.isatty() else None
        self._patience_s = patience_s
        self._drawn = 0  # characters that stand on the line
        self._next_s = 0.0
        self._began_s = 0.0
        self._done = float("inf")

    def draw(self, label: str, done: int, total: int, note: str) -> None:
        """Show `done` of `total` with a note behind the bar, at most ten times a second; a smaller `done` starts anew."""
        now_s = time.monotonic()
        if done < self._done:
            self._began_s = now_s
        self._done = done
        if self._stream is None or now_s < max(self._next_s, self._began_s + self._patience_s):
            return
        self._next_s = now_s + _PAUSE_S
        full = _WIDTH * done // max(1, total)
        left_s = round((now_s - self._began_s) * (total - done) / done) if done else 0
        text = f"{label} [{'#' * full}{'.' * (_WIDTH - full)}] {note}, {left_s // 60}:{left_s % 60:02} left"
        self._stream.write("\r" + text.ljust(self._drawn))
        self._stream.flush()
        self._drawn = len(text)

    def clear(self) -> None:
        """Make the line empty for other text."""
        if self._stream is not None and self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()
        self._drawn = 0
