"""Pooling: ties, NaN, infinities and overlapping windows, by few windows written out and by many in a loop."""

from __future__ import annotations

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn
from renaissance.ops import tap

F = nn.functional


def pulled(f, x, ct=None):
    """(value, gradient) of a function of one array."""
    y, pull = rn.vjp(f, rn.tensor(x))
    (g,) = pull(rn.ones(y.shape, y.dtype) if ct is None else rn.tensor(ct))
    return y.numpy(), g.numpy()


@pytest.mark.parametrize("size", [2, 7])  # 49 elements are more than MOST_TAPS
def test_gradients_go_to_the_first_maximum(size):
    x = np.zeros((1, 1, size, 2 * size), np.float32)
    x[0, 0, 1, -2:] = 3.0
    y, g = pulled(lambda x: F.max_pool2d(x, size), x)
    np.testing.assert_array_equal(y, [[[[0.0, 3.0]]]])
    assert g[0, 0, 0, 0] == 1 and g[0, 0, 1, -2] == 1 and g.sum() == 2


@pytest.mark.parametrize("size", [3, 7])
def test_overlapping_windows_add_up(size):
    x = np.zeros((1, 2, 9, 9), np.float32)
    x[0, 0, 4, 4] = 1.0
    y, g = pulled(lambda x: F.max_pool2d(x, size, 1, size // 2), x)
    assert y[0, 0].sum() == g[0, 0, 4, 4] == min(size, 9) ** 2
    assert g.sum() == 2 * 81


@pytest.mark.parametrize("size", [2, 7])
def test_nan_is_passed_on_and_padding_is_not(size):
    x = np.full((1, 1, 2 * size, 2 * size), -np.inf, np.float32)
    x[0, 0, 0, 0] = np.nan
    y = F.max_pool2d(rn.tensor(x), size, padding=size // 2).numpy()
    assert np.isnan(y[0, 0, 0, 0]) and (y.ravel()[1:] == -np.inf).all()


@pytest.mark.parametrize(("settings", "shape"), [
    ((3, 2, 1), (2, 3, 11, 8)), ((2, 3), (1, 2, 9, 10)), ((3, 1, 1), (1, 2, 5, 4)), ((2, 2, 1), (2, 1, 7, 7)), ((2,), (1, 3, 5, 7)),
    ((7, 7), (1, 2, 15, 14)), ((7, 3, 2), (1, 2, 11, 9)), ((5, 5), (2, 3, 5, 5)),
])
def test_means_send_back_their_share(settings, shape):
    """The gradient is the transpose: checked against every unit vector, exactly."""
    x = rn.tensor(np.eye(int(np.prod(shape)), dtype=np.float64).reshape(-1, *shape)[:, 0])
    y = F.avg_pool2d(x, *settings).numpy()  # one image for each element of the first image
    ct = np.random.default_rng(0).integers(-8, 8, y.shape[1:]).astype(np.float64)
    _, g = pulled(lambda x: F.avg_pool2d(x, *settings), np.zeros((1, *shape[1:])), ct[None])
    expected = (y * ct).sum((1, 2, 3))[:g.size]
    np.testing.assert_allclose(g.ravel(), expected, rtol=1e-12, atol=1e-12)


def test_bfloat16_adds_in_float32():
    x = rn.ones((1, 1, 16, 16)).astype("bfloat16")
    assert F.avg_pool2d(x, 16).item() == 1.0
    _, pull = rn.vjp(lambda x: F.max_pool2d(x, 3, 1, 1), x)
    assert pull(rn.ones((1, 1, 16, 16)).astype("bfloat16"))[0].dtype.name == "bfloat16"


@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d])
def test_an_empty_batch(pool):
    y, g = pulled(lambda x: pool(x, 2), np.zeros((0, 3, 4, 4), np.float32))
    assert y.shape == (0, 3, 2, 2) and g.shape == (0, 3, 4, 4)


def test_classes_meet_every_tap_once():
    a = tap.Axis(11, 3, 2, 1, 1, False)
    met = sorted(t for first in range(2) for t, _ in a.meeting(first))
    assert met == [0, 1, 2] and a.meeting(1) == [(0, 1), (2, 0)]
