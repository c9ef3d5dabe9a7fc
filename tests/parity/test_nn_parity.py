"""Layers and losses against PyTorch: values, gradients, and states taken from one to the other through NumPy."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import renaissance as rn
from renaissance import nn

from ..nn.table import TABLE

pytestmark = pytest.mark.torch
F = nn.functional
ROWS = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in TABLE])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
TOLERANCE = {"float32": 5e-6, "float64": 1e-11}
SINGLE_GRADIENT = {"hardsigmoid"}  # PyTorch multiplies by 1/6 rounded to float32


def twin(case, layer, dtype):
    """The same layer of torch.nn with the same state."""
    made = case.make(torch.nn, *map(torch.from_numpy, case.arrays)).to(getattr(torch, dtype))
    made.load_state_dict({n: torch.from_numpy(t.numpy().copy()) for n, t in layer.state_dict().items()})
    return made


def assert_near(got, expected, dtype):
    expected = expected.detach().numpy()
    assert got.shape == expected.shape
    np.testing.assert_allclose(got.numpy(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@ROWS
@DTYPES
def test_values_and_gradients(case, dtype):
    layer = case.layer(dtype)
    other = twin(case, layer, dtype)
    arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in case.draw(seed=3)]
    ours = [rn.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    theirs = [torch.from_numpy(a.copy()).requires_grad_(a.dtype.kind == "f") for a in arrays]
    out, expected = layer(*ours), other(*theirs)
    assert_near(out, expected, dtype)
    w = np.random.default_rng(4).standard_normal(out.shape).astype(dtype)
    out.backward(rn.tensor(w))
    expected.backward(torch.from_numpy(np.asarray(w)))
    digits = "float32" if case.name in SINGLE_GRADIENT else dtype
    pairs = list(zip([*ours, *layer.parameters()], [*theirs, *other.parameters()], strict=True))
    for a, b in pairs:
        if b.requires_grad:
            assert_near(a.grad, b.grad, digits)


@ROWS
def test_states_go_both_ways(case):
    layer = case.layer()
    other = twin(case, layer, "float32")
    assert list(other.state_dict()) == list(layer.state_dict()) == list(case.state)
    assert [n for n, _ in other.named_parameters()] == [n for n, _ in layer.named_parameters()]
    assert [n for n, _ in other.named_modules()] == [n for n, _ in layer.named_modules()]
    with torch.no_grad():
        for t in (*other.parameters(), *other.buffers()):
            t.mul_(0.5).add_(0.25)
    found = layer.load_state_dict({n: t.numpy() for n, t in other.state_dict().items()})
    assert found.missing_keys == found.unexpected_keys == []
    for n, t in layer.state_dict().items():
        np.testing.assert_array_equal(t.numpy(), other.state_dict()[n].numpy())


SHARED = [pytest.param(v, getattr(torch.nn, n), id=n) for n, v in vars(nn).items()
          if isinstance(v, type) and issubclass(v, nn.Module) and hasattr(torch.nn, n)]
SHARED += [pytest.param(v, getattr(torch.nn.functional, n), id=n) for n, v in vars(F).items()
           if callable(v) and hasattr(torch.nn.functional, n)]
SHARED += [pytest.param(v, getattr(torch.nn.init, n), id=n) for n, v in vars(nn.init).items()
           if callable(v) and hasattr(torch.nn.init, n) and v.__module__ == nn.init.__name__]
OTHERWISE = {"x", "axis", "dim", "num_classes"}  # NumPy's names; an axis that must be given, or is the last one


@pytest.mark.parametrize(("ours", "theirs"), SHARED)
def test_arguments_come_in_pytorchs_order_with_its_defaults(ours, theirs):
    """Those PyTorch has and we do not (device, dtype, the deprecated) may be missing between."""
    try:
        known = iter(inspect.signature(theirs).parameters.values())
    except ValueError:  # a builtin without a signature
        return
    if any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(theirs).parameters.values()):  # a dispatcher
        return
    for p in inspect.signature(ours).parameters.values():
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in OTHERWISE:
            assert (p.name, p.default) in ((k.name, k.default) for k in known)


@pytest.mark.parametrize("make", [
    lambda nn: nn.ReLU(True), lambda nn: nn.ReLU6(inplace=True), lambda nn: nn.LeakyReLU(0.2, True), lambda nn: nn.ELU(0.5, True),
    lambda nn: nn.SiLU(inplace=True), lambda nn: nn.Hardswish(inplace=True), lambda nn: nn.Hardtanh(-2.0, 1.0, True),
    lambda nn: nn.Hardsigmoid(inplace=True), lambda nn: nn.Mish(inplace=True), lambda nn: nn.Dropout(0.0, True),
])
def test_inplace_gives_the_same_values(make):
    x = np.linspace(-4, 4, 33)
    kept = rn.tensor(x)
    expected = make(torch.nn)(torch.from_numpy(x.copy())).numpy()
    np.testing.assert_allclose(make(nn)(kept).numpy(), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(kept.numpy(), x)


@pytest.mark.parametrize(("f", "x"), [
    (lambda F, x: F.log_softmax(x, dim=-1), [[1e4, 0.0], [-np.inf, 0.0], [0.0, 0.0]]),
    (lambda F, x: F.softmax(x, dim=0), [[1e4, 0.0], [-np.inf, 0.0], [0.0, 0.0]]),
    (lambda F, x: F.softplus(x), [-1e4, -30.0, 0.0, 30.0, 1e4]), (lambda F, x: F.gelu(x), [-1e4, -5.0, -0.0, 5.0, 1e4]),
    (lambda F, x: F.relu(x), [-1.0, -0.0, 0.0, np.nan, np.inf, -np.inf]), (lambda F, x: F.relu6(x), [-1.0, np.nan, np.inf, 6.0]),
    (lambda F, x: F.hardswish(x), [-4.0, -3.0, 3.0, 4.0, np.nan]), (lambda F, x: F.silu(x), [-1e3, 1e3, np.nan, 0.0]),
    (lambda F, x: F.elu(x), [-1e3, 1e3, np.nan, 0.0]),
])
def test_edges(f, x):
    x = np.array(x)
    expected = f(torch.nn.functional, torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(f(F, rn.tensor(x)).numpy(), expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shape", "target"), [((5, 3), (5,)), ((2, 3, 4), (2, 4)), ((3,), ()), ((2, 3, 2, 2), (2, 2, 2))])
def test_cross_entropy(smoothing, reduction, weighted, shape, target):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(shape), rng.uniform(0.5, 2.0, 3) if weighted else None
    t = np.asarray(rng.integers(0, 3, target))
    if t.ndim:
        t.flat[0] = 1
    ours, theirs = rn.tensor(x, requires_grad=True), torch.from_numpy(x.copy()).requires_grad_()
    settings = {"ignore_index": 1 if t.ndim else -100, "reduction": reduction, "label_smoothing": smoothing}
    out = F.cross_entropy(ours, rn.tensor(t), None if w is None else rn.tensor(w), **settings)
    weight = None if w is None else torch.from_numpy(w)
    expected = torch.nn.functional.cross_entropy(theirs, torch.from_numpy(t), weight, **settings)
    assert_near(out, expected, "float64")
    out.sum().backward()
    expected.sum().backward()
    assert_near(ours.grad, theirs.grad, "float64")
