"""Random words as machine code: equal to the NumPy definition on every instruction set, for every width and start."""

from __future__ import annotations

import numpy as np
import pytest

from renaissance.ir.philox import philox_uint32
from renaissance.kernels import run_python
from renaissance.kernels.loops import I64, PTR, Module, vec
from renaissance.kernels.philox import philox
from tests.kernels.jit import TARGETS, Code

DRAWS = [(0, 0, 0), ((1 << 64) - 1, (1 << 63) + 5, 7), (0x123456789ABCDEF0, 77, (1 << 40) + 33)]


def module(lanes: int, unroll: int = 1, from_zero: bool = False) -> Module:
    """out[i] = the word at first + i, for i below n, a multiple of lanes * unroll; args: out, n, seed, ticket, first."""
    m = Module("draw")
    b = m.function("draw", [("args", PTR), ("chunk", I64), ("scratch", PTR)])
    args = b.param("args")
    out = b.load(args, PTR)
    n, seed, ticket, first = (b.load(b.offset(args, 8 * i), I64) for i in range(1, 5))
    with b.loop(0, n, lanes * unroll) as loop:
        start = loop.index if from_zero else b.add(loop.index, first)
        for u in range(unroll):
            ahead = b.const(vec("i64", lanes), [u * lanes + i for i in range(lanes)] if lanes > 1 else u)
            words = philox(b, seed, ticket, b.add(b.splat(start, lanes), ahead))
            b.store(words, b.offset(out, b.mul(b.add(loop.index, u * lanes), 4)))
        loop.next([])
    return m


def draw(call, n: int, seed: int, ticket: int, first: int) -> np.ndarray:
    out = np.zeros(n, np.uint32)
    args = np.array([out.ctypes.data, n, seed, ticket, first], np.uint64)
    call(args.ctypes.data)
    return out


@pytest.mark.parametrize("lanes, unroll", [(1, 1), (4, 1), (16, 1), (16, 4), (32, 2)])
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.isa)
def test_equal_to_the_definition(target, lanes, unroll):
    machine = Code(module(lanes, unroll), target)
    for seed, ticket, first in DRAWS:
        got = draw(lambda block: machine.call("draw", block), 512, seed, ticket, first)
        np.testing.assert_array_equal(got, philox_uint32(seed, ticket, first + np.arange(512)))


def test_interpreter_agrees():
    program = module(16)
    for seed, ticket, first in DRAWS:
        got = draw(lambda block: run_python.run(program, "draw", block), 64, seed, ticket, first)
        np.testing.assert_array_equal(got, philox_uint32(seed, ticket, first + np.arange(64)))


def test_four_vectors_share_a_block():
    """64 consecutive positions from a multiple of 64 cost little more multiplications than 16: one encryption for the four."""
    target = TARGETS[0]
    one, four = (Code(module(16, unroll, from_zero=True), target).assembly().count("vpmuludq") for unroll in (1, 4))
    assert 20 <= four < 2 * one
