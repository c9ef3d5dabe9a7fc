"""Host ops: Python functions that a plan calls between its native parts."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from renaissance.errors import PlanError
from renaissance.ir.dtype import DType
from renaissance.ir.plan import Buffer, Host, Item, Plan

HostFunction = Callable[..., Any]
_functions: dict[str, HostFunction] = {}


def register(op: str, function: HostFunction) -> None:
    """Say which function computes a host op: function(arrays, *attrs, out=(shape, dtype)) -> array, as an op's reference.

    An op with several outputs gets a tuple of (shape, dtype) as `out` and returns as many arrays.
    """
    _functions[op] = function


@dataclass(frozen=True)
class Place:
    """Where a buffer is: at an address (number None), or that many bytes past the address in word `number` of the values."""

    number: int | None
    offset: int


@dataclass(frozen=True)
class _Operand:
    place: Place
    dtype: DType
    shape: tuple[int, ...]

    def array(self, word: Callable[[int], int]) -> np.ndarray:
        """The operand's bytes as an array that owns nothing; writable."""
        address = self.place.offset + (0 if self.place.number is None else word(self.place.number))
        size = self.dtype.size * int(np.prod(self.shape, dtype=np.int64))
        if size == 0:
            return np.empty(self.shape, self.dtype.numpy)
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address)).view(self.dtype.numpy).reshape(self.shape)


class HostCall:
    """One Host item with its operands located.

    raises   PlanError when nothing was registered for its op
    """

    def __init__(self, item: Item, plan: Plan, locate: Callable[[Buffer], Place]):
        spec = item.spec
        assert isinstance(spec, Host)
        if spec.op not in _functions:
            raise PlanError(f"host op {spec.op!r} has no function; known are {sorted(_functions)}")
        self._function = _functions[spec.op]
        self._attrs = spec.attrs

        def operand(number: int) -> _Operand:
            buffer = plan.buffers[item.operands[number].buffer]
            return _Operand(locate(buffer), item.operands[number].dtype, buffer.shape)

        self._inputs = [operand(n) for n in spec.inputs]
        self._outputs = [operand(n) for n in spec.outputs]

    def __call__(self, word: Callable[[int], int]) -> None:
        """Call the function; its results are copied to where the plan wants them. Inputs are read-only for it."""
        arrays = [operand.array(word) for operand in self._inputs]
        for array in arrays:
            array.flags.writeable = False
        wanted = tuple((operand.shape, operand.dtype) for operand in self._outputs)
        if len(wanted) == 1:
            results = (self._function(arrays, *self._attrs, out=wanted[0]),)
        else:
            results = tuple(self._function(arrays, *self._attrs, out=wanted))
        for operand, result in zip(self._outputs, results, strict=True):
            operand.array(word)[...] = result
