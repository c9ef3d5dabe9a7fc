"""Every check that follows from a row of the table."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn

from .table import TABLE

ROWS = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in TABLE])
TOLERANCE = {"float32": 3e-6, "float64": 1e-12}


def tensors(case, dtype, seed=0):
    return [rn.tensor(a.astype(dtype) if a.dtype.kind == "f" else a) for a in case.draw(seed)]


def state_of(layer):
    return {n: t.numpy().astype(np.float64) for n, t in layer.state_dict().items()}


def outputs(case, layer, seed=0):
    return layer(*tensors(case, "float32", seed)).numpy()


def assert_near(got, expected, dtype, loose=1.0):
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    tol = TOLERANCE[dtype] * loose
    np.testing.assert_allclose(got, expected, rtol=tol, atol=tol * max(1.0, np.abs(expected).max(initial=0)))


@ROWS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("training", [True, False])
def test_values_against_numpy(case, dtype, training):
    layer = case.layer(dtype).train(training)
    xs = tensors(case, dtype)
    out = layer(*xs)
    assert out.dtype.name == dtype
    expected = case.ref(state_of(layer), *(x.numpy().astype(np.float64) for x in xs[:len(case.inputs)]))
    assert_near(out.numpy(), expected, dtype, case.loose)
    np.testing.assert_array_equal(rn.compile(layer)(*xs).numpy(), out.numpy())


@ROWS
def test_gradients_along_a_random_direction(case):
    """Of all float inputs and of all parameters: <J v, w> by central differences in float64 equals <v, J^T w>."""
    layer = case.layer("float64")
    names, parameters = zip(*layer.named_parameters()) if list(layer.parameters()) else ((), ())
    state, inputs = state_of(layer), case.draw()[:len(case.inputs)]
    rng = np.random.default_rng(1)
    ways = [rng.standard_normal(a.shape) for a in (*inputs, *(state[n] for n in names))]

    def moved(step):
        ahead = [a + step * v for a, v in zip((*inputs, *(state[n] for n in names)), ways, strict=True)]
        return np.asarray(case.ref({**state, **dict(zip(names, ahead[len(inputs):]))}, *ahead[:len(inputs)]))

    change = (moved(1e-6) - moved(-1e-6)) / 2e-6
    out, pull = rn.vjp(lambda *xs: layer(*xs, *map(rn.tensor, case.targets)), *map(rn.tensor, inputs))
    w = rn.tensor(rng.standard_normal(out.shape))
    grads = list(pull(w))
    if parameters:
        layer(*map(rn.tensor, (*inputs, *case.targets))).backward(w)
        grads += [p.grad for p in parameters]
    assert [g.shape for g in grads] == [v.shape for v in ways]
    inner = sum((g.numpy() * v).sum() for g, v in zip(grads, ways, strict=True))
    np.testing.assert_allclose(inner, (change * w.numpy()).sum(), rtol=2e-6, atol=2e-6)


@ROWS
def test_names_and_shapes_of_the_state(case):
    layer = case.layer()
    assert {n: t.shape for n, t in layer.state_dict().items()} == case.state
    assert list(layer.state_dict()) == list(case.state)


@ROWS
def test_repr(case):
    assert repr(case.layer()) == case.text


@ROWS
def test_a_loaded_copied_or_unpickled_layer_gives_equal_bits_and_goes_its_own_way(case):
    layer = case.layer()
    expected = outputs(case, layer)
    rn.seed(99)
    loaded = case.make(nn, *(rn.tensor(a * 2, dtype="float32") for a in case.arrays))
    missing = loaded.load_state_dict({n: t.numpy() for n, t in layer.state_dict().items()})
    assert missing == ([], [])
    for other in (loaded, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(other) is type(layer) and repr(other) == case.text
        np.testing.assert_array_equal(outputs(case, other), expected)
        for p in other.parameters():
            p.copy_(rn.zeros(p.shape))
        np.testing.assert_array_equal(outputs(case, layer), expected)


def test_all_layers_and_losses_are_tested():
    tested = {type(m) for case in TABLE for m in case.layer().modules()}
    public = {v for v in vars(nn).values() if isinstance(v, type) and issubclass(v, nn.Module)} - {nn.Module, nn.Loss}
    assert public == tested
