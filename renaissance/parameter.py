"""Parameters: trainable tensors that live as parts of a flat run, so that an optimizer updates all of them in one sweep."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from renaissance import changes
from renaissance.errors import DTypeError, TraceError
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Shape, node, unique
from renaissance.ir.shape import size
from renaissance.ops.composed import COMPOSED, Template
from renaissance.ops.movement import RESHAPE, SLICE
from renaissance.ops.value import LEAF
from renaissance.region import Region, leaf
from renaissance.tensor import (
    Part,
    Tensor,
    as_tensor,
    detached,
    join_flat,
    mark,
    refuse_in_trace,
    region_of,
    tensor,
    tracing,
    user_line,
)

_PARTS = 1 << 14  # places in flat runs whose templates are kept


@functools.lru_cache(_PARTS)
def _part(length: int, dtype: DType, start: int, shape: Shape) -> Template:
    """Elements of a flat tensor from `start` on, in a shape: one composed node, as there are many in each step."""
    flat = part = unique(LEAF, (length,), dtype)
    if length != size(shape):
        part = node(SLICE, (part,), ((start,), (start + size(shape),), (1,)))
    return Template([flat], [part if part.shape == shape else node(RESHAPE, (part,), (shape,))])


class Parameter(Tensor):
    """A tensor that a module trains: elements [start, start + size) of a flat tensor, its base.

    Made from a tensor or array, it has a base of its own; an optimizer moves its parameters into one.

    data           the elements without gradient; assigning overwrites them
    requires_grad  True unless frozen
    raises         DTypeError unless the elements are float
    source         PyTorch, torch.nn.Parameter
    """

    __slots__ = ("_base", "_start", "_shape", "_size", "_trainable", "_made_from", "_made")

    def __init__(self, data: Any, requires_grad: bool = True):
        value = as_tensor(data)
        if not value.dtype.is_float:
            raise DTypeError(f"Parameter: elements must be float, got {value.dtype.name}")
        self._grad = None
        self._shape, self._size = value.shape, value.size
        self._trainable = requires_grad
        self._base = join_flat([tensor(value) if _is_borrowed(value) else Tensor(detached(value.node))])
        self._start = 0
        self._made_from: Node | None = None
        self._made: Node | None = None
        if tracing.recorder is not None:
            tracing.recorder.born(self)

    @property
    def node(self) -> Node:
        base = self._base.node
        if self._made_from is not base or self._made is None:
            n = base
            if base.shape != self._shape:
                n = node(COMPOSED, (base,), (_part(base.shape[0], base.dtype, self._start, self._shape), 0))
            self._made = mark(self, n) if self._trainable else n
            self._made_from = base
        return self._made

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def dtype(self) -> DType:
        return self._base.dtype

    @property
    def size(self) -> int:
        return self._size

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def requires_grad(self) -> bool:
        return self._trainable

    @property
    def is_leaf(self) -> bool:
        return True

    def requires_grad_(self, wanted: bool = True) -> Parameter:
        """Train this parameter, or freeze it.

        returns  the parameter itself
        raises   TraceError inside a compiled function
        source   PyTorch, requires_grad_
        """
        if wanted != self._trainable:
            if tracing.recorder is not None and not tracing.recorder.made_inside(self):
                raise TraceError(f"requires_grad_() inside a compiled function at {user_line()}: that would happen once, while "
                                 "the function is traced; call it outside")
            self._trainable = wanted
            self._made = None
            changes.note()
        return self

    @property
    def data(self) -> Tensor:
        """The elements without gradient."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        self.copy_(value)

    def place(self) -> tuple[Tensor, int]:
        return self._base, self._start

    def memory(self) -> Region:
        """The bytes of the elements, inside those of the base."""
        whole = region_of(self._base)
        return Region(whole.storage, whole.offset + self._start * self.dtype.size)

    def numpy(self) -> np.ndarray:
        refuse_in_trace("numpy()")
        region = self.memory()
        array = region.storage.view(self.dtype, self._shape, region.offset)
        array.flags.writeable = False
        return array

    def move(self, base: Tensor, start: int) -> None:
        """Make these elements part of another base, which already holds their values."""
        self._base, self._start, self._made = base, start, None

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce__(self) -> Any:
        return (Parameter, (np.array(self.numpy()), self._trainable))

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        made = memo[id(self)] = Parameter(np.array(self.numpy()), self._trainable)
        return made


def _is_borrowed(value: Tensor) -> bool:
    """Whether the elements lie in a NumPy array, which its owner may change."""
    data = None if tracing.recorder is not None else value.node.data
    return isinstance(data, Region) and data.storage.borrowed


def gather(parameters: Sequence[Parameter]) -> Tensor:
    """All elements of several parameters in one 1-d tensor: a slice of their base where they lie there in a row, else a copy."""
    base, first = parameters[0].place()
    at = first
    for p in parameters:
        home, start = p.place()
        if home is not base or start != at:
            return join_flat([p.detach() for p in parameters])
        at += p.size
    return base if first == 0 and at == base.size else base[first:at]


def scatter(parameters: Sequence[Parameter], flat: Tensor) -> list[tuple[Tensor | Part, Tensor]]:
    """What `overwrite` takes to give several parameters the elements of one 1-d tensor."""
    base, first = parameters[0].place()
    at = 0
    for p in parameters:
        home, start = p.place()
        if home is not base or start != first + at:
            return [(q, flat[b - q.size:b]) for q, b in _ends(parameters)]
        at += p.size
    return [(Part(base, first), flat)]


def _ends(parameters: Sequence[Parameter]) -> list[tuple[Parameter, int]]:
    return list(zip(parameters, itertools.accumulate(p.size for p in parameters)))


def lay_flat(parameters: Sequence[Parameter]) -> None:
    """Move parameters that have a base of their own into one flat run, in order; those of other runs stay where they are."""
    alone = [p for p in parameters if p.place()[0].size == p.size]
    if len(alone) < 2 or len({p.dtype for p in alone}) > 1:
        return
    run = join_flat([p.detach() for p in alone])
    if tracing.recorder is None:
        # Now, so that the memory of the single parameters is free before a plan asks for its own; a leaf is overwritten in place.
        run = Tensor(leaf(run.node, region_of(run)))
    at = 0
    for p in alone:
        p.move(run, at)
        at += p.size
    changes.note()
