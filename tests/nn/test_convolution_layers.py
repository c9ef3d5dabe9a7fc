"""Convolution layers: their first values, samples without a batch, rounding, and errors; dropout of channels and of samples."""

from __future__ import annotations

import math

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn
from renaissance.errors import ArgumentError, ShapeError

F = nn.functional


@pytest.mark.parametrize(("layer", "fan_in"), [
    (lambda: nn.Conv2d(32, 64, (3, 5), groups=4), 8 * 15), (lambda: nn.ConvTranspose2d(64, 32, 3, groups=2), 16 * 9),
    (lambda: nn.Conv1d(16, 64, 7), 16 * 7),
])
def test_first_values_are_uniform_within_one_over_the_root_of_fan_in(layer, fan_in):
    rn.seed(0)
    made = layer()
    bound = 1 / math.sqrt(fan_in)
    w, b = made.weight.numpy(), made.bias.numpy()
    assert 0.98 * bound < np.abs(w).max() <= bound and 0.8 * bound < np.abs(b).max() <= bound
    assert abs(w.std() / (bound / math.sqrt(3)) - 1) < 0.05


@pytest.mark.parametrize("make", [lambda: nn.Conv2d(3, 4, 3, 2, 1), lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1)], ids=["conv", "transposed conv"])
def test_a_sample_without_a_batch(make):
    layer, x = make(), rn.normal(shape=(3, 6, 5))
    np.testing.assert_array_equal(layer(x).numpy(), layer(rn.reshape(x, (1, 3, 6, 5))).numpy()[0])


@pytest.mark.parametrize("make", [lambda: nn.Conv2d(8, 4, 3), lambda: nn.ConvTranspose2d(8, 4, 2, 2)], ids=["conv", "transposed conv"])
def test_bf16_rounds_operands_and_then_the_result(make):
    layer, x = make(), rn.normal(shape=(2, 8, 5, 6))
    with rn.precision("bf16"):
        y = layer(x)
    assert y.dtype is rn.bfloat16
    exact = make()
    exact.weight.copy_(layer.weight.detach().astype(rn.bfloat16).astype(rn.float32))
    exact.bias.copy_(layer.bias)
    expected = exact(x.astype(rn.bfloat16).astype(rn.float32)).astype(rn.bfloat16)
    np.testing.assert_allclose(y.astype(rn.float32).numpy(), expected.astype(rn.float32).numpy(), rtol=2**-7)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: nn.Conv2d(3, 4, 3, groups=2), "Conv2d: groups=2 must divide in_channels 3 and out_channels 4"),
    (lambda: nn.Conv2d(3, 4, 3, padding_mode="reflect"), "Conv2d: padding_mode must be 'zeros', got 'reflect'; for other modes pad x first"),
    (lambda: nn.Conv2d(3, 4, 3, padding="full"), "Conv2d: padding must be sizes, 'valid' or 'same', got 'full'"),
    (lambda: nn.Conv2d(3, 4, 3, 2, "same"), r"Conv2d: padding='same' needs stride 1, got \(2, 2\)"),
    (lambda: nn.ConvTranspose2d(3, 4, 3, padding="same"), "ConvTranspose2d: padding must be sizes, got 'same'"),
    (lambda: nn.Conv1d(3, 4, (3, 3)), "Conv1d: kernel_size must be an int, or 1 of them"),
    (lambda: nn.Conv2d(3, 4, 0), "Conv2d: kernel_size must be an int, or 2 of them, at least 1, got 0"),
    (lambda: nn.Conv2d(3.0, 4, 3), "Conv2d: in_channels must be an int, at least 0, got 3.0"),
    (lambda: nn.Dropout2d(1.5), "Dropout2d: p must be from 0 to 1, got 1.5"),
    (lambda: F.conv_transpose2d(rn.ones((1, 1, 3, 3)), rn.ones((1, 1, 2, 2)), output_padding=1), "output_padding must be below stride or dilation"),
])
def test_wrong_settings(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


@pytest.mark.parametrize(("call", "message"), [
    (lambda: nn.Conv2d(3, 4, 3)(rn.ones((2, 5, 6, 6))), "takes 3 channels"),
    (lambda: nn.Conv2d(3, 4, 3)(rn.ones((2, 2))), "conv2d: x must have 4 axes"),
    (lambda: nn.ConvTranspose2d(3, 4, 3)(rn.ones((2, 5, 6, 6))), "conv_transpose2d: weight of shape .* takes 3 channels"),
    (lambda: nn.ConvTranspose2d(3, 4, 1, padding=1)(rn.ones((1, 3, 2, 2))), "leaves sizes"),
    (lambda: F.conv_transpose1d(rn.ones((1, 1, 3)), rn.ones((1, 2, 2)), rn.ones(3)), r"bias must be \(K,\) = \(2,\), got \(3,\)"),
    (lambda: nn.LayerNorm(5)(rn.ones((2, 4))), r"layer_norm: x must end in the sizes \(5,\), got shape \(2, 4\)"),
    (lambda: F.layer_norm(rn.ones((2, 4)), 4, rn.ones(3)), r"layer_norm: weight must be \(4,\), got \(3,\)"),
    (lambda: F.dropout2d(rn.ones((2, 4))), r"dropout2d: x must be \(N, C, H, W\)"),
])
def test_wrong_shapes(call, message):
    with pytest.raises(ShapeError, match=message):
        call()


def test_layer_norm_of_numbers_far_from_0_keeps_their_digits():
    x = (10000 + np.arange(8) * 1e-3).astype(np.float32)
    exact = x.astype(np.float64)
    expected = (exact - exact.mean()) / np.sqrt(exact.var() + 1e-12)
    np.testing.assert_allclose(F.layer_norm(rn.tensor(x), 8, eps=1e-12).numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("drop", "axes"), [(F.dropout2d, (2, 3)), (F.stochastic_depth, (1, 2, 3))], ids=["channels", "samples"])
def test_whole_parts_are_dropped_and_the_others_scaled(drop, axes):
    rn.seed(2)
    y = drop(rn.ones((200, 20, 2, 3)), 0.25).numpy()
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
    parts = y.min(axes)
    np.testing.assert_array_equal(parts, y.max(axes))
    assert abs((parts == 0).mean() - 0.25) < 0.1
    x = rn.ones((2, 3, 1, 1))
    assert drop(x, 0.5, training=False) is x and drop(x, 0.0) is x
    np.testing.assert_array_equal(drop(x * np.inf, 1.0).numpy(), np.zeros((2, 3, 1, 1)))
    with pytest.raises(ArgumentError, match="p must be from 0 to 1"):
        drop(x, -0.1)
