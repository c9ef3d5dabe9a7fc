"""Random numbers as a pure function of (seed, ticket, position): Philox 4x32-10."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Op, Shape, unique
from renaissance.ir.philox import philox_uint32
from renaissance.ops.elementwise import astype, bitwise_right_shift, cos, equal, less, lit, log, multiply, sqrt, subtract
from renaissance.ops.value import Value, apply


def _infer(inputs: tuple[Node, ...], shape: Shape) -> tuple[Shape, DType]:
    return shape, dt.uint32


def _reference(arrays: Any, shape: Shape, out: Any) -> Any:
    seed, ticket = (int(a) for a in arrays)
    return philox_uint32(seed, ticket, np.arange(sh.size(shape), dtype=np.uint64)).reshape(shape)


RANDOM_BITS = Op("random_bits", "random", _infer, _reference, attrs=("shape",))


def random_bits(shape: Shape, seed: Node, ticket: Node) -> Node:
    """uint32 words: element i (row-major) is Philox 4x32-10 of (seed, ticket, i); seed and ticket are 0-d uint64 nodes."""
    return unique(RANDOM_BITS, shape, dt.uint32, (shape,), (seed, ticket))


def _infer_at(inputs: tuple[Node, ...]) -> tuple[Shape, DType]:
    return inputs[2].shape, dt.uint32


def _reference_at(arrays: Any, out: Any) -> Any:
    seed, ticket, index = arrays
    return philox_uint32(int(seed), int(ticket), np.asarray(index, np.uint64).ravel()).reshape(out[0])


RANDOM_AT = Op("random_at", "random", _infer_at, _reference_at)


def random_at(index: Value, seed: Node, ticket: Node) -> Value:
    """uint32 words at given logical positions: Philox 4x32-10 of (seed, ticket, index); index is int64 and not negative."""
    return apply(RANDOM_AT, (Value(seed), Value(ticket), index))


def unit_uniform(bits: Value) -> Any:
    """float32 numbers in [0, 1) from random words: the upper 24 bits times 2^-24."""
    whole = astype(bitwise_right_shift(bits, lit(8, bits)), dt.float32)
    return multiply(whole, lit(2.0**-24, whole))


def unit_normal(bits: Value, more_bits: Value) -> Any:
    """float32 normal numbers by Box and Muller: sqrt(-2 ln(1 - u)) cos(2 pi v)."""
    u, v = unit_uniform(bits), unit_uniform(more_bits)
    radius = sqrt(multiply(lit(-2, u), log(subtract(lit(1, u), u))))
    return multiply(radius, cos(multiply(lit(2 * math.pi, v), v)))


def bernoulli(bits: Value, p: float) -> Any:
    """True with probability p (to 2^-32): the word is below p 2^32."""
    threshold = round(p * 2**32)
    if threshold < 2**32:
        return less(bits, lit(threshold, bits))
    return equal(bits, bits)

