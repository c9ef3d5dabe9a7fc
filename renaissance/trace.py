"""@rn.compile: a function of tensors is run once on placeholders, and from then on as one plan."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from renaissance import changes, engine
from renaissance.engine import PLACEHOLDER
from renaissance.entry import Entry, bare, build_tree, flatten_tree
from renaissance.errors import TraceError
from renaissance.ir import dtype as dt
from renaissance.ir.node import Node, unique
from renaissance.ops.contraction import contraction_dtype
from renaissance.ops.value import SCALAR, Value, grad_enabled
from renaissance.recorder import Recorder, TracedNumber, grad_state
from renaissance.tensor import Tensor, as_tensor, tracing


def _context() -> tuple[Any, ...]:
    """What around a call changes what the function does: executor, precision, whether gradients are kept."""
    return (engine.executor_name(), contraction_dtype(dt.float32), grad_enabled())


def _describe(x: Any) -> Any:
    """How an argument enters the signature: a tensor by shape, dtype, gradient; a float by being one; anything else by value."""
    if isinstance(x, Tensor):
        n = x._node if type(x) is Tensor else x
        return (n.shape, n.dtype, (grad_state(x), x.is_leaf) if x.requires_grad else None)
    if type(x) is float:
        return float
    try:
        hash(x)
    except TypeError:
        raise TraceError(f"compile: an argument of type {type(x).__name__} cannot be part of a signature; pass tensors, numbers, "
                         "strings, or tuples, lists and dicts of them") from None
    return (type(x), x)


class CompiledFunction:
    """What @rn.compile makes of a function; see there."""

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self._function = function
        self._entries: dict[Any, list[Entry]] = {}
        self._first_ints: dict[Any, tuple[Any, ...]] = {}
        self._varying: dict[Any, set[int]] = {}
        self._last: tuple[Any, ...] | None = None  # signature of the last call of plain tensors, and its entry

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if tracing.recorder is not None or tracing.inlined or engine.inspector is not None:
            return self._function(*args, **kwargs)
        with engine.lock:
            entry = None if kwargs else self._same_as_last(args)
            if entry is not None:
                entry.check_arguments(args)
                return entry.run(args)
            flat: list[Any] = []
            skeleton = flatten_tree((args, kwargs) if kwargs else (args,), flat)
            for i, x in enumerate(flat):
                if isinstance(x, np.ndarray):
                    flat[i] = as_tensor(x)
            signature = self._signature(skeleton, flat)
            entry = self._ready(signature, skeleton, flat)
            entry.check_arguments(flat)
            plain = not kwargs and len(flat) == len(args) and all(type(x) is Tensor and not x.requires_grad for x in args)
            self._last = (_context(), [(x.shape, x.dtype) for x in args], entry) if plain else None
            return entry.run(flat)

    def _same_as_last(self, args: tuple[Any, ...]) -> Entry | None:
        """The entry of the last call, if these arguments are tensors just like its ones and nothing changed since."""
        if self._last is None:
            return None
        context, described, entry = self._last
        if entry.changes != changes.count or entry.runs < 2 or entry.guards or len(args) != len(described):
            return None
        for x, (shape, dtype) in zip(args, described):
            if type(x) is not Tensor:
                return None
            n = x._node
            if n.shape != shape or n.dtype is not dtype or n.needs_grad:
                return None
        return entry if context == _context() else None

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
            return (skeleton, described, _context())
        loose = (skeleton, tuple([int if type(x) is int else d for x, d in zip(flat, described)]))
        first = self._first_ints.setdefault(loose, ints)
        varying = self._varying.setdefault(loose, set())
        varying.update(i for i, (a, b) in enumerate(zip(first, ints)) if a != b)
        return (skeleton, tuple([int if i in varying else d for i, d in enumerate(described)]), _context())

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
        raise TraceError(f"compiled function {self._function.__name__} does something else on its second call{line}: "
                         "a Python value that it captures "
                         "changed between the calls; pass it as an argument, or make it a tensor and update that in place")

    def _trace(self, signature: Any, skeleton: Any, flat: list[Any]) -> Entry:
        recorder = Recorder()
        described = signature[1]
        numbers: dict[Node, int] = {}
        with recorder.recording():
            inner = [self._stand_in(recorder, i, x, d, numbers) for i, (x, d) in enumerate(zip(flat, described))]
            args, kwargs = build_tree((tuple, *skeleton[1:], *(() if len(skeleton) == 3 else ((dict, ()),))), iter(inner))
            leaves: list[Any] = []
            returned = flatten_tree(self._function(*args, **kwargs), leaves)
            results = [bare(x.node) if isinstance(x, Value) else x for x in leaves]
        return Entry(recorder, numbers, returned, results)

    @staticmethod
    def _stand_in(recorder: Recorder, i: int, x: Any, described: Any, numbers: dict[Node, int]) -> Any:
        """What the function sees in place of argument x."""
        if isinstance(x, Tensor):
            return recorder.argument(i, x)
        if described is float or described is int:
            n = unique(SCALAR, (), dt.float64 if described is float else dt.int64)
            n.data = PLACEHOLDER
            numbers[n] = i
            return TracedNumber(n)
        return x


def compile(function: Callable[..., Any]) -> CompiledFunction:
    """Run a function of tensors as one compiled plan: forward, backward and update fused, in one memory arena.

    The function is traced once for each signature (shapes and dtypes of tensors, values of other arguments) on tensors without
    values. Tensors from outside that it reads or overwrites (parameters, optimizer state) are state of the plan.
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
