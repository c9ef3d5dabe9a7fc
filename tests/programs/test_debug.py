"""rn.debug_nans: the first op that makes a non-finite value is named, and nothing is written."""

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn, optim


def test_the_op_and_its_line_are_named_inside_a_compiled_function():
    @rn.compile
    def f(x):
        y = x - 1.0
        z = rn.log(y)
        return (z * 2.0).sum()

    line = f.__wrapped__.__code__.co_firstlineno + 3
    x = rn.tensor([2.0, 1.0])
    assert f(x).item() == -np.inf
    with rn.debug_nans(), pytest.raises(rn.errors.NonFiniteError, match=f"log of float32\\[2\\] at .*test_debug.py:{line}"):
        f(x).item()


def test_ops_inside_compositions_are_named():
    with rn.debug_nans(), pytest.raises(rn.errors.NonFiniteError, match="exp of float32"):
        (rn.logsumexp(rn.tensor([1.0])) + rn.exp(rn.tensor([1000.0]))).item()


def test_a_training_step_with_a_nan_changes_nothing():
    rn.seed(0)
    m = nn.Linear(3, 2)
    o = optim.AdamW(m.parameters(), lr=0.1)
    before = m.weight.numpy().copy()

    @rn.compile
    def step(x):
        loss = rn.sqrt(m(x) - 100.0).sum()
        o.zero_grad()
        loss.backward()
        o.step()

    with rn.debug_nans(), pytest.raises(rn.errors.NonFiniteError, match="sqrt"):
        step(rn.ones((4, 3)))
    np.testing.assert_array_equal(m.weight.numpy(), before)
    assert o.steps == 0


def test_finite_programs_run_as_ever_and_infinite_inputs_are_not_blamed_on_ops():
    x = rn.tensor([1.0, np.inf])
    with rn.debug_nans():
        assert (rn.tensor([1.0, 2.0]) * 2.0).tolist() == [2.0, 4.0]
        assert (x * 2.0).tolist() == [2.0, np.inf]
