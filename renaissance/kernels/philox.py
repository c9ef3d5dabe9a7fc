"""The random words of a draw, in vectors: the machine-code side of `renaissance.ir.philox`, which defines them."""

from __future__ import annotations

from renaissance.ir.philox import KEY_STEPS, MULTIPLIERS, ROUNDS
from renaissance.kernels.loops import I32, Builder, Value

_LOW = 0xFFFFFFFF


def philox(b: Builder, seed: Value, ticket: Value, index: Value) -> Value:
    """The random words of draw `ticket` at logical positions; the bits of uint32 in i32 lanes.

    All four words of a block are computed and one is selected. Where 16 lanes start at a multiple of 16 the selection is a
    constant, and where code for 64 consecutive positions stands together four vectors share one block: LLVM finds both by itself.

    seed, ticket  i64 scalars
    index         i64, any lanes, >= 0
    returns       i32, the lanes of index
    source        Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"
    """
    block = b.or_(b.shl(b.lshr(index, 6), 4), b.and_(index, 15))
    key = [b.convert(seed, I32), b.convert(b.lshr(seed, 32), I32)]
    low, high = (b.splat(half, index.type.lanes) for half in (b.and_(ticket, _LOW), b.lshr(ticket, 32)))
    words = _encrypt(b, [b.and_(block, _LOW), b.lshr(block, 32), low, high], key)
    number = b.and_(index, 48)
    pairs = [b.select(b.cmp("eq", b.and_(number, 16), 0), words[i], words[i + 1]) for i in (0, 2)]
    return b.convert(b.select(b.cmp("eq", b.and_(number, 32), 0), *pairs), index.type.with_kind("i32"))


def _encrypt(b: Builder, counter: list[Value], key: list[Value]) -> list[Value]:
    """Philox 4x32: the counter's words in 64-bit lanes, where one multiplication gives the low and the high word of a product."""
    lanes = counter[0].type.lanes
    c0, c1, c2, c3 = counter
    for turn in range(ROUNDS):
        k0, k1 = (b.splat(b.zext(b.add(k, turn * step), counter[0].type.with_lanes(1)), lanes) for k, step in zip(key, KEY_STEPS))
        first, second = b.mul(c0, MULTIPLIERS[0]), b.mul(c2, MULTIPLIERS[1])
        c0, c1 = b.xor(b.xor(b.lshr(second, 32), c1), k0), b.and_(second, _LOW)
        c2, c3 = b.xor(b.xor(b.lshr(first, 32), c3), k1), b.and_(first, _LOW)
    return [c0, c1, c2, c3]
