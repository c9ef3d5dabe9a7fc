"""Recording: what a function under compilation does to the tensors around it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager

from renaissance.engine import PLACEHOLDER
from renaissance.ir import dtype as dt
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Shape, unique
from renaissance.ops.value import LEAF, SCALAR, observe
from renaissance.random import Generator
from renaissance.tensor import USED, Tensor, mark, tracing, user_line


def placeholder(shape: Shape, dtype: DType) -> Node:
    """A leaf that has a value only while a plan runs."""
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
            n = placeholder(t._node.shape, t._node.dtype)
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
            n = placeholder(t.shape, t.dtype)
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
