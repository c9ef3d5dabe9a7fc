"""Random tensors. Every draw takes one ticket; its value is a pure function of (seed, ticket, position)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renaissance.errors import ArgumentError, TraceError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ir.node import Node
from renaissance.locks import fork_safe_lock
from renaissance.ops.elementwise import add, astype, lit, multiply
from renaissance.ops.random import bernoulli as bernoulli_bits
from renaissance.ops.random import random_bits, unit_normal, unit_uniform
from renaissance.ops.value import Value
from renaissance.region import scalar
from renaissance.tensor import Tensor, tracing, user_line

_MASK = 2**64 - 1


class Generator:
    """A source of random tensors: a seed and the number of the next ticket.

    seed    any int, taken modulo 2^64
    ticket  how many draws were made
    raises  ArgumentError for a seed that is no int
    source  Philox 4x32-10: Salmon et al. 2011
    """

    def __init__(self, seed: int = 0):
        if tracing.recorder is not None:
            tracing.recorder.born(self)
        self.reset(seed)

    def reset(self, seed: int) -> None:
        """Start again from a seed."""
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise ArgumentError(f"seed must be an int, got {seed!r}")
        if tracing.recorder is not None and not tracing.recorder.made_inside(self):
            raise TraceError(f"a generator is seeded inside a compiled function at {user_line()}: that would happen once, while "
                             "the function is traced, and not in each call; "
                             "seed it outside, or make the generator inside")
        self.seed = seed & _MASK
        self.ticket = 0

    def bits(self, shape: Sequence[int]) -> Tensor:
        """uint32 words; takes one ticket."""
        seed, ticket = self._take()
        return Tensor(random_bits(tuple(shape), seed, ticket))

    def _take(self) -> tuple[Node, Node]:
        """The seed and the next ticket, as run-time scalars."""
        if tracing.recorder is not None:
            return tracing.recorder.draw(self)
        with tickets:
            ticket, self.ticket = self.ticket, self.ticket + 1
        return scalar(self.seed, dt.uint64), scalar(ticket, dt.uint64)


tickets = fork_safe_lock()  # held while tickets are taken
default = Generator()


def seed(n: int) -> None:
    """Restart the default generator: the same seed gives the same numbers, compiled or not, on any number of threads.

    n        any int
    raises   ArgumentError for another type
    source   definition
    """
    default.reset(n)


def uniform(low: float = 0.0, high: float = 1.0, shape: int | Sequence[int] = (), *,
            generator: Generator | None = None) -> Tensor:
    """Numbers equally likely anywhere between two bounds.

    y = low + (high - low) u,  u in [0, 1) with 24 bits

    low, high  bounds
    shape      ints
    generator  what the draw is taken from; None: the default one
    returns    (*shape) float32
    raises     ArgumentError when low is above high
    source     definition; Philox: Salmon et al. 2011
    """
    if low > high:
        raise ArgumentError(f"uniform: low {low} is above high {high}")
    u = unit_uniform((generator or default).bits(sh.sizes("uniform", shape)))
    return add(multiply(u, lit(high - low, u)), lit(low, u))


def normal(mean: float = 0.0, std: float = 1.0, shape: int | Sequence[int] = (), *, generator: Generator | None = None) -> Tensor:
    """Normally distributed numbers; takes two tickets.

    y = mean + std sqrt(-2 ln(1 - u)) cos(2 pi v)

    mean, std  of the distribution
    shape      ints
    generator  what the draw is taken from; None: the default one
    returns    (*shape) float32
    raises     ArgumentError for a negative std
    source     Box, Muller 1958
    """
    if std < 0:
        raise ArgumentError(f"normal: std must not be negative, got {std}")
    source = generator or default
    z = unit_normal(source.bits(sh.sizes("normal", shape)), source.bits(sh.sizes("normal", shape)))
    return add(multiply(z, lit(std, z)), lit(mean, z))


def bernoulli(p: float, shape: int | Sequence[int] = (), *, generator: Generator | None = None) -> Tensor:
    """True with probability p.

    y = (w < p 2^32),  w a 32-bit word

    p          from 0 to 1, kept to 2^-32
    shape      ints
    generator  what the draw is taken from; None: the default one
    returns    (*shape) bool
    raises     ArgumentError for p outside
    source     definition
    """
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"bernoulli: p must be from 0 to 1, got {p}")
    return bernoulli_bits((generator or default).bits(sh.sizes("bernoulli", shape)), p)


def randint(low: int, high: int, shape: int | Sequence[int] = (), *, generator: Generator | None = None) -> Tensor:
    """Whole numbers equally likely from low to high - 1.

    y = low + floor(w (high - low) / 2^32),  w a 32-bit word

    low, high  ints, high - low at most 2^31
    shape      ints
    generator  what the draw is taken from; None: the default one
    returns    (*shape) int64
    raises     ArgumentError unless low < high <= low + 2^31
    source     Lemire 2019, without rejection: a bias below (high - low) / 2^32
    """
    if not low < high <= low + 2**31:
        raise ArgumentError(f"randint: needs low < high <= low + 2^31, got {low} and {high}")
    word = astype((generator or default).bits(sh.sizes("randint", shape)), dt.int64)
    scaled: Any = multiply(word, lit(high - low, word))
    return add(scaled >> lit(32, scaled), lit(low, scaled))


def dropout_mask(shape: Sequence[int], p: float, *, generator: Generator | None = None) -> Value:
    """What dropout keeps: True with probability 1 - p.

    keep with probability 1 - p

    shape      ints
    p          from 0 to 1
    generator  what the draw is taken from; None: the default one
    returns    (*shape) bool
    raises     ArgumentError for p outside
    source     Srivastava et al. 2014
    """
    return bernoulli(1.0 - p, tuple(shape), generator=generator)
