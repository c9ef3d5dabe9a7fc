"""Entry: one traced signature of a compiled function, bound to memory and run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from sys import getrefcount
from typing import Any, NoReturn

from renaissance import changes, engine, random
from renaissance.errors import GradientError, TraceError
from renaissance.ir.node import Node, Op, unique
from renaissance.linear import Linear
from renaissance.ops.value import LEAF
from renaissance.region import Region, copied, leaf
from renaissance.runtime.storage import Storage
from renaissance.tensor import Tensor, from_region, region_of
from renaissance.tensor.overwrite import own_leaf, renew
from renaissance.tensor.promises import bare, some_long, sweep
from renaissance.trace.recorder import Recorder, Slot, grad_state
from renaissance.trace.steady import Steady
from renaissance.tree import LEAF as TREE_LEAF
from renaissance.tree import build_tree

# Where an input of the plan comes from, if it is no argument: the gradient of something, or a tensor of data made in the trace.
_GRADIENT, _CONSTANT = "gradient", "constant"


def _no_gradient(*_: Any) -> NoReturn:
    raise GradientError("backward: no gradient goes through the results of a compiled function; call backward() inside it, use "
                        "rn.grad, or take detach() of the result")


# Marks results that would carry a gradient if the function were not compiled: a gradient that reaches one must not get lost.
COMPILED = Op("compiled", "identity", lambda inputs: (inputs[0].shape, inputs[0].dtype), lambda arrays, out: arrays[0],
              _no_gradient)


class State:
    """A tensor from outside that the plan reads, and perhaps overwrites.

    place      its number among the inputs
    serial     of the leaf it stood for when its address was last looked up; -1: it must be looked up each time
    assigned   whether the plan overwrites its bytes
    """

    __slots__ = ("place", "tensor", "serial", "assigned")

    def __init__(self, place: int, tensor: Tensor, assigned: bool):
        self.place, self.tensor, self.assigned = place, tensor, assigned
        self.serial = -1


class _Holder:
    _node = object()


# What `getrefcount(t._node)` gives for a node that only the tensor t refers to. It is written out where it is used: a function
# would take as long as all else that is done for a state.
_ALONE = getrefcount(_Holder._node)


@dataclass(frozen=True)
class Result:
    """One leaf of what a function returned while it was traced.

    node    what is computed for it; None: nothing is
    slot    the argument or outside tensor that it is; None: neither
    value   what it is otherwise
    number  whether the node is given as a Python number
    graded  whether it carries a gradient
    """

    node: Node | None
    slot: Slot | None = None
    value: Any = None
    number: bool = False
    graded: bool = False

    @classmethod
    def of(cls, x: Any, recorder: Recorder) -> Result:
        """What `x` is; to be asked while tracing.

        raises   TraceError for a parameter that was made inside
        """
        if not isinstance(x, Tensor):
            return cls(None, value=x)
        slot = recorder.given(x)
        if slot is None and x._node in recorder.numbers:
            slot = recorder.numbers[x._node]
        if slot is not None:
            return cls(None, slot)
        if type(x) is not Tensor and not x.weak:
            raise TraceError(f"a compiled function returns a {type(x).__name__} that it made: make it outside, or return a plain "
                             "tensor")
        return cls(bare(x._node), number=x.weak, graded=x._node.needs_grad)


class Entry:
    """A program with its binding.

    skeleton, results  the structure of what the function returned, and its leaves
    key, identity      tell a program that does the same from one that does not
    lines              source lines of the rows of the key
    guards             collected gradients that mattered, and what they must be for this entry to fit
    runs               how often it ran
    """

    def __init__(self, recorder: Recorder, skeleton: Any, results: Sequence[Result], budget_bytes: int | None = None):
        kept = [(slot, g) for slot, g in recorder.graded if isinstance(g, Node)]
        computed = [r.node for r in results if r.node is not None]
        self.skeleton = skeleton
        self.guards = recorder.guards
        self.effects = recorder.effects
        self._draws = list(recorder.draws.values())
        self._nodes = list(dict.fromkeys([*computed, *(g for _, g in kept)]))
        number = {n: i for i, n in enumerate(self._nodes)}
        self._results = [(-1 if r.node is None else number[r.node], r) for r in results]
        self._kept = [(slot, number[g]) for slot, g in kept]
        self._dropped = [(slot, g) for slot, g in recorder.graded if not isinstance(g, Node)]
        self._marked = not recorder.graded  # results carry no gradient where the function took it itself
        leaf_of = {_key(slot): n for n, slot in recorder.inputs.items()}
        assigns = [(leaf_of[_key(slot)], bare(n)) for slot, n in recorder.written]
        linear = Linear.traced(self._nodes, assigns)
        self.key = linear.key
        self.lines = [recorder.lines.get(n, "") for n in linear.order]
        self._place_inputs(linear.leaves, recorder, {n for n, _ in assigns})
        self._sources = list(dict.fromkeys([recorder.sources[n][0] for n in linear.scalars if n not in recorder.numbers]))
        self._scalars = [self._scalar(n, recorder) for n in linear.scalars]
        self.identity += [_key(slot) for slot, _ in (*recorder.written, *recorder.graded)]
        self.identity += [r.value if r.slot is None else _key(r.slot) for r in results]
        writes = bool(recorder.written or recorder.graded)
        self._captured = recorder.captured if writes or recorder.aliased else {}
        self._aliased = {i: recorder.flat[i] for i in recorder.aliased}
        self._steady: Steady | None = None
        places = [s.place for s in self._states]
        found = None if writes or budget_bytes is not None else engine.halves(linear, self._nodes, places)
        if found is not None:
            self._steady = Steady(found[0], places)
        self.program = engine.program(linear, self._nodes, assigns, budget_bytes) if found is None else found[1]
        self.changes = changes.count
        self.runs = 0

    def _scalar(self, n: Node, recorder: Recorder) -> tuple[int, str]:
        """Where a scalar's value comes from: the position of an argument and '', or the number of a source and a name."""
        if n in recorder.numbers:
            return recorder.numbers[n], ""
        source, name = recorder.sources[n]
        return self._sources.index(source), name

    def _place_inputs(self, leaves: Sequence[Node], recorder: Recorder, assigned: set[Node]) -> None:
        """Say for each leaf of the graph where its bytes come from."""
        self._addresses = [0] * len(leaves)
        self._arguments: list[tuple[int, int]] = []  # (place, position among the arguments)
        self._owned: list[tuple[int, int]] = []  # the same of those that are overwritten
        self._gradients: list[tuple[int, Slot]] = []
        self._states: list[State] = []
        self._held: list[Tensor] = []  # tensors of data made in the trace, kept alive
        self.identity: list[Any] = []
        for place, n in enumerate(leaves):
            slot = recorder.inputs.get(n)
            if n in recorder.grad_of:
                self._gradients.append((place, recorder.grad_of[n]))
                self.identity.append((_GRADIENT, _key(recorder.grad_of[n])))
            elif slot is None:
                data = Tensor(n)
                self._held.append(data)
                self._addresses[place] = region_of(data).address
                self.identity.append((_CONSTANT, data.numpy().tobytes()))
            elif isinstance(slot, int):
                (self._owned if n in assigned else self._arguments).append((place, slot))
                self.identity.append(slot)
            else:
                self._states.append(State(place, slot, n in assigned))
                self.identity.append(_key(slot))
        self._overwritten = [s for s in self._states if s.assigned]

    def fits(self, flat: Sequence[Any]) -> bool:
        """Whether the entry is right for these arguments: as to their gradients, and which of them are tensors from outside.

        What an entry changes must not be bound a second time, as an argument.
        """
        others = flat
        if self._aliased:
            if any(flat[i] is not x for i, x in self._aliased.items()):
                return False
            others = [x for i, x in enumerate(flat) if i not in self._aliased]
        if self._captured and not self._captured.keys().isdisjoint(map(id, others)):
            return False
        return not self.guards or all(grad_state(self._real(slot, flat)) == state for slot, state in self.guards)

    # ---- running -----------------------------------------------------------------------------------------------------

    def run(self, flat: Sequence[Any]) -> Any:
        """Bind, run, and put the results where they belong."""
        addresses = self._addresses
        read_elsewhere = bool(self._owned)
        for state in self._states:  # no name for the node here: it would count as a reference
            t = state.tensor
            # Bytes that are overwritten must not be seen by others: another tensor, a promise, a NumPy view.
            if t._node.serial != state.serial or (state.assigned and (getrefcount(t._node) > _ALONE
                                                                     or t._node.data.storage.exported)):
                self._look_up(state)
                read_elsewhere = read_elsewhere or state.assigned
        for place, position in self._owned:
            addresses[place] = _own(flat[position]).data.address
        if read_elsewhere or (self._overwritten and some_long()):
            sweep({bare(t._node) for t in (*(s.tensor for s in self._overwritten), *(flat[i] for _, i in self._owned))})
        for place, position in self._arguments:
            addresses[place] = _memory(flat[position]).address
        for place, slot in self._gradients:
            addresses[place] = _memory(self._real(slot, flat)._grad).address
        if self._steady is not None:
            addresses = [*addresses, *self._steady.addresses(addresses, self._storages)]
        self._flat = flat
        try:
            regions = self._run_with(addresses, flat)
        finally:
            self._flat = ()
        values = [self._result(i, r, regions, flat) for i, r in self._results]
        return values[0] if self.skeleton is TREE_LEAF else build_tree(self.skeleton, iter(values))

    def _storages(self) -> list[Storage]:
        return [_memory(s.tensor).storage for s in self._states]

    def _run_with(self, addresses: list[int], flat: Sequence[Any]) -> list[Region]:
        """Take tickets, look at what varies, and run; tickets are given back if nothing came of it."""
        if not self._draws:
            return self.program.run(addresses, self._values(flat), self._settle)
        with random.tickets:
            scalars = self._values(flat)
            for generator, count in self._draws:
                generator.ticket += count
            after = [generator.ticket for generator, _ in self._draws]
        runs = self.runs
        try:
            return self.program.run(addresses, scalars, self._settle)
        finally:
            if self.runs == runs:
                with random.tickets:
                    for (generator, count), ticket in zip(self._draws, after):
                        generator.ticket -= count if generator.ticket == ticket else 0

    def _values(self, flat: Sequence[Any]) -> list[int | float]:
        given = [source() for source in self._sources]
        return [given[i][name] if name else flat[i] for i, name in self._scalars]

    def _settle(self, regions: list[Region]) -> None:
        """The plan has run: everything it changed is from now on what it wrote."""
        self.runs += 1
        for action in self.effects:
            action()
        for state in self._overwritten:
            if state.serial < 0 or getrefcount(state.tensor._node) > _ALONE:  # others must not take the new version for the old
                renew(state.tensor, bare(state.tensor._node))
                state.serial = _serial(state.tensor)
            else:
                state.tensor._node.data.storage.version += 1
        for _, position in self._owned:
            renew(self._flat[position], bare(self._flat[position]._node))
        for slot, grad in self._dropped:
            self._real(slot, self._flat)._grad = grad
        for slot, i in self._kept:
            self._real(slot, self._flat)._grad = from_region(self._nodes[i], regions[i])

    def _result(self, i: int, r: Result, regions: list[Region], flat: Sequence[Any]) -> Any:
        if i < 0:
            return r.value if r.slot is None else self._real(r.slot, flat)
        made = from_region(self._nodes[i], regions[i])
        if r.number:
            return made.item()
        if r.graded and self._marked:
            n = made._node
            made._node = unique(COMPILED, n.shape, n.dtype, (), (n,))
            made._node.needs_grad = True
        return made

    @staticmethod
    def _real(slot: Slot, flat: Sequence[Any]) -> Any:
        return flat[slot] if isinstance(slot, int) else slot

    def _look_up(self, state: State) -> None:
        """Note where a state lies; one that is overwritten gets bytes of its own, unseen by others."""
        t = state.tensor
        self._addresses[state.place] = _own(t).data.address if state.assigned else _memory(t).address
        state.serial = _serial(t)


def _own(t: Tensor) -> Node:
    """The leaf of a tensor, on bytes that nobody else sees."""
    n = own_leaf(t)
    if n.data.storage.exported:
        t.refill(leaf(n, copied(n.data, n)))
    return bare(t._node)


def _serial(t: Tensor) -> int:
    """The serial number of a tensor's node, if that says by itself where the bytes are."""
    return t._node.serial if t._node.op is LEAF else -1


def _key(slot: Slot) -> Any:
    """A slot as something to compare: tensors by identity."""
    return slot if isinstance(slot, int) else ("outside", id(slot))


def _memory(x: Any) -> Region:
    data = x._node.data if type(x) is Tensor else None
    if type(data) is Region:
        return data
    return x.memory() if hasattr(x, "memory") else region_of(x)
