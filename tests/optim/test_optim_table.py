"""Every check that follows from a row of the table."""

from __future__ import annotations

import json

import numpy as np
import pytest

from .table import TABLE, arrays, model, plain_gradients, stepper

ROWS = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in TABLE])
STEPS = 10
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


def assert_near(got, expected, dtype):
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def plain_run(case, start, dtype="float32", skip=lambda i, k: False):
    """Parameters after ten plain steps; skip(i, k): parameter k has no gradient in step i."""
    p, optimizer = [a.astype(np.float64) for a in start], case.plain()
    for i in range(STEPS):
        grads = plain_gradients(p, i, dtype)
        optimizer.step(p, [None if skip(i, k) else g for k, g in enumerate(grads)])
    return p


@ROWS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ten_steps_against_plain_numpy_and_compiled_as_uncompiled(case, dtype):
    results = []
    for compiled in (False, True):
        m = model(dtype)
        start = arrays(m)
        step = stepper(m, case.make(m.parameters()), compiled)
        losses = [step(i) for i in range(STEPS)]
        results.append([*arrays(m), np.array(losses)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
    assert_near(results[0][:4], plain_run(case, start, dtype), dtype)
    assert all(np.abs(a - b).max() > 1e-3 for a, b in zip(results[0], start))


@ROWS
def test_going_on_from_a_saved_state_is_bit_equal(case):
    m = model()
    optimizer = case.make(m.parameters())
    step = stepper(m, optimizer, True)
    for i in range(5):
        step(i)
    weights, state = m.state_dict(), optimizer.state_dict()
    for i in range(5, STEPS):
        step(i)

    other = model(seed=1)
    resumed = case.make(other.parameters())
    go_on = stepper(other, resumed, True)
    go_on(0)  # the compiled function and its state exist before anything is loaded
    other.load_state_dict(weights)
    tensors = [g.pop("state") for g in state["groups"]]
    state = json.loads(json.dumps(state))  # as a checkpoint does: tensors apart, the rest as JSON
    for group, arrays_of in zip(state["groups"], tensors):
        group["state"] = arrays_of
    resumed.load_state_dict(state)
    for i in range(5, STEPS):
        go_on(i)
    for a, b in zip(arrays(m), arrays(other), strict=True):
        np.testing.assert_array_equal(a, b)
    again, expected = resumed.state_dict(), optimizer.state_dict()
    assert again["steps"] == expected["steps"] == STEPS
    for a, b in zip(again["groups"], expected["groups"], strict=True):
        assert a["counts"] == b["counts"] and a["hyper"] == b["hyper"]
        for n in a["state"]:
            np.testing.assert_array_equal(a["state"][n], b["state"][n])


@ROWS
@pytest.mark.parametrize("compiled", [False, True])
def test_a_parameter_frozen_for_a_while_in_the_middle_of_a_group(case, compiled):
    m = model()
    start = arrays(m)
    step = stepper(m, case.make(m.parameters()), compiled)
    m[0].bias.requires_grad_(False)
    for i in range(STEPS):
        if i == 4:
            m[0].bias.requires_grad_(True)
        step(i)
        if i == 3:
            np.testing.assert_array_equal(m[0].bias.numpy(), start[1])
    assert_near(arrays(m), plain_run(case, start, skip=lambda i, k: k == 1 and i < 4), "float32")
