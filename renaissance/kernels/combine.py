"""How a reduction combines: its start, one element more, two partial results, and the fold of the 64 accumulators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from renaissance.errors import KernelError
from renaissance.ir.dtype import DType, bool_, uint8
from renaissance.kernels.lanes import halves
from renaissance.kernels.loops import I64, Builder, Value, vec
from renaissance.kernels.numbers import register, rounded
from renaissance.kernels.words import apply

# The value; for argmax and argmin also its position (i32), for max and min of floats also a NaN met on the way, else a number.
Partial = tuple[Value, ...]

_WORDS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}
_NOWHERE = 0x7FFFFFFF  # the position of no element


@dataclass(frozen=True)
class Combine:
    """A reduction by `kind` of values of a dtype.

    raises  KernelError for a kind that is not known, or not for the dtype
    """

    kind: str
    dtype: DType

    def __post_init__(self) -> None:
        if self.kind not in _WORDS and not self.keeps_position:
            raise KernelError(f"reduction {self.kind!r} is not known; known are {', '.join(_WORDS)}, argmax, argmin")

    @property
    def keeps_position(self) -> bool:
        return self.kind in ("argmax", "argmin")

    @property
    def _keeps_nan(self) -> bool:
        return self.kind in ("max", "min") and self.dtype.is_float

    @property
    def _compared(self) -> DType:
        return uint8 if self.dtype is bool_ and self.keeps_position else self.dtype

    def start(self, b: Builder, lanes: int) -> Partial:
        """What leaves any element it is combined with unchanged."""
        type = register(self._compared, lanes)
        value = b.const(type, _neutral(self.kind, self._compared))
        if self._keeps_nan:
            return value, b.const(type, 0)
        return (value, b.const(vec("i32", lanes), _NOWHERE)) if self.keeps_position else (value,)

    def of_nothing(self, b: Builder) -> Value:
        """The result over no elements: 0 for a sum (not -0)."""
        if self.keeps_position:
            return b.const(I64, 0)
        return b.const(register(self.dtype), abs(_neutral(self.kind, self.dtype)) if self.kind == "sum" else _neutral(
            self.kind, self.dtype))

    def element(self, b: Builder, value: Value, position: Value) -> Partial:
        """A partial result of single elements: values and their positions (i32)."""
        if not self.keeps_position:
            return (value, value) if self._keeps_nan else (value,)
        return (b.zext(value, value.type.with_kind("i8")) if self.dtype is bool_ else value, position)

    def merge(self, b: Builder, x: Partial, y: Partial) -> Partial:
        """x, then y."""
        if self.keeps_position:
            return self._better(b, x, y)
        if self._keeps_nan:  # two short chains in place of a long one
            beyond = b.cmp("gt" if self.kind == "max" else "lt", y[0], x[0])
            return b.select(beyond, y[0], x[0]), b.select(b.cmp("ne", y[1], y[1]), y[1], x[1])
        return (rounded(b, apply(b, _WORDS[self.kind], [x[0], y[0]], self.dtype), self.dtype),)

    def merge_where(self, b: Builder, mask: Value | None, x: Partial, y: Partial) -> Partial:
        """x, then y in the lanes of the mask."""
        merged = self.merge(b, x, y)
        return merged if mask is None else tuple(b.select(mask, m, old) for m, old in zip(merged, x))

    def fold(self, b: Builder, accumulators: Sequence[Partial]) -> Value:
        """All accumulators in one: halves added to halves until one is left."""
        parts = list(accumulators)
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [self.merge(b, x, y) for x, y in zip(parts[:half], parts[half:])]
        part = parts[0]
        while part[0].type.lanes > 1:
            pairs = [halves(b, v) for v in part]
            part = self.merge(b, tuple(low for low, _ in pairs), tuple(high for _, high in pairs))
        return self.result(b, part)

    def result(self, b: Builder, part: Partial) -> Value:
        """What the reduction gives: the value, or the position as an int64."""
        if self._keeps_nan:
            return b.select(b.cmp("ne", part[1], part[1]), part[1], part[0])
        if not self.keeps_position:
            return part[0]
        return b.convert(part[1], vec("i64", part[1].type.lanes))

    def _better(self, b: Builder, x: Partial, y: Partial) -> Partial:
        """The larger (smaller) value; a NaN beats all numbers; of equals, and of NaNs, the lower position."""
        dtype = self._compared
        v, w = (x[0], y[0]) if self.kind == "argmax" else (y[0], x[0])
        more = apply(b, "lt", [v, w], dtype)
        even = b.cmp("eq", v, w)
        if dtype.is_float:
            x_nan, y_nan = b.cmp("ne", x[0], x[0]), b.cmp("ne", y[0], y[0])
            more = b.or_(more, b.and_(y_nan, b.not_(x_nan)))
            even = b.or_(even, b.and_(x_nan, y_nan))
        take = b.or_(more, b.and_(even, b.cmp("lt", y[1], x[1])))
        return b.select(take, y[0], x[0]), b.select(take, y[1], x[1])


def _neutral(kind: str, dtype: DType) -> float:
    """-0 is the float that changes no other when added, 0 itself included."""
    if kind in ("sum", "any"):
        return -0.0 if dtype.is_float else 0
    if kind in ("prod", "all"):
        return 1
    largest = kind in ("min", "argmin")
    if dtype.is_float:
        return math.inf if largest else -math.inf
    if dtype is bool_:
        return int(largest)
    if dtype.kind == "u":
        return (1 << 8 * dtype.size) - 1 if largest else 0
    top = 1 << (8 * dtype.size - 1)
    return top - 1 if largest else -top
