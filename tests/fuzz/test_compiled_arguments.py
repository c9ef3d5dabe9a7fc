"""What may be given to a compiled function, and what becomes of it."""

from __future__ import annotations

import collections
import functools

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn, optim

equal = np.testing.assert_array_equal
Pair = collections.namedtuple("Pair", "first second")


def counted(function):
    """A compiled function, and how often it was traced."""
    count = [0]

    def traced(*args, **kwargs):
        count[0] += 1
        return function(*args, **kwargs)

    return rn.compile(traced), count


def of_everything(x, *, scale=2.0, mode="a", extra=None, flag=True, table=None, more=()):
    y = x * scale
    if mode == "b":
        y = -y
    if extra is not None:
        y = y + extra
    if flag:
        y = y + 1
    if table:
        y = y + table["k"][0] * table["j"]
    for t in more:
        y = y + t
    return {"y": y, "z": [y, (None, "s", 3, 2.5, True)], "x": x}


@pytest.mark.parametrize("arguments", [
    {}, {"scale": 3.0}, {"scale": 3}, {"mode": "b"}, {"extra": rn.ones(3)}, {"flag": False}, {"table": {"k": [rn.ones(3)], "j": 2.0}},
    {"more": (1.0, rn.ones(3), 2)}, {"extra": np.float32(2.0)}, {"scale": True}, {"scale": float("nan")}, {"scale": -0.0},
    {"extra": rn.tensor(1.5)}, {"extra": 2, "scale": rn.ones((2, 3))}], ids=str)
def test_arguments_and_results_of_all_kinds(arguments):
    compiled = rn.compile(of_everything)
    x = rn.ones(3)
    for _ in range(3):
        got, expected = compiled(x, **arguments), of_everything(x, **arguments)
        equal(got["y"].numpy(), expected["y"].numpy())
        assert got["y"].dtype is expected["y"].dtype
        assert (list(got), type(got["z"]), got["z"][1]) == (list(expected), list, expected["z"][1])
        equal(got["x"].numpy(), 1)


def test_an_array_is_taken_as_a_tensor_of_its_values():
    f, count = counted(lambda x: x + 1)
    for i in range(3):
        equal(f(np.full(2, i, np.float32)).numpy(), i + 1)
    assert count[0] <= 2


def test_named_tuples_keep_their_type():
    f = rn.compile(lambda pair: Pair(pair.first - pair.second, {"both": pair}))
    got = f(Pair(rn.ones(2), rn.zeros(2)))
    assert isinstance(got, Pair)
    assert isinstance(got.second["both"], Pair)
    equal(got.first.numpy(), 1)


@pytest.mark.parametrize("make", [
    lambda: functools.partial(lambda a, b: a - b, rn.ones(2)), lambda: rn.exp, lambda: type("Adds", (), {"__call__": lambda self, x: 1 - x})()],
    ids=["partial", "function of the package", "callable object"])
def test_whatever_can_be_called(make):
    equal(rn.compile(make())(rn.zeros(2)).numpy(), 1)


def test_ints_that_vary_cost_two_compilations():
    f, count = counted(lambda x, i: (x * i + i, x // (i + 1), i - x))
    for i in (3, 3, 4, 5, 6, 7, 3, -8):
        for got, expected in zip(f(rn.tensor([4, 7]), i), ([4 * i + i, 7 * i + i], [4 // (i + 1), 7 // (i + 1)], [i - 4, i - 7]), strict=True):
            equal(got.numpy(), expected)
    assert count[0] <= 4  # each compilation is checked by a second trace


def test_an_int_that_is_looked_at_counts_by_its_value():
    for use in (lambda x, i: x.reshape(i, -1), lambda x, i: x[i - 1], lambda x, i: sum([x for _ in range(i)]), lambda x, i: x.sum(i - 1),
                lambda x, i: x * 2 if i > 1 else x, lambda x, i: x[:i]):
        f = rn.compile(use)
        for i in (1, 2, 1, 2, 2):
            equal(f(rn.ones((6, 1)), i).numpy(), use(rn.ones((6, 1)), i).numpy())


def test_batch_sizes_make_a_program_each():
    layer = nn.Linear(3, 2)
    f, count = counted(lambda x: layer(x))
    for b in (4, 4, 4, 7, 4, 7, 7, 1, 0, 4):
        equal(f(rn.ones((b, 3))).numpy(), layer(rn.ones((b, 3))).numpy())
    assert count[0] <= 4 + 2


def test_an_argument_that_is_overwritten():
    def write(a):
        a.copy_(a + 1)
        return a * 2

    compiled = rn.compile(write)
    for f in (write, compiled):
        for t in (rn.zeros(3), rn.Parameter(np.zeros(3, np.float32))):
            for i in range(3):
                view, promise = t.numpy(), t.detach() + 10
                equal(f(t).numpy(), 2 * (i + 1))
                equal(t.numpy(), i + 1)
                equal(view, i)
                equal(promise.numpy(), 10 + i)
    def write_one(a, b):
        a.copy_(a + b)
        return b * 2

    compiled = rn.compile(write_one)
    for f in (write_one, compiled):
        for _ in range(2):
            t, u = rn.ones(2), rn.ones(2)
            equal(f(t, t).numpy(), 4)
            equal(f(t, u).numpy(), 2)
            equal(t.numpy(), 3)


def test_gradients_go_to_the_tensors_given():
    def gradient(a):
        (a * a).sum().backward()
        return a.grad

    compiled = rn.compile(gradient)
    for f in (gradient, compiled):
        first, second = (rn.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
        for i in range(3):
            equal(f(first).numpy(), [2 * (i + 1), 4 * (i + 1)])
            equal(first.grad.numpy(), [2 * (i + 1), 4 * (i + 1)])
        assert second.grad is None
        equal(f(second).numpy(), [2, 4])
        equal(first.grad.numpy(), [6, 12])


def test_gradients_that_would_have_to_leave_a_compiled_function():
    w = rn.tensor([1.0, 2.0], requires_grad=True)
    y = w * 3
    for f, given in ((rn.compile(lambda a: (a * a).sum().backward()), (y,)), (rn.compile(lambda: (y * y).sum().backward()), ())):
        with pytest.raises(rn.errors.GradientError, match="computed outside of it"):
            f(*given)
    equal(rn.compile(lambda a: a + y)(y).numpy(), [6, 12])
    assert w.grad is None


@pytest.mark.parametrize("wrap", [lambda f: f, rn.compile], ids=["uncompiled", "compiled"])
def test_an_argument_that_is_also_state(wrap):
    t = rn.ones(3)

    @wrap
    def f(a):
        t.copy_(t + a)
        return a + t

    for _ in range(2):
        t.copy_(rn.ones(3))
        equal(f(t).numpy(), 4)
        equal(f(rn.zeros(3)).numpy(), 2)
        equal(f(t.detach() * 0.5).numpy(), 4)
    p = rn.Parameter(np.ones(2, np.float32))
    o = optim.SGD([p, rn.Parameter(np.ones(3, np.float32))], lr=0.25)

    @wrap
    def step(w):
        (w * w).sum().backward()
        o.step()
        o.zero_grad()
        return w * 1.0

    for i in range(1, 4):
        equal(step(p).numpy(), 0.5**i)
        equal(p.numpy(), 0.5**i)


def test_precision_and_no_grad_around_a_call_count():
    layer = nn.Linear(4, 3)
    f = rn.compile(lambda x: layer(x))
    x = rn.ones((2, 4))
    for _ in range(2):
        assert f(x).dtype is rn.float32
        with rn.precision("bf16"):
            assert f(x).dtype is rn.bfloat16
            equal(f(x).numpy(), layer(x).numpy())
    p = rn.Parameter(np.ones(2, np.float32))

    @rn.compile
    def asks():
        return (p * 2).requires_grad

    for _ in range(2):
        assert asks() is True
        with rn.no_grad():
            assert asks() is False


def test_seeding_from_inside_is_refused_but_for_generators_made_there():
    with pytest.raises(rn.errors.TraceError, match=rf"seeded inside a compiled function at {__file__}"):
        rn.compile(lambda: rn.seed(5))()

    def draws():
        g = rn.Generator(5)
        return rn.uniform(shape=3, generator=g), rn.uniform(shape=3, generator=g)

    compiled = rn.compile(draws)
    for f in (draws, compiled, compiled, compiled):
        for got, expected in zip(f(), draws(), strict=True):
            equal(got.numpy(), expected.numpy())


def test_leaked_tensors_are_refused_and_harm_nobody_else():
    leaked = []
    rn.compile(lambda x: leaked.append(x * 2))(rn.ones(2))
    target = rn.zeros(2)
    for use in (lambda: leaked[0].numpy(), lambda: (leaked[0] + 1).numpy(), lambda: target.copy_(leaked[0]),
                lambda: rn.compile(lambda: leaked[0] * 1)()):
        with pytest.raises(rn.errors.TraceError, match="leaked out of a compiled function"):
            use()
    assert repr(leaked[0]) == "Tensor(shape=(2,), dtype=float32)"
    target.copy_(target + 1)
    equal(target.numpy(), 1)
