"""Convolutions, their transposes and layer norm with many settings against PyTorch: values and gradients in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import renaissance as rn
from renaissance import nn

pytestmark = pytest.mark.torch
F, T = nn.functional, torch.nn.functional
SEEDS = 12


def chosen(seed, transposed):
    """Shapes of x and weight and settings that fit them, at random."""
    rng = np.random.default_rng([seed, transposed])
    dims = int(rng.integers(1, 4))

    def each(low, high):
        return tuple(int(v) for v in rng.integers(low, high, dims))

    kernel, stride, dilation, padding = each(1, 4), each(1, 4), each(1, 3), each(0, 3)
    groups, seen, made, batch = (int(rng.integers(1, n)) for n in (4, 4, 4, 3))
    reach = [d * (r - 1) + 1 for d, r in zip(dilation, kernel)]
    sizes = [int(rng.integers(1, 6)) + max(0, (2 if transposed else r) - (0 if transposed else 2 * p)) for r, p in zip(reach, padding)]
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed:
        settings["padding"] = tuple(min(p, (r - 1) // 2) for p, r in zip(padding, reach))
        settings["output_padding"] = tuple(int(rng.integers(0, max(s, d))) for s, d in zip(stride, dilation))
    first, second = (seen * groups, made) if transposed else (made * groups, seen)
    return (batch, seen * groups, *sizes), (first, second, *kernel), made * groups, settings, f"{dims}d"


def assert_equal(name, shapes, settings):
    rng = np.random.default_rng(7)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    ours = [rn.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.from_numpy(a.copy()).requires_grad_() for a in arrays]
    y, expected = getattr(F, name)(*ours, **settings), getattr(T, name)(*theirs, **settings)
    assert y.shape == tuple(expected.shape)
    np.testing.assert_allclose(y.numpy(), expected.detach().numpy(), rtol=1e-11, atol=1e-11)
    w = rng.standard_normal(y.shape)
    y.backward(rn.tensor(w))
    expected.backward(torch.from_numpy(w))
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_conv(seed):
    x, weight, made, settings, kind = chosen(seed, False)
    assert_equal("conv" + kind, (x, weight, (made,)), settings)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_conv_transpose(seed):
    x, weight, made, settings, kind = chosen(seed, True)
    assert_equal("conv_transpose" + kind, (x, weight, (made,)), settings)


@pytest.mark.parametrize(("shape", "axes"), [((3, 5), 1), ((2, 3, 4), 2), ((4,), 1), ((2, 300), 1), ((2, 1), 1)])
def test_layer_norm(shape, axes):
    sizes = shape[-axes:]
    assert_equal("layer_norm", (shape,), {"normalized_shape": sizes})
    x, weight, bias = (np.random.default_rng(i).standard_normal(s) for i, s in enumerate((shape, sizes, sizes)))
    ours = F.layer_norm(*map(rn.tensor, (x,)), sizes, rn.tensor(weight), rn.tensor(bias), 0.01)
    theirs = T.layer_norm(torch.from_numpy(x), sizes, torch.from_numpy(weight), torch.from_numpy(bias), 0.01)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-11, atol=1e-11)


def test_gradients_of_gradients_of_layer_norm():
    x = np.random.default_rng(0).standard_normal((3, 6))

    def of_gradient(x):
        return (rn.grad(lambda v: (F.layer_norm(v, 6) ** 3).sum())(x) ** 2).sum()

    theirs = torch.from_numpy(x.copy()).requires_grad_()
    (first,) = torch.autograd.grad((T.layer_norm(theirs, (6,)) ** 3).sum(), theirs, create_graph=True)
    (expected,) = torch.autograd.grad((first**2).sum(), theirs)
    np.testing.assert_allclose(rn.grad(of_gradient)(rn.tensor(x)).numpy(), expected.numpy(), rtol=1e-9, atol=1e-9)
