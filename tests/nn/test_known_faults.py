"""Small inputs that other frameworks got wrong, with the right answers."""

from __future__ import annotations

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn, optim

F = nn.functional
EITHER = pytest.mark.parametrize("wrap", [lambda f: f, rn.compile], ids=["uncompiled", "compiled"])
INF, NAN = np.inf, np.nan


def value_and_gradient(f, x, dtype="float32"):
    """f(x) and the gradient of its sum."""
    out, pull = rn.vjp(f, rn.tensor(np.asarray(x, dtype)))
    return out.numpy(), pull(rn.ones(out.shape, out.dtype))[0].numpy()


# ---- dropout ---------------------------------------------------------------------------------------------------------------


@EITHER
def test_dropout_of_everything_is_zero_with_zero_gradient(wrap):
    x = rn.tensor([1.0, INF, NAN], requires_grad=True)

    @wrap
    def run(x):
        y = F.dropout(x, 1.0)
        y.sum().backward()
        return y

    np.testing.assert_array_equal(run(x).numpy(), [0, 0, 0])
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0, 0])


def test_dropout_of_nothing_draws_nothing():
    rn.seed(3)
    x = rn.ones((4, 5))
    expected = F.dropout(x, 0.5).numpy()
    rn.seed(3)
    assert F.dropout(x, 0.0) is x and F.dropout(x, 0.5, training=False) is x
    np.testing.assert_array_equal(F.dropout(x, 0.5).numpy(), expected)


def test_dropout_keeps_the_mean_and_sends_the_gradient_the_same_way():
    rn.seed(1)
    layer = nn.Dropout(0.25)
    y, g = value_and_gradient(layer, np.ones((200, 300)))
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.01
    np.testing.assert_array_equal(y, g)
    layer.eval()
    y, g = value_and_gradient(layer, np.ones(5))
    np.testing.assert_array_equal(y, g)
    assert (y == 1).all()


# ---- softmax and cross entropy at their edges --------------------------------------------------------------------------------


@EITHER
def test_log_softmax_and_its_kin_far_out(wrap):
    def both(f, x):
        return wrap(f)(rn.tensor(np.asarray(x, np.float32))).numpy()

    np.testing.assert_array_equal(both(F.log_softmax, [1e4, 0.0]), [0, -1e4])
    np.testing.assert_array_equal(both(F.log_softmax, [-INF, 0.0]), [-INF, 0])
    np.testing.assert_array_equal(both(F.softmax, [-INF, 0.0]), [0, 1])
    assert both(rn.logsumexp, [-INF, -INF]) == -INF and both(rn.logsumexp, [INF, 0.0]) == INF
    assert both(rn.logsumexp, [1000.0, 1000.0]) == pytest.approx(1000 + np.log(2))
    assert np.isnan(both(F.softmax, [-INF, -INF])).all()
    assert both(F.softmax, np.zeros((2, 0))).shape == (2, 0)
    assert both(F.log_softmax, np.zeros((0, 3))).shape == (0, 3)


@EITHER
@pytest.mark.parametrize(("scores", "target", "loss", "gradient"), [
    ([[-INF, 0.0]], [0], INF, [[-1.0, 1.0]]), ([[1e4, 0.0]], [1], 1e4, [[1.0, -1.0]]), ([[1e4, 0.0]], [0], 0.0, [[0.0, 0.0]]),
    ([[3e38, -3e38]], [0], 0.0, [[0.0, 0.0]]),
])
def test_cross_entropy_far_out(wrap, scores, target, loss, gradient):
    x = rn.tensor(scores, requires_grad=True)

    @wrap
    def run(x, t):
        y = F.cross_entropy(x, t)
        y.backward()
        return y

    assert run(x, rn.tensor(target)).item() == loss
    np.testing.assert_array_equal(x.grad.numpy(), gradient)


@EITHER
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ignored_targets_count_nowhere_even_where_scores_are_nan(wrap, reduction):
    x = rn.tensor([[NAN, 1.0], [0.0, 0.0], [INF, -INF]], requires_grad=True)

    @wrap
    def run(x, t):
        y = F.cross_entropy(x, t, reduction=reduction, label_smoothing=0.1)
        y.sum().backward()
        return y

    y = run(x, rn.tensor([-100, 1, -100])).numpy()
    np.testing.assert_allclose(y, [0, np.log(2), 0] if reduction == "none" else np.log(2), rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy()[1], [0.45, -0.45], rtol=1e-6)
    np.testing.assert_array_equal(x.grad.numpy()[[0, 2]], 0)


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_a_batch_of_ignored_targets_gives_zero(loss):
    y, g = value_and_gradient(lambda x: loss(x, rn.tensor([-100, -100])), np.ones((2, 3)))
    assert y == 0
    np.testing.assert_array_equal(g, np.zeros((2, 3)))
    assert F.cross_entropy(rn.zeros((0, 3)), rn.zeros(0, "int64")).item() == 0


@EITHER
@pytest.mark.parametrize("target", [3, -1, 10**12])
def test_a_target_outside_raises_and_changes_nothing(wrap, target):
    m = nn.Linear(2, 3)
    o = optim.SGD(m.parameters(), lr=0.1)
    before = m.weight.numpy().copy()

    @wrap
    def step(x, t):
        F.cross_entropy(m(x), t).backward()
        o.step()

    with pytest.raises(rn.errors.RangeError, match="cross_entropy: target must be a class from 0 to 2"):
        step(rn.ones((2, 2)), rn.tensor([1, target]))
    np.testing.assert_array_equal(m.weight.numpy(), before)
    assert o.steps == 0


def test_binary_cross_entropy_of_logits_of_any_size():
    x, t = rn.tensor([1e4, -1e4, 1e4, -1e4, 0.0]), rn.tensor([1.0, 0.0, 0.0, 1.0, 0.5])
    np.testing.assert_allclose(F.binary_cross_entropy_with_logits(x, t, reduction="none").numpy(), [0, 0, 1e4, 1e4, np.log(2)])
    _, g = value_and_gradient(lambda x: F.binary_cross_entropy_with_logits(x, t, reduction="sum"), x.numpy())
    np.testing.assert_array_equal(g, [0, 0, 1, -1, 0])


# ---- gradients at kinks and of branches not taken ------------------------------------------------------------------------------


@EITHER
@pytest.mark.parametrize(("f", "x", "gradient"), [
    pytest.param(lambda x: rn.where(x > 0.0, rn.sqrt(x), x), [-1.0, -4.0], [1, 1], id="sqrt of a negative"),
    pytest.param(lambda x: rn.where(x <= 0.0, rn.exp(x), 1.0 + x), [100.0], [1], id="exp that overflows"),
    pytest.param(lambda x: rn.where(x > 0.0, rn.log(x), x * 2.0), [0.0, -1.0], [2, 2], id="log of zero"),
    pytest.param(lambda x: rn.where(x != 0.0, rn.sin(x) / x, 1.0), [0.0, 1.0], [0, np.cos(1) - np.sin(1)], id="sin x / x"),
    pytest.param(F.relu, [0.0, -0.0, -1.0, 2.0], [0, 0, 0, 1], id="relu"),
    pytest.param(F.relu6, [0.0, 6.0, 3.0], [0, 0, 1], id="relu6"),
    pytest.param(F.hardtanh, [-1.0, 1.0, 0.5], [0, 0, 1], id="hardtanh"),
    pytest.param(lambda x: rn.clip(x, 0.0, None), [0.0, -1.0, 1.0], [0, 0, 1], id="clip"),
    pytest.param(lambda x: rn.maximum(x, rn.zeros(3)), [0.0, -1.0, 1.0], [0.5, 0, 1], id="maximum"),
    pytest.param(lambda x: rn.minimum(x, rn.zeros(3)), [0.0, -1.0, 1.0], [0.5, 1, 0], id="minimum"),
    pytest.param(rn.max, [1.0, 3.0, 3.0], [0, 0.5, 0.5], id="largest of all"),
    pytest.param(lambda x: rn.max(x, 0), [1.0, 3.0, 3.0], [0, 1, 0], id="largest along an axis"),
    pytest.param(lambda x: rn.min(x, -1), [3.0, 1.0, 1.0], [0, 1, 0], id="smallest along an axis"),
    pytest.param(rn.abs, [0.0, -2.0, 3.0], [0, -1, 1], id="abs"),
    pytest.param(lambda x: x**2.0, [0.0], [0], id="square"), pytest.param(lambda x: x**1.0, [0.0], [1], id="first power"),
    pytest.param(lambda x: x**0.0, [0.0], [0], id="power 0"), pytest.param(lambda x: x**0.5, [0.0], [INF], id="power 1/2"),
    pytest.param(rn.std, [1.0, 1.0, 1.0], [0, 0, 0], id="spread of a constant"),
    pytest.param(lambda x: F.leaky_relu(x, 0.1), [0.0, -1.0], [0.1, 0.1], id="leaky relu"),
    pytest.param(F.elu, [100.0, 0.0], [1, 1], id="elu"), pytest.param(F.softplus, [1e4, -1e4, 0.0], [1, 0, 0.5], id="softplus"),
    pytest.param(rn.sigmoid, [1e4, -1e4], [0, 0], id="sigmoid"), pytest.param(F.silu, [1e4, -1e4], [1, 0], id="silu"),
    pytest.param(F.mish, [1e4, -1e4], [1, 0], id="mish"), pytest.param(F.gelu, [1e3, -1e3], [1, 0], id="gelu"),
])
def test_gradients_at_special_points(wrap, f, x, gradient):
    p = rn.tensor(np.array(x, np.float32), requires_grad=True)

    @wrap
    def run(p):
        f(p).sum().backward()

    run(p)
    np.testing.assert_allclose(p.grad.numpy(), gradient, rtol=1e-6)


def test_ties_of_a_maximum_over_many_elements_share_evenly():
    """More elements than one pass of a reduction takes."""
    x = np.zeros(5000)
    x[[3, 4000, 4001, 4999]] = 7.0
    expected = (x == 7) / 4
    np.testing.assert_allclose(value_and_gradient(rn.max, x)[1], expected)
    np.testing.assert_allclose(value_and_gradient(rn.max, x.reshape(50, 100))[1], expected.reshape(50, 100))
    along = value_and_gradient(lambda v: rn.max(v, 0), np.stack([x, x], 1))[1]
    np.testing.assert_array_equal(np.flatnonzero(along[:, 0]), [3])


def test_a_maximum_over_two_axes_goes_to_the_first_in_row_major_order():
    x = np.array([[[1.0, 5.0], [5.0, 0.0]], [[5.0, 2.0], [2.0, 5.0]]])
    _, g = value_and_gradient(lambda v: rn.max(v, (1, 2)), x)
    np.testing.assert_array_equal(g, [[[0, 1], [0, 0]], [[1, 0], [0, 0]]])
    _, g = value_and_gradient(lambda v: rn.max(v, (0, 2)), x)
    np.testing.assert_array_equal(g, [[[0, 1], [0, 0]], [[0, 0], [0, 0]]] + np.array([[[0, 0], [1, 0]], [[0, 0], [0, 0]]]))


# ---- sums of narrow numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("f", "dtype", "n", "expected"), [
    pytest.param(rn.sum, "bfloat16", 70_000, 70144, id="sum of bfloat16"),
    pytest.param(rn.mean, "bfloat16", 70_000, 1, id="mean of bfloat16"),
    pytest.param(rn.sum, "float16", 20_000, 20_000, id="sum of float16"),
    pytest.param(rn.sum, "uint8", 300, 300, id="sum of uint8"),
    pytest.param(rn.sum, "bool", 300, 300, id="sum of bool"), pytest.param(rn.sum, "float32", 2**25, 2**25, id="sum of float32"),
    pytest.param(rn.var, "bfloat16", 70_000, 0, id="variance"),
    pytest.param(lambda x: F.softmax(x).sum(), "bfloat16", 512, 1, id="softmax"),
    pytest.param(lambda x: F.softmax(x)[0], "bfloat16", 512, 1 / 512, id="softmax of equals"),
    pytest.param(lambda x: F.mse_loss(x, x * 3.0), "bfloat16", 70_000, 4, id="a mean loss"),
])
@EITHER
def test_sums_of_ones(wrap, f, dtype, n, expected):
    assert float(wrap(f)(rn.ones(n, dtype)).item()) == expected


def test_sums_of_narrow_integers_are_wide():
    total = rn.sum(rn.tensor(np.array([100] * 3), dtype="int8"))
    assert total.item() == 300 and total.dtype is rn.int64
    assert rn.sum(rn.ones(3, "uint8")).dtype is rn.uint64 and rn.sum(rn.ones(3, "bfloat16")).dtype is rn.bfloat16


def test_variance_of_numbers_far_from_zero():
    x = np.float32(10000) + np.arange(16, dtype=np.float32) * np.float32(1e-3)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(rn.var(rn.tensor(x)).item(), exact.var(), rtol=1e-5)
    z = (rn.tensor(x) - rn.mean(rn.tensor(x))) / rn.std(rn.tensor(x))
    assert np.isfinite(z.numpy()).all()
    assert rn.var(rn.full((3, 3), 100.0)).item() == 0 and rn.std(rn.tensor([3.0])).item() == 0
    assert np.isnan(rn.std(rn.tensor([3.0]), correction=1).item())


# ---- nothing to reduce -------------------------------------------------------------------------------------------------------


@EITHER
def test_reductions_of_nothing(wrap):
    def of_nothing(f):
        return wrap(f)(rn.zeros((0, 3))).numpy()

    assert of_nothing(rn.sum) == 0 and of_nothing(rn.prod) == 1 and of_nothing(rn.logsumexp) == -INF
    assert of_nothing(rn.all) == True and of_nothing(rn.any) == False  # noqa: E712
    assert np.isnan(of_nothing(rn.mean)) and np.isnan(of_nothing(rn.std)) and np.isnan(of_nothing(rn.var))
    assert of_nothing(lambda x: rn.max(x, 1)).shape == (0,) and of_nothing(lambda x: rn.argmax(x, 1)).shape == (0,)
    np.testing.assert_array_equal(of_nothing(lambda x: rn.sum(x, 0)), [0, 0, 0])
    for f in (rn.max, rn.min, rn.argmax, lambda x: rn.max(x, 0)):
        with pytest.raises(rn.errors.ArgumentError, match="empty"):
            of_nothing(f)


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.binary_cross_entropy_with_logits])
def test_losses_of_nothing(loss):
    x = rn.zeros((0, 2))
    assert loss(x, x, reduction="none").shape == (0, 2) and loss(x, x, reduction="sum").item() == 0
    assert np.isnan(loss(x, x).item())


# ---- narrow precision ----------------------------------------------------------------------------------------------------------


@EITHER
def test_small_updates_are_not_lost_under_bf16(wrap):
    """1 + 2^-9 is 1 in bfloat16; the weights are float32, whatever products are made of."""
    m = nn.Linear(4, 1, bias=False)
    m.weight.copy_(rn.ones((1, 4)))
    o = optim.SGD(m.parameters(), lr=2.0**-9)

    @wrap
    def step(x):
        with rn.precision("bf16"):
            y = m(x)
        o.zero_grad()
        (-y.sum()).backward()
        o.step()
        return y

    for _ in range(4):
        assert step(rn.ones((1, 4))).dtype is rn.bfloat16
    assert m.weight.dtype is rn.float32
    np.testing.assert_array_equal(m.weight.numpy(), 1 + 4 * 2.0**-9)


def test_losses_and_statistics_are_wide_under_bf16():
    with rn.precision("bf16"):
        scores = nn.Linear(4, 3)(rn.ones((2, 4)))
        assert scores.dtype is rn.bfloat16
        assert F.cross_entropy(scores, rn.tensor([0, 1])).dtype is rn.float32
        assert F.log_softmax(scores).dtype is rn.bfloat16 and rn.ones(3).sum().dtype is rn.float32


def test_a_model_in_bf16_learns_as_in_float32():
    def train(precision):
        rn.seed(0)
        m = rn.models.mlp((8, 16, 3))
        o = optim.AdamW(m.parameters(), lr=0.02)
        rng = np.random.default_rng(0)
        x, t = rn.tensor(rng.standard_normal((64, 8)).astype(np.float32)), rn.tensor(rng.integers(0, 3, 64))

        @rn.compile
        def step():
            with rn.precision(precision):
                loss = F.cross_entropy(m(x), t)
            o.zero_grad()
            loss.backward()
            o.step()
            return loss

        return [step().item() for _ in range(60)]

    exact, rounded = train("fp32"), train("bf16")
    assert exact != rounded and exact[-1] < 0.5 * exact[0]
    np.testing.assert_allclose(rounded, exact, rtol=0.05, atol=0.02)
