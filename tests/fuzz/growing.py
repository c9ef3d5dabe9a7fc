"""What all steps of random programs need: choices, values made so far, inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from renaissance.ir.dtype import dtype as dtype_of
from renaissance.ir.dtype import promote

from .choices import Choices
from .program import OPTIMIZERS, Input, Step

SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 64, 67, 0)
LONG_SHAPES = ((4099,), (2, 4100), (8200,), (300, 3), (517, 2), (2, 259, 3), (1000, 17), (3, 1300, 1), (70, 80), (130, 129), (300, 257), (65537,),
               (40, 1500), (3, 5, 4097))
FLOATS = ("float32", "float32", "float32", "float32", "bfloat16", "bfloat16", "float64", "float64", "float16")
INTEGERS = ("int64", "int32", "int8", "uint8", "uint32", "int16", "uint16", "uint64")
MOST_ELEMENTS = 100_000
NUMBERS = (0.0, 1.0, -1.0, 2.0, 0.5, -0.0, 3.0, 1e-3, float("inf"), float("nan"), 1e30)


class Kind:
    """What is known of a value before it is computed."""

    def __init__(self, shape: tuple[int, ...], dtype: str, below: tuple[int, int] | None = None):
        self.shape, self.dtype, self.below = shape, dtype, below

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def kind(self) -> str:
        return dtype_of(self.dtype).kind


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


class Growing:
    """A program under construction."""

    def __init__(self, choices: Choices):
        self.one_of, self.number, self.some_of, self.order = choices.one_of, choices.number, choices.some_of, choices.order
        self.gradient = self.one_of(("none", "none", "backward", "grad", *OPTIMIZERS))
        self.precision = self.one_of(("fp32", "fp32", "bf16"))
        self.special = self.gradient == "none" and self.yes()
        self.inputs: list[Input] = []
        self.steps: list[Step] = []
        self.kinds: list[Kind] = []  # of the inputs; those of the steps follow in self.made
        self.made: list[Kind] = []

    # ---- choices -----------------------------------------------------------------------------------------------------

    def yes(self) -> bool:
        return self.one_of((False, True))

    def pick(self, fits: Callable[[Kind], bool] = lambda k: True) -> int | None:
        """A value, later ones more often; inputs are negative numbers until the program is complete."""
        refs = [r for r in (*range(-1, -len(self.kinds) - 1, -1), *range(len(self.made))) if fits(self.at(r))]
        if not refs:
            return None
        recent = refs[-4:]
        return self.one_of(recent if self.yes() else refs)

    def at(self, ref: int) -> Kind:
        return self.made[ref] if ref >= 0 else self.kinds[-ref - 1]

    def shape(self, most_axes: int = 4) -> tuple[int, ...]:
        if self.number(0, 11) == 11:
            return self.one_of(LONG_SHAPES)
        shape: tuple[int, ...] = ()
        for _ in range(self.number(0, most_axes)):
            n = self.one_of(SIZES)
            if math.prod(shape) * max(n, 1) > MOST_ELEMENTS // 20:
                break
            shape = (*shape, n)
        return shape

    # ---- inputs ------------------------------------------------------------------------------------------------------

    def input(self, shape: tuple[int, ...], dtype: str, role: str = "argument", values: Any = None) -> int:
        kind = dtype_of(dtype).kind
        if values is None:
            if kind == "f":
                values = self.one_of(("normal", "halves", "special") if self.special else ("normal", "halves"))
            elif kind == "b":
                values = "normal"
            else:
                info = np.iinfo(dtype_of(dtype).numpy)
                values = self.one_of(((max(-5, int(info.min)), 6), (int(info.min), int(info.max))))
        self.inputs.append(Input(shape, dtype, role, values, len(self.inputs)))
        self.kinds.append(Kind(shape, dtype, values if isinstance(values, tuple) else None))
        return -len(self.kinds)

    def some_input(self) -> None:
        roles = ["argument", "argument", "state"]
        if self.gradient not in ("none", "grad"):
            roles.append("parameter")
        role = self.one_of(roles)
        dtype = self.one_of(FLOATS) if role == "parameter" or self.number(0, 3) else self.one_of((*INTEGERS, "bool"))
        self.input(self.shape(), "float32" if role == "parameter" and self.number(0, 2) else dtype, role)

    def fitting_input(self, shape: tuple[int, ...], dtype: str) -> int:
        """A value of a shape and dtype: one there is, or a new argument."""
        found = self.pick(lambda k: k.shape == shape and k.dtype == dtype) if self.number(0, 3) else None
        return self.input(shape, dtype) if found is None else found

    def indices(self, shape: tuple[int, ...], size: int) -> int:
        """Integers from -size to size - 1 as a new argument."""
        dtype = self.one_of(("int64", "int32", "int8")) if size <= 128 else "int64"
        return self.input(shape, dtype, values=(-size if dtype != "uint8" else 0, size))

    # ---- steps -------------------------------------------------------------------------------------------------------

    def add(self, name: str, inputs: tuple[int, ...], settings: tuple[Any, ...], kind: Kind) -> int | None:
        if kind.size > MOST_ELEMENTS or len(kind.shape) > 6:
            return None
        self.steps.append(Step(name, inputs, settings))
        self.made.append(kind)
        return len(self.made) - 1

    def _pair(self, fits: Callable[[Kind], bool]) -> tuple[int, int, tuple[int, ...], str] | None:
        """Two values that broadcast together and have a common dtype."""
        x = self.pick(fits)
        if x is None:
            return None

        def goes_with(k: Kind) -> bool:
            if not fits(k) or {k.dtype, self.at(x).dtype} & {"uint64"} and k.dtype != self.at(x).dtype and k.kind in "iub":
                return False
            try:
                return math.prod(np.broadcast_shapes(k.shape, self.at(x).shape)) <= MOST_ELEMENTS
            except ValueError:
                return False

        y = self.pick(goes_with)
        if y is None:
            return None
        x, y = (x, y) if self.yes() else (y, x)
        dtype = promote(dtype_of(self.at(x).dtype), dtype_of(self.at(y).dtype)).name
        return x, y, np.broadcast_shapes(self.at(x).shape, self.at(y).shape), dtype
