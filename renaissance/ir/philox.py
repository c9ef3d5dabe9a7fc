"""The random words of a draw, as a pure function of (seed, ticket, logical index): Philox 4x32-10 in NumPy."""

from __future__ import annotations

import numpy as np

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox4x32(counter: tuple[np.ndarray, ...], key: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """Encrypt counters with a key: four random words for each counter.

    counter  4 arrays of equal shape, uint64, each below 2^32
    key      2 ints below 2^32
    returns  4 arrays of that shape, uint64, each below 2^32
    source   Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3
    """
    c0, c1, c2, c3 = counter
    m0, m1 = (np.uint64(m) for m in MULTIPLIERS)
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = c0 * m0, c2 * m1
        c0, c1 = (second >> _HALF) ^ c1 ^ np.uint64(k0), second & _LOW
        c2, c3 = (first >> _HALF) ^ c3 ^ np.uint64(k1), first & _LOW
        k0, k1 = (k0 + KEY_STEPS[0]) & 0xFFFFFFFF, (k1 + KEY_STEPS[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def philox_uint32(seed: int, ticket: int, index: np.ndarray) -> np.ndarray:
    """The random words of draw `ticket` at logical positions.

    block = (index // 64) 16 + index % 16;  word = (index % 64) // 16
    result = philox4x32(counter = (block, ticket), key = seed)[word], each of them as (low, high) halves

    seed, ticket  ints, taken modulo 2^64
    index         any shape, int64 or uint64, >= 0
    returns       the shape of index, uint32
    source        the layout is our own: 64 consecutive words are the 4 words of 16 consecutive blocks, so that a vector of 16
                  blocks makes 4 whole vectors of words
    """
    index = np.asarray(index).astype(np.uint64)
    block = (index >> np.uint64(6) << np.uint64(4)) | (index & np.uint64(15))
    low, high = (np.full(index.shape, half, np.uint64) for half in _halves(ticket))
    words = philox4x32((block & _LOW, block >> _HALF, low, high), _halves(seed))
    number = (index >> np.uint64(4)) & np.uint64(3)
    return np.choose(number.astype(np.intp), words).astype(np.uint32)


def _halves(value: int) -> tuple[int, int]:
    return value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
