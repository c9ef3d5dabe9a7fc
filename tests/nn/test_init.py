"""Initial values: their distributions, and that a seed settles them."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn
from renaissance.errors import ArgumentError

init = nn.init
OUT, IN = 300, 200
GAIN = math.sqrt(2 / (1 + 0.3**2))


def weight(shape=(OUT, IN)):
    return nn.Parameter(rn.full(shape, np.nan))


@pytest.mark.parametrize(("fill", "bound"), [
    pytest.param(lambda w: init.uniform_(w, -0.5, 0.5), 0.5, id="uniform"),
    pytest.param(lambda w: init.kaiming_uniform_(w, 0.3), GAIN * math.sqrt(3 / IN), id="kaiming"),
    pytest.param(lambda w: init.kaiming_uniform_(w, mode="fan_out", nonlinearity="relu"), math.sqrt(6 / OUT), id="fan out"),
    pytest.param(lambda w: init.xavier_uniform_(w, 1.5), 1.5 * math.sqrt(6 / (IN + OUT)), id="xavier"),
])
def test_uniform_within_its_bound(fill, bound):
    rn.seed(0)
    w = weight()
    assert fill(w) is w
    a = w.numpy().astype(np.float64)
    assert -bound <= a.min() < -0.999 * bound and 0.999 * bound < a.max() <= bound
    assert abs(a.mean()) < 0.01 * bound and abs(a.std() / (bound / math.sqrt(3)) - 1) < 0.01


@pytest.mark.parametrize(("fill", "mean", "std"), [
    pytest.param(lambda w: init.normal_(w, 0.5, 2.0), 0.5, 2.0, id="normal"),
    pytest.param(lambda w: init.kaiming_normal_(w, 0.3), 0.0, GAIN / math.sqrt(IN), id="kaiming"),
    pytest.param(lambda w: init.kaiming_normal_(w, 0.0, "fan_out", "tanh"), 0.0, 5 / 3 / math.sqrt(OUT), id="fan out"),
    pytest.param(lambda w: init.xavier_normal_(w, 1.5), 0.0, 1.5 * math.sqrt(2 / (IN + OUT)), id="xavier"),
])
def test_normal_with_its_moments(fill, mean, std):
    rn.seed(0)
    w = weight()
    assert fill(w) is w
    z = (w.numpy().astype(np.float64) - mean) / std
    assert abs(z.mean()) < 0.02 and abs(z.std() - 1) < 0.01 and abs((z**4).mean() - 3) < 0.1 and 3.5 < np.abs(z).max() < 6


@pytest.mark.parametrize(("mean", "std", "a", "b"), [(0.0, 1.0, -2.0, 2.0), (1.0, 0.5, 1.2, 9.0), (0.0, 0.02, -2.0, 2.0)])
def test_truncated_normal(mean, std, a, b):
    rn.seed(0)
    w = weight((OUT, 300))
    assert init.trunc_normal_(w, mean, std, a, b) is w
    values = w.numpy().astype(np.float64)
    assert a <= values.min() and values.max() <= b
    law = NormalDist(mean, std)
    low, high = law.cdf(a), law.cdf(b)
    for share in (0.1, 0.5, 0.9):  # of the numbers lie below this one
        assert abs((values < law.inv_cdf(low + share * (high - low))).mean() - share) < 0.005


def test_truncated_normal_errors():
    for wrong in ({"a": 1.0, "b": 1.0}, {"std": 0.0}):
        with pytest.raises(ArgumentError, match="trunc_normal_: needs a < b and a positive std"):
            init.trunc_normal_(weight(), **wrong)


def test_constants():
    for fill, value in ((init.zeros_, 0.0), (init.ones_, 1.0), (lambda w: init.constant_(w, 0.3), np.float32(0.3))):
        w = weight((2, 3))
        assert fill(w) is w
        np.testing.assert_array_equal(w.numpy(), value)
    buffer = rn.zeros(3, "int64")
    init.ones_(buffer)
    assert buffer.tolist() == [1, 1, 1] and buffer.dtype is rn.int64


def test_a_seed_or_a_generator_settles_the_values():
    def drawn(generator=None):
        return init.kaiming_normal_(weight((3, 4)), generator=generator).numpy().copy()

    rn.seed(4)
    first, second = drawn(), drawn()
    rn.seed(4)
    np.testing.assert_array_equal(drawn(), first)
    assert not np.array_equal(first, second)
    rn.seed(5)
    np.testing.assert_array_equal(drawn(rn.Generator(4)), first)
    compiled = weight((3, 4))
    rn.seed(4)
    rn.compile(lambda: init.kaiming_normal_(compiled))()
    np.testing.assert_array_equal(compiled.numpy(), first)


def test_fans():
    assert init.fans(rn.zeros((6, 4))) == (4, 6)
    assert init.fans(rn.zeros((6, 4, 3, 5))) == (60, 90)
    with pytest.raises(ArgumentError, match=r"at least 2 axes, got shape \(3,\)"):
        init.xavier_uniform_(rn.zeros(3))
    with pytest.raises(ArgumentError, match="mode must be 'fan_in' or 'fan_out'"):
        init.kaiming_uniform_(rn.zeros((2, 2)), mode="fan")
    with pytest.raises(ArgumentError, match="'gelu' is unknown; choose from linear"):
        init.calculate_gain("gelu")
    assert init.calculate_gain("leaky_relu") == math.sqrt(2 / 1.0001) and init.calculate_gain("selu") == 0.75


@pytest.mark.parametrize("fill", [init.kaiming_uniform_, init.kaiming_normal_, init.xavier_uniform_, init.xavier_normal_])
@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_empty_weights(fill, shape):
    assert fill(rn.zeros(shape)).shape == shape


def test_linear_starts_as_in_pytorch():
    rn.seed(0)
    layer = nn.Linear(400, 500)
    for p in layer.parameters():
        a = p.numpy()
        assert np.abs(a).max() <= 0.05 and np.abs(a).max() > 0.049 and abs(a.std() / (0.05 / math.sqrt(3)) - 1) < 0.1
    assert nn.Linear(0, 3)(rn.ones((2, 0))).numpy().tolist() == [[0, 0, 0]] * 2
