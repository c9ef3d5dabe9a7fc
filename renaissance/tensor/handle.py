"""Tensor: a Value with data. It computes nothing by itself: observing one has the engine run what it depends on."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from renaissance import changes, engine
from renaissance.errors import ArgumentError, DTypeError, GradientError, ShapeError, TraceError
from renaissance.ir import dtype as dt
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, node, unique
from renaissance.ops.value import CONST, LEAF, STOP_GRADIENT, VARIABLE, Value, const, variable
from renaissance.region import Region, Stale, leaf, scalar
from renaissance.tensor import promises
from renaissance.tensor.promises import bare
from renaissance.tensor.tracing import refuse_in_trace, tracing, user_line

SHARED: tuple[Any, ...] = ()  # the holders of a leaf that is also looked at by tensors that are not listed
_MOST_LISTED = 8  # holders of a leaf before those that are gone are taken off the list


class Tensor(Value):
    """An n-dimensional array of one dtype whose elements are computed when they are looked at.

    Made by rn.tensor, rn.from_numpy, rn.zeros and the like, and by operations on tensors.

    n                         the node it stands for, where operations make one
    shape, dtype, ndim, size  as in NumPy
    requires_grad             whether gradients are collected for it by backward()
    grad                      the collected gradient, None before
    raises                    when looked at: TraceError inside a compiled function, and what the program's checks state
    source                    array API standard; PyTorch for what has to do with gradients
    """

    __slots__ = ("_grad", "__weakref__")
    __array_priority__ = 1000  # so that `array + tensor` asks the tensor, and no gradient is lost on the way

    def __init__(self, n: Node):
        self._node = n
        self._grad: Tensor | None = None
        if tracing.recorder is None:
            self._attach(n)
        else:
            tracing.recorder.born(self)

    def __del__(self, forget: Any = promises.handles.pop) -> None:  # bound early: at the interpreter's end modules are emptied
        forget(id(self), None)

    @property
    def node(self) -> Node:
        """The node this handle stands for; while a function is traced, tensors from outside appear as inputs of the trace."""
        recorder = tracing.recorder
        return self._node if recorder is None else recorder.read(self)

    @classmethod
    def number(cls, value: bool | int | float, dtype: DType) -> Node:
        """A Python number beside a tensor: a run-time scalar, so that its value is no part of the plan.

        While tracing it is fixed, but as different from its equals as there: gradients are added up in the same order.
        """
        if dtype.kind == "b":
            return const(value, dtype)
        if tracing.recorder is not None:
            return unique(CONST, (), dtype, const(value, dtype).attrs)
        return scalar(value, dtype)

    # ---- data ------------------------------------------------------------------------------------------------------

    def _attach(self, n: Node) -> None:
        """Be known as a promise, or as one who looks at a leaf's bytes."""
        if n.data is None:
            n = bare(n)
        if n.data is None:
            promises.promised(self, n)
        elif n.op is LEAF:
            _hold(n, self)

    def _rebind(self, n: Node) -> None:
        """Make this handle stand for another node."""
        if tracing.recorder is not None:
            tracing.recorder.rebind(self, n)
        else:
            self._node = n
            self._attach(n)

    def refill(self, n: Node) -> None:
        """Make this handle stand for new elements; it goes on asking for gradients if it did."""
        self._rebind(mark(self, n) if self.node.op is VARIABLE else n)

    def realize(self) -> Tensor:
        """Compute the elements now, if they are still a promise.

        returns  the tensor itself
        raises   TraceError inside a compiled function; RangeError and others that the program's checks state
        source   definition
        """
        refuse_in_trace("reading a tensor's value")
        region_of(self)
        return self

    def numpy(self) -> np.ndarray:
        """The elements as a NumPy array that shares their memory where it can; it is read-only.

        returns  array of the same shape and dtype (bfloat16 by ml_dtypes)
        raises   TraceError inside a compiled function
        source   definition
        """
        refuse_in_trace("numpy()")
        region = region_of(self)
        array = region.storage.view(self.dtype, self.shape, region.offset)
        array.flags.writeable = False
        return array

    def item(self) -> Any:
        """The only element as a Python number.

        returns  bool, int or float
        raises   ShapeError unless there is exactly one element; TraceError inside a compiled function
        source   definition
        """
        refuse_in_trace("item()")
        if self.size != 1:
            raise ShapeError(f"item: the tensor must have exactly one element, got shape {self.shape}")
        return self.numpy().reshape(()).item() if self.dtype is not dt.bfloat16 else float(self.numpy().reshape(()))

    def tolist(self) -> Any:
        """The elements as nested Python lists.

        returns  a number for a 0-d tensor, else a list
        raises   TraceError inside a compiled function
        source   NumPy, tolist
        """
        return self.numpy().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __float__(self) -> float:
        return float(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.size == 1 else format(str(self), spec)

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise DTypeError(f"only integer tensors can be used as an index, got {self.dtype.name}")
        return int(self.item())

    def __bool__(self) -> bool:
        refuse_in_trace("using a tensor as a condition")
        if self.size != 1:
            raise ShapeError(f"the truth of a tensor of shape {self.shape} is ambiguous; use any() or all()")
        return bool(self.numpy().reshape(()))

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        note = ", requires_grad=True" if self.requires_grad else ""
        try:
            text = np.array2string(self.numpy(), separator=", ", prefix="Tensor(")
        except (TraceError, GradientError):  # in a trace, leaked from one, or overwritten: there is nothing to show
            text = f"shape={self.shape}"
        return f"Tensor({text}, dtype={self.dtype.name}{note})"

    # ---- gradients -------------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        return self.node.needs_grad

    @property
    def is_leaf(self) -> bool:
        """Whether gradients do not go on from here to what the tensor was computed from."""
        n = self.node
        return n.op is VARIABLE or not n.needs_grad

    def requires_grad_(self, wanted: bool = True) -> Tensor:
        """Ask for gradients of this tensor, or stop asking.

        wanted   False: stop asking
        returns  the tensor itself
        raises   DTypeError unless it is float; GradientError for a result of operations; TraceError inside a compiled function
                 for a tensor from outside
        source   PyTorch, requires_grad_
        """
        if wanted and not self.dtype.is_float:
            raise DTypeError(f"requires_grad_: only floats have gradients, got {self.dtype.name}")
        n = self.node
        if wanted == n.needs_grad:
            return self
        if not wanted and n.op is not VARIABLE:
            raise GradientError("requires_grad_(False): this tensor is a result of operations; use detach()")
        if tracing.recorder is not None and not tracing.recorder.made_inside(self):
            raise TraceError(f"requires_grad_() inside a compiled function at {user_line()}, on a tensor from outside: that "
                             "would happen once, while the function is traced; call it outside")
        self._rebind(mark(self, n) if wanted else n.inputs[0])
        changes.note()
        return self

    @property
    def grad(self) -> Tensor | None:
        grad = self.collected()
        if grad is USED:
            raise GradientError("this gradient was used by optimizer.step() and not kept: call zero_grad() before the next "
                                "backward(); to read it after step(), make the optimizer with keep_grads=True")
        return grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise DTypeError(f"grad must be a tensor or None, got {type(value).__name__}")
            if value.shape != self.shape or value.dtype is not self.dtype:
                raise ShapeError(f"grad must be {self.dtype.name}{list(self.shape)}, got {value.dtype.name}{list(value.shape)}")
        self.collect(value)

    def collect(self, value: Tensor | None) -> None:
        """Set the gradient to what is known to fit: a tensor of the same shape and dtype, None, or USED."""
        if tracing.recorder is not None:
            tracing.recorder.regrade(self, value)
        else:
            self._grad = value

    def collected(self) -> Tensor | None:
        """The gradient as it is: a tensor, None, or USED."""
        return self._grad if tracing.recorder is None else tracing.recorder.grad(self)

    def place(self) -> tuple[Tensor, int]:
        """The tensor whose memory holds these elements, and at which element they start: here itself, at 0."""
        return self, 0

    def detach(self) -> Tensor:
        """The same elements without a gradient.

        returns  shape and dtype of the tensor
        raises   nothing
        source   PyTorch, detach
        """
        return Tensor(detached(self.node))

    # ---- conversions and in-place forms ----------------------------------------------------------------------------

    @property
    def T(self) -> Tensor:  # noqa: N802
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ShapeError(f"T: takes 2 axes, got shape {self.shape}; use permute_dims")
        return self.permute_dims((1, 0))

    @property
    def mT(self) -> Tensor:  # noqa: N802
        """The last two axes swapped."""
        return self.transpose(-1, -2)

    def to(self, dtype: Any) -> Tensor:
        """Convert to another dtype: PyTorch's name for astype."""
        return self.astype(dtype)

    def float(self) -> Tensor:
        """Convert to float32."""
        return self.astype(dt.float32)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise ArgumentError("assignment to a part of a tensor is not supported yet; build the result with where or concat, "
                            "or replace the whole with copy_")


Tensor.handle = Tensor


class _Used(Tensor):
    """What `grad` holds after an optimizer used it up."""

    def __init__(self) -> None:
        self._node = const(0.0, dt.float32)
        self._grad = None


USED = _Used()


def _hold(n: Node, t: Tensor) -> None:
    """Put a tensor on the list of those that look at a leaf's bytes."""
    held = n.holders
    if held is None:
        n.holders = [weakref.ref(t)]
    elif held is not SHARED:
        if len(held) >= _MOST_LISTED:
            held = n.holders = [ref for ref in held if ref() is not None]
        held.append(weakref.ref(t))


def sole_holder(n: Node, t: Tensor) -> bool:
    """Whether no tensor but `t` looks at the bytes of a leaf."""
    if not n.holders:
        return False
    others = [ref() for ref in n.holders]
    return all(h is t or h is None or bare(h._node) is not n for h in others)


def mark(owner: Tensor, n: Node) -> Node:
    """`n` as a variable whose gradient backward() collects for `owner`."""
    marked = variable(n)
    marked.holders = [weakref.ref(owner)]
    return marked


def detached(n: Node) -> Node:
    """The node seen without its gradient."""
    return node(STOP_GRADIENT, (n,)) if n.needs_grad else n


def _computed(nodes: list[Node]) -> dict[Node, Region]:
    """The memory of nodes, computed along with what is to accompany them; where a check of those fails, without them."""
    others = promises.along()
    try:
        return engine.compute([*nodes, *others])
    except promises.CHECK_ERRORS:
        if not others:
            raise
        return engine.compute(nodes)


def compute_all(tensors: Sequence[Tensor]) -> None:
    """Compute several tensors in one run."""
    nodes = [bare(t.node) for t in tensors]
    _computed([n for n in nodes if n.data is None and not n.constant])


def region_of(t: Tensor) -> Region:
    """The memory of a tensor's elements, computed if need be."""
    n = bare(t.node)
    if n.data is None:
        region = _computed([n])[n]
        if n.constant and t._node is n:
            t._rebind(leaf(n, region))
        return region
    if isinstance(n.data, Stale):
        raise GradientError("this value was overwritten (by optimizer.step() or an in-place write) before it was read")
    if not isinstance(n.data, Region):
        raise TraceError("this tensor leaked out of a compiled function and has no value; return it from the function")
    return n.data


def from_region(like: Node, region: Region) -> Tensor:
    """A tensor on bytes that hold a value of the shape and dtype of a node; overwriting it moves it to bytes of its own."""
    made = Tensor.__new__(Tensor)
    made._node = leaf(like, region)
    made._node.holders = SHARED
    made._grad = None
    return made
