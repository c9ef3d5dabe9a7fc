"""Entry: one traced signature of a compiled function, bound to memory and run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from renaissance import changes, engine
from renaissance.engine import Linear, Region
from renaissance.errors import TraceError
from renaissance.ir.node import Node
from renaissance.recorder import Recorder
from renaissance.tensor import (
    USED,
    Tensor,
    from_region,
    has_promises,
    kept_promises,
    overwrite,
    own_leaf,
    region_of,
    renew,
    stand_on,
    sweep,
)

# Where an input of the plan comes from, if it is no argument: the gradient of an outside tensor, or data made in the trace.
_GRADIENT, _CONSTANT = "gradient", "constant"


class State:
    """An outside tensor that the plan reads, and perhaps overwrites.

    place      its number among the inputs
    node       the leaf it stood for when its address was last looked up
    assigned   whether the plan overwrites its bytes
    """

    __slots__ = ("place", "tensor", "node", "assigned")

    def __init__(self, place: int, tensor: Tensor, assigned: bool):
        self.place, self.tensor, self.assigned = place, tensor, assigned
        self.node: Node | None = None


def _references(state: State) -> int:
    """How often the leaf of a state is referred to, this function included."""
    leaf = state.node
    return sys.getrefcount(leaf)


class Entry:
    """A program with its binding.

    skeleton, results  the structure of what the function returned, and its leaves: nodes or Python values
    """

    def __init__(self, recorder: Recorder, numbers: dict[Node, int], skeleton: Any, results: list[Any]):
        self.skeleton = skeleton
        self.constants = [None if isinstance(x, Node) else x for x in results]
        outputs = [x if isinstance(x, Node) else None for x in results]
        assigns = [(bare(recorder.inputs[id(t)][1]), bare(n)) for t, n in recorder.written]
        kept = [(t, bare(g._node)) for t, g in recorder.graded if g is not None and g is not USED]
        self.kept = [t for t, _ in kept]
        self.dropped = [(t, g) for t, g in recorder.graded if g is None or g is USED]
        rewritten = [(position, bare(t._node)) for position, t, node, _ in recorder.stand_ins if t._node is not node]
        regraded = [(position, t._grad) for position, t, _, grad in recorder.stand_ins if t._grad is not grad]
        regraded_nodes = {position: bare(g._node) for position, g in regraded if g is not None and g is not USED}
        wanted = (*outputs, *(n for _, n in kept), *(n for _, n in rewritten), *regraded_nodes.values())
        self.output_nodes = list(dict.fromkeys(n for n in wanted if n is not None))
        self._rewritten = [(position, self.output_nodes.index(n)) for position, n in rewritten]
        self._regraded = [(position, g, self.output_nodes.index(regraded_nodes[position]) if position in regraded_nodes else -1)
                          for position, g in regraded]
        self._changed = dict.fromkeys([position for position, _ in rewritten] + [position for position, _ in regraded])
        touched = (*(t for t, _ in recorder.written), *(t for t, _ in recorder.graded))
        self._touched = {id(t): t for t in touched}
        linear = Linear(self.output_nodes, assigns, set(), traced=True)
        self.key = linear.key
        self.lines = [recorder.lines.get(n, "") for n in linear.order]
        self.guards = recorder.guards
        self.positions = [-1 if n is None else self.output_nodes.index(n) for n in outputs]
        self.grad_positions = [self.output_nodes.index(n) for _, n in kept]
        self._place_inputs(linear.leaves, recorder, {leaf for leaf, _ in assigns})
        self.sources = list(dict.fromkeys(recorder.sources[n][0] for n in linear.scalars if n not in numbers))
        self.scalars = [(numbers[n], "") if n in numbers else (self.sources.index(recorder.sources[n][0]), recorder.sources[n][1])
                        for n in linear.scalars]
        self.effects = recorder.effects
        self.draws = list(recorder.draws.values())
        self.program = engine.program(linear, self.output_nodes, assigns)
        self.changes = changes.count
        self.runs = 0

    def _place_inputs(self, leaves: Sequence[Node], recorder: Recorder, assigned: set[Node]) -> None:
        """Say for each leaf of the graph where its bytes come from."""
        self._addresses = [0] * len(leaves)
        self._arguments: list[tuple[int, int]] = []  # (place, position among the arguments)
        self._gradients: list[tuple[int, Tensor]] = []
        self._argument_gradients: list[tuple[int, int]] = []  # (place, position among the arguments)
        self._states: list[State] = []
        self._held: list[Tensor] = []  # tensors of data made in the trace, kept alive
        self.identity: list[Any] = []
        for place, n in enumerate(leaves):
            if n in recorder.arguments:
                self._arguments.append((place, recorder.arguments[n]))
                self.identity.append(recorder.arguments[n])
            elif n in recorder.argument_grads:
                self._argument_gradients.append((place, recorder.argument_grads[n]))
                self.identity.append((_GRADIENT, recorder.argument_grads[n]))
            elif n in recorder.grad_of:
                self._gradients.append((place, recorder.grad_of[n]))
                self.identity.append((_GRADIENT, id(recorder.grad_of[n])))
            elif n in recorder.input_of:
                self._states.append(State(place, recorder.input_of[n], n in assigned))
                self.identity.append(id(recorder.input_of[n]))
            else:
                data = Tensor(n)
                self._held.append(data)
                self._addresses[place] = region_of(data).address
                self.identity.append((_CONSTANT, data.numpy().tobytes()))
        self._overwritten = [s for s in self._states if s.assigned]

    def check_arguments(self, flat: Sequence[Any]) -> None:
        """Raise TraceError where one tensor comes in twice and is changed: each would be changed as if it were alone."""
        touched = self._touched
        for x in flat:
            if id(x) in touched or (isinstance(x, Tensor) and type(x) is not Tensor and id(x.place()[0]) in touched):
                raise TraceError("compile: a tensor is given as an argument, and the function, which also uses it from outside, "
                                 "changes it or its gradient; pass it, or let the function capture it, but not both")
        for position in self._changed:
            if sum(x is flat[position] for x in flat) > 1:
                raise TraceError(f"compile: argument {position} is given twice, and the function changes it or its gradient")

    def run(self, flat: Sequence[Any]) -> Any:
        """Bind, run, and put the results where they belong."""
        addresses = self._addresses
        for state in self._states:
            if state.tensor._node is not state.node or (state.assigned and _seen(state)):
                self._look_up(state)
        if self._overwritten and has_promises():
            kept_promises(sweep({s.node for s in self._overwritten if s.node is not None}))
        for place, position in self._arguments:
            addresses[place] = _memory(flat[position]).address
        for place, t in self._gradients:
            addresses[place] = _memory(t._grad).address
        for place, position in self._argument_gradients:
            addresses[place] = _memory(flat[position]._grad).address
        given = [source() for source in self.sources]
        scalars = [given[i][name] if name else flat[i] for i, name in self.scalars]
        regions = self.program.run(addresses, scalars)
        held = engine.take_held()
        self.runs += 1
        for state in self._overwritten:
            if _references(state) > _ALONE:  # somebody still holds the old version: it must not pass for the new one
                assert state.node is not None  # and no mark of a variable, as the tensor's own node may be
                state.node = renew(state.tensor, state.node)
        for generator, count in self.draws:
            generator.ticket += count
        for action in self.effects:
            action()
        values = [from_region(n, r) for n, r in zip(self.output_nodes, regions)]
        for position, i in self._rewritten:
            overwrite([(flat[position], values[i])])
        for position, grad, i in self._regraded:
            flat[position]._grad = grad if i < 0 else values[i]
        results = self._delivered(values)
        if held is not None:
            raise held
        return results

    def _delivered(self, values: list[Tensor]) -> Any:
        """Gradients to their owners, results in the structure the function gave them."""
        for t, grad in self.dropped:
            t._grad = grad
        for t, i in zip(self.kept, self.grad_positions):
            t._grad = values[i]
        if self.skeleton is None:
            i = self.positions[0]
            return self.constants[0] if i < 0 else values[i]
        results = (constant if i < 0 else values[i] for i, constant in zip(self.positions, self.constants))
        return build_tree(self.skeleton, results)

    def _look_up(self, state: State) -> None:
        """Note where a state lies; one that is overwritten gets bytes of its own, unseen by others."""
        t = state.tensor
        if state.assigned:
            n = own_leaf(t)
            if n.data.storage.exported:
                n = engine.leaf(n, engine.copied(n.data, n))
                stand_on(t, n)
            self._addresses[state.place] = n.data.address
            state.node = n
        else:
            self._addresses[state.place] = _memory(t).address
            state.node = t._node


def _seen(state: State) -> bool:
    """Whether somebody else may look at the bytes of a state: through a NumPy view, or through another tensor."""
    leaf = state.node
    return leaf is None or leaf.data.storage.exported or _references(state) > _ALONE + 1


def _calibrated() -> int:
    """What `_references` gives for a leaf that only its tensor and its state refer to."""

    class Holder:
        _node: Any

    holder: Any = Holder()
    holder._node = object()
    state: Any = State(0, holder, True)
    state.node = holder._node
    return _references(state)


_ALONE = _calibrated()


def bare(n: Node) -> Node:
    """The node behind marks that compute nothing."""
    while n.op.kind == "identity":
        n = n.inputs[0]
    return n


def _memory(x: Any) -> Region:
    data = x._node.data if type(x) is Tensor else None
    if type(data) is Region:
        return data
    return x.memory() if hasattr(x, "memory") else region_of(x)


def flatten_tree(tree: Any, leaves: list[Any]) -> Any:
    """A hashable skeleton of nested tuples, lists and dicts; their contents go to `leaves` in order."""
    if isinstance(tree, (tuple, list)):
        kind = type(tree) if hasattr(tree, "_fields") else tuple if isinstance(tree, tuple) else list
        return (kind, *(flatten_tree(x, leaves) for x in tree))
    if isinstance(tree, dict):
        return (dict, tuple(tree), *(flatten_tree(x, leaves) for x in tree.values()))
    leaves.append(tree)
    return None


def build_tree(skeleton: Any, leaves: Iterator[Any]) -> Any:
    """The inverse of flatten_tree."""
    if skeleton is None:
        return next(leaves)
    kind = skeleton[0]
    if kind is dict:
        return {k: build_tree(s, leaves) for k, s in zip(skeleton[1], skeleton[2:])}
    items = [build_tree(s, leaves) for s in skeleton[1:]]
    return kind(*items) if hasattr(kind, "_fields") else kind(items)
