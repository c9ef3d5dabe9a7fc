"""Whether a function is being traced in this thread, and what must not be done then."""

from __future__ import annotations

import sys
import threading
from typing import Any

from renaissance.errors import TraceError


class Tracing(threading.local):
    """The recording of a compiled function, while one is under way in this thread; see renaissance/trace.

    recorder  what tensors, generators and optimizers report to; None: nothing is traced
    inlined   above 0: inside grad and the like, where compiled functions run as plain ones
    """

    recorder: Any = None
    inlined: int = 0


tracing = Tracing()


def user_line() -> str:
    """File and line of the innermost caller outside this package."""
    frame = sys._getframe(1)
    package = __name__.split(".")[0]
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == package and frame.f_back:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def refuse_in_trace(what: str) -> None:
    """Raise TraceError, naming the line, while a function is being compiled."""
    if tracing.recorder is not None:
        raise TraceError(f"{what} inside a compiled function at {user_line()}: values do not exist yet while it is traced; "
                         "return the tensor and read it outside, or use where() for a choice")
