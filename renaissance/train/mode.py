"""Evaluation behaviour for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from renaissance.nn.module import Module


@contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Inside, the model behaves as in evaluation; afterwards each of its modules is in the mode it was in.

    Made for the body of a compiled function: what is traced is evaluation, and since the modes are put back, no other compiled
    function has to look for changes. So they are set without the note that an assignment would make.
    """
    before = [(module, module.training) for module in model.modules()]
    try:
        for module, _ in before:
            object.__setattr__(module, "training", False)
        yield
    finally:
        for module, mode in before:
            object.__setattr__(module, "training", mode)
