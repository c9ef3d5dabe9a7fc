"""What changes from run to run of a linked plan, as one row of 8-byte words: addresses of inputs and outputs, and scalars."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

import numpy as np

from renaissance.errors import ArgumentError, PlanError
from renaissance.ir.dtype import DType

_FORMATS = {
    "bool": "?7x", "uint8": "B7x", "uint16": "H6x", "uint32": "I4x", "uint64": "Q", "int8": "b7x", "int16": "h6x", "int32": "i4x",
    "int64": "q", "float16": "e6x", "float32": "f4x", "float64": "d",
    "bfloat16": "H6x",  # by its bits: struct does not know the format
}


class Values:
    """The row: `inputs` addresses, then `outputs` addresses, then the scalars, each in its dtype's bits, low bytes first.

    address   where the row lies; it never moves
    """

    def __init__(self, inputs: int, outputs: int, scalars: Sequence[DType]):
        self.inputs = inputs
        self.outputs = outputs
        self.scalars = tuple(scalars)
        self._buffer = ctypes.create_string_buffer(8 * max(1, inputs + outputs + len(self.scalars)))
        self.address = ctypes.addressof(self._buffer)
        self._put = struct.Struct("<" + "Q" * (inputs + outputs) + "".join(_FORMATS[d.name] for d in self.scalars)).pack_into
        self._quick = all(d.name != "bfloat16" for d in self.scalars)

    def put(self, inputs: Sequence[int], outputs: Sequence[int | None], scalars: Sequence[int | float]) -> None:
        """Fill the row; an output of None gets address 0.

        raises   PlanError when the numbers of values are wrong, ArgumentError for a scalar its dtype cannot hold
        """
        if self._quick:
            try:
                self._put(self._buffer, 0, *inputs, *outputs, *scalars)
                return
            except (struct.error, OverflowError):
                pass  # a count is wrong, an output is None, or a scalar needs NumPy's conversion: told apart below
        given, wanted = (len(inputs), len(outputs), len(scalars)), (self.inputs, self.outputs, len(self.scalars))
        if given != wanted:
            raise PlanError(f"run: got {given} inputs, outputs, scalars; the plan has {wanted}")
        words = [*inputs, *(address or 0 for address in outputs), *map(_bits, scalars, self.scalars)]
        struct.pack_into(f"<{len(words)}Q", self._buffer, 0, *words)

    def __getitem__(self, number: int) -> int:
        """Word `number` of the row."""
        return struct.unpack_from("<Q", self._buffer, 8 * number)[0]


def _bits(value: int | float, dtype: DType) -> int:
    try:
        with np.errstate(over="ignore"):  # a float that is too large is infinity, as everywhere
            return int.from_bytes(np.asarray(dtype.numpy.type(value)).tobytes(), "little")
    except OverflowError:
        raise ArgumentError(f"scalar {value!r} is outside the range of {dtype.name}") from None
