"""Value: a handle on a node. Gradient rules and compositions are written in terms of it; Tensor is a Value with data."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from renaissance.errors import DTypeError, ShapeError, TraceError
from renaissance.ir import dtype as dt
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Op, Shape, node, unique


class Value:
    """A handle on an immutable node. Arithmetic methods are added by the op files through `method`."""

    __slots__ = ("_node",)
    handle: type[Value]
    weak = False  # whether it takes the dtype of what it meets, as a Python number does

    if TYPE_CHECKING:  # what `method` adds at run time

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, key: Any) -> Any: ...
        def __neg__(self) -> Any: ...
        def __add__(self, other: Any) -> Any: ...
        def __radd__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __rsub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rmul__(self, other: Any) -> Any: ...
        def __truediv__(self, other: Any) -> Any: ...
        def __rtruediv__(self, other: Any) -> Any: ...
        def __pow__(self, other: Any) -> Any: ...
        def __matmul__(self, other: Any) -> Any: ...
        def __lt__(self, other: Any) -> Any: ...
        def __le__(self, other: Any) -> Any: ...
        def __gt__(self, other: Any) -> Any: ...
        def __ge__(self, other: Any) -> Any: ...

    def __init__(self, n: Node):
        self._node = n

    @property
    def node(self) -> Node:
        return self._node

    @property
    def shape(self) -> Shape:
        return self.node.shape

    @property
    def dtype(self) -> DType:
        return self.node.dtype

    @property
    def ndim(self) -> int:
        return len(self.node.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        total = 1
        for n in self.node.shape:
            total *= n
        return total

    @classmethod
    def number(cls, value: bool | int | float, dtype: DType) -> Node:
        """The 0-d node of a Python number met beside a value of this class: here a constant of the program."""
        return const(value, dtype)

    def look(self) -> None:
        """Called on a weak value where what is computed depends on the number itself: an exponent, or what must fit a dtype."""

    def __bool__(self) -> bool:
        raise TraceError("a composed op cannot look at the values of its tensors: they are not known yet; use where() to choose")


Value.handle = Value


class _GradMode(threading.local):
    enabled = True


_grad_mode = _GradMode()


class _Observer(threading.local):
    """Told of every node made in this thread, while somebody asks: a trace notes the source lines."""

    hook: Callable[[Node], None] | None = None


_observer = _Observer()


@contextmanager
def observing(hook: Callable[[Node], Any] | None) -> Iterator[None]:
    """Inside, `hook` is called for every node made by `apply` in this thread; None: nobody is told."""
    before, _observer.hook = _observer.hook, hook
    try:
        yield
    finally:
        _observer.hook = before


def grad_enabled() -> bool:
    """Whether results carry gradients: not inside no_grad()."""
    return _grad_mode.enabled


@contextmanager
def _grad_mode_set(enabled: bool) -> Iterator[None]:
    before, _grad_mode.enabled = _grad_mode.enabled, enabled
    try:
        yield
    finally:
        _grad_mode.enabled = before


def no_grad() -> AbstractContextManager[None]:
    """Inside, results carry no gradient: operations see their inputs through stop_gradient.

    returns  a context manager, which is a decorator too
    raises   nothing
    source   definition
    """
    return _grad_mode_set(False)


def enable_grad() -> AbstractContextManager[None]:
    """Inside, results carry gradients again, whatever no_grad is around.

    returns  a context manager, which is a decorator too
    raises   nothing
    source   PyTorch, enable_grad
    """
    return _grad_mode_set(True)


# ---- leaves ------------------------------------------------------------------------------------------------------------


def _no_infer(inputs: tuple[Node, ...], *attrs: Any) -> tuple[Shape, DType]:
    raise ShapeError("leaves are made by `unique`, which is told their shape and dtype")


def _infer_const(inputs: tuple[Node, ...], value: bytes, dtype: DType) -> tuple[Shape, DType]:
    return (), dtype


def _infer_iota(inputs: tuple[Node, ...], n: int, dtype: DType) -> tuple[Shape, DType]:
    return (n,), dtype


def _infer_same(inputs: tuple[Node, ...], *attrs: Any) -> tuple[Shape, DType]:
    return inputs[0].shape, inputs[0].dtype


LEAF = Op("leaf", "leaf", _no_infer)
SCALAR = Op("scalar", "leaf", _no_infer)
CONST = Op("const", "leaf", _infer_const, lambda arrays, value, dtype, out: np.frombuffer(value, dtype.numpy)[0],
           attrs=("value", "dtype"))
IOTA = Op("iota", "leaf", _infer_iota, lambda arrays, n, dtype, out: np.arange(n).astype(dtype.numpy), attrs=("n", "dtype"))
STOP_GRADIENT = Op("stop_gradient", "identity", _infer_same, lambda arrays, out: arrays[0])
VARIABLE = Op("variable", "identity", _infer_same, lambda arrays, out: arrays[0], vjp=lambda ct, out, inputs: (ct,))
WITH_GRADIENT = Op("with_gradient", "identity", _infer_same, lambda arrays, rule, out: arrays[0],
                   vjp=lambda ct, out, inputs, rule: (None, *rule(ct, out, inputs[1:])), attrs=("rule",))


def const(value: bool | int | float, dtype: DType) -> Node:
    """The 0-d constant `value`, rounded to dtype; equal bits are one node (so 0.0 and -0.0 differ)."""
    with np.errstate(over="ignore"):  # a float that is too large is infinity, as everywhere
        return node(CONST, (), (np.asarray(value).astype(dtype.numpy).tobytes(), dtype))


def variable(n: Node) -> Node:
    """Mark `n` as something gradients are asked for; every call gives a new mark."""
    marked = unique(VARIABLE, n.shape, n.dtype, (), (n,))
    marked.needs_grad = True
    return marked


# ---- making values -----------------------------------------------------------------------------------------------------

Number = bool | int | float | np.number | np.bool_
_NUMBERS = (bool, int, float, np.number, np.bool_)


def is_number(x: object) -> bool:
    return isinstance(x, _NUMBERS)


def need_tensor(op: str, x: object, argument: str = "x") -> None:
    """Raise DTypeError, naming op and argument, unless `x` is a tensor."""
    if not isinstance(x, Value):
        raise DTypeError(f"{op}: {argument} must be a tensor, got {type(x).__name__}; make it one with rn.tensor(...)")


def apply(op: Op, values: tuple[Value, ...], attrs: tuple[Hashable, ...] = ()) -> Any:
    """The value of `op` on `values`, as a Tensor if any of them is one; weak if all of them are, as what Python computes is."""
    nodes, kind = taken(values)
    return made(op, nodes, attrs, kind)


def taken(values: tuple[Value, ...]) -> tuple[tuple[Node, ...], type[Value]]:
    """The nodes an op takes for values, and of which class its results are."""
    handle, weak = Value, True
    nodes = []
    for v in values:
        nodes.append(v.node)
        if not v.weak:
            weak = False
        if v.handle is not Value:
            handle = v.handle
    return seen(nodes), type(values[0]) if weak else handle


def seen(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Nodes as operations see them: without their gradients inside no_grad()."""
    if _grad_mode.enabled:
        return tuple(nodes)
    return tuple([node(STOP_GRADIENT, (n,)) if n.needs_grad else n for n in nodes])


def made(op: Op, nodes: tuple[Node, ...], attrs: tuple[Hashable, ...], kind: type[Value]) -> Any:
    """A result of `op`, whose makers are told of it."""
    n = node(op, nodes, attrs)
    if _observer.hook is not None:
        _observer.hook(n)
    return kind(n)


def number_dtype(value: Any, other: DType) -> DType:
    """The dtype a Python number takes beside a tensor of dtype `other`: numbers are weak.

    A bool or an int takes the tensor's dtype (int beside bool: int64), a float that of a float tensor (beside integers: float32).
    """
    if isinstance(value, (np.number, np.bool_)):
        return dt.promote(dt.dtype(value.dtype), other)
    if isinstance(value, bool):
        return other
    if isinstance(value, int):
        wanted = dt.int64 if other is dt.bool_ else other
        if wanted.is_integer and not wanted.least <= value <= wanted.largest:
            raise DTypeError(f"{value} does not fit {wanted.name} ({wanted.least} to {wanted.largest}), "
                             "the dtype of the tensor beside it; "
                             "cast the tensor with astype first")
        return wanted
    if isinstance(value, float):
        return other if other.is_float else dt.float32
    raise DTypeError(f"{value!r} of type {type(value).__name__} is neither a number nor a tensor")


@dataclass(frozen=True)
class Rule:
    """A gradient rule with settings, for `with_gradient`: equal rules are one, so that equal nodes stay one."""

    function: Callable[..., tuple[Any, ...]]
    settings: tuple[Hashable, ...]

    def __call__(self, ct: Any, out: Any, inputs: Any) -> tuple[Any, ...]:
        return self.function(ct, out, inputs, *self.settings)


def with_gradient(out: Value, inputs: tuple[Value, ...], rule: Any) -> Any:
    """`out` unchanged, but its gradient goes to `inputs` by rule(ct, out, inputs) instead of through what computed it."""
    return apply(WITH_GRADIENT, (out, *inputs), (rule,))


def method(*names: str, of: type[Value] = Value):
    """Decorator: make a function a method of Value, or of a class of it, under the given names (its own name if none)."""

    def add(function: Any) -> Any:
        for name in names or (function.__name__,):
            setattr(of, name, function)
        return function

    return add
