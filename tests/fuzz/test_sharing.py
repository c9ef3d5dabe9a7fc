"""Who sees which bytes: borrowed arrays, exported views, tensors overwritten in place, copies and pickles."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn, optim

equal = np.testing.assert_array_equal


def either(compiled):
    return rn.compile if compiled else lambda f: f


def test_a_borrowed_array_is_read_when_it_is_computed():
    a = np.arange(4, dtype=np.float32)
    t = rn.from_numpy(a)
    doubled = t * 2
    a[0] = 10
    equal(doubled.numpy(), [20, 2, 4, 6])
    a[1] = 5
    equal(t.numpy(), [10, 5, 2, 3])
    equal(doubled.numpy(), [20, 2, 4, 6])


def test_a_borrowed_array_is_never_written():
    a = np.arange(4, dtype=np.float32)
    t = rn.from_numpy(a)
    t.copy_(rn.zeros(4))
    equal(a, [0, 1, 2, 3])
    equal(t.numpy(), 0)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_view_handed_out_keeps_its_values(compiled):
    t = rn.zeros(3)
    step = either(compiled)(lambda x: t.copy_(t + x) * 1.0)
    views = []
    for i in range(4):
        views.append(t.numpy()[1:])
        step(rn.ones(3))
        for k, view in enumerate(views):
            equal(view, k)
        equal(t.numpy(), i + 1)


@pytest.mark.parametrize("compiled", [False, True])
def test_promises_keep_the_values_they_were_made_of(compiled):
    t = rn.zeros(3)
    step = either(compiled)(lambda: t.copy_(t + 1.0).sum())
    for i in range(4):
        promise, alias, view = t * 2.0, t.detach(), t.reshape(3, 1)
        step()
        equal(promise.numpy(), 2 * i)
        equal(alias.numpy(), i)
        equal(view.numpy(), i)
        equal(t.numpy(), i + 1)


def test_writing_to_a_view_leaves_its_source_alone():
    t = rn.zeros(4)
    r = t.reshape(2, 2)
    r.copy_(rn.ones((2, 2)))
    equal(t.numpy(), 0)
    equal(r.numpy(), 1)


def test_overwriting_with_what_is_computed_from_itself():
    t = rn.tensor(np.arange(6.0))
    t.copy_(rn.flip(t))
    t.copy_(rn.concat([t[3:], t[:3]]))
    t.copy_(t + rn.flip(t))
    equal(t.numpy(), np.roll(np.arange(6.0)[::-1], 3) + np.roll(np.arange(6.0)[::-1], 3)[::-1])


def test_two_tensors_exchanged():
    a, b = rn.zeros(3), rn.ones(3)
    before = a * 1
    a.copy_(b)
    b.copy_(before)
    equal(a.numpy(), 1)
    equal(b.numpy(), 0)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_variable_that_is_overwritten_stays_a_variable(compiled):
    a = rn.tensor([1.0, 2.0], requires_grad=True)

    @either(compiled)
    def step(x):
        a.grad = None
        loss = (a * a * x).sum()
        loss.backward()
        a.copy_(a - 0.25 * a.grad)
        return loss.detach(), (a * 3).sum().detach()

    expected = np.array([1.0, 2.0], np.float32)
    for _ in range(4):
        before, after = step(rn.ones(2))
        assert before.item() == (expected * expected).sum()
        expected = expected - np.float32(0.25) * 2 * expected
        assert after.item() == (3 * expected).sum()
        assert a.requires_grad
    a.grad = None
    (a * 5).sum().backward()
    equal(a.grad.numpy(), 5)


def test_shared_parameters_stay_shared_in_copies_and_pickles():
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    b.weight = a.weight
    m = nn.Sequential(a, b)
    for made in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert made[0].weight is made[1].weight
        assert made[0].weight is not a.weight
        equal(made[0].weight.numpy(), a.weight.numpy())
        assert len(list(made.parameters())) == 3


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_model_copied_with_its_optimizer_trains_alone(duplicate):
    m = nn.Linear(2, 2)
    o = optim.AdamW(m.parameters(), lr=0.1)

    def step(model, optimizer):
        optimizer.zero_grad()
        model(rn.ones((1, 2))).sum().backward()
        optimizer.step()
        return model.weight.numpy().copy()

    step(m, o)
    other = duplicate((m, o))
    before = m.weight.numpy().copy()
    ahead = step(*other)
    equal(m.weight.numpy(), before)
    equal(step(m, o), ahead)


def test_tensors_in_odd_states_survive_a_pickle():
    promise = rn.ones(3) + 1
    narrow = rn.ones((2, 1), "bfloat16")
    empty = rn.zeros((0, 3), "int8")
    number = rn.tensor(2.5, requires_grad=True)
    view = rn.flip(rn.tensor(np.arange(6.0)).reshape(2, 3), 1)[:, ::2]
    for t in (promise, narrow, empty, number, view):
        again = pickle.loads(pickle.dumps(t))
        assert (again.shape, again.dtype, again.requires_grad) == (t.shape, t.dtype, t.requires_grad)
        equal(again.numpy(), t.numpy())


def test_two_optimizers_over_one_parameter():
    p = rn.Parameter(np.ones(2, np.float32))
    a, b = optim.SGD([p], lr=0.1), optim.SGD([p], lr=0.1)
    (p * p).sum().backward()
    a.step()
    with pytest.raises(rn.errors.GradientError, match="keep_grads"):
        b.step()
    a.zero_grad()
    (p * p).sum().backward()
    b.step()
    np.testing.assert_allclose(p.numpy(), 0.64, rtol=1e-6)


def test_optimizers_whose_parameters_overlap():
    p, q, r = (rn.Parameter(np.full(2, i, np.float32)) for i in (1, 2, 3))
    a, b = optim.SGD([p, q], lr=0.1, momentum=0.9), optim.SGD([q, r], lr=0.05)
    values, momentum = np.array([1.0, 2.0, 3.0]), np.zeros(2)
    for k in range(4):
        o = (a, b)[k % 2]
        o.zero_grad()
        a.zero_grad()
        ((p * p).sum() + (q * q).sum() + (r * r).sum()).backward()
        o.step()
        r.grad = None
        if k % 2 == 0:
            momentum = 0.9 * momentum + 2 * values[:2]
            values[:2] -= 0.1 * momentum
        else:
            values[1:] -= 0.05 * 2 * values[1:]
    for t, v in zip((p, q, r), values, strict=True):
        np.testing.assert_allclose(t.numpy(), v, rtol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("made", ["by hand", "by a compiled function"])
@pytest.mark.parametrize("first", [0, 1])
def test_of_two_tensors_on_one_value_each_may_be_overwritten(compiled, made, first):
    t = rn.zeros(3) if made == "by hand" else rn.compile(lambda x: x * 0.0)(rn.ones(3))
    both = [t, t.detach()]

    @either(compiled)
    def write():
        both[first].copy_(both[first] + 1.0)

    for i in range(3):
        write()
        third = both[first].detach()
        equal(both[first].numpy(), i + 1)
        equal(both[1 - first].numpy(), 0)
        write()
        equal(third.numpy(), i + 1)
        both[first].copy_(third)
