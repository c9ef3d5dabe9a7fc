"""Steps of random programs that work element by element."""

from __future__ import annotations

import math

import numpy as np

from . import operations as ops
from .growing import FLOATS, INTEGERS, MOST_ELEMENTS, NUMBERS, Growing, Kind


class Pointwise(Growing):
    """Element by element."""

    def step_float_unary(self) -> None:
        x = self.pick(lambda k: k.kind == "f")
        if x is not None:
            self.add(self.one_of(sorted(ops.FLOAT_UNARY)), (x,), (), self.at(x))

    def step_any_unary(self) -> None:
        x = self.pick(lambda k: k.kind != "b")
        if x is None:
            return
        k = self.at(x)
        names = ["isnan", "square", "double", "difference", *(ops.SIGNED_UNARY if k.kind in "fi" else ()),
                 *(("isfinite", "positive", "detach") if k.kind == "f" else ("bitwise_invert",))]
        name = self.one_of(names)
        self.add(name, (x,), (), Kind(k.shape, "bool" if name in ("isnan", "isfinite", "positive") else k.dtype))

    def step_arithmetic(self) -> None:
        pair = self._pair(lambda k: k.kind != "b")
        if pair:
            x, y, shape, dtype = pair
            self.add(self.one_of(sorted({*ops.ARITHMETIC, *ops.EXTREMES})), (x, y), (), Kind(shape, dtype))

    step_arithmetic_again = step_arithmetic

    def step_float_binary(self) -> None:
        pair = self._pair(lambda k: k.kind == "f")
        if pair:
            x, y, shape, dtype = pair
            self.add(self.one_of(sorted(ops.FLOAT_BINARY)), (x, y), (), Kind(shape, dtype))

    def step_comparison(self) -> None:
        pair = self._pair(lambda k: True)
        if pair:
            self.add(self.one_of(sorted(ops.COMPARISONS)), pair[:2], (), Kind(pair[2], "bool"))

    def step_bits(self) -> None:
        pair = self._pair(lambda k: k.kind != "f")
        if pair:
            self.add(self.one_of(sorted(ops.BITS)), pair[:2], (), Kind(*pair[2:]))

    def step_with_number(self) -> None:
        x = self.pick(lambda k: k.kind != "b")
        if x is None:
            return
        k = self.at(x)
        if k.kind == "f":
            name = self.one_of(sorted({*ops.WITH_NUMBER, *ops.FLOAT_WITH_NUMBER}))
            value = self.one_of(NUMBERS if self.special else NUMBERS[:8])
        else:
            name, value = self.one_of(sorted(ops.WITH_NUMBER)), self.one_of((0, 1, 2, 3) + ((-1, -2) if k.kind == "i" else ()))
        self.add(name, (x,), (value,), Kind(k.shape, "bool" if name == "x < c" else k.dtype))

    def step_where(self) -> None:
        pair = self._pair(lambda k: True)
        if pair is None:
            return
        x, y, shape, dtype = pair

        def goes_with(k: Kind) -> bool:
            try:
                return k.kind == "b" and math.prod(np.broadcast_shapes(k.shape, shape)) <= MOST_ELEMENTS
            except ValueError:
                return False

        c = self.pick(goes_with)
        if c is None:
            c = self.input(shape, "bool")
        self.add("where", (c, x, y), (), Kind(np.broadcast_shapes(self.at(c).shape, shape), dtype))

    def step_clip(self) -> None:
        x = self.pick(lambda k: k.kind == "f")
        if x is not None:
            self.add("clip", (x,), self.one_of(((-0.5, 0.75), (None, 1.0), (0.0, None), (-2.0, 2.0))), self.at(x))

    def step_astype(self) -> None:
        x = self.pick()
        if x is not None:
            dtype = self.one_of((*FLOATS, "bool", *(INTEGERS if self.at(x).kind != "f" else ("int32", "int64"))))
            self.add("astype", (x,), (dtype,), Kind(self.at(x).shape, dtype))
