"""Behaviour of a model for a while: as in evaluation, or as in training without a trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from renaissance import random
from renaissance.nn.module import Module
from renaissance.tensor import Tensor


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


@contextmanager
def rehearsing(model: Module) -> Iterator[None]:
    """Inside, calls of the model are tries: afterwards its buffers and the default generator are as they were before."""
    before = [(buffer, Tensor(buffer.node)) for buffer in model.buffers()]  # a tensor too: its bytes are not overwritten
    ticket = random.default.ticket
    try:
        yield
    finally:
        random.default.ticket = ticket
        for buffer, kept in before:
            if buffer.node is not kept.node:
                buffer.refill(kept.node)
