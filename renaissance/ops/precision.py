"""Precision: what float32 contractions are made in, chosen around the code that makes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from renaissance.errors import ArgumentError
from renaissance.ir import dtype as dt
from renaissance.ir.dtype import DType

_NAMES: dict[str, DType | None] = {"fp32": None, "bf16": dt.bfloat16}
_precision: ContextVar[DType | None] = ContextVar("precision", default=None)


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Inside, contractions of float32 tensors are made in the named precision.

    bf16: y = round(sum_k round(a_k) round(b_k)), rounded to bfloat16, summed in float32

    name    'fp32' or 'bf16'
    raises  ArgumentError for another name
    source  definition
    """
    if name not in _NAMES:
        raise ArgumentError(f"precision: {name!r} is not supported; choose from {', '.join(map(repr, _NAMES))}")
    token = _precision.set(_NAMES[name])
    try:
        yield
    finally:
        _precision.reset(token)


def narrow_dtype() -> DType | None:
    """What float32 operands of contractions are rounded to at present; None: they are not."""
    return _precision.get()
