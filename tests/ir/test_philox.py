"""Philox in NumPy: the published known answers, and the layout of the words of a draw."""

from __future__ import annotations

import numpy as np
import pytest

from renaissance.ir.philox import philox4x32, philox_uint32

# The known-answer vectors of philox4x32 with 10 rounds in the Random123 distribution: counter, key, result.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


@pytest.mark.parametrize("counter, key, expected", KNOWN)
def test_known_answers(counter, key, expected):
    words = philox4x32(tuple(np.array([c], np.uint64) for c in counter), key)
    assert tuple(int(w[0]) for w in words) == expected


def test_index_chooses_block_and_word():
    seed, ticket = 0x299F31D0A4093822, 0x0370734413198A2E
    index = np.array([0, 1, 15, 16, 33, 63, 64, 127, 12345678901, (1 << 62) + 5])
    got = philox_uint32(seed, ticket, index)
    assert got.dtype == np.uint32
    for i, word in zip(index.tolist(), got.tolist()):
        block = i // 64 * 16 + i % 16
        counter = (block & 0xFFFFFFFF, block >> 32, 0x13198A2E, 0x03707344)
        words = philox4x32(tuple(np.array([c], np.uint64) for c in counter), (0xA4093822, 0x299F31D0))
        assert word == int(words[i % 64 // 16][0])


def test_seed_and_ticket_are_taken_modulo_64_bits():
    index = np.arange(100)
    np.testing.assert_array_equal(philox_uint32(-1, 7, index), philox_uint32((1 << 64) - 1, 7, index))
    np.testing.assert_array_equal(philox_uint32(3, (1 << 64) + 7, index), philox_uint32(3, 7, index))
    assert not np.array_equal(philox_uint32(3, 7, index), philox_uint32(3, 7 + (1 << 32), index))
    assert not np.array_equal(philox_uint32(3, 7, index), philox_uint32(3 + (1 << 32), 7, index))


def test_any_shape():
    assert philox_uint32(1, 2, np.arange(12).reshape(3, 4)).shape == (3, 4)
    assert philox_uint32(1, 2, np.zeros((0, 5), np.int64)).shape == (0, 5)
    assert philox_uint32(1, 2, np.int64(9)) == philox_uint32(1, 2, np.arange(10))[9]


def test_words_are_even():
    """A million words: each bit is set half of the time, to six standard deviations."""
    words = philox_uint32(42, 1, np.arange(1 << 20))
    counts = np.array([np.count_nonzero(words >> np.uint32(bit) & np.uint32(1)) for bit in range(32)])
    assert np.all(np.abs(counts - (1 << 19)) < 6 * 512)
