"""Joining tensors of several dtypes: the result has the promoted one, gradients have each tensor's own."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import renaissance as rn
from renaissance import errors
from renaissance.ir import dtype as dt

KINDS = ("float64", "float32", "bfloat16", "float16", "int64", "int8", "bool")


@pytest.mark.parametrize("join", [rn.concat, rn.stack], ids=["concat", "stack"])
def test_dtypes_are_promoted(join):
    numbers = np.array([[1, 0, 3], [1, 1, 0]])
    for a, b in product(KINDS, repeat=2):
        x, y = rn.tensor(numbers).astype(a), rn.tensor(numbers[::-1].copy()).astype(b)
        joined = join([x, y, x])
        assert joined.dtype is dt.promote(x.dtype, y.dtype)
        parts = [t.astype(joined.dtype) for t in (x, y, x)]
        assert joined.astype("float64").numpy().tobytes() == join(parts).astype("float64").numpy().tobytes()


def test_gradients_have_the_dtype_of_what_they_belong_to():
    x, y = rn.ones((2, 2)), rn.ones((2, 2)).astype("bfloat16")
    _, pull = rn.vjp(lambda a, b: rn.concat([a, b]) * 3.0, x, y)
    gx, gy = pull(rn.ones((4, 2)))
    assert (gx.dtype, gy.dtype) == (dt.float32, dt.bfloat16)
    assert (gx.numpy() == 3).all() and (gy.astype("float32").numpy() == 3).all()


def test_dtypes_without_a_common_one_are_refused():
    with pytest.raises(errors.DTypeError, match="uint64 and int64 have no common dtype"):
        rn.concat([rn.tensor(np.array([1], np.uint64)), rn.tensor([1])])
