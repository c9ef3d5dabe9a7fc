"""@rn.compile: a function of tensors is run once on placeholders, and from then on as one plan."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from renaissance import changes, engine
from renaissance.engine import PLACEHOLDER, Linear, Program, Region
from renaissance.errors import TraceError
from renaissance.ir import dtype as dt
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Shape, unique
from renaissance.ops.value import LEAF, SCALAR, Value, observe
from renaissance.random import Generator
from renaissance.tensor import (
    USED,
    Tensor,
    as_tensor,
    kept_promises,
    mark,
    own_leaf,
    region_of,
    renew,
    sweep,
    tracing,
    user_line,
)


def _placeholder(shape: Shape, dtype: DType) -> Node:
    n = unique(LEAF, shape, dtype)
    n.data = PLACEHOLDER
    return n


class TracedNumber(Tensor):
    """A Python number given as an argument to a compiled function: a run-time scalar that takes the dtype of what it meets."""

    __slots__ = ()
    weak = True


class Recorder:
    """What happens while a function is traced: which outside tensors are read and rebound, which scalars vary from run to run."""

    def __init__(self) -> None:
        self.inner: dict[int, Tensor] = {}  # tensors made in the trace, kept alive so that ids stay theirs
        self.inputs: dict[int, tuple[Tensor, Node]] = {}  # outside tensors read, and what stands for them
        self.input_of: dict[Node, Tensor] = {}
        self.rebound: dict[int, tuple[Tensor, Node]] = {}  # outside tensors rebound, and their node before
        self.regraded: dict[int, tuple[Tensor, Tensor | None]] = {}
        self.grad_of: dict[Node, Tensor] = {}  # what stands for the gradient an outside tensor has on entry
        self.guards: list[tuple[Tensor, str]] = []  # outside tensors whose gradient on entry mattered, and what it was
        self.sources: dict[Node, tuple[Callable[[], dict[str, int | float]], str]] = {}
        self.draws: dict[int, tuple[Generator, int]] = {}
        self.effects: list[Callable[[], None]] = []
        self.lines: dict[Node, str] = {}

    # ---- called by Tensor, Generator, optimizers ---------------------------------------------------------------------

    def born(self, t: Tensor) -> None:
        self.inner[id(t)] = t

    def read(self, t: Tensor) -> Node:
        """The node of a tensor as the trace sees it."""
        key = id(t)
        if key in self.inner or key in self.rebound:
            return t._node
        known = self.inputs.get(key)
        if known is None:
            n = _placeholder(t._node.shape, t._node.dtype)
            self.input_of[n] = t
            seen = mark(t, n) if t._node.needs_grad else n
            known = self.inputs[key] = (t, seen)
        return known[1]

    def rebinding(self, t: Tensor) -> None:
        if id(t) not in self.inner and id(t) not in self.rebound:
            self.read(t)  # its old value is a leaf of the graph, to be written in place
            self.rebound[id(t)] = (t, t._node)

    def regrading(self, t: Tensor) -> None:
        if id(t) not in self.inner and id(t) not in self.regraded:
            self.regraded[id(t)] = (t, t._grad)

    def entry_grad(self, t: Tensor) -> Tensor | None:
        """The gradient a tensor has, as the trace sees it."""
        if id(t) in self.inner or id(t) in self.regraded:
            return t._grad
        state = grad_state(t)
        self.guards.append((t, state))
        if state != "kept":
            seen = t._grad
        else:
            n = _placeholder(t.shape, t.dtype)
            self.grad_of[n] = t
            seen = Tensor(n)
        self.regraded[id(t)] = (t, t._grad)
        t._grad = seen
        return seen

    def scalars(self, source: Callable[[], dict[str, int | float]], dtype: DType) -> dict[str, Tensor]:
        """Run-time scalars whose values `source` gives, by name, before each run."""
        made: dict[str, Tensor] = {}
        for name in source():
            n = unique(SCALAR, (), dtype)
            n.data = PLACEHOLDER
            self.sources[n] = (source, name)
            made[name] = Tensor(n)
        return made

    def effect(self, action: Callable[[], None]) -> None:
        """Have `action` done after each run."""
        self.effects.append(action)

    def draw(self, generator: Generator) -> tuple[Node, Node]:
        """The seed and the next ticket of a generator."""
        _, count = self.draws.get(id(generator), (generator, 0))
        self.draws[id(generator)] = (generator, count + 1)
        drawn = self.scalars(lambda: {"seed": generator.seed, "ticket": generator.ticket + count}, dt.uint64)
        return drawn["seed"]._node, drawn["ticket"]._node

    def note_line(self, n: Node) -> None:
        self.lines.setdefault(n, user_line())

    # ---- the transaction -------------------------------------------------------------------------------------------

    @contextmanager
    def recording(self):
        """Trace inside; afterwards every outside tensor is what it was before."""
        tracing.recorder = self
        observe(self.note_line)
        try:
            yield self
        finally:
            tracing.recorder = None
            observe(None)
            self.written = [(t, t._node) for t, _ in self.rebound.values()]
            self.graded = [(t, t._grad) for t, _ in self.regraded.values()]
            for t, before in self.rebound.values():
                t._node = before
            for t, grad in self.regraded.values():
                t._grad = grad


def grad_state(t: Tensor) -> str:
    return "none" if t._grad is None else "used" if t._grad is USED else "kept"


# ---- arguments and results ---------------------------------------------------------------------------------------------


def flatten_tree(tree: Any, leaves: list[Any]) -> Any:
    """A hashable skeleton of nested tuples, lists and dicts; their contents go to `leaves` in order."""
    if isinstance(tree, (tuple, list)):
        return (type(tree).__name__, *(flatten_tree(x, leaves) for x in tree))
    if isinstance(tree, dict):
        return ("dict", tuple(tree), *(flatten_tree(x, leaves) for x in tree.values()))
    leaves.append(tree)
    return None


def build_tree(skeleton: Any, leaves: Any) -> Any:
    """The inverse of flatten_tree; `leaves` is an iterator."""
    if skeleton is None:
        return next(leaves)
    if skeleton[0] == "dict":
        return {k: build_tree(s, leaves) for k, s in zip(skeleton[1], skeleton[2:])}
    items = [build_tree(s, leaves) for s in skeleton[1:]]
    return tuple(items) if skeleton[0] == "tuple" else items


def _describe(x: Any) -> Any:
    """How an argument enters the signature: a tensor by shape and dtype, a float by being one, anything else by value."""
    if isinstance(x, Tensor):
        n = x._node if type(x) is Tensor else x
        return (n.shape, n.dtype, x.requires_grad)
    if type(x) is float:
        return float
    try:
        hash(x)
    except TypeError:
        raise TraceError(f"compile: an argument of type {type(x).__name__} cannot be part of a signature; pass tensors, numbers, strings, "
                         "or tuples, lists and dicts of them") from None
    return (type(x), x)


# ---- compiled functions ------------------------------------------------------------------------------------------------


class Entry:
    """One traced signature of a compiled function: the program and how to bind it.

    skeleton, results  the structure of what the function returned, and its leaves: nodes or Python values
    """

    def __init__(self, recorder: Recorder, arguments: dict[Node, int], numbers: dict[Node, int], skeleton: Any, results: list[Any]):
        self.skeleton = skeleton
        self.constants = [None if isinstance(x, Node) else x for x in results]
        outputs = [x if isinstance(x, Node) else None for x in results]
        assigns = [(_bare(recorder.inputs[id(t)][1]), _bare(n)) for t, n in recorder.written]
        kept = [(t, g) for t, g in recorder.graded if g is not None and g is not USED]
        self.kept = [t for t, _ in kept]
        self.dropped = [(t, g) for t, g in recorder.graded if g is None or g is USED]
        grads = [_bare(g._node) for _, g in kept if g is not None]
        unique_outputs = list(dict.fromkeys(n for n in (*outputs, *grads) if n is not None))
        linear = Linear(unique_outputs, assigns, set(), traced=True)
        self.key = linear.key
        self.lines = [recorder.lines.get(n, "") for n in linear.order]
        self.guards = recorder.guards
        self.positions = [-1 if n is None else unique_outputs.index(n) for n in outputs]
        self.grad_positions = [unique_outputs.index(n) for n in grads]
        self.output_nodes = unique_outputs
        self.inputs = [_input(n, arguments, recorder) for n in linear.leaves]
        self.identity = [(p, None if t is None else t.numpy().tobytes() if p == _CONSTANT else id(t)) for p, t in self.inputs]
        self.assigned = [recorder.input_of[leaf] for leaf, _ in assigns]
        self.sources = list(dict.fromkeys(recorder.sources[n][0] for n in linear.scalars if n not in numbers))
        self.scalars = [(numbers[n], "") if n in numbers else (self.sources.index(recorder.sources[n][0]), recorder.sources[n][1])
                        for n in linear.scalars]
        self.effects = recorder.effects
        self.draws = list(recorder.draws.values())
        self.program: Program = engine.program(linear, unique_outputs, assigns)
        self.changes = changes.count
        self.runs = 0

    def run(self, flat: Sequence[Any]) -> Any:
        """Bind, run, and put the results where they belong."""
        if self.assigned:
            self._secure()
        addresses = []
        for position, t in self.inputs:
            x = flat[position] if t is None else t._grad if position == _GRADIENT else t
            data = x._node.data
            addresses.append(data.address if type(data) is Region and type(x) is Tensor else _memory(x).address)
        given = [source() for source in self.sources]
        scalars = [given[i][name] if name else flat[i] for i, name in self.scalars]
        regions = self.program.run(addresses, scalars)
        self.runs += 1
        for t in self.assigned:
            renew(t, t._node)
        for generator, count in self.draws:
            generator.ticket += count
        for action in self.effects:
            action()
        values = [Tensor(engine.leaf(n, r)) for n, r in zip(self.output_nodes, regions)]
        for t, grad in self.dropped:
            t._grad = grad
        for t, i in zip(self.kept, self.grad_positions):
            t._grad = values[i]
        results = (constant if i < 0 else values[i] for i, constant in zip(self.positions, self.constants))
        return build_tree(self.skeleton, results)

    def _secure(self) -> None:
        """Make the assigned tensors' bytes their own, unseen by others, and compute what still needs their old contents."""
        leaves = []
        for t in self.assigned:
            n = own_leaf(t)
            if n.data.storage.exported:
                copy = engine.leaf(n, engine.copied(n.data, n))
                t._rebind(copy)
                n = copy
            leaves.append(n)
        kept_promises(sweep(set(leaves)))


# Positions of inputs that are no arguments: an outside tensor, the gradient of one, a tensor of data made in the trace.
_STATE, _GRADIENT, _CONSTANT = -1, -2, -3


def _input(n: Node, arguments: dict[Node, int], recorder: Recorder) -> tuple[int, Tensor | None]:
    """Where a leaf of the graph gets its bytes from: the position of an argument, or a tensor from outside."""
    if n in arguments:
        return arguments[n], None
    if n in recorder.grad_of:
        return _GRADIENT, recorder.grad_of[n]
    if n in recorder.input_of:
        return _STATE, recorder.input_of[n]
    return _CONSTANT, Tensor(n)


def _bare(n: Node) -> Node:
    """The node behind marks that compute nothing."""
    while n.op.kind == "identity":
        n = n.inputs[0]
    return n


def _memory(x: Any) -> Region:
    return x.memory() if hasattr(x, "memory") else region_of(x)


class CompiledFunction:
    """What @rn.compile makes of a function; see there."""

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self._function = function
        self._entries: dict[Any, list[Entry]] = {}
        self._first_ints: dict[Any, tuple[Any, ...]] = {}
        self._varying: dict[Any, set[int]] = {}

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if tracing.recorder is not None or tracing.inlined or engine.inspector is not None:
            return self._function(*args, **kwargs)
        with engine.lock:
            flat: list[Any] = []
            skeleton = flatten_tree((args, kwargs) if kwargs else (args,), flat)
            for i, x in enumerate(flat):
                if isinstance(x, np.ndarray):
                    flat[i] = as_tensor(x)
            signature = self._signature(skeleton, flat)
            entry = self._ready(signature, skeleton, flat)
            return entry.run(flat)

    def plan(self, *args: Any, **kwargs: Any) -> Any:
        """The Plan for these arguments, without running it."""
        flat: list[Any] = []
        skeleton = flatten_tree((args, kwargs) if kwargs else (args,), flat)
        with engine.lock:
            return self._trace(self._signature(skeleton, flat), skeleton, flat).program.plan

    def _signature(self, skeleton: Any, flat: list[Any]) -> Any:
        """What tells this call's program from others; an int counts by value until a second value of it is seen."""
        described = tuple([_describe(x) for x in flat])
        ints = tuple([x if type(x) is int else None for x in flat])
        if not any(x is not None for x in ints):
            return (skeleton, described, engine.executor_name())
        loose = (skeleton, tuple([int if type(x) is int else d for x, d in zip(flat, described)]))
        first = self._first_ints.setdefault(loose, ints)
        varying = self._varying.setdefault(loose, set())
        varying.update(i for i, (a, b) in enumerate(zip(first, ints)) if a != b)
        return (skeleton, tuple([int if i in varying else d for i, d in enumerate(described)]), engine.executor_name())

    def _ready(self, signature: Any, skeleton: Any, flat: list[Any]) -> Entry:
        """The entry for a call, traced anew where something changed since, and traced twice to see that it is stable."""
        entries = self._entries.setdefault(signature, [])
        for i, entry in enumerate(entries):
            if any(grad_state(t) != state for t, state in entry.guards):
                continue
            if entry.changes != changes.count:
                again = self._trace(signature, skeleton, flat)
                again.runs = entry.runs
                entries[i] = again
                return again
            if entry.runs == 1:
                self._compare(entry, self._trace(signature, skeleton, flat))
            return entry
        entries.append(self._trace(signature, skeleton, flat))
        return entries[-1]

    def _compare(self, first: Entry, second: Entry) -> None:
        if first.key == second.key and first.identity == second.identity and first.constants == second.constants:
            return
        rows, others = first.key[0], second.key[0]
        at = next((i for i, (a, b) in enumerate(itertools.zip_longest(rows, others)) if a != b), None)
        line = "" if at is None else next((f" at {where}" for where in (*second.lines[at:], *first.lines[at:]) if where), "")
        raise TraceError(f"compiled function {self._function.__name__} does something else on its second call{line}: a Python value that it captures "
                         "changed between the calls; pass it as an argument, or make it a tensor and update that in place")

    def _trace(self, signature: Any, skeleton: Any, flat: list[Any]) -> Entry:
        recorder = Recorder()
        described = signature[1]
        arguments: dict[Node, int] = {}
        numbers: dict[Node, int] = {}
        with recorder.recording():
            inner = [self._stand_in(recorder, i, x, d, arguments, numbers) for i, (x, d) in enumerate(zip(flat, described))]
            args, kwargs = build_tree(("tuple", *skeleton[1:], *(() if len(skeleton) == 3 else (("dict", ()),))), iter(inner))
            leaves: list[Any] = []
            returned = flatten_tree(self._function(*args, **kwargs), leaves)
            results = [_bare(x.node) if isinstance(x, Value) else x for x in leaves]
        return Entry(recorder, arguments, numbers, returned, results)

    @staticmethod
    def _stand_in(recorder: Recorder, i: int, x: Any, described: Any, arguments: dict[Node, int], numbers: dict[Node, int]) -> Any:
        """What the function sees in place of argument x."""
        if isinstance(x, Tensor):
            n = _placeholder(x.shape, x.dtype)
            arguments[n] = i
            return Tensor(mark(x, n) if x.requires_grad else n)
        if described is float or described is int:
            n = unique(SCALAR, (), dt.float64 if described is float else dt.int64)
            n.data = PLACEHOLDER
            numbers[n] = i
            return TracedNumber(n)
        return x


def compile(function: Callable[..., Any]) -> CompiledFunction:
    """Run a function of tensors as one compiled plan: forward, backward and update fused, in one memory arena.

    The function is traced once for each signature (shapes and dtypes of tensors, values of other arguments) on tensors without
    values. Tensors from outside that it reads or overwrites (parameters, optimizer state, running statistics) are state of the plan.
    Python floats, and ints that vary, are inputs of the plan. Results are bit-equal to the uncompiled function's.

    function  takes and returns tensors, numbers, strings, and tuples, lists and dicts of them
    returns   a function with the same arguments and results
    raises    TraceError where a value is read inside, or where a captured Python value changes between the calls
    source    definition
    """
    if not callable(function):
        raise TraceError(f"compile takes a function, got {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TraceError("compile takes a plain function, not a generator or coroutine")
    return CompiledFunction(function)
