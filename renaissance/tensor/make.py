"""Making tensors of numbers, lists and arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from renaissance.errors import ArgumentError, DTypeError, ShapeError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ir.dtype import DType
from renaissance.ir.node import unique
from renaissance.ops.movement import concat, flatten
from renaissance.ops.value import LEAF, Value, const, is_number, method
from renaissance.region import Region
from renaissance.runtime.storage import Storage
from renaissance.tensor.handle import Tensor, compute_all, region_of
from renaissance.tensor.tracing import refuse_in_trace, tracing


def from_storage(storage: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """A tensor on the bytes of a storage."""
    made = unique(LEAF, shape, dtype)
    made.data = Region(storage)
    return Tensor(made)


def tensor(data: Any, dtype: Any = None, *, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of the given elements.

    data           number, nested lists, NumPy array or tensor
    dtype          None: that of an array or tensor; float32 for Python floats, int64 for ints, bool for bools
    requires_grad  whether backward() collects its gradient
    returns        a tensor of its own memory
    raises         DTypeError for elements that are no numbers, or whole ones that do not fit; ShapeError for ragged lists
    source         PyTorch, torch.tensor
    """
    if isinstance(data, Tensor):
        data = data.numpy()
    python = not isinstance(data, (np.ndarray, np.generic))
    try:
        array = np.asarray(data)
    except ValueError as e:
        raise ShapeError(f"tensor: the lists are ragged: {e}") from None
    own = dt.float32 if python and array.dtype == np.float64 else array.dtype
    wanted = dt.dtype(own if dtype is None else dtype)
    if python and array.size and array.dtype.kind in "iu":
        _check_fits("tensor", wanted, array.min(), array.max())
    made = from_storage(_filled(array.shape, wanted, array), array.shape, wanted)
    return made.requires_grad_() if requires_grad else made


def _filled(shape: tuple[int, ...], dtype: DType, value: Any) -> Storage:
    storage = Storage(max(1, sh.size(shape) * dtype.size))
    with np.errstate(over="ignore"):  # a float that is too large is infinity, as everywhere
        storage.view(dtype, shape)[...] = value
    return storage


def _check_fits(op: str, dtype: DType, least: Any, largest: Any) -> None:
    """Raise DTypeError unless whole numbers in a range fit an integer dtype."""
    if dtype.is_integer and not dtype.least <= least <= largest <= dtype.largest:
        wrong = least if least < dtype.least else largest
        raise DTypeError(f"{op}: {wrong} does not fit {dtype.name} ({dtype.least} to {dtype.largest})")


def as_tensor(data: Any, dtype: Any = None) -> Tensor:
    """`data` as a tensor: itself if it is one, else a copy."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.astype(dtype)
    return tensor(data, dtype)


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares the memory of a NumPy array: what is computed from it later sees what is in the array then.

    Results are computed when they are looked at: realize() those that are to see the present elements before changing the array.
    Overwriting the tensor leaves the array alone.

    array    C-contiguous, of a supported dtype
    returns  a tensor of the same shape and dtype
    raises   ArgumentError unless the array is C-contiguous and aligned; DTypeError for another dtype
    source   PyTorch, torch.from_numpy
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"from_numpy: takes a NumPy array, got {type(array).__name__}; use tensor() to copy")
    wanted = dt.dtype(array.dtype)
    return from_storage(Storage.borrow(array), array.shape, wanted)


def full(shape: int | Sequence[int], value: float, dtype: Any = None) -> Tensor:
    """A tensor with one value everywhere.

    y[i] = value

    shape    ints
    value    the value
    dtype    None: float32 for a float, int64 for an int, bool for a bool
    returns  (*shape)
    raises   ShapeError for negative sizes; DTypeError for a value that is no number or does not fit
    source   array API standard, full
    """
    sizes = sh.sizes("full", shape)
    if isinstance(value, Value):
        wanted = dt.dtype(dtype) if dtype is not None else dt.float32 if value.weak and value.dtype.is_float else value.dtype
        return value.astype(wanted).broadcast_to(sizes)
    if not is_number(value):
        raise DTypeError(f"full: value must be a number, got {type(value).__name__}")
    wanted = dt.dtype(dtype) if dtype is not None else dt.dtype(type(value))
    if isinstance(value, (int, np.integer)):
        _check_fits("full", wanted, value, value)
    if tracing.recorder is not None:
        return Tensor(const(value, wanted)).broadcast_to(sizes)
    return from_storage(_filled(sizes, wanted, value), sizes, wanted)


def zeros(shape: int | Sequence[int], dtype: Any = dt.float32) -> Tensor:
    """A tensor of zeros.

    y[i] = 0

    shape    ints
    dtype    a DType, its name, or a NumPy dtype
    returns  (*shape)
    raises   ShapeError for negative sizes
    source   array API standard, zeros
    """
    return full(shape, 0, dtype)


def ones(shape: int | Sequence[int], dtype: Any = dt.float32) -> Tensor:
    """A tensor of ones.

    y[i] = 1

    shape    ints
    dtype    a DType, its name, or a NumPy dtype
    returns  (*shape)
    raises   ShapeError for negative sizes
    source   array API standard, ones
    """
    return full(shape, 1, dtype)


def join_flat(values: Iterable[Tensor]) -> Tensor:
    """All elements of several tensors in one 1-d tensor, in order."""
    parts = [flatten(v) if v.ndim != 1 else v for v in values]
    return concat(parts, 0)


def realize(*tensors: Tensor) -> None:
    """Compute several tensors in one run.

    tensors  any
    raises   TraceError inside a compiled function; what the program's checks state
    source   definition
    """
    refuse_in_trace("realize()")
    compute_all(tensors)
    for t in tensors:
        region_of(t)



def _rebuild(array: np.ndarray, requires_grad: bool) -> Tensor:
    return tensor(array, requires_grad=requires_grad)


@method("__reduce__", of=Tensor)
def _reduce(self: Tensor) -> Any:
    return (_rebuild, (np.array(self.numpy()), self.requires_grad))


@method("__deepcopy__", of=Tensor)
def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    made = memo[id(self)] = tensor(self, requires_grad=self.requires_grad)
    return made
