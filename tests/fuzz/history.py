"""Random histories: handles made, combined, aliased, viewed, overwritten, trained, uncompiled and in compiled functions.

Beside each handle goes the array it must show, by value semantics: overwriting one handle changes no other, a view handed out
and a promise keep what they were made of. All numbers are small whole ones, so float32 is exact.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import renaissance as rn
from renaissance import optim

SHAPE = (2, 3)
MODULUS = 64.0


class Box:
    """A handle and the array it must show; several names may share one box, as several names may mean one handle."""

    def __init__(self, tensor: Any, value: np.ndarray):
        self.tensor, self.value = tensor, value

    def check(self) -> None:
        np.testing.assert_array_equal(self.tensor.numpy(), self.value)


class History:
    """A run of random actions."""

    def __init__(self, number: int):
        self.random = random.Random(number)
        self.log: list[str] = []
        self.boxes: list[Box] = []
        self.views: list[tuple[np.ndarray, np.ndarray]] = []
        self.functions: list[Callable[[], None]] = []
        self.parameters: list[tuple[Box, Box | None]] = []  # a parameter, and its gradient so far
        for _ in range(2):
            self.new()
            self.parameter()
        self.optimizer = optim.SGD([p.tensor for p, _ in self.parameters], lr=1.0, keep_grads=True)

    def run(self, actions: int) -> None:
        names = [n.removeprefix("do_") for n in dir(self) if n.startswith("do_")]
        for _ in range(actions):
            name = self.random.choice(names)
            self.log.append(name)
            getattr(self, f"do_{name}")()
            if self.random.random() < 0.2:
                self.one().check()
        self.check()

    def check(self) -> None:
        """Everything there is shows what it must."""
        for box in (*self.boxes, *(p for p, _ in self.parameters)):
            box.check()
        for view, value in self.views:
            np.testing.assert_array_equal(view, value)

    def one(self) -> Box:
        return self.random.choice([*self.boxes, *(p for p, _ in self.parameters)])

    # ---- making handles ------------------------------------------------------------------------------------------------

    def new(self) -> None:
        value = np.array([[self.random.randrange(64) for _ in range(SHAPE[1])] for _ in range(SHAPE[0])], np.float32)
        self.boxes.append(Box(rn.tensor(value), value))

    do_new = new

    def parameter(self) -> None:
        value = np.full(SHAPE, self.random.randrange(64), np.float32)
        self.parameters.append((Box(rn.Parameter(value), value), None))

    def combined(self, a: Any, b: Any, how: int) -> Any:
        """One of a few exact functions of two tensors, or of two arrays."""
        flip = rn.flip if isinstance(a, rn.Tensor) else np.flip
        result = (a + b, a * 2 - b, flip(a, (0, 1)) + b, a - b + 1)[how]
        return result % MODULUS

    def do_combine(self) -> None:
        a, b, how = self.one(), self.one(), self.random.randrange(4)
        with rn.no_grad():
            self.boxes.append(Box(self.combined(a.tensor, b.tensor, how), self.combined(a.value, b.value, how)))

    do_combine_again = do_combine

    def do_alias(self) -> None:
        """Another handle on the same value; overwriting either must not show in the other."""
        a = self.one()
        tensor = self.random.choice((lambda t: t.detach(), lambda t: t.detach()[...], lambda t: t.detach().reshape(6).reshape(2, 3),
                                     lambda t: rn.flip(rn.flip(t.detach(), 0), 0), lambda t: rn.tensor(t)))(a.tensor)
        self.boxes.append(Box(tensor, a.value))

    def do_view(self) -> None:
        a = self.one()
        self.views.append((a.tensor.numpy(), a.value))

    def do_forget(self) -> None:
        if len(self.boxes) > 3:
            del self.boxes[self.random.randrange(len(self.boxes))]
        if len(self.views) > 3:
            del self.views[self.random.randrange(len(self.views))]
        if self.random.random() < 0.1:
            gc.collect()

    def do_realize(self) -> None:
        rn.realize(*(b.tensor for b in self.random.sample(self.boxes, min(3, len(self.boxes)))))

    # ---- changing them -------------------------------------------------------------------------------------------------

    def do_overwrite(self) -> None:
        a, b, how = self.one(), self.one(), self.random.randrange(4)
        with rn.no_grad():
            a.tensor.copy_(self.combined(b.tensor, a.tensor, how))
        a.value = self.combined(b.value, a.value, how)

    do_overwrite_again = do_overwrite

    def do_overwrite_with_itself(self) -> None:
        a = self.one()
        a.tensor.copy_(a.tensor)

    def do_write_a_function(self) -> None:
        """A compiled function that captures handles: it reads one, overwrites another, and returns something; called from now on."""
        if len(self.functions) > 4:
            del self.functions[0]
        read, written, how = self.one(), self.one(), self.random.randrange(4)

        @rn.compile
        def function(x: Any) -> Any:
            with rn.no_grad():
                before = self.combined(x, written.tensor, how)
                written.tensor.copy_(self.combined(read.tensor, written.tensor, how))
                return before, self.combined(x, written.tensor, how)

        def call() -> None:
            x = self.one() if self.random.random() < 0.7 else written
            results = function(x.tensor)
            first = self.combined(x.value, written.value, how)
            written.value = self.combined(read.value, written.value, how)  # which may be x
            self.boxes += [Box(t, v) for t, v in zip(results, (first, self.combined(x.value, written.value, how)))]

        self.functions.append(call)

    def do_write_a_function_that_changes_its_argument(self) -> None:
        """A compiled function that overwrites what it is given."""
        how = self.random.randrange(4)

        @rn.compile
        def function(x: Any, y: Any) -> Any:
            with rn.no_grad():
                x.copy_(self.combined(x, y, how))

        def call() -> None:
            a, b = self.one(), self.one()
            function(a.tensor, b.tensor)
            a.value = self.combined(a.value, b.value, how)

        self.functions.append(call)

    def do_call(self) -> None:
        if self.functions:
            self.random.choice(self.functions)()

    do_call_again = do_call_once_more = do_call

    # ---- training ------------------------------------------------------------------------------------------------------

    def do_backward(self) -> None:
        """Add b to the gradient of a parameter."""
        k, b = self.random.randrange(len(self.parameters)), self.random.choice(self.boxes)
        p, grad = self.parameters[k]
        (p.tensor * b.tensor).sum().backward()
        value = b.value if grad is None else grad.value + b.value
        self.parameters[k] = (p, Box(p.tensor.grad, value))

    def do_step(self) -> None:
        self.optimizer.step()
        for k, (p, grad) in enumerate(self.parameters):
            if grad is not None:
                p.value = p.value - grad.value
                grad.check()
            self.parameters[k] = (p, None)
        self.optimizer.zero_grad()
        for p, _ in self.parameters:  # back to small numbers
            with rn.no_grad():
                p.tensor.copy_(p.tensor % MODULUS)
            p.value = p.value % MODULUS

    def do_write_a_training_step(self) -> None:
        """A compiled function that takes a gradient and a step."""
        p, k = self.random.choice(self.parameters)[0], self.random.randrange(1, 4)

        @rn.compile
        def function(x: Any) -> Any:
            self.optimizer.zero_grad()
            loss = (p.tensor * x * float(k)).sum()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            with rn.no_grad():
                p.tensor.copy_(p.tensor % MODULUS)
            return loss.detach()

        def call() -> None:
            x = self.random.choice(self.boxes)
            given, value = x.tensor.detach(), x.value
            loss = function(given)
            expected = (p.value * value * k).sum()
            p.value = (p.value - value * k) % MODULUS
            self.parameters = [(q, None) for q, _ in self.parameters]
            assert loss.item() == expected

        self.functions.append(call)
