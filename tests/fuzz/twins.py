"""Twins: one model trained uncompiled, the other by compiled functions, through random changes of everything around the step."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import renaissance as rn
from renaissance import nn, optim

F = nn.functional


class World:
    """A model, its optimizer and the functions over them."""

    def __init__(self, wrap: Callable[[Any], Any], number: int):
        rn.seed(number)
        self.wrap = wrap
        shared = nn.Linear(6, 6)
        self.model: Any = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), shared, nn.Dropout(0.25), nn.Tanh(), shared, nn.Linear(6, 3))
        self.optimizer: Any = optim.AdamW(self.model.parameters(), lr=0.05, weight_decay=0.1, keep_grads=bool(number % 2))
        self.average = rn.zeros((3,))
        self.bind()

    def bind(self) -> None:
        """Functions over the present model and optimizer."""
        def step(x: Any, y: Any, *, smoothing: float = 0.0, clip: bool = False) -> Any:
            scores = self.model(x)
            loss = F.cross_entropy(scores, y, label_smoothing=0.1 if clip else 0.0) + smoothing * scores.var()
            self.optimizer.zero_grad()
            loss.backward()
            if clip:
                optim.clip_grad_norm_(self.model.parameters(), 0.5)
            self.optimizer.step()
            with rn.no_grad():
                self.average.copy_(self.average * 0.5 + scores.mean(0).astype("float32"))
            return loss, {"scores": scores}

        def accumulate(x: Any, y: Any) -> Any:
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            return loss

        def apply() -> None:
            self.optimizer.step()
            self.optimizer.zero_grad()

        def predict(x: Any) -> Any:
            with rn.no_grad():
                return F.softmax(self.model(x), -1)

        self.step, self.accumulate, self.apply, self.predict = (self.wrap(f) for f in (step, accumulate, apply, predict))

    def state(self) -> list[np.ndarray]:
        found = [np.array(p.numpy()) for p in self.model.parameters()]
        found += [np.array(t) for group in self.optimizer.state_dict()["groups"] for t in group["state"].values()]
        found += [np.array(group["counts"]) for group in self.optimizer.state_dict()["groups"]]
        return [*found, np.array(self.average.numpy()), np.array(self.optimizer.steps), np.array(rn.random.default.ticket)]


class Twins:
    """The same random actions on both worlds, which must stay equal to the bit."""

    def __init__(self, number: int):
        self.random = random.Random(number)
        self.number = number
        self.log: list[str] = []
        self.worlds = [World(lambda f: f, number), World(rn.compile, number)]
        self.ticket = rn.random.default.ticket

    def run(self, actions: int) -> None:
        names = [n.removeprefix("do_") for n in dir(self) if n.startswith("do_")]
        for _ in range(actions):
            name = self.random.choice(names)
            state = self.random.getstate()
            results = []
            ticket = self.ticket
            for world in self.worlds:
                self.random.setstate(state)
                rn.random.default.reset(self.number)
                rn.random.default.ticket = ticket
                results.append(getattr(self, f"do_{name}")(world) or [])
            self.ticket = rn.random.default.ticket
            self.log.append(name)
            self.compare(name, *results)

    def compare(self, name: str, first: list[Any], second: list[Any]) -> None:
        one, other = ([*map(np.array, results), *world.state()] for results, world in zip((first, second), self.worlds))
        assert len(one) == len(other), name
        for i, (a, b) in enumerate(zip(one, other)):
            np.testing.assert_array_equal(a, b, err_msg=f"{name}, {i}")

    def batch(self) -> tuple[Any, Any]:
        rng = np.random.default_rng(self.random.randrange(1000))
        n = self.random.choice((1, 2, 5, 5, 5))
        return rn.tensor(rng.standard_normal((n, 4)).astype(np.float32)), rn.tensor(rng.integers(0, 3, n))

    # ---- using -----------------------------------------------------------------------------------------------------------

    def do_step(self, world: World) -> list[Any]:
        loss, more = world.step(*self.batch())
        return [loss.numpy(), more["scores"].numpy()]

    do_step_again = do_step_once_more = do_step

    def do_step_otherwise(self, world: World) -> list[Any]:
        settings = self.random.choice(({"smoothing": 0.25}, {"smoothing": 0.5}, {"clip": True}, {"smoothing": 0.125, "clip": True}))
        return [world.step(*self.batch(), **settings)[0].numpy()]

    def do_step_in_bf16(self, world: World) -> list[Any]:
        with rn.precision("bf16"):
            return [world.step(*self.batch())[0].numpy()]

    def do_accumulate(self, world: World) -> list[Any]:
        world.optimizer.zero_grad()
        losses = [world.accumulate(*self.batch()).numpy() for _ in range(self.random.randrange(1, 4))]
        grads = [p.grad for p in world.model.parameters()]
        losses += [np.zeros(()) if g is None else np.array(g.numpy()) for g in grads]
        world.apply()
        return losses

    def do_predict(self, world: World) -> list[Any]:
        return [world.predict(self.batch()[0]).numpy()]

    def do_fail(self, world: World) -> list[Any]:
        """A label that is no class: nothing changes."""
        x, y = self.batch()
        try:
            world.step(x, y + 7)[0].item()
        except rn.errors.RangeError as e:
            world.optimizer.zero_grad()
            return [str(e)]
        raise AssertionError("no error")

    # ---- changing --------------------------------------------------------------------------------------------------------

    def do_mode(self, world: World) -> None:
        world.model.train(self.random.random() < 0.5)

    def do_freeze(self, world: World) -> None:
        module = self.random.choice((world.model[0], world.model[2]))
        module.requires_grad_(self.random.random() < 0.5)

    def do_rate(self, world: World) -> None:
        group = self.random.choice(world.optimizer.param_groups)
        name, value = self.random.choice((("lr", 0.01), ("lr", 0.1), ("weight_decay", 0.0), ("weight_decay", 0.2), ("betas", (0.8, 0.9))))
        group[name] = value

    def do_dropout(self, world: World) -> None:
        world.model[3].p = self.random.choice((0.0, 0.25, 0.5))

    def do_overwrite(self, world: World) -> None:
        with rn.no_grad():
            world.model[0].bias.copy_(world.model[0].bias * 0.5)

    def do_load(self, world: World) -> None:
        state = {k: v * 0.5 for k, v in world.model.state_dict().items()}
        world.model.load_state_dict(state)

    def do_resume(self, world: World) -> None:
        """Model and optimizer anew from their saved state."""
        fresh = World(world.wrap, self.number + 1)
        if len(fresh.optimizer.param_groups) != len(world.optimizer.param_groups):
            return
        fresh.model.load_state_dict(world.model.state_dict())
        fresh.optimizer.load_state_dict(world.optimizer.state_dict())
        world.model, world.optimizer = fresh.model, fresh.optimizer
        world.bind()

    def do_copy(self, world: World) -> None:
        world.model, world.optimizer = copy.deepcopy((world.model, world.optimizer))
        world.bind()

    def do_add(self, world: World) -> None:
        if len(world.optimizer.param_groups) < 2:
            world.model[6].extra = nn.Parameter(np.ones(3, np.float32))
            world.optimizer.add_param_group({"params": [world.model[6].extra], "lr": 0.02})
