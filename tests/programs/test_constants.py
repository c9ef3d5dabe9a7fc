"""Constants are shared by all programs: computing one must change nothing for the others."""

import numpy as np
import pytest

import renaissance as rn
from renaissance.ir.dtype import float32, int64
from renaissance.ops.index import arange_like
from renaissance.ops.value import const
from renaissance.tensor import Tensor


def test_a_constant_that_was_read_is_still_a_constant_elsewhere():
    zero = Tensor(const(0.0, float32))
    assert zero.item() == 0.0
    spread = zero.broadcast_to((3,))
    np.testing.assert_array_equal(spread.numpy(), [0, 0, 0])
    np.testing.assert_array_equal(arange_like(4, int64, Tensor).numpy(), [0, 1, 2, 3])
    x = rn.tensor([-1.0, 0.0, 2.0])
    np.testing.assert_array_equal(rn.nn.functional.relu(x).numpy(), [0, 0, 2])
    np.testing.assert_array_equal(rn.nn.functional.sigmoid(rn.zeros(3)).numpy(), [0.5, 0.5, 0.5])
    np.testing.assert_array_equal(rn.compile(lambda x: rn.nn.functional.relu(x) + rn.zeros(3))(x).numpy(), [0, 0, 2])
    assert spread.node.data is not None


def test_a_constant_is_computed_once_for_its_tensor():
    spread = Tensor(const(1.5, float32)).broadcast_to((4,))
    first = spread.numpy()
    assert spread.numpy().ctypes.data == first.ctypes.data


@pytest.mark.parametrize("compiled", [False, True])
def test_overwriting_with_a_constant(compiled):
    x = rn.tensor([1.0, 2.0])
    fill = rn.compile(lambda: x.copy_(rn.zeros(2))) if compiled else lambda: x.copy_(Tensor(const(0.0, float32)).broadcast_to((2,)))
    fill()
    np.testing.assert_array_equal(x.numpy(), [0, 0])
    view = x.numpy()
    x.copy_(Tensor(const(7.0, float32)).broadcast_to((2,)))
    np.testing.assert_array_equal(view, [0, 0])
    np.testing.assert_array_equal(x.numpy(), [7, 7])
