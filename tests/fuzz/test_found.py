"""Programs that once went wrong, made small: what was at fault is the name of each."""

from __future__ import annotations

import numpy as np
import pytest

import renaissance as rn

from .check import check
from .program import Input, Program, Step

F = rn.nn.functional

FOUND = {
    "a value saved for later sweeps in memory lent to another": Program(
        inputs=(Input((64, 8), "float32"), Input((), "float32", "parameter"), Input((7, 8), "int32", values=(-64, 64))),
        steps=(Step("take_along_axis", (0, 2), (0,)), Step("log", (3,)), Step("expand_dims", (4,), (0,))),
        outputs=(3,), losses=(5, 4), gradient="backward"),
    "padding of a product without elements": Program(
        inputs=(Input((8, 8), "float32"), Input((17, 0), "float32")),
        steps=(Step("index", (0,), (((None, None, 1), (5, -6, 2)),)), Step("linear without bias", (2, 1))),
        outputs=(0,), losses=(3,), gradient="grad"),
    "a permutation of a constant without elements": Program(
        inputs=(Input((3, 0, 8), "int64", values=(-13, 13)), Input((3, 13, 8), "float32")),
        steps=(Step("take_along_axis", (1, 0), (1,)), Step("permute_dims", (2,), ((0, 2, 1),))),
        outputs=(0,), losses=(3,), gradient="grad"),
    "state without elements": Program(
        inputs=(Input((3, 0, 2), "bfloat16", "state"), Input((3, 2, 1), "bfloat16")),
        steps=(Step("matmul", (0, 1)), Step("copy_", (0, 2))), outputs=(0, 2)),
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    check(FOUND[name], everywhere=True)


def test_a_composition_that_holds_a_node_computed_before():
    w = rn.tensor(np.ones((3, 2), np.float32), requires_grad=True)
    turned = rn.permute_dims(w, (1, 0))  # keeps its history, and is the node that the linear map is made of
    turned.realize()
    np.testing.assert_array_equal(F.linear(rn.ones((4, 2)), w).numpy(), 2)
    decay = rn.exp(-rn.abs(w))
    decay.realize()
    np.testing.assert_array_equal(rn.sigmoid(w).numpy(), rn.sigmoid(rn.ones((3, 2))).numpy())


def test_a_constant_that_was_read_before():
    for _ in range(2):
        rn.zeros((0, 3)).sum().realize()
        np.testing.assert_array_equal(F.softplus(rn.zeros(3)).numpy(), np.full(3, np.log(2), np.float32))
        assert rn.zeros((0, 3)).sum().item() == 0
