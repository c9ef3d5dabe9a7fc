"""@rn.compile: a function of tensors is run once on stand-ins, and from then on as one plan."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from renaissance import changes, engine
from renaissance.errors import TraceError
from renaissance.ir import dtype as dt
from renaissance.ops.precision import narrow_dtype
from renaissance.ops.value import grad_enabled
from renaissance.recent import Recent
from renaissance.tensor import Tensor, as_tensor, tracing
from renaissance.trace.entry import Entry, Result
from renaissance.trace.number import Looked
from renaissance.trace.recorder import Recorder
from renaissance.trace.size import parsed_size
from renaissance.tree import build_tree, flatten_tree

ENTRIES = 256  # signatures that a compiled function keeps, those used last


def _surroundings() -> tuple[Any, ...]:
    """What around a call decides on the program, besides the arguments."""
    return engine.executor_name(), narrow_dtype(), grad_enabled()


def _describe(x: Any) -> Any:
    """How an argument enters the signature: a tensor by shape and dtype, a float by being one, anything else by value.

    A Parameter is the function's own as if it were captured, and counts by which it is.
    """
    if type(x) is Tensor:
        n = x._node
        return (n.shape, n.dtype, n.needs_grad)
    if isinstance(x, Tensor):
        return (type(x), id(x))
    if type(x) is float:
        return float
    try:
        hash(x)
    except TypeError:
        raise TraceError(f"compile: an argument of type {type(x).__name__} cannot be part of a signature; pass tensors, numbers, "
                         "strings, or tuples, lists and dicts of them") from None
    return (type(x), x)


class _Numbers:
    """What is known of the numbers in calls of one form: the ints of the first call, which vary, which are looked at."""

    def __init__(self, ints: tuple[Any, ...]):
        self.first = ints
        self.varying: set[int] = set()
        self.looked: set[int] = set()


class CompiledFunction:
    """What @rn.compile makes of a function; see there."""

    def __init__(self, function: Callable[..., Any], budget_bytes: int | None = None):
        functools.update_wrapper(self, function)
        self._function = function
        self._budget_bytes = budget_bytes
        self._entries: Recent[list[Entry]] = Recent(ENTRIES)
        self._numbers: Recent[_Numbers] = Recent(ENTRIES)
        self._last: tuple[Any, ...] | None = None  # signature of the last call of plain tensors, and its entry

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Method(self, instance)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        return CompiledFunction(copy.deepcopy(self._function, memo), self._budget_bytes)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if tracing.recorder is not None or tracing.inlined or engine.inspector is not None:
            return self._function(*args, **kwargs)
        with engine.lock:
            entry = None if kwargs else self._same_as_last(args)
            if entry is not None:
                return entry.run(args)
            skeleton, flat = _taken_apart(args, kwargs)
            signature, entry = self._ready(skeleton, flat)
            plain = not kwargs and len(flat) == len(args) and all(type(x) is Tensor for x in args)
            self._last = (signature[1], _surroundings(), entry) if plain and signature[2] is None else None
            return entry.run(flat)

    def _same_as_last(self, args: tuple[Any, ...]) -> Entry | None:
        """The entry of the last call, if these arguments are tensors just like its ones and nothing changed since."""
        if self._last is None:
            return None
        described, surroundings, entry = self._last
        if entry.changes != changes.count or entry.runs < 2 or len(args) != len(described) or surroundings != _surroundings():
            return None
        for x, (shape, dtype, needs_grad) in zip(args, described):
            if type(x) is not Tensor:
                return None
            n = x._node
            if n.shape != shape or n.dtype is not dtype or n.needs_grad is not needs_grad:
                return None
        alone = len(args) == 1 or len({*map(id, args)}) == len(args)
        return entry if alone and entry.fits(args) else None

    def plan(self, *args: Any, **kwargs: Any) -> Any:
        """The Plan for these arguments, without running it."""
        with engine.lock:
            skeleton, flat = _taken_apart(args, kwargs)
            return self._traced(skeleton, flat)[1].program.plan

    def _signature(self, skeleton: Any, flat: list[Any]) -> tuple[Any, ...]:
        """What tells this call's program from others.

        An int counts by value until a second value of it is seen, and a number that the function looks at always does.
        """
        described = [_describe(x) for x in flat]
        ints = tuple([x if type(x) is int else None for x in flat])
        if any(type(x) is int or type(x) is float for x in flat):
            numbers = self._numbers_of(skeleton, described, ints)
            numbers.varying.update(i for i, (a, b) in enumerate(zip(numbers.first, ints)) if a != b)
            for i, x in enumerate(flat):
                if i in numbers.looked:
                    described[i] = (type(x), repr(x))
                elif i in numbers.varying and dt.int64.least <= x <= dt.int64.largest:
                    described[i] = int
        return (skeleton, tuple(described), _twins(flat), _surroundings())

    def _numbers_of(self, skeleton: Any, described: list[Any], ints: tuple[Any, ...]) -> _Numbers:
        form = (skeleton, tuple([int if i is not None else d for i, d in zip(ints, described)]))
        found = self._numbers.get(form)
        if found is None:
            found = _Numbers(ints)
            self._numbers.put(form, found)
        return found

    def _ready(self, skeleton: Any, flat: list[Any]) -> tuple[tuple[Any, ...], Entry]:
        """The entry for a call, traced anew where something changed since, and traced twice to see that it is stable."""
        signature = self._signature(skeleton, flat)
        entries = self._entries.get(signature) or []
        for i, entry in enumerate(entries):
            if not entry.fits(flat):
                continue
            if entry.changes != changes.count:
                runs = entry.runs
                signature, entry = self._traced(skeleton, flat)
                entry.runs = runs
                entries[i] = entry
            elif entry.runs == 1:
                self._compare(entry, self._traced(skeleton, flat)[1])
            return signature, entry
        signature, entry = self._traced(skeleton, flat)
        self._entries.put(signature, [*(self._entries.get(signature) or []), entry])
        return signature, entry

    def _compare(self, first: Entry, second: Entry) -> None:
        parts, others = first.identity, second.identity
        if first.key == second.key and len(parts) == len(others) and all(map(_same, parts, others)):
            return
        at = next((i for i, (a, b) in enumerate(itertools.zip_longest(first.key[0], second.key[0])) if a != b), None)
        line = "" if at is None else next((f" at {where}" for where in (*second.lines[at:], *first.lines[at:]) if where), "")
        name = getattr(self._function, "__name__", type(self._function).__name__)
        raise TraceError(f"compiled function {name} does something else on its second call{line}: a Python value that it "
                         "captures changed between the calls; pass it as an argument, or make it a tensor and update that in "
                         "place")

    def _traced(self, skeleton: Any, flat: list[Any]) -> tuple[tuple[Any, ...], Entry]:
        """A new entry and its signature; where the function looks at numbers, they count by value and it is traced again."""
        while True:
            signature = self._signature(skeleton, flat)
            recorder = Recorder(flat)
            try:
                return signature, self._trace(recorder, signature[1], skeleton, flat)
            except Looked as looked:
                described = [_describe(x) for x in flat]
                numbers = self._numbers_of(skeleton, described, tuple([x if type(x) is int else None for x in flat]))
                numbers.looked.update(recorder.numbers[n] for n in looked.scalars)

    def _trace(self, recorder: Recorder, described: tuple[Any, ...], skeleton: Any, flat: list[Any]) -> Entry:
        with recorder.recording():
            inner = [_stand_in(recorder, i, x, d) for i, (x, d) in enumerate(zip(flat, described))]
            args, kwargs = build_tree(skeleton, iter(inner))
            leaves: list[Any] = []
            returned = flatten_tree(self._function(*args, **kwargs), leaves)
            results = [Result.of(x, recorder) for x in leaves]
        return Entry(recorder, returned, results, self._budget_bytes)


class _Method(functools.partial):
    """A compiled function that is a method, bound to its object."""

    def plan(self, *args: Any, **kwargs: Any) -> Any:
        """As CompiledFunction.plan."""
        return self.func.plan(*self.args, *args, **kwargs)  # type: ignore[attr-defined]


def _taken_apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The arguments of a call as a skeleton and leaves; arrays, and NumPy's floats, become tensors."""
    flat: list[Any] = []
    skeleton = flatten_tree((args, kwargs), flat)
    for i, x in enumerate(flat):
        if isinstance(x, (np.ndarray, np.floating)):
            flat[i] = as_tensor(np.asarray(x))
    return skeleton, flat


def _twins(flat: Sequence[Any]) -> tuple[int, ...] | None:
    """Where each tensor among the arguments is given first; None if none is given twice."""
    ids = [id(x) for x in flat if isinstance(x, Tensor)]
    if len(ids) < 2 or len(set(ids)) == len(ids):
        return None
    return tuple([ids.index(i) for i in ids])


def _stand_in(recorder: Recorder, i: int, x: Any, described: Any) -> Any:
    """What the function sees in place of argument x."""
    if type(x) is Tensor:
        return recorder.argument(i, x)
    if described is float or described is int:
        return recorder.number(i, dt.float64 if described is float else dt.int64)
    return x


def _same(a: Any, b: Any) -> bool:
    """Whether two parts of what identifies a program are the same."""
    if a is b:
        return True
    equal = type(a) is type(b) and a == b
    return bool(np.all(equal))


@overload
def compile(function: Callable[..., Any], *, memory_budget: int | str | None = None) -> CompiledFunction: ...
@overload
def compile(*, memory_budget: int | str | None = None) -> Callable[[Callable[..., Any]], CompiledFunction]: ...
def compile(function: Callable[..., Any] | None = None, *, memory_budget: int | str | None = None) -> Any:
    """Run a function of tensors as one compiled plan: forward, backward and update fused, in one memory arena.

    The function is traced once for each signature (shapes and dtypes of tensors, values of other arguments; executor, precision
    and no_grad around the call) on tensors without values. Tensors from outside that it reads or overwrites (parameters,
    optimizer state, running statistics) are state of the plan. Python floats, and ints that vary, are inputs of the plan, unless
    the function looks at them (in a condition, as a size, an index or an exponent): then each value is a signature of its own.
    The 256 signatures used last are kept. Results are bit-equal to the uncompiled function's; no gradient goes through them: call
    backward() inside.

    function       takes and returns tensors, numbers, strings, and tuples, lists and dicts of them; without it, as in
                   `@rn.compile(memory_budget="1.5 GiB")`, the decorator is returned
    memory_budget  the most memory each plan may need in all (inputs, that is parameters, state and data, with outputs and
                   scratch memory): bytes, or text such as '1.5 GiB'. Values are dropped and computed again so that it suffices,
                   which changes no bit; None: no bound
    returns        a function with the same arguments and results
    raises         TraceError where a value is read inside, or where a captured Python value changes between the calls;
                   ArgumentError for a budget that is no size; BudgetError, by the first call and before anything runs, for one
                   that cannot be met: it names the smallest that can
    source         definition
    """
    budget_bytes = None if memory_budget is None else parsed_size(memory_budget)
    if function is None:
        return lambda function: CompiledFunction(_checked(function), budget_bytes)
    return CompiledFunction(_checked(function), budget_bytes)


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    if not callable(function):
        raise TraceError(f"compile takes a function, got {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TraceError("compile takes a plain function, not a generator or coroutine")
    return function
