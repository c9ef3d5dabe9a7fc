"""Layers over images against PyTorch: statistics over several batches, and pooling with all its settings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import renaissance as rn
from renaissance import nn

pytestmark = pytest.mark.torch
F = nn.functional


def both(ours, theirs, x, tolerance=1e-11):
    """Values and gradients of a function of one array in float64."""
    a, b = rn.tensor(x, requires_grad=True), torch.from_numpy(x.copy()).requires_grad_()
    y, expected = ours(a), theirs(b)
    np.testing.assert_allclose(y.numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance)
    w = np.random.default_rng(4).standard_normal(y.shape)
    y.backward(rn.tensor(w))
    expected.backward(torch.from_numpy(np.asarray(w)))
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("momentum", [0.1, None, 1.0])
@pytest.mark.parametrize(("name", "shape"), [("BatchNorm1d", (6, 3)), ("BatchNorm1d", (4, 3, 5)), ("BatchNorm2d", (3, 3, 20, 16)),
                                             ("BatchNorm3d", (2, 3, 2, 3, 4))])
def test_batch_norm_over_several_batches(name, shape, momentum):
    layer, other = getattr(nn, name)(3, momentum=momentum), getattr(torch.nn, name)(3, momentum=momentum)
    rng = np.random.default_rng(0)
    for training in (True, True, True, False):
        layer.train(training)
        other.train(training)
        x = rng.normal(3.0, 2.0, shape).astype(np.float32)
        y, expected = layer(rn.tensor(x)), other(torch.from_numpy(x))
        np.testing.assert_allclose(y.numpy(), expected.detach().numpy(), rtol=2e-5, atol=2e-5)
        for n, t in other.state_dict().items():
            np.testing.assert_allclose(layer.state_dict()[n].numpy(), t.numpy(), rtol=1e-5, atol=1e-6)
            assert layer.state_dict()[n].shape == tuple(t.shape)


@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_batch_norm_in_evaluation(eps):
    mean, var = np.array([0.5, -1.0]), np.array([0.25, 3.0])
    x = np.random.default_rng(1).normal(size=(2, 2, 3, 4))
    both(lambda a: F.batch_norm(a, rn.tensor(mean), rn.tensor(var), eps=eps),
         lambda b: torch.nn.functional.batch_norm(b, torch.from_numpy(mean), torch.from_numpy(var), eps=eps), x)


POOLS = [p for p in itertools.product((1, 2, 3, 7), (1, 2, 3), (0, 1, 3), (1, 2), (False, True))
         if 2 * p[2] <= p[0] and p[3] * (p[0] - 1) + 1 <= 11 + 2 * p[2]]


@pytest.mark.parametrize(("size", "stride", "padding", "dilation", "ceil"), POOLS)
def test_max_pool(size, stride, padding, dilation, ceil):
    x = np.random.default_rng(2).normal(size=(2, 3, 13, 11))
    settings = (size, stride, padding, dilation)
    both(lambda a: F.max_pool2d(a, *settings, ceil_mode=ceil), lambda b: torch.nn.functional.max_pool2d(b, *settings, ceil_mode=ceil), x)


@pytest.mark.parametrize(("size", "stride", "padding", "ceil", "counted"),
                         [(*p[:3], p[4], c) for p in POOLS if p[3] == 1 for c in (False, True)])
def test_avg_pool(size, stride, padding, ceil, counted):
    x = np.random.default_rng(3).normal(size=(2, 3, 13, 11))
    settings = (size, stride, padding, ceil, counted)
    both(lambda a: F.avg_pool2d(a, *settings), lambda b: torch.nn.functional.avg_pool2d(b, *settings), x)


@pytest.mark.parametrize("size", [1, 2, 5, 13, (3, None), (1, 4)])
def test_adaptive_pools(size):
    x = np.random.default_rng(5).normal(size=(2, 3, 13, 11))
    both(lambda a: F.adaptive_avg_pool2d(a, size), lambda b: torch.nn.functional.adaptive_avg_pool2d(b, size), x)
    both(lambda a: F.adaptive_max_pool2d(a, size), lambda b: torch.nn.functional.adaptive_max_pool2d(b, size), x)
