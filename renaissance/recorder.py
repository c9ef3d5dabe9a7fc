"""Recording: what a function under compilation does to the tensors around it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from renaissance.engine import PLACEHOLDER
from renaissance.errors import GradientError, TraceError
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

    def __repr__(self) -> str:
        return f"a {'float' if self.dtype.is_float else 'varying int'} given to a compiled function"

    def _refuse(self, *_: Any) -> Any:
        raise TraceError(f"{self!r} is used as a Python number at {user_line()}: it is an input of the plan and has no value "
                         "while it is traced; compute with it as with a tensor, or make a compiled function for each value")

    item = __bool__ = __int__ = __float__ = __index__ = _refuse  # type: ignore[assignment]


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
        self.arguments: dict[Node, int] = {}  # what stands for the tensor at a position of the arguments
        self.argument_grads: dict[Node, int] = {}  # what stands for the gradient such a tensor has on entry
        self.stand_ins: list[tuple[int, Tensor, Node, Tensor | None]] = []  # position, stand-in, its node and gradient on entry
        self.borders: set[Node] = set()  # variables behind which, outside, lies more of the graph

    # ---- called by Tensor, Generator, optimizers ---------------------------------------------------------------------

    def born(self, t: Tensor) -> None:
        self.inner[id(t)] = t

    def argument(self, position: int, x: Tensor) -> Tensor:
        """What the function sees in place of the tensor at a position of its arguments."""
        n = placeholder(x.shape, x.dtype)
        self.arguments[n] = position
        t = Tensor(n)
        if x.requires_grad:
            t._node = self._marked(t, n, x)
            t._grad = x._grad
            if grad_state(x) == "kept":
                g = placeholder(x.shape, x.dtype)
                self.argument_grads[g] = position
                t._grad = Tensor(g)
        self.stand_ins.append((position, t, t._node, t._grad))
        return t

    def _marked(self, owner: Tensor, n: Node, outside: Tensor) -> Node:
        """A placeholder as a variable; a border if what it stands for was computed from other variables."""
        marked = mark(owner, n)
        if not outside.is_leaf:
            self.borders.add(marked)
        return marked

    def check_border(self, n: Node) -> None:
        """Raise GradientError if a gradient that reaches this variable would have to go on outside the trace."""
        if n in self.borders:
            raise GradientError(f"backward() inside a compiled function at {user_line()} reaches a tensor computed outside "
                                "of it from what asks for a gradient: compute it inside, or detach() it")

    def read(self, t: Tensor) -> Node:
        """The node of a tensor as the trace sees it."""
        key = id(t)
        if key in self.inner or key in self.rebound:
            return t._node
        known = self.inputs.get(key)
        if known is None:
            n = placeholder(t._node.shape, t._node.dtype)
            self.input_of[n] = t
            seen = self._marked(t, n, t) if t._node.needs_grad else n
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
