"""Recording: what a function under compilation does to the tensors it is given and to those around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from renaissance.errors import GradientError
from renaissance.ir import dtype as dt
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node
from renaissance.ops.value import VARIABLE, observing
from renaissance.random import Generator
from renaissance.region import placeholder, scalar_placeholder
from renaissance.tensor import USED, Tensor, mark, tracing, user_line
from renaissance.tensor.promises import bare
from renaissance.trace.number import TracedNumber

_UNSEEN = object()  # in place of a gradient that the function did not look at before it set another
Slot = int | Tensor  # what a compiled function reads or changes: the argument at a position, or a tensor from outside


def grad_state(t: Tensor) -> str:
    """What a tensor has collected: 'none', 'used' or 'kept'."""
    return "none" if t._grad is None else "used" if t._grad is USED else "kept"


class Recorder:
    """What happens while a function is traced. Inside, arguments are stand-ins, and tensors from outside appear as inputs.

    flat      the arguments
    inputs    leaves of the graph, and what gives them their bytes at run time
    grad_of   leaves that are gradients collected before the call, and whose
    guards    whose collected gradients mattered, and what they were
    numbers   scalars that are arguments, and their positions
    sources   other scalars that vary from run to run: a function that gives named values before each run, and the name
    draws     how many tickets each generator gave
    effects   what to do after each run
    aliased   positions of arguments that the function also reaches from outside
    captured  afterwards: tensors from outside that were seen, by id
    written   afterwards: what was overwritten, and its new elements
    graded    afterwards: whose gradient was set, and to what: a node, None, or USED
    lines     source lines of nodes
    """

    def __init__(self, flat: Sequence[Any]) -> None:
        self.flat = flat
        self.inputs: dict[Node, Slot] = {}
        self.grad_of: dict[Node, Slot] = {}
        self.guards: list[tuple[Slot, str]] = []
        self.numbers: dict[Node, int] = {}
        self.sources: dict[Node, tuple[Callable[[], dict[str, int | float]], str]] = {}
        self.draws: dict[int, tuple[Generator, int]] = {}
        self.effects: list[Callable[[], None]] = []
        self.aliased: set[int] = set()
        self.captured: dict[int, Tensor] = {}
        self.written: list[tuple[Slot, Node]] = []
        self.graded: list[tuple[Slot, Node | Tensor | None]] = []
        self.lines: dict[Node, str] = {}
        self._inside: dict[int, Any] = {}  # what was made in the trace, kept alive so that ids stay theirs
        self._outside: dict[int, tuple[Tensor, Node]] = {}  # tensors from outside that were read, and what stands for them
        self._rebound: dict[int, tuple[Tensor, Node]] = {}  # those that were overwritten, and their nodes before
        self._regraded: dict[int, tuple[Tensor, Tensor | None, Any]] = {}  # gradient before, and as first seen in the trace
        self._stand_ins: dict[int, Tensor] = {}  # by the id of the argument
        self._positions: dict[int, int] = {}  # by the id of the stand-in

    # ---- arguments ---------------------------------------------------------------------------------------------------

    def argument(self, i: int, x: Tensor) -> Tensor:
        """The stand-in of a tensor given at position `i`; given twice, it has one."""
        known = self._stand_ins.get(id(x))
        if known is None:
            n = placeholder(x._node.shape, x._node.dtype)
            known = self._stand_ins[id(x)] = Tensor(n)
            if x._node.needs_grad:
                known._node = mark(known, n)
            self.inputs[n] = self._positions[id(known)] = i
        return known

    def number(self, i: int, dtype: DType) -> TracedNumber:
        """The stand-in of a Python number given at position `i`."""
        n = scalar_placeholder(dtype)
        self.numbers[n] = i
        return TracedNumber(n)

    def given(self, t: Tensor) -> Slot | None:
        """What a tensor of the trace is from outside; None: it was made in the trace."""
        t = self._seen(t)
        i = self._positions.get(id(t))
        return i if i is not None else None if id(t) in self._inside else t

    def _seen(self, t: Tensor) -> Tensor:
        """The handle the trace uses for a tensor: an argument that is also reached from outside is its stand-in there too."""
        stand_in = self._stand_ins.get(id(t))
        if stand_in is None:
            return t
        self.aliased.add(self._positions[id(stand_in)])
        return stand_in

    # ---- called by tensors, generators, optimizers ---------------------------------------------------------------------

    def born(self, x: Any) -> None:
        """Something was made in the trace."""
        self._inside[id(x)] = x

    def made_inside(self, x: Any) -> bool:
        """Whether something was made in the trace."""
        return id(x) in self._inside and id(x) not in self._positions

    def read(self, t: Tensor) -> Node:
        """The node of a tensor as the trace sees it."""
        t = self._seen(t)
        key = id(t)
        if key in self._inside or key in self._rebound:
            return t._node
        known = self._outside.get(key)
        if known is None:
            n = placeholder(t._node.shape, t._node.dtype)
            self.inputs[n] = t
            known = self._outside[key] = (t, mark(t, n) if t._node.needs_grad else n)
        return known[1]

    def rebind(self, t: Tensor, n: Node) -> None:
        """A tensor stands for another node from now on."""
        t = self._seen(t)
        if id(t) not in self._inside and id(t) not in self._rebound:
            self.read(t)  # its old value is a leaf of the graph, to be written in place
            self._rebound[id(t)] = (t, t._node)
        t._node = n

    def grad(self, t: Tensor) -> Tensor | None:
        """The gradient a tensor has collected, as the trace sees it."""
        slot, t = self.given(t), self._seen(t)
        if slot is None or id(t) in self._regraded:
            return t._grad
        state = grad_state(self._real(slot))
        self.guards.append((slot, state))
        if state == "kept":
            n = placeholder(t.shape, t.dtype)
            self.grad_of[n] = slot
            seen: Tensor | None = Tensor(n)
        else:
            seen = self._real(slot)._grad
        self._regraded[id(t)] = (t, t._grad, seen)
        t._grad = seen
        return seen

    def regrade(self, t: Tensor, value: Tensor | None) -> None:
        """A tensor has another gradient from now on.

        raises   GradientError where a gradient would have to go on into what was computed before the call
        """
        slot, t = self.given(t), self._seen(t)
        if slot is not None:
            real = self._real(slot)
            if value is not None and type(real) is Tensor and real._node.needs_grad and real._node.op is not VARIABLE:
                raise GradientError(f"backward() inside a compiled function at {user_line()} reaches a tensor computed outside "
                                    "of it from what asks for a gradient: compute it inside, or detach() it")
            if id(t) not in self._regraded:
                self._regraded[id(t)] = (t, t._grad, _UNSEEN)
        t._grad = value

    def scalars(self, source: Callable[[], dict[str, int | float]], dtype: DType) -> dict[str, Tensor]:
        """Run-time scalars whose values `source` gives, by name, before each run."""
        made: dict[str, Tensor] = {}
        for name in source():
            n = scalar_placeholder(dtype)
            self.sources[n] = (source, name)
            made[name] = Tensor(n)
        return made

    def effect(self, action: Callable[[], None]) -> None:
        """Have `action` done after each run."""
        self.effects.append(action)

    def draw(self, generator: Generator) -> tuple[Node, Node]:
        """The seed and the next ticket of a generator; one that was made in the trace is made anew in every run."""
        if self.made_inside(generator):
            values: dict[str, int | float] = {"seed": generator.seed, "ticket": generator.ticket}
            generator.ticket += 1
            drawn = self.scalars(lambda: values, dt.uint64)
        else:
            _, count = self.draws.get(id(generator), (generator, 0))
            self.draws[id(generator)] = (generator, count + 1)
            drawn = self.scalars(lambda: {"seed": generator.seed, "ticket": generator.ticket + count}, dt.uint64)
        return drawn["seed"]._node, drawn["ticket"]._node

    def _real(self, slot: Slot) -> Tensor:
        return self.flat[slot] if isinstance(slot, int) else slot

    # ---- the transaction -------------------------------------------------------------------------------------------

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Trace inside; afterwards every tensor from outside is what it was before."""
        tracing.recorder = self
        try:
            with observing(lambda n: self.lines.setdefault(n, user_line())):
                yield
            self._note_changes()
        finally:
            tracing.recorder = None
            for t, before in self._rebound.values():
                t._node = before
            for t, grad, _ in self._regraded.values():
                t._grad = grad

    def _note_changes(self) -> None:
        """What the function changed, and which tensors from outside it saw."""
        for t, _, seen in list(self._regraded.values()):
            g = t._grad
            if g is not seen:
                self.graded.append((self._slot(t), g if g is None or g is USED else bare(g.node)))
        changed = [(t, self._outside[key][1]) for key, (t, _) in self._rebound.items()]
        changed += [(t, n) for n, i in self.inputs.items() if isinstance(i, int) for t in [self._stand_ins[id(self.flat[i])]]]
        self.written = [(self._slot(t), t._node) for t, before in changed if bare(t._node) is not bare(before)]
        self.captured = {key: t for key, (t, _) in self._outside.items()}
        self.captured.update((id(t), t) for t, *_ in self._regraded.values() if id(t) not in self._positions)
        self.captured.update((id(self.flat[i]), self.flat[i]) for i in self.aliased)

    def _slot(self, t: Tensor) -> Slot:
        return self._positions.get(id(t), t)
