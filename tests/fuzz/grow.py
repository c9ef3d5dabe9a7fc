"""Random programs as a hypothesis strategy, or by number: each step is drawn among the operations that fit the values made so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from .choices import Drawn, Numbered
from .combining_steps import Combining
from .growing import Kind, broadcasts
from .movement_steps import Movement
from .pointwise_steps import Pointwise
from .program import OPTIMIZERS, Program, Step


class Grower(Pointwise, Combining, Movement):
    """Grows one program."""

    def program(self, most_steps: int) -> Program:
        from_names = [m for m in dir(self) if m.startswith("step_")]
        for _ in range(self.number(1, 3)):
            self.some_input()
        if self.gradient not in ("none", "grad"):
            self.input(self.shape(2), "float32", "parameter")
        wanted = self.number(3, most_steps)
        for _ in range(3 * wanted):
            getattr(self, self.one_of(from_names))()
            if len(self.steps) >= wanted:
                break
        return self._complete()

    def _complete(self) -> Program:
        count = len(self.inputs)
        place = lambda r: r + count if r >= 0 else -r - 1  # noqa: E731
        steps = tuple(Step(s.name, tuple(place(i) for i in s.inputs), s.settings) for s in self.steps)
        total = count + len(steps)
        outputs = self.some_of(range(total), 1, 4)
        if steps and total - 1 not in outputs:
            outputs.append(total - 1)
        floats = [place(r) for r in range(len(self.made)) if self.made[r].kind == "f"]
        losses: list[int] = []
        if floats and self.gradient != "none":
            losses = self.some_of(floats[-6:], 1, 3)
        return Program(tuple(self.inputs), steps, tuple(outputs), tuple(losses), self.gradient, self.precision, self._after(place))

    def _after(self, place: Callable[[int], int]) -> tuple[tuple[int, int], ...]:
        """States of programs with a gradient are overwritten when that has been taken."""
        found = []
        for i, x in enumerate(self.inputs):
            if x.role == "state" and self.gradient in OPTIMIZERS:
                k = self.kinds[i]
                value = self.pick(lambda o, k=k: o is not k and o.dtype == k.dtype and broadcasts(o.shape, k.shape)
                                  and np.broadcast_shapes(o.shape, k.shape) == k.shape)
                if value is not None:
                    found.append((i, place(value)))
        return tuple(found)

    def step_random(self) -> None:
        name = self.one_of(("uniform", "normal", "bernoulli", "randint", "dropout"))
        if name == "dropout":
            x = self.pick(lambda k: k.kind == "f")
            if x is not None:
                self.add(name, (x,), (self.one_of((0.1, 0.5, 0.0)),), self.at(x))
            return
        shape = self.shape(3)
        dtype = {"bernoulli": "bool", "randint": "int64"}.get(name, "float32")
        self.add(name, (), (shape,), Kind(shape, dtype, (-5, 9) if name == "randint" else None))

    def step_copy(self) -> None:
        if self.gradient != "none":
            return
        s = self.pick(lambda k: k in self.kinds and self.inputs[self.kinds.index(k)].role == "state")
        if s is None:
            return
        k = self.at(s)
        x = self.pick(lambda o: o is not k and o.dtype == k.dtype and np.broadcast_shapes(o.shape, k.shape) == k.shape
                      if broadcasts(o.shape, k.shape) else False)
        if x is not None:
            self.add("copy_", (s, x), (), k)


@st.composite
def programs(draw: Callable[[Any], Any], most_steps: int = 30) -> Program:
    """A program of 3 to `most_steps` steps."""
    return Grower(Drawn(draw)).program(most_steps)


def numbered_program(number: int, most_steps: int = 30) -> Program:
    """The program of a number."""
    return Grower(Numbered(number)).program(most_steps)
