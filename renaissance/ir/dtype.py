"""The dtype table: every number type a tensor can hold, and how two of them combine."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from renaissance.errors import DTypeError


@dataclass(frozen=True, eq=False)
class DType:
    """One number type; there is one object for each, such as rn.float32, so that comparing and hashing them costs nothing.

    name    as in NumPy
    kind    'b' bool, 'u' unsigned, 'i' signed, 'f' float
    size    bytes
    numpy   the NumPy dtype (bfloat16 by ml_dtypes)
    raises  nothing
    source  array API standard
    """

    name: str
    kind: str
    size: int
    numpy: np.dtype

    def __repr__(self) -> str:
        return f"renaissance.{self.name}"

    def __reduce__(self):
        return (dtype, (self.name,))

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def least(self) -> int:
        """The smallest value of an integer dtype."""
        return -(1 << (8 * self.size - 1)) if self.kind == "i" else 0

    @property
    def largest(self) -> int:
        """The largest value of an integer dtype."""
        return (1 << (8 * self.size - (self.kind == "i"))) - 1


bool_ = DType("bool", "b", 1, np.dtype(np.bool_))
uint8 = DType("uint8", "u", 1, np.dtype(np.uint8))
uint16 = DType("uint16", "u", 2, np.dtype(np.uint16))
uint32 = DType("uint32", "u", 4, np.dtype(np.uint32))
uint64 = DType("uint64", "u", 8, np.dtype(np.uint64))
int8 = DType("int8", "i", 1, np.dtype(np.int8))
int16 = DType("int16", "i", 2, np.dtype(np.int16))
int32 = DType("int32", "i", 4, np.dtype(np.int32))
int64 = DType("int64", "i", 8, np.dtype(np.int64))
bfloat16 = DType("bfloat16", "f", 2, np.dtype(ml_dtypes.bfloat16))
float16 = DType("float16", "f", 2, np.dtype(np.float16))
float32 = DType("float32", "f", 4, np.dtype(np.float32))
float64 = DType("float64", "f", 8, np.dtype(np.float64))

ALL = (bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64, bfloat16, float16, float32, float64)
_BY_NAME = {d.name: d for d in ALL}
_BY_NUMPY = {d.numpy: d for d in ALL}
_FLOAT_ORDER = (float16, bfloat16, float32, float64)


def dtype(spec: object) -> DType:
    """The DType for a name, a NumPy dtype or scalar type, a Python number type, or a DType itself."""
    if isinstance(spec, DType):
        return spec
    if spec is bool:
        return bool_
    if spec is int:
        return int64
    if spec is float:
        return float32
    if isinstance(spec, str) and spec in _BY_NAME:
        return _BY_NAME[spec]
    try:
        return _BY_NUMPY[np.dtype(spec)]  # type: ignore[arg-type]
    except (TypeError, KeyError):
        names = ", ".join(_BY_NAME)
        raise DTypeError(f"dtype {spec!r} is not supported; supported are {names}") from None


def promote(a: DType, b: DType) -> DType:
    """The dtype two tensors combine to: the array API's table within a kind; a float with an integer gives the float."""
    if a is b:
        return a
    if a.kind == "b" or b.kind == "b":
        return b if a.kind == "b" else a
    if a.is_float or b.is_float:
        if not (a.is_float and b.is_float):
            return a if a.is_float else b
        if a.size == b.size == 2:  # float16 with bfloat16: neither holds the other
            return float32
        return a if a.size > b.size else b
    if a.kind == b.kind:
        return a if a.size >= b.size else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if unsigned.size < signed.size:
        return signed
    if unsigned is uint64:
        raise DTypeError(f"{a.name} and {b.name} have no common dtype; cast one of them first")
    return {1: int16, 2: int32, 4: int64}[unsigned.size]


def accumulator(d: DType) -> DType:
    """The dtype sums are made in: int64 for bool and signed, uint64 for unsigned, float32 for the 16-bit floats."""
    if d.kind in "bi":
        return int64
    if d.kind == "u":
        return uint64
    return float32 if d.size == 2 else d
