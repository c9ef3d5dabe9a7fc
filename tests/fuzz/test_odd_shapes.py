"""Tensors without axes and tensors without elements, in everything that takes tensors."""

from __future__ import annotations

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn, optim

F = nn.functional

# What is done to a 0-d tensor, and the same in NumPy.
ZERO_D = {
    "sum": (rn.sum, np.sum), "mean": (rn.mean, np.mean), "max": (rn.max, np.max), "prod": (rn.prod, np.prod), "std": (rn.std, np.std),
    "logsumexp": (rn.logsumexp, lambda a: a), "flip": (rn.flip, np.flip), "squeeze": (rn.squeeze, np.squeeze),
    "flatten": (rn.flatten, np.ravel), "exp": (rn.exp, np.exp), "softmax": (lambda x: F.softmax(x, 0), lambda a: np.float32(1)),
    "log_softmax": (lambda x: F.log_softmax(x, 0), lambda a: np.float32(0)), "reshape": (lambda x: x.reshape(()), lambda a: a),
    "ellipsis": (lambda x: x[...], lambda a: a), "new axis": (lambda x: x[None], lambda a: a[None]), "pad": (lambda x: rn.pad(x, ()), lambda a: a),
    "permute_dims": (lambda x: rn.permute_dims(x, ()), lambda a: a), "broadcast_to": (lambda x: rn.broadcast_to(x, (2,)), lambda a: np.full(2, a)),
    "stack": (lambda x: rn.stack([x, x]), lambda a: np.stack([a, a])), "where": (lambda x: rn.where(x > 0, x, -x), np.abs),
    "mse_loss": (lambda x: F.mse_loss(x, x), lambda a: np.float32(0)), "argmax": (rn.argmax, np.argmax), "clip": (lambda x: x.clip(0, 1), lambda a: a.clip(0, 1)),
    "astype": (lambda x: x.astype("int32"), lambda a: a.astype(np.int32)),
}


@pytest.mark.parametrize("name", ZERO_D)
def test_no_axes(name):
    ours, theirs = ZERO_D[name]
    a = np.asarray(1.75, np.float32)
    for f in (ours, rn.compile(ours)):
        got = f(rn.tensor(a)).numpy()
        expected = np.asarray(theirs(a))
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_number_is_trained():
    p = rn.Parameter(2.0)
    o = optim.SGD([p], lr=0.125)
    (p * p).backward()
    o.step()
    assert p.item() == 1.5
    assert rn.grad(lambda x: x * x)(rn.tensor(3.0)).item() == 6


# What is done to (0, 3), and the same in NumPy.
EMPTY = {
    "sum": (rn.sum, np.sum), "sum first": (lambda x: x.sum(0), lambda a: a.sum(0)), "sum last": (lambda x: x.sum(1), lambda a: a.sum(1)),
    "prod": (lambda x: x.prod(0), lambda a: a.prod(0)), "any": (rn.any, np.any), "all": (rn.all, np.all), "exp": (rn.exp, np.exp),
    "mean": (rn.mean, lambda a: np.float32(np.nan)), "logsumexp": (lambda x: rn.logsumexp(x, 0), lambda a: np.full(3, -np.inf)),
    "softmax": (F.softmax, lambda a: a), "flip": (rn.flip, np.flip), "transpose": (lambda x: x.T, lambda a: a.T),
    "matmul": (lambda x: x @ rn.ones((3, 4)), lambda a: np.zeros((0, 4))), "matmul inside": (lambda x: x.T @ x, lambda a: np.zeros((3, 3))),
    "concat": (lambda x: rn.concat([x, rn.ones((2, 3)), x]), lambda a: np.ones((2, 3))), "pad": (lambda x: rn.pad(x, [(1, 1), (0, 0)], 5), lambda a: np.full((2, 3), 5)),
    "take": (lambda x: rn.take(x, rn.tensor(np.zeros(0, int)), axis=0), lambda a: a), "take from none": (lambda x: rn.take(x, rn.tensor([1]), axis=1), lambda a: a[:, 1:2]),
    "scatter": (lambda x: rn.scatter_rows(rn.ones((2, 3)), rn.tensor(np.zeros(0, int)), x), lambda a: np.ones((2, 3))),
    "cross entropy": (lambda x: F.cross_entropy(x, rn.zeros((0,), "int64")), lambda a: np.float32(0)), "one_hot": (lambda x: F.one_hot(x.astype("int64"), 2), lambda a: np.zeros((0, 3, 2), bool)),
    "reshape": (lambda x: x.reshape(3, 0, 5), lambda a: a.reshape(3, 0, 5)), "slice": (lambda x: x[:, ::-1], lambda a: a), "linear": (lambda x: F.linear(x, rn.ones((4, 3))), lambda a: np.zeros((0, 4))),
    "of no columns": (lambda x: x.T.sum(1) + 1, lambda a: np.ones(3)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_no_elements(name):
    ours, theirs = EMPTY[name]
    a = np.zeros((0, 3), np.float32)
    for f in (ours, rn.compile(ours)):
        got = f(rn.tensor(a)).numpy()
        np.testing.assert_array_equal(got, np.asarray(theirs(a)))


@pytest.mark.parametrize("name", [n for n in EMPTY if n not in ("any", "all", "one_hot")])
def test_no_elements_have_a_gradient(name):
    gradient = rn.grad(lambda x: EMPTY[name][0](x).sum())(rn.zeros((0, 3)))
    assert gradient.shape == (0, 3)
    assert gradient.numpy().shape == (0, 3)


def test_a_batch_of_none_trains_nothing():
    layer = nn.Linear(3, 4)
    o = optim.SGD(layer.parameters(), lr=0.5)
    before = layer.weight.numpy().copy()
    layer(rn.zeros((0, 3))).sum().backward()
    o.step()
    np.testing.assert_array_equal(layer.weight.numpy(), before)


def test_a_parameter_of_none_is_passed_over():
    a, b = rn.Parameter(np.zeros((0,), np.float32)), rn.Parameter(np.ones(2, np.float32))
    for make in (lambda p: optim.SGD(p, lr=0.25, momentum=0.5), optim.AdamW, lambda p: optim.LARS(p, lr=0.25)):
        o = make([a, b])
        o.zero_grad()
        (a.sum() + (b * b).sum()).backward()
        before = b.numpy().copy()
        o.step()
        assert (b.numpy() < before).all()
    state = rn.zeros((0, 3))
    state.copy_(rn.ones((0, 3)))
    assert state.numpy().shape == (0, 3)
