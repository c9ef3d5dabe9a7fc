"""Batch norm layers that keep statistics: what a call does to them, in eager and compiled programs, and edges."""

from __future__ import annotations

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn, optim
from renaissance.errors import ArgumentError, DTypeError, ShapeError
from renaissance.ops.leaf import LEAF_ROWS, leaf_rows

F = nn.functional


def images(*shape, seed=0):
    return np.random.default_rng(seed).normal(1.0, 2.0, shape).astype(np.float32)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_statistics_follow_the_batches(compiled, momentum):
    layer = nn.BatchNorm2d(3, momentum=momentum)
    call = rn.compile(layer) if compiled else layer
    mean, var = np.zeros(3), np.ones(3)
    for step in range(4):
        x = images(2, 3, 4, 5, seed=step)
        call(rn.tensor(x)).numpy()
        weight = 1 / (step + 1) if momentum is None else momentum
        mean += (x.mean((0, 2, 3)) - mean) * weight
        var += (x.var((0, 2, 3), ddof=1) - var) * weight
    np.testing.assert_allclose(layer.running_mean.numpy(), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), var, rtol=1e-5)
    assert layer.num_batches_tracked.item() == 4
    assert list(layer.state_dict()) == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    x, before = images(2, 3, 4, 5, seed=9), layer.state_dict()
    y = (rn.compile(layer.eval()) if compiled else layer.eval())(rn.tensor(x)).numpy()
    each = (3, 1, 1)
    np.testing.assert_allclose(y, (x - mean.reshape(each)) / np.sqrt(var.reshape(each) + 1e-5), rtol=1e-4, atol=1e-5)
    for name, value in layer.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name].numpy())


@pytest.mark.parametrize("compiled", [False, True])
def test_a_training_step_changes_parameters_and_statistics(compiled):
    rn.seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        loss = F.mse_loss(model(x)[:, 0], x[:, 0])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    step = rn.compile(step) if compiled else step
    losses = [step(rn.tensor(images(32, 4, seed=k))).item() for k in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    assert model[1].num_batches_tracked.item() == 30
    assert (model[1].running_var.numpy() != 1).all()


def test_statistics_are_computed_with_the_output():
    """Else they would keep every batch they were made from."""
    model = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3, momentum=None))
    for seed in range(3):
        model(rn.tensor(images(4, 3, seed=seed))).numpy()
        assert all(b.node.data is not None for b in model.buffers())


def test_a_large_mean_costs_no_digits():
    x = (10000 + np.arange(4 * 2 * 64).reshape(4, 2, 64) * 1e-3).astype(np.float32)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean((0, 2), keepdims=True)) / wide.std((0, 2), keepdims=True)
    y = F.batch_norm(rn.tensor(x), None, None, training=True, eps=0.0)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_constant_channel_has_variance_0():
    layer = nn.BatchNorm1d(2, momentum=1.0)
    y = layer(rn.tensor(np.full((6, 2, 50), 0.1, np.float32)))
    assert (y.numpy() == 0).all() and (layer.running_var.numpy() == 0).all()


def test_bfloat16_has_float32_statistics():
    x = rn.tensor(images(4, 3, 8, 8)).astype("bfloat16")
    layer = nn.BatchNorm2d(3, momentum=1.0)
    y = layer(x)
    assert y.dtype.name == "bfloat16" and layer.running_mean.dtype.name == "float32"
    np.testing.assert_allclose(layer.running_mean.numpy(), x.astype("float32").numpy().mean((0, 2, 3)), rtol=1e-5)


def test_an_empty_batch_changes_nothing():
    layer = nn.BatchNorm2d(3)
    assert layer(rn.zeros((0, 3, 4, 4))).shape == (0, 3, 4, 4)
    assert layer.num_batches_tracked.item() == 0 and (layer.running_var.numpy() == 1).all()


def test_one_value_for_each_channel_is_an_error_in_training():
    layer = nn.BatchNorm2d(3)
    with pytest.raises(ArgumentError, match=r"more than 1 value per channel, got 1 in x of shape \(1, 3, 1, 1\)"):
        layer(rn.zeros((1, 3, 1, 1)))
    assert layer.num_batches_tracked.item() == 0
    assert layer.eval()(rn.zeros((1, 3, 1, 1))).shape == (1, 3, 1, 1)


def test_errors():
    x = rn.zeros((2, 3, 4))
    with pytest.raises(ShapeError, match=r"\(3,\).*\(2,\)"):
        F.batch_norm(x, rn.zeros(2), rn.ones(2))
    with pytest.raises(ArgumentError, match="running_mean"):
        F.batch_norm(x, None, None)
    with pytest.raises(DTypeError, match="int64"):
        F.batch_norm(rn.tensor([[1, 2]]), None, None, training=True)
    with pytest.raises(ShapeError, match="BatchNorm2d"):
        nn.BatchNorm2d(3)(x)
    with pytest.raises(ArgumentError, match="num_features"):
        nn.BatchNorm2d(-1)


@pytest.mark.parametrize(("sizes", "rows"), [
    ((), 1), ((7, 7), 49), ((16, 16), 256), ((28, 28), 112), ((56, 56), 224), ((112, 112), 224), ((224, 224), 224), ((32, 32), 256),
    ((300, 300), 150), ((257,), 1), ((17, 100), 100), ((2, 3, 64, 20), 160),
])
def test_leaves_depend_on_the_sizes_alone(sizes, rows):
    assert leaf_rows(sizes) == rows <= LEAF_ROWS
