"""What optimizers share: groups, hyperparameters, parameters without gradient, shared ones, saved state, failed checks."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import renaissance as rn
from renaissance import engine, nn, optim
from renaissance.errors import ArgumentError, CheckpointError, GradientError, NonFiniteError, TraceError

from . import plain
from .table import SIZES, TABLE, arrays, batch, model, plain_gradients, stepper

F = nn.functional
EITHER = pytest.mark.parametrize("compiled", [False, True])
ROWS = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in TABLE])


def parameter(value, dtype="float32"):
    return nn.Parameter(rn.tensor(np.asarray(value), dtype=dtype))


def give(p, gradient):
    p.grad = rn.tensor(np.broadcast_to(np.asarray(gradient, np.float64), p.shape).astype(p.dtype.numpy))


def assert_equal(got, expected):
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)


# ---- values fixed by public reports ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("amsgrad", "expected"), [(False, (0.8919607843, 0.8540872015, 0.8108372769)),
                                                   (True, (0.8919607843, 0.8578735523, 0.8274188836))])
@pytest.mark.parametrize(("dtype", "tol"), [("float64", 1e-10), ("float32", 1e-6)])
def test_adamw_decays_the_old_weight_and_adds_eps_to_the_corrected_root(amsgrad, expected, dtype, tol):
    p = parameter([1.0], dtype)
    optimizer = optim.AdamW([p], lr=0.1, betas=(0.9, 0.5), eps=1e-2, weight_decay=0.1, amsgrad=amsgrad)
    for gradient, value in zip((0.5, -0.25, 0.05), expected, strict=True):
        give(p, gradient)
        optimizer.step()
        assert abs(p.item() - value) < tol


def test_narrow_parameters_have_wide_state():
    """A thousandth of a bfloat16's last place still moves the moments."""
    p = parameter(np.ones(3), "bfloat16")
    optimizer = optim.Adam([p], lr=0.0, betas=(0.9, 0.999))
    for _ in range(20):
        give(p, 1.0)
        optimizer.step()
    state = optimizer.state_dict()["groups"][0]["state"]
    assert state["exp_avg_sq"].dtype == np.float32
    np.testing.assert_allclose(state["exp_avg_sq"], 1 - 0.999**20, rtol=1e-5)
    assert p.dtype.name == "bfloat16"


# ---- which parameters move -----------------------------------------------------------------------------------------------


@ROWS
@EITHER
def test_a_parameter_without_gradient_stays_decay_or_not(case, compiled):
    m = model()
    spare = parameter(np.arange(7.0))
    named = [*m[0].parameters(), spare, *m[2].parameters()]
    step = stepper(m, case.make(named), compiled)
    plainly = [a.astype(np.float64) for a in arrays(m)]
    optimizer = case.plain()
    for i in range(4):
        step(i)
        optimizer.step(plainly, plain_gradients(plainly, i))
    np.testing.assert_array_equal(spare.numpy(), np.arange(7.0))
    for a, b in zip(arrays(m), plainly, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@EITHER
def test_a_shared_parameter_moves_once_by_the_sum_of_its_gradients(compiled):
    rn.seed(3)
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    m = nn.Sequential(first, nn.Tanh(), second)
    assert [n for n, _ in m.named_parameters()] == ["0.weight", "0.bias", "2.bias"]
    w, b1, b2 = (a.astype(np.float64) for a in arrays(m))
    optimizer = optim.AdamW(m.parameters(), lr=0.05, eps=1e-4)
    plainly = plain.PlainOptimizer(plain.adamw, lr=0.05, eps=1e-4)

    def train(x, y):
        loss = F.mse_loss(m(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    step = rn.compile(train) if compiled else train
    for i in range(5):
        rng = np.random.default_rng(i)
        x, y = rng.standard_normal((3, 4)).astype(np.float32), rng.standard_normal((3, 4)).astype(np.float32)
        step(rn.tensor(x), rn.tensor(y))
        h = np.tanh(x @ w.T + b1)
        d = 2 * (h @ w.T + b2 - y) / y.size
        back = d @ w * (1 - h**2)
        plainly.step([w, b1, b2], [d.T @ h + back.T @ x, back.sum(0), d.sum(0)])
    for a, b in zip(arrays(m), (w, b1, b2), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    assert second.weight is first.weight


@EITHER
def test_groups_have_hyperparameters_of_their_own(compiled):
    m = model()
    p = [a.astype(np.float64) for a in arrays(m)]
    optimizer = optim.SGD([{"params": m[0].parameters(), "lr": 0.2, "momentum": 0.9},
                           {"params": m[2].parameters(), "weight_decay": 0.3}], lr=0.05)
    step = stepper(m, optimizer, compiled)
    first = plain.PlainOptimizer(plain.sgd, lr=0.2, momentum=0.9)
    second = plain.PlainOptimizer(plain.sgd, lr=0.05, weight_decay=0.3)
    for i in range(5):
        step(i)
        grads = plain_gradients(p, i)
        first.step(p[:2], grads[:2])
        second.step(p[2:], grads[2:])
    for a, b in zip(arrays(m), p, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_decay_groups_keep_biases_free_of_decay():
    m = model()
    optimizer = optim.AdamW(optim.decay_groups(m, 0.5, eps=1e-4), lr=0.01)
    assert [[p.shape for p in g["params"]] for g in optimizer.param_groups] == [[(5, 6), (3, 5)], [(5,), (3,)]]
    assert [(g["weight_decay"], g["eps"], g["lr"]) for g in optimizer.param_groups] == [(0.5, 1e-4, 0.01), (0.0, 1e-4, 0.01)]
    p = [a.astype(np.float64) for a in arrays(m)]
    step = stepper(m, optimizer, True)
    weights, biases = (plain.PlainOptimizer(plain.adamw, lr=0.01, eps=1e-4, weight_decay=w) for w in (0.5, 0.0))
    for i in range(4):
        step(i)
        grads = plain_gradients(p, i)
        weights.step(p[::2], grads[::2])
        biases.step(p[1::2], grads[1::2])
    for a, b in zip(arrays(m), p, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    only_biases = nn.Sequential()
    only_biases.register_parameter("bias", parameter([1.0]))
    assert len(optim.decay_groups(only_biases, 0.5)) == 1


@EITHER
def test_a_group_added_in_mid_run(compiled):
    m = model()
    p = [a.astype(np.float64) for a in arrays(m)]
    optimizer = optim.Adam(m[0].parameters(), lr=0.01, eps=1e-4)
    step = stepper(m, optimizer, compiled)
    early, late = (plain.PlainOptimizer(plain.adam, lr=lr, eps=1e-4) for lr in (0.01, 0.02))
    for i in range(6):
        if i == 3:
            optimizer.add_param_group({"params": m[2].parameters(), "lr": 0.02})
        step(i)
        grads = plain_gradients(p, i)
        early.step(p[:2], grads[:2])
        if i >= 3:
            late.step(p[2:], grads[2:])
    for a, b in zip(arrays(m), p, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_parameters_of_several_dtypes_in_one_group():
    ps = [parameter(np.ones(2)), parameter(np.ones(3), "float64"), parameter(np.ones(2), "bfloat16")]
    optimizer = optim.SGD(ps, lr=0.25, momentum=0.5)
    for _ in range(2):
        for p in ps:
            give(p, 1.0)
        optimizer.step()
    for p, name in zip(ps, ("float32", "float64", "bfloat16"), strict=True):
        assert p.dtype.name == name
        np.testing.assert_array_equal(p.numpy().astype(np.float64), 0.375)


@pytest.mark.parametrize("shape", [(), (0, 3), (1,)])
def test_parameters_of_any_size(shape):
    p, q = parameter(np.ones(shape)), parameter(np.ones(2))
    for optimizer in (optim.SGD([p, q], lr=0.5, momentum=0.9), optim.LARS([p, q], lr=0.5), optim.AdamW([p, q])):
        for t in (p, q):
            give(t, 1.0)
        optimizer.step()
        assert optimizer.steps == 1
    assert p.shape == shape
    assert (q.numpy() < 0.6).all()


# ---- hyperparameters -------------------------------------------------------------------------------------------------------


@EITHER
def test_hyperparameters_changed_in_mid_run_count_from_the_next_step(compiled):
    m = model()
    p = [a.astype(np.float64) for a in arrays(m)]
    optimizer = optim.SGD(m.parameters(), lr=0.1)
    step = stepper(m, optimizer, compiled)
    plainly = plain.PlainOptimizer(plain.sgd, lr=0.1)
    changes = {2: {"lr": 0.05}, 3: {"weight_decay": 0.2}, 4: {"maximize": True}, 6: {"weight_decay": 0.0, "maximize": False}}
    for i in range(8):
        if i in changes:
            optimizer.param_groups[0].update(changes[i])
            plainly.hyper.update(changes[i])
        step(i)
        plainly.step(p, plain_gradients(p, i))
    for a, b in zip(arrays(m), p, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@EITHER
@pytest.mark.parametrize(("kind", "name", "value"), [(optim.SGD, "momentum", 0.9), (optim.Adam, "amsgrad", True)])
def test_a_hyperparameter_that_calls_for_new_state(kind, name, value, compiled):
    m, other = model(), model()
    optimizer, expected = kind(m.parameters(), lr=0.01), kind(other.parameters(), lr=0.01, **{name: value})
    stepped, expecting = stepper(m, optimizer, compiled), stepper(other, expected, compiled)
    optimizer.param_groups[0][name] = value
    for i in range(4):
        stepped(i)
        expecting(i)
    assert_equal(arrays(m), arrays(other))


def test_setting_a_hyperparameter_inside_a_compiled_function_is_an_error_with_its_line():
    p = parameter([1.0, 2.0])
    optimizer = optim.SGD([p], lr=0.1)

    @rn.compile
    def step(g):
        p.grad = g
        optimizer.param_groups[0]["lr"] *= 0.5
        optimizer.step()

    with pytest.raises(TraceError, match=r"'lr' is set inside a compiled function at .*test_optimizer\.py:\d+"):
        step(rn.ones(2))
    assert optimizer.param_groups[0]["lr"] == 0.1
    np.testing.assert_array_equal(p.numpy(), [1, 2])


@EITHER
def test_a_schedule_is_read_at_every_step(compiled):
    p = parameter(np.zeros(2), "float64")
    schedule = optim.Cosine(0.5, end=0.1, total_steps=6, warmup_steps=2)
    optimizer = optim.SGD([p], lr=schedule)

    def step(g):
        p.grad = g
        optimizer.step()

    run = rn.compile(step) if compiled else step
    for i in range(8):
        before = p.numpy().copy()
        run(rn.ones(2, "float64"))
        np.testing.assert_allclose(before - p.numpy(), schedule(i), rtol=1e-12)
    assert optimizer.lr(optimizer.param_groups[0]) == schedule(8)


@pytest.mark.parametrize(("kind", "hyper", "message"), [
    (optim.SGD, {"lr": -0.1}, "SGD: lr must not be negative, got -0.1"),
    (optim.SGD, {"momentum": -1.0}, "momentum"), (optim.SGD, {"weight_decay": -1.0}, "weight_decay"),
    (optim.SGD, {"nesterov": True}, "nesterov needs a momentum above 0 and dampening 0"),
    (optim.SGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "nesterov"),
    (optim.Adam, {"betas": (0.9, 1.0)}, r"Adam: betas must be in \[0, 1\)"), (optim.AdamW, {"eps": -1.0}, "AdamW: eps"),
    (optim.Adam, {"lr": float("nan")}, "lr"), (optim.LARS, {"lr": 0.1, "trust_coefficient": -1.0}, "trust_coefficient"),
])
def test_hyperparameters_out_of_range(kind, hyper, message):
    with pytest.raises(ArgumentError, match=message):
        kind([parameter([1.0])], **hyper)


def test_a_hyperparameter_set_out_of_range_stops_the_next_step():
    p = parameter([1.0])
    optimizer = optim.Adam([p])
    optimizer.param_groups[0]["betas"] = (0.9, 2.0)
    give(p, 1.0)
    with pytest.raises(ArgumentError, match="betas"):
        optimizer.step()
    assert p.item() == 1.0 and optimizer.steps == 0


def test_mistakes_in_parameters_and_groups():
    p = parameter([1.0])
    for params, message in (([], "empty list"), ([p, p], "given twice"), ([rn.ones(2)], "takes Parameters"),
                            ([{"lr": 0.1}], "needs 'params'"), ([{"params": [p], "rate": 1.0}], "unknown hyperparameter"),
                            ([{"params": p}, {"params": p}], "given twice")):
        with pytest.raises(ArgumentError, match=message):
            optim.SGD(params)
    group = optim.SGD(p).param_groups[0]
    for key in ("rate", "params"):
        with pytest.raises(ArgumentError, match="cannot be set, only dampening, lr"):
            group[key] = 1.0
    with pytest.raises(ArgumentError, match="cannot be taken away"):
        del group["lr"]
    assert repr(group).startswith("ParamGroup(1 parameters, lr=0.001, momentum=0.0")


# ---- gradients -------------------------------------------------------------------------------------------------------------


@EITHER
def test_gradients_are_readable_after_a_step_if_kept(compiled):
    m = model()
    step = stepper(m, optim.SGD(m.parameters(), lr=0.1, keep_grads=True), compiled)
    p = [a.astype(np.float64) for a in arrays(m)]
    step(0)
    for a, b in zip(m.parameters(), plain_gradients(p, 0), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b, rtol=1e-5, atol=1e-6)
    other = model()
    stepper(other, optim.SGD(other.parameters(), lr=0.1), compiled)(0)
    with pytest.raises(GradientError, match="keep_grads=True"):
        _ = other[0].weight.grad


def test_zero_grad_sets_none_or_zeros():
    m = model()
    optimizer = optim.AdamW(m.parameters(), weight_decay=0.5)
    stepper(m, optimizer, False)(0)
    optimizer.zero_grad()
    assert all(p.grad is None for p in m.parameters())
    before = arrays(m)
    optimizer.step()
    assert_equal(arrays(m), before)
    assert optimizer.steps == 1
    optimizer.zero_grad(set_to_none=False)
    assert all((p.grad.numpy() == 0).all() and p.grad.shape == p.shape for p in m.parameters())
    optimizer.step()
    assert optimizer.steps == 2 and (np.abs(m[0].weight.numpy()) < np.abs(before[0])).mean() > 0.5


# ---- saved state -----------------------------------------------------------------------------------------------------------


@ROWS
def test_a_copy_goes_on_like_the_original(case):
    m = model()
    optimizer = case.make(m.parameters())
    step = stepper(m, optimizer, False)
    for i in range(3):
        step(i)
    for other, copied in (copy.deepcopy((m, optimizer)), pickle.loads(pickle.dumps((m, optimizer)))):
        assert_equal(arrays(other), arrays(m))
        assert copied.param_groups[0]["params"][0] is other[0].weight
        run = stepper(other, copied, False)
        again = copy.deepcopy((m, optimizer))
        expect = stepper(*again, False)
        for i in range(3, 6):
            assert run(i) == expect(i)
        assert_equal(arrays(other), arrays(again[0]))
        assert not np.array_equal(arrays(other)[0], arrays(m)[0])


@ROWS
def test_a_parameter_frozen_when_the_state_was_saved(case):
    """Its state does not exist yet, in PyTorch; here it is zeros and a count of 0."""
    m, other = model(), model(seed=1)
    m[0].bias.requires_grad_(False)
    optimizer, resumed = case.make(m.parameters()), case.make(other.parameters())
    step, go_on = stepper(m, optimizer, True), stepper(other, resumed, True)
    for i in range(3):
        step(i)
    other.load_state_dict(m.state_dict())
    resumed.load_state_dict(optimizer.state_dict())
    m[0].bias.requires_grad_(True)
    for i in range(3, 7):
        step(i)
        go_on(i)
    assert_equal(arrays(m), arrays(other))


def test_a_state_from_before_a_hyperparameter_was_invented():
    m = model()
    saved = optim.Adam(m.parameters(), lr=0.1).state_dict()
    del saved["groups"][0]["hyper"]["maximize"], saved["groups"][0]["shapes"]
    optimizer = optim.Adam(m.parameters(), lr=0.2, maximize=True)
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["maximize"] is True and optimizer.param_groups[0]["lr"] == 0.1


def test_a_saved_rate_does_not_replace_a_schedule_nor_a_schedule_a_rate():
    m = model()
    schedule = optim.Cosine(1e-3, total_steps=100)
    fixed, scheduled = optim.SGD(m.parameters(), lr=0.5), optim.SGD(m.parameters(), lr=schedule)
    scheduled.steps = 45
    state = scheduled.state_dict()
    scheduled.load_state_dict(fixed.state_dict())
    assert scheduled.param_groups[0]["lr"] is schedule
    fixed.load_state_dict(state)
    assert fixed.param_groups[0]["lr"] == 0.5 and fixed.steps == 45


def test_a_rate_after_resuming_is_that_of_the_step():
    p = parameter([1.0])
    resumed = optim.SGD([p], lr=optim.Cosine(1e-3, total_steps=100))
    state = resumed.state_dict()
    state["steps"] = 45
    resumed.load_state_dict(state)
    assert abs(resumed.lr(resumed.param_groups[0]) - 5.7821723e-4) < 1e-11
    give(p, 0.0)
    resumed.step()
    assert abs(resumed.lr(resumed.param_groups[0]) - 5.6266662e-4) < 1e-11


@pytest.mark.parametrize(("change", "message"), [
    (lambda s: s["groups"].append(s["groups"][0]), "has 2 parameter groups, this optimizer 1"),
    (lambda s: s["groups"][0]["shapes"].reverse(), r"group 0: the state is for parameters of shapes \[\(3,\)"),
    (lambda s: s["groups"][0]["counts"].pop(), "group 0"),
    (lambda s: s["groups"][0]["state"].pop("exp_avg"), r"holds \['exp_avg_sq'\]; expected \['exp_avg', 'exp_avg_sq'\]"),
    (lambda s: s["groups"][0]["hyper"].update(momentum=0.9), "sets momentum, unknown to Adam"),
    (lambda s: s["groups"][0]["state"].update(exp_avg_sq=np.zeros(3, np.float32)), r"state exp_avg_sq has shape \(3,\)"),
    (lambda s: s["groups"][0]["hyper"].update(amsgrad=True), "expected .*max_exp_avg_sq"),
])
def test_a_state_that_does_not_fit_changes_nothing(change, message):
    m = model()
    optimizer = optim.Adam(m.parameters(), lr=0.01)
    step = stepper(m, optimizer, False)
    step(0)
    before = optimizer.state_dict()
    other = copy.deepcopy(before)
    other["steps"], other["groups"][0]["counts"] = 7, [7, 7, 7, 7]
    other["groups"][0]["hyper"]["lr"] = 0.7
    change(other)
    with pytest.raises(CheckpointError, match=message):
        optimizer.load_state_dict(other)
    after = optimizer.state_dict()
    assert after["steps"] == 1 and after["groups"][0]["counts"] == [1] * 4
    assert after["groups"][0]["hyper"] == before["groups"][0]["hyper"]
    assert_equal(after["groups"][0]["state"].values(), before["groups"][0]["state"].values())


def test_a_saved_state_is_a_copy():
    m = model()
    optimizer = optim.Adam(m.parameters())
    step = stepper(m, optimizer, False)
    step(0)
    saved = optimizer.state_dict()
    kept = copy.deepcopy(saved)
    step(1)
    assert_equal(saved["groups"][0]["state"].values(), kept["groups"][0]["state"].values())
    assert saved["groups"][0]["counts"] == [1, 1, 1, 1]


# ---- checks that fail ------------------------------------------------------------------------------------------------------


@ROWS
@EITHER
def test_a_step_whose_check_fails_changes_nothing(case, compiled):
    m = model()
    optimizer = case.make(m.parameters())

    def train(x, y):
        loss = F.mse_loss(m(x), y)
        optimizer.zero_grad()
        loss.backward()
        optim.clip_grad_norm_(m.parameters(), 100.0)
        optimizer.step()

    step = rn.compile(train) if compiled else train
    for i in range(2):
        step(*map(rn.tensor, batch(i)))
    weights, state = arrays(m), optimizer.state_dict()
    x, y = batch(2)
    x[1, 3] = np.nan
    with pytest.raises(NonFiniteError, match=rf"the gradient of parameter \d, shape \({SIZES[1]},.*nothing was updated"):
        step(rn.tensor(x), rn.tensor(y))
    assert_equal(arrays(m), weights)
    after = optimizer.state_dict()
    assert after["steps"] == state["steps"] == 2 and after["groups"][0]["counts"] == state["groups"][0]["counts"]
    assert_equal(after["groups"][0]["state"].values(), state["groups"][0]["state"].values())
    step(*map(rn.tensor, batch(3)))

    other = model()
    expected = stepper(other, case.make(other.parameters()), False)
    for i in (0, 1, 3):
        expected(i)
    for a, b in zip(arrays(m), arrays(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_gradients_survive_a_failed_step():
    p, q = parameter([1.0, 2.0]), parameter([3.0])
    optimizer = optim.SGD([p, q], lr=0.5)
    give(p, [0.5, 1.0])
    give(q, np.inf)
    optim.clip_grad_norm_([p, q], 1.0)
    with pytest.raises(NonFiniteError, match="parameter 1, shape"):
        optimizer.step()
    with pytest.raises(NonFiniteError):  # not GradientError: the step did not use it up
        p.grad.numpy()
    optimizer.zero_grad()
    give(p, [0.5, 1.0])
    optimizer.step()
    np.testing.assert_array_equal(p.numpy(), [0.75, 1.5])


@EITHER
def test_a_norm_that_failed_its_check_does_not_stop_later_steps(compiled):
    """It still is a promise that reads the weights the next step overwrites."""
    m, other = model(), model()
    optimizer, expected = optim.SGD(m.parameters(), lr=0.1), optim.SGD(other.parameters(), lr=0.1)
    go_on, expect = stepper(m, optimizer, compiled), stepper(other, expected, compiled)
    go_on(0)
    expect(0)
    x, y = batch(1)
    x[0, 0] = np.nan
    optimizer.zero_grad()
    F.mse_loss(m(rn.tensor(x)), rn.tensor(y)).backward()
    norm = optim.clip_grad_norm_(m.parameters(), 1.0)
    with pytest.raises(NonFiniteError):
        optimizer.step()
    for i in range(2, 5):
        go_on(i)
        expect(i)
    assert_equal(arrays(m), arrays(other))
    assert optimizer.steps == expected.steps == 4
    with pytest.raises((NonFiniteError, GradientError)):
        norm.item()


# ---- programs ------------------------------------------------------------------------------------------------------------


@EITHER
def test_another_model_of_the_same_kind_makes_no_program(compiled):
    made = []
    for _ in range(2):
        m = model()
        step = stepper(m, optim.AdamW(m.parameters(), lr=0.01), compiled)
        for i in range(2):
            step(i)
        made.append(len(engine._programs))
    assert made[0] == made[1]
