"""A program as data: inputs, steps over the public operations, outputs, and how gradients are asked for; and ways to run it."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import renaissance as rn
from renaissance import optim
from renaissance.ir.dtype import dtype as dtype_of

from .operations import OPERATIONS

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "adam": lambda p: optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1),
    "lars": lambda p: optim.LARS(p, lr=0.1, momentum=0.5),
    "clipped": lambda p: optim.SGD(p, lr=optim.Cosine(0.1, warmup_steps=1, total_steps=9), momentum=0.9, nesterov=True),
}


@dataclass(frozen=True)
class Input:
    """A tensor from outside: 'argument' of the program, 'state' that copy_ overwrites, or 'parameter' of an optimizer.

    values   'normal', 'halves' (multiples of 1/2), 'special' (with NaN, infinities, -0.0, huge and tiny numbers), or
             (low, high): integers
    """

    shape: tuple[int, ...]
    dtype: str
    role: str = "argument"
    values: Any = "normal"
    seed: int = 0

    def array(self) -> np.ndarray:
        rng = np.random.default_rng([self.seed, zlib.crc32(repr(self).encode())])
        numpy = dtype_of(self.dtype).numpy
        if isinstance(self.values, tuple):
            return rng.integers(*self.values, self.shape, dtype=np.uint64 if self.values[1] > 2**63 else np.int64).astype(numpy)
        if self.dtype == "bool":
            return rng.random(self.shape) < 0.5
        if self.values == "halves":
            return (rng.integers(-6, 7, self.shape) / 2).astype(numpy)
        values = rng.standard_normal(self.shape) * 2
        if self.values == "special":
            odd = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, -1e30, 1e-42, 1.0, -1.0], self.shape)
            values = np.where(rng.random(self.shape) < 0.3, odd, values)
        return values.astype(numpy)


@dataclass(frozen=True)
class Step:
    """One operation: its name, the numbers of the values it takes, its settings."""

    name: str
    inputs: tuple[int, ...]
    settings: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join([*(f'v{i}' for i in self.inputs), *map(repr, self.settings)])})"


@dataclass(frozen=True)
class Program:
    """What random programs are: values 0, 1, ... are the inputs, then the results of the steps.

    outputs    numbers of the values returned
    losses     numbers of the float values whose sum of squares (bounded) is differentiated
    gradient   'none'; 'backward': of the parameters; 'grad': of the float arguments by rn.value_and_grad; or an optimizer's name
    precision  of contractions
    after      (state, value): what states are overwritten with at the end
    """

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    losses: tuple[int, ...] = ()
    gradient: str = "none"
    precision: str = "fp32"
    after: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        lines = [f"v{i} = {x}" for i, x in enumerate(self.inputs)]
        lines += [f"v{i} = {s}" for i, s in enumerate(self.steps, len(self.inputs))]
        losses = ", ".join(f"v{i}" for i in self.losses)
        return "\n".join([*lines, f"return {', '.join(f'v{i}' for i in self.outputs)}",
                          f"gradient: {self.gradient} of {losses}; precision {self.precision}; after: {self.after}"])


@dataclass
class Run:
    """A program with its tensors: call it any number of times."""

    program: Program
    realised: frozenset[int] = frozenset()
    compiled: bool = False
    calls: int = 2
    given: dict[int, np.ndarray] = field(default_factory=dict)  # other elements than those an input states, by its number
    tensors: list[Any] = field(default_factory=list)

    def results(self) -> list[np.ndarray]:
        """Everything observable after some calls in a row: outputs, gradients, states, parameters."""
        rn.seed(11)
        self.tensors = [self._tensor(x, self.given.get(i)) for i, x in enumerate(self.program.inputs)]
        parameters = [t for t, x in zip(self.tensors, self.program.inputs) if x.role == "parameter"]
        self.optimizer = OPTIMIZERS[self.program.gradient](parameters) if self.program.gradient in OPTIMIZERS else None
        given = [t for t, x in zip(self.tensors, self.program.inputs) if x.role == "argument"]
        call = rn.compile(self._call) if self.compiled else self._call
        found: list[np.ndarray] = []
        for _ in range(self.calls):
            outputs = call(*given)
            found += [np.array(t.numpy()) for t in outputs]
            if self.program.gradient == "backward":
                found += [np.zeros(()) if p.grad is None else np.array(p.grad.numpy()) for p in parameters]
        found += [np.array(t.numpy()) for t, x in zip(self.tensors, self.program.inputs) if x.role != "argument"]
        return found

    @staticmethod
    def _tensor(x: Input, given: np.ndarray | None) -> Any:
        array = x.array() if given is None else given
        return rn.Parameter(array) if x.role == "parameter" else rn.tensor(array)

    def _call(self, *arguments: Any) -> list[Any]:
        if self.program.gradient == "grad":
            return self._with_functional_gradient(*arguments)
        values = self._values(arguments)
        parameters = [t for t, x in zip(self.tensors, self.program.inputs) if x.role == "parameter"]
        outputs = [values[i] for i in self.program.outputs]
        if self.program.gradient != "none":
            loss = self._loss(values)
            if loss is not None:
                outputs.append(loss.detach())
                if self.optimizer is not None:
                    self.optimizer.zero_grad()
                if loss.requires_grad:
                    loss.backward()
                if self.program.gradient == "clipped":
                    outputs.append(optim.clip_grad_norm_(parameters, 0.5))
                if self.optimizer is not None:
                    self.optimizer.step()
        results = [t.detach() for t in outputs]
        for state, value in self.program.after:
            values[state].copy_(values[value])
        return results

    def _with_functional_gradient(self, *arguments: Any) -> list[Any]:
        wanted = tuple(i for i, t in enumerate(arguments) if t.dtype.is_float)

        def function(*given: Any) -> Any:
            values = self._values(given)
            loss = self._loss(values)
            return rn.zeros(()) if loss is None else loss, [values[i].detach() for i in self.program.outputs]

        (loss, outputs), grads = rn.value_and_grad(function, wanted, has_aux=True)(*arguments)
        return [*outputs, loss, *grads]

    def _loss(self, values: list[Any]) -> Any:
        """A number that depends on every loss value with a bounded slope."""
        total = None
        for i in self.program.losses:
            x = values[i].astype("float64" if values[i].dtype.name == "float64" else "float32")
            term = rn.sum(rn.sin(x + 0.5))
            total = term if total is None else total + term
        return total

    def _values(self, arguments: tuple[Any, ...]) -> list[Any]:
        given = iter(arguments)
        values = [next(given) if x.role == "argument" else t for x, t in zip(self.program.inputs, self.tensors)]
        with rn.precision(self.program.precision):
            for step in self.program.steps:
                value = OPERATIONS[step.name](*(values[i] for i in step.inputs), *step.settings)
                if len(values) in self.realised and not self.compiled:
                    value.realize()
                values.append(value)
        return values


@contextlib.contextmanager
def quiet_numpy() -> Iterator[None]:
    """NumPy's warnings about what special numbers give are no errors here."""
    with np.errstate(all="ignore"):
        yield
