"""Clipping by the common norm."""

from __future__ import annotations

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn, optim
from renaissance.errors import ArgumentError, NonFiniteError


def parameters(*gradients, dtype="float32"):
    """Parameters with the given gradients."""
    made = []
    for g in gradients:
        p = nn.Parameter(rn.tensor(np.zeros(np.shape(g)), dtype=dtype))
        p.grad = rn.tensor(np.asarray(g), dtype=dtype)
        made.append(p)
    return made


def gradients(ps):
    rn.realize(*(p.grad for p in ps))  # all in one run
    return [p.grad.numpy().astype(np.float64) for p in ps]


def draw(scale=1.0):
    rng = np.random.default_rng(0)
    return [(scale * rng.standard_normal(shape)).astype(np.float32) for shape in ((3, 5), (7,), (), (2, 2, 2))]


@pytest.mark.parametrize("max_norm", [0.01, 1.0, 3.0, 1e6])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_against_numpy(max_norm, dtype):
    ps = parameters(*draw(), dtype=dtype)
    given = gradients(ps)
    norm = np.sqrt(sum((g**2).sum() for g in given))
    got = optim.clip_grad_norm_(ps, max_norm)
    tol = {"float32": 2e-6, "float64": 1e-12, "bfloat16": 8e-3}[dtype]
    np.testing.assert_allclose(got.item(), norm, rtol=tol if dtype == "float64" else 2e-6)
    for p, g, new in zip(ps, given, gradients(ps), strict=True):
        assert p.grad.shape == p.shape and p.grad.dtype.name == dtype
        np.testing.assert_allclose(new, g * min(1.0, max_norm / (norm + 1e-6)), rtol=tol)


def test_gradients_within_the_limit_keep_their_bits():
    ps = parameters(*draw())
    given = gradients(ps)
    optim.clip_grad_norm_(ps, 1e3)
    for a, b in zip(given, gradients(ps), strict=True):
        np.testing.assert_array_equal(a, b)


def test_squares_that_would_overflow():
    """A hundred gradients of 1e20: their squares are beyond float32, their norm is 1e21."""
    ps = parameters(*[np.full((1,), 1e20)] * 100)
    assert abs(optim.clip_grad_norm_(ps, 1.0).item() / 1e21 - 1) < 1e-6
    for g in gradients(ps):
        np.testing.assert_allclose(g, 0.1, rtol=1e-6)


def test_a_norm_beyond_float32_still_clips():
    ps = parameters(np.full((4,), 3e38))
    assert np.isinf(optim.clip_grad_norm_(ps, 2.0).item())
    np.testing.assert_allclose(gradients(ps)[0], 1.0, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-20, 1e-38, 1e-44])
def test_squares_that_would_vanish(scale):
    ps = parameters(np.full((4,), scale, np.float32))
    given = gradients(ps)
    np.testing.assert_allclose(optim.clip_grad_norm_(ps, 1.0).item(), 2 * given[0][0], rtol=1e-6)
    np.testing.assert_array_equal(gradients(ps)[0], given[0])


def test_zero_gradients():
    ps = parameters(np.zeros((3, 2)), np.zeros(()))
    assert optim.clip_grad_norm_(ps, 1.0).item() == 0.0
    assert all((g == 0).all() for g in gradients(ps))


def test_nothing_to_clip():
    assert optim.clip_grad_norm_([], 1.0).item() == 0.0
    p = nn.Parameter(rn.ones(2))
    assert optim.clip_grad_norm_([p], 1.0).item() == 0.0
    assert p.grad is None
    empty = parameters(np.zeros((0, 3)), np.full((4,), 2.0))
    assert optim.clip_grad_norm_(empty, 2.0).item() == 4.0
    assert empty[0].grad.shape == (0, 3)


def test_one_parameter_a_repeated_one_and_one_without_gradient():
    (p,) = parameters(np.full((4,), 3.0))
    assert optim.clip_grad_norm_(p, 3.0).item() == 6.0
    np.testing.assert_allclose(p.grad.numpy(), 1.5, rtol=1e-6)
    other = nn.Parameter(rn.ones(2))
    np.testing.assert_allclose(optim.clip_grad_norm_([p, other, p], 100.0).item(), 3.0, rtol=1e-6)
    np.testing.assert_allclose(p.grad.numpy(), 1.5, rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, 1, 3])
def test_the_parameter_with_a_gradient_that_is_not_finite_is_named(bad, where):
    given = draw()
    given[where].flat[-1] = bad
    ps = parameters(*given)
    norm = optim.clip_grad_norm_(ps, 1.0)
    shape = given[where].shape
    with pytest.raises(NonFiniteError) as caught:
        norm.item()
    assert f"the gradient of parameter {where}, shape {shape}, is NaN or infinite" in str(caught.value)


@pytest.mark.parametrize("max_norm", [0.0, -1.0, float("nan")])
def test_a_limit_must_be_positive(max_norm):
    with pytest.raises(ArgumentError, match="max_norm must be positive"):
        optim.clip_grad_norm_(parameters(np.ones(2)), max_norm)


def test_a_limit_that_varies_is_an_input_of_the_compiled_function():
    p = nn.Parameter(rn.tensor(np.zeros(4, np.float32)))

    @rn.compile
    def clipped(g, limit):
        p.grad = g * 1.0
        norm = optim.clip_grad_norm_([p], limit)
        return norm, p.grad

    for limit in (1.0, 2.0, 50.0):
        norm, g = clipped(rn.full(4, 3.0), limit)
        assert norm.item() == 6.0
        np.testing.assert_allclose(g.numpy(), min(3.0, limit / 2), rtol=1e-6)
