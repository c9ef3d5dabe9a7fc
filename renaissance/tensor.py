"""Tensor: a Value with data. It computes nothing by itself: observing one has the engine run what it depends on."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from renaissance import changes, engine
from renaissance.autodiff import vjp
from renaissance.engine import PLACEHOLDER, STALE, Linear, Region, Stale
from renaissance.errors import ArgumentError, DTypeError, GradientError, NonFiniteError, RangeError, ShapeError, TraceError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, forget_history, node, topological, unique
from renaissance.ops.elementwise import add, lit
from renaissance.ops.movement import concat, flatten
from renaissance.ops.value import LEAF, STOP_GRADIENT, VARIABLE, Value, const, variable

_DEPTH_LIMIT = 10_000  # a chain of promises this long is computed before it grows further
_SWEEP_DEPTH = 100  # longer chains are computed along with the next run, so that a running total stays short
CHECK_ERRORS = (NonFiniteError, RangeError)  # what a failed check in a program raises


class Trace(threading.local):
    """The recording of a compiled function, while one is under way in this thread; see trace.py."""

    recorder: Any = None
    inlined: int = 0  # inside grad and the like: compiled functions run as plain ones


tracing = Trace()

_pending: dict[int, weakref.ref[Tensor]] = {}
# For a leaf the tensor that alone stands for it, for a variable the tensor that gets its gradient.
_owners: weakref.WeakKeyDictionary[Node, Callable[[], Tensor | None]] = weakref.WeakKeyDictionary()


def _nobody() -> None:
    """The owner of a leaf that several tensors stand for: whoever writes first takes a copy."""


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
        if tracing.recorder is not None:
            tracing.recorder.born(self)
        elif n.data is None:
            _pending[id(self)] = weakref.ref(self)
            if n.depth > _DEPTH_LIMIT:
                engine.compute([n])
        elif n.op is LEAF:
            _owners[n] = _nobody  # another tensor stands for it already

    def __del__(self, forget: Any = _pending.pop) -> None:  # bound early: at the interpreter's end the module is emptied first
        forget(id(self), None)

    @property
    def node(self) -> Node:
        """The node this handle stands for; while a function is traced, tensors from outside appear as inputs of the trace."""
        recorder = tracing.recorder
        return self._node if recorder is None else recorder.read(self)

    @classmethod
    def number(cls, value: bool | int | float, dtype: DType) -> Node:
        """A Python number beside a tensor: a run-time scalar, so that its value is no part of the plan; fixed while tracing."""
        if tracing.recorder is not None or dtype.kind == "b":
            return const(value, dtype)
        return engine.scalar(dtype.numpy.type(value), dtype)

    # ---- data ------------------------------------------------------------------------------------------------------

    def _rebind(self, n: Node) -> None:
        """Make this handle stand for another node."""
        if tracing.recorder is not None:
            tracing.recorder.rebinding(self)
            self._node = n
            return
        self._node = n
        if n.data is None:
            _pending[id(self)] = weakref.ref(self)
        elif n.op is LEAF:
            _owners.setdefault(n, weakref.ref(self))

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
        if tracing.recorder is not None or self._unreadable():
            return f"Tensor(shape={self.shape}, dtype={self.dtype.name}{note})"
        text = np.array2string(self.numpy(), separator=", ", prefix="Tensor(")
        return f"Tensor({text}, dtype={self.dtype.name}{note})"

    def _unreadable(self) -> bool:
        return self._node.data is STALE

    def __reduce__(self) -> Any:
        return (_rebuild, (np.array(self.numpy()), self.requires_grad))

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        made = memo[id(self)] = _rebuild(np.array(self.numpy()), self.requires_grad)
        return made

    # ---- gradients -------------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        return self._node.needs_grad

    @property
    def is_leaf(self) -> bool:
        """Whether gradients do not go on from here to what the tensor was computed from."""
        return self._node.op is VARIABLE or not self._node.needs_grad

    def requires_grad_(self, wanted: bool = True) -> Tensor:
        """Ask for gradients of this tensor, or stop asking.

        returns  the tensor itself
        raises   DTypeError unless it is float; GradientError for a result of operations
        source   PyTorch, requires_grad_
        """
        if wanted and not self.dtype.is_float:
            raise DTypeError(f"requires_grad_: only floats have gradients, got {self.dtype.name}")
        n = self.node
        if wanted == n.needs_grad:
            return self
        if not wanted and n.op is not VARIABLE:
            raise GradientError("requires_grad_(False): this tensor is a result of operations; use detach()")
        self._rebind(mark(self, n) if wanted else n.inputs[0])
        changes.note()
        return self

    @property
    def grad(self) -> Tensor | None:
        grad = self._grad if tracing.recorder is None else tracing.recorder.entry_grad(self)
        if grad is USED:
            raise GradientError("this gradient was used by optimizer.step() and not kept: call zero_grad() before the next "
                                "backward(); to read it after step(), make the optimizer with keep_grads=True")
        return grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and value is not USED and (value.shape != self.shape or value.dtype is not self.dtype):
            raise ShapeError(f"grad must be {self.dtype.name}{list(self.shape)}, got {value.dtype.name}{list(value.shape)}")
        if tracing.recorder is not None:
            tracing.recorder.regrading(self)
        self._grad = value

    def backward(self, gradient: Any = None) -> None:
        """Add the gradient of this tensor to `grad` of every variable it depends on.

        gradient  cotangent, tensor or array of the tensor's shape; may be left out for one element: 1
        raises    GradientError when nothing it depends on asks for a gradient, or what it was computed from is gone
        source    PyTorch, backward
        """
        if not self.node.needs_grad:
            raise GradientError("backward: nothing this tensor depends on asks for a gradient (requires_grad), or an optimizer "
                                "step used up its history; results of compiled functions have none: compile the whole step")
        if gradient is None:
            if self.size != 1:
                raise ShapeError(f"backward: gradient must be given for a tensor of shape {self.shape}; it may be left out for "
                                 "one element")
            gradient = lit(1, self)
        else:
            gradient = as_tensor(gradient)
            if gradient.shape != self.shape:
                raise ShapeError(f"backward: gradient must have shape {self.shape}, got {gradient.shape}")
        found = [n for n in topological([self.node], lambda n: not n.needs_grad or n.op is VARIABLE) if n.op is VARIABLE]
        for n, g in zip(found, vjp([self.node], [gradient.node], found)):
            ref = _owners.get(n)
            handle = ref() if ref else None
            if g is None or handle is None:
                continue
            if tracing.recorder is not None:
                tracing.recorder.check_border(n)
            before = handle._grad if tracing.recorder is None else tracing.recorder.entry_grad(handle)
            if before is USED:  # what it would be added to is gone: reading it stays an error until zero_grad()
                continue
            value = Tensor(detached(g))
            handle.grad = value if before is None else add(before, value)

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

    def copy_(self, source: Any) -> Tensor:
        """Overwrite the elements with those of another tensor.

        source   tensor or array that broadcasts to the shape; converted to the dtype
        returns  the tensor itself
        raises   ShapeError when it does not broadcast
        source   PyTorch, copy_
        """
        value = as_tensor(source).detach().astype(self.dtype).broadcast_to(self.shape)
        overwrite([(self, value)])
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        raise ArgumentError("assignment to a part of a tensor is not supported yet; build the result with where or concat, "
                            "or replace the whole with copy_")


Value.handle = Value
Tensor.handle = Tensor


class _Used(Tensor):
    """What `grad` holds after an optimizer used it up."""

    def __init__(self) -> None:
        self._node = const(0.0, dt.float32)
        self._grad = None


USED = _Used()


def mark(owner: Tensor, n: Node) -> Node:
    """`n` as a variable whose gradient backward() collects for `owner`."""
    marked = variable(n)
    _owners[marked] = weakref.ref(owner)
    return marked


def detached(n: Node) -> Node:
    """The node seen without its gradient."""
    return node(STOP_GRADIENT, (n,)) if n.needs_grad else n


def user_line() -> str:
    """File and line of the innermost caller outside this package."""
    frame = sys._getframe(1)
    package = __name__.rpartition(".")[0]
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == package and frame.f_back:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def refuse_in_trace(what: str) -> None:
    """Raise TraceError, naming the line, while a function is being compiled."""
    if tracing.recorder is not None:
        raise TraceError(f"{what} inside a compiled function at {user_line()}: values do not exist yet while it is traced; "
                         "return the tensor and read it outside, or use where() for a choice")


def region_of(t: Tensor) -> Region:
    """The memory of a tensor's elements, computed if need be."""
    n = t.node
    while n.data is None and n.op.kind == "identity":
        n = n.inputs[0]
    if n.data is None:
        region = engine.compute([n])[n]
        if n.constant and t._node is n:
            t._rebind(engine.leaf(n, region))
        return region
    if isinstance(n.data, Stale):
        raise GradientError("this value was overwritten (by optimizer.step() or an in-place write) before it was read")
    if not isinstance(n.data, Region):
        raise TraceError("this tensor leaked out of a compiled function and has no value; return it from the function")
    return n.data


def sweep(watched: set[Node]) -> list[Node]:
    """Pending tensors that must be computed before the watched leaves are overwritten, and those whose chain grew long."""
    candidates, linear = written_down(lambda found: Linear(found, (), watched))
    return chosen(candidates, linear)


def written_down(write: Callable[[list[Node]], Linear]) -> tuple[list[Node], Linear]:
    """The nodes of all live tensors that still are promises and can be kept, and what `write` makes of them."""
    found = _promises()
    try:
        return found, write(found)
    except (GradientError, TraceError):  # some cannot be kept: they leaked from a trace, or read what is overwritten already
        found = [n for n in found if _complete(n)]
        return found, write(found)


def has_promises() -> bool:
    """Whether some live tensor may not have been computed."""
    return bool(_pending)


def _promises() -> list[Node]:
    found = []
    for key, ref in list(_pending.items()):
        t = ref()
        if t is None or t._node.data is not None or (t._node.op is VARIABLE and _owns(t, t._node.inputs[0])):
            _pending.pop(key, None)
            continue
        found.append(t._node)
    return list(dict.fromkeys(found))


def _owns(t: Tensor, n: Node) -> bool:
    """Whether a node is a leaf whose bytes belong to a tensor alone."""
    owner = _owners.get(n)
    return n.op is LEAF and owner is not None and owner() is t


def chosen(candidates: Sequence[Node], linear: Linear) -> list[Node]:
    """Those that depend on a watched leaf, or whose chain grew long."""
    return [n for n in candidates if n in linear.reads or (n.depth > _SWEEP_DEPTH and not n.constant)]


def kept_promises(promises: Sequence[Node]) -> list[Node]:
    """Compute pending tensors. One whose own check fails is left out: whoever reads it is told, nobody else."""
    try:
        engine.compute(promises)
        return list(promises)
    except CHECK_ERRORS:
        return [n for n in promises if _can_be_computed(n)]


def _can_be_computed(promise: Node) -> bool:
    try:
        engine.compute([promise])
    except CHECK_ERRORS:
        return False
    return True


def _complete(root: Node) -> bool:
    """Whether everything a node depends on has data: not what leaked from a trace, nor what reads overwritten bytes."""
    return all(n.data is not STALE and n.data is not PLACEHOLDER and (n.data is not None or n.op is not LEAF)
               for n in topological([root], lambda n: n.data is not None))


class Part:
    """Elements of a 1-d tensor from `start` on, as a place to overwrite."""

    def __init__(self, base: Tensor, start: int):
        self._place = (base, start)

    def place(self) -> tuple[Tensor, int]:
        return self._place


def overwrite(pairs: list[tuple[Tensor | Part, Tensor]], then: Callable[[], None] | None = None) -> None:
    """Give each tensor the value beside it, in place where nobody else can see the bytes; all reads see the old values.

    Pending tensors that depend on the old values are computed in the same run. A tensor that is a part of another (a parameter
    of a flat run) has its part replaced. The list is emptied: values that nobody else holds are not pending tensors. `then` is
    done when the new values are in place, even if Ctrl-C came meanwhile.
    """
    whole = [(t, detached(value.node)) for t, value in _wholes(pairs)]
    pairs.clear()
    if tracing.recorder is not None:
        for t, n in whole:
            t._rebind(mark(t, n) if t.node.op is VARIABLE else n)
        if then is not None:
            tracing.recorder.effect(then)
        return
    with engine.lock:
        leaves = [own_leaf(t) for t, _ in whole]
        in_place = [(old, n) for old, (_, n) in zip(leaves, whole) if not old.data.storage.exported]
        fresh = {old: n for old, (_, n) in zip(leaves, whole) if old.data.storage.exported}
        candidates, linear = written_down(lambda found: Linear([*found, *fresh.values()], in_place, set(leaves)))
        others = chosen(candidates, linear)
        try:
            computed = engine.compute([*others, *fresh.values()], in_place, linear if len(others) == len(candidates) else None,
                                      hold=True)
        except CHECK_ERRORS:
            others = kept_promises(others)
            computed = engine.compute(list(fresh.values()), in_place, hold=True)
        for n in others:
            forget_history(n)
        for old, (t, _) in zip(leaves, whole):
            if old in fresh:
                stand_on(t, engine.leaf(old, engine.copied(computed[fresh[old]], old)))
            else:
                renew(t, old)
        if then is not None:
            then()
        engine.raise_held()


def _wholes(pairs: Sequence[tuple[Tensor | Part, Tensor]]) -> list[tuple[Tensor, Tensor]]:
    """The same overwriting in terms of tensors that are no parts of others."""
    result: list[tuple[Tensor, Tensor]] = []
    parts: dict[int, tuple[Tensor, list[tuple[int, Tensor]]]] = {}
    for t, value in pairs:
        base, start = t.place()
        if isinstance(t, Tensor) and base is t:
            result.append((t, value))
        else:
            parts.setdefault(id(base), (base, []))[1].append((start, value))
    for base, pieces in parts.values():
        joined, at = [], 0
        for start, value in sorted(pieces, key=lambda piece: piece[0]):
            if start > at:
                joined.append(base[at:start])
            joined.append(value)
            at = start + value.size
        if at < base.size:
            joined.append(base[at:])
        result.append((base, join_flat(joined)))
    return result


def renew(t: Tensor, old: Node) -> Node:
    """After the bytes of leaf `old` were overwritten: the tensor is a new leaf on them, which is returned; the old is stale."""
    made = engine.leaf(old, old.data)
    stand_on(t, made)
    old.data = STALE
    return made


def own_leaf(t: Tensor) -> Node:
    """The tensor's node as a leaf whose bytes belong to it alone."""
    region = region_of(t)
    n = t._node.inputs[0] if t._node.op is VARIABLE else t._node
    if not _owns(t, n):
        n = engine.leaf(n, engine.copied(region, n))
        stand_on(t, n)
    return n


def stand_on(t: Tensor, leaf: Node) -> None:
    """Make a tensor stand for a leaf of its own; one that asks for gradients goes on asking."""
    _owners[leaf] = weakref.ref(t)
    t._node = mark(t, leaf) if t._node.op is VARIABLE else leaf


def _rebuild(array: np.ndarray, requires_grad: bool) -> Tensor:
    return tensor(array, requires_grad=requires_grad)


# ---- making tensors ----------------------------------------------------------------------------------------------------


def from_region(like: Node, region: Region) -> Tensor:
    """A tensor on bytes that hold a value of the shape and dtype of a node; overwriting it moves it to bytes of its own."""
    made = Tensor.__new__(Tensor)
    made._node = engine.leaf(like, region)
    made._grad = None
    return made


def from_storage(storage: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """A tensor on the bytes of a storage."""
    made = unique(LEAF, shape, dtype)
    made.data = Region(storage)
    t = Tensor(made)
    _owners[made] = weakref.ref(t)
    return t


def tensor(data: Any, dtype: Any = None, *, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of the given elements.

    data           number, nested lists, NumPy array or tensor
    dtype          None: that of an array or tensor; float32 for Python floats, int64 for ints, bool for bools
    requires_grad  whether backward() collects its gradient
    returns        a tensor of its own memory
    raises         DTypeError for elements that are no numbers; ShapeError for ragged lists
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
    made = from_storage(_filled(array.shape, wanted, array), array.shape, wanted)
    return made.requires_grad_() if requires_grad else made


def _filled(shape: tuple[int, ...], dtype: DType, value: Any) -> engine.Storage:
    storage = engine.Storage(max(1, int(np.prod(shape)) * dtype.size))
    storage.view(dtype, shape)[...] = value
    return storage


def as_tensor(data: Any, dtype: Any = None) -> Tensor:
    """`data` as a tensor: itself if it is one, else a copy."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.astype(dtype)
    return tensor(data, dtype)


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares the memory of a NumPy array: writing to the array changes what is read later.

    array    C-contiguous, of a supported dtype
    returns  a tensor of the same shape and dtype
    raises   ArgumentError unless the array is C-contiguous and aligned; DTypeError for another dtype
    source   PyTorch, torch.from_numpy
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"from_numpy: takes a NumPy array, got {type(array).__name__}; use tensor() to copy")
    wanted = dt.dtype(array.dtype)
    return from_storage(engine.Storage.borrow(array), array.shape, wanted)


def full(shape: int | Sequence[int], value: float, dtype: Any = None) -> Tensor:
    """A tensor with one value everywhere.

    y[i] = value

    shape    ints
    value    the value
    dtype    None: float32 for a float, int64 for an int, bool for a bool
    returns  (*shape)
    raises   ShapeError for negative sizes
    source   array API standard, full
    """
    sizes = sh.sizes("full", shape)
    wanted = dt.dtype(dtype) if dtype is not None else dt.dtype(type(value))
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
    engine.compute([t.node for t in tensors if t.node.op.kind != "identity"])
    for t in tensors:
        region_of(t)

