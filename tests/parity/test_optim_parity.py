"""Optimizers, schedules and clipping against PyTorch, from equal initial values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import renaissance as rn
from renaissance import nn, optim

from ..optim.table import TABLE, arrays, batch, model, stepper

pytestmark = pytest.mark.torch
KINDS = {optim.SGD: torch.optim.SGD, optim.Adam: torch.optim.Adam, optim.AdamW: torch.optim.AdamW}
ROWS = [pytest.param(case, id=case.name) for case in TABLE if case.kind in KINDS]
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


def twin(module, dtype="float32"):
    """The same model in PyTorch."""
    made = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).to(getattr(torch, dtype))
    made.load_state_dict({k: torch.from_numpy(v.numpy().copy()) for k, v in module.state_dict().items()})
    return made


def train(module, optimizer, i, dtype="float32"):
    x, y = map(torch.from_numpy, batch(i, dtype))
    loss = torch.nn.functional.mse_loss(module(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def assert_near(module, other, tol):
    for a, b in zip(arrays(module), other.parameters(), strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=tol, atol=tol)


@pytest.mark.parametrize("case", ROWS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ten_steps(case, dtype):
    m = model(dtype)
    other = twin(m, dtype)
    step, optimizer = stepper(m, case.make(m.parameters()), True), KINDS[case.kind](other.parameters(), **case.hyper)
    for i in range(10):
        assert step(i) == pytest.approx(train(other, optimizer, i, dtype), rel=TOLERANCE[dtype], abs=TOLERANCE[dtype])
    assert_near(m, other, TOLERANCE[dtype])


@pytest.mark.parametrize("kind", list(KINDS))
def test_defaults(kind):
    m = model("float64")
    other = twin(m, "float64")
    step, optimizer = stepper(m, kind(m.parameters()), False), KINDS[kind](other.parameters())
    for i in range(5):
        step(i)
        train(other, optimizer, i, "float64")
    assert_near(m, other, 1e-9)  # eps of 1e-8 beside roots of gradients


def test_groups_frozen_parameters_and_changed_hyperparameters():
    m = model("float64")
    other = twin(m, "float64")
    ours, theirs = (kind([{"params": of[0].parameters()}, {"params": of[2].parameters(), "lr": 0.02, "weight_decay": 0.0}], 0.01)
                    for kind, of in ((optim.AdamW, m), (torch.optim.AdamW, other)))
    step = stepper(m, ours, True)
    for i in range(8):
        if i == 2:
            m[0].weight.requires_grad_(False)
            other[0].weight.requires_grad_(False)
        if i == 5:
            m[0].weight.requires_grad_(True)
            other[0].weight.requires_grad_(True)
            for groups in (ours.param_groups, theirs.param_groups):
                groups[0]["lr"], groups[1]["weight_decay"] = 0.05, 0.3
        step(i)
        train(other, theirs, i, "float64")
        assert_near(m, other, 1e-9)


@pytest.mark.parametrize("max_norm", [0.01, 1.0, 1e3])
def test_clipping(max_norm):
    rng = np.random.default_rng(0)
    ours, theirs = [], []
    for shape in ((3, 5), (7,), ()):
        g = np.asarray(rng.standard_normal(shape), np.float32)
        p, q = nn.Parameter(rn.zeros(shape)), torch.nn.Parameter(torch.zeros(shape))
        p.grad, q.grad = rn.tensor(g), torch.from_numpy(g.copy())
        ours.append(p)
        theirs.append(q)
    norm = optim.clip_grad_norm_(ours, max_norm)
    assert norm.item() == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs, max_norm).item(), rel=1e-6)
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-6)


S = torch.optim.lr_scheduler


@pytest.mark.parametrize(("ours", "theirs"), [
    pytest.param(optim.Step(0.3, step_steps=7, gamma=0.5), lambda o: S.StepLR(o, 7, 0.5), id="step"),
    pytest.param(optim.MultiStep(0.3, milestone_steps=[5, 20]), lambda o: S.MultiStepLR(o, [5, 20]), id="multi step"),
    pytest.param(optim.Exponential(0.3, gamma=0.9, per_step=True), lambda o: S.ExponentialLR(o, 0.9), id="exponential"),
    pytest.param(optim.Cosine(0.3, end=0.01, total_steps=30), lambda o: S.CosineAnnealingLR(o, 30, 0.01), id="cosine"),
    pytest.param(optim.Polynomial(0.3, power=2, total_steps=30), lambda o: S.PolynomialLR(o, 30, 2), id="polynomial"),
    pytest.param(optim.CosineWarmRestarts(0.3, period_steps=6, factor=2, end=0.01),
                 lambda o: S.CosineAnnealingWarmRestarts(o, 6, 2, 0.01), id="restarts"),
    pytest.param(optim.OneCycle(0.3, total_steps=30), lambda o: S.OneCycleLR(o, 0.3, 30), id="one cycle"),
])
def test_schedules(ours, theirs):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
    scheduler = theirs(optimizer)
    for t in range(30):
        assert ours(t) == pytest.approx(scheduler.get_last_lr()[0], rel=1e-9, abs=1e-12)
        optimizer.step()
        if t < 29:
            scheduler.step()


def test_steps_from_torchs_state():
    """Moments and counts taken over from PyTorch's optimizer: both go on alike."""
    m = model("float64")
    other = twin(m, "float64")
    theirs = torch.optim.Adam(other.parameters(), lr=0.01)
    for i in range(3):
        train(other, theirs, i, "float64")
    m.load_state_dict({k: v.numpy() for k, v in other.state_dict().items()})
    ours = optim.Adam(m.parameters(), lr=0.01)
    saved = ours.state_dict()
    entries = [theirs.state[p] for p in other.parameters()]
    for n in ("exp_avg", "exp_avg_sq"):
        saved["groups"][0]["state"][n] = np.concatenate([e[n].numpy().ravel() for e in entries])
    saved["steps"], saved["groups"][0]["counts"] = 3, [3] * 4
    ours.load_state_dict(saved)
    step = stepper(m, ours, False)
    for i in range(3, 6):
        assert math.isclose(step(i), train(other, theirs, i, "float64"), rel_tol=1e-9)
    assert_near(m, other, 1e-9)
