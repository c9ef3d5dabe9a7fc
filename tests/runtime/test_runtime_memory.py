"""Storage, its stock of used blocks, pages, and the arena."""

import ctypes
import gc
import resource
from pathlib import Path

import numpy as np
import pytest
from hand_kernels import Hand, at

from renaissance.errors import ArgumentError, DeviceError
from renaissance.ir.dtype import bfloat16, bool_, float32, float64, int64
from renaissance.runtime import pages
from renaissance.runtime.arena import Arena, ThreadScratch
from renaissance.runtime.storage import Stock, Storage, size_class, stock


def is_mapped(address: int) -> bool:
    ranges = (line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines())
    return any(int(low, 16) <= address < int(high, 16) for low, high in ranges)


@pytest.mark.parametrize("size", [1, 64, 65, 1000, 4096, 4097, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1, 10**9])
def test_size_class_holds_the_request_and_loses_at_most_an_eighth(size):
    capacity = size_class(size)
    assert capacity >= size and capacity % 64 == 0
    assert capacity <= max(64, size + size // 8 + 64)
    assert size_class(capacity) == capacity
    if capacity >= 65536:
        assert capacity % pages.PAGE_BYTES == 0


@pytest.mark.parametrize("size", [0, 1, 100, 5000, 100_000, 3 << 20])
def test_storage_is_aligned_writable_and_does_not_overlap_another(size):
    first, second = Storage(size), Storage(size)
    assert first.address % 64 == 0 and first.size_bytes == size
    a, b = (s.view(float32, (size // 4,)) for s in (first, second))
    a[...], b[...] = 1, 2
    assert (a == 1).all() and (b == 2).all()


def test_large_storages_begin_at_different_distances_from_a_huge_page():
    storages = [Storage(5 << 20) for _ in range(4)]
    distances = [s.address % pages.HUGE_BYTES for s in storages]
    assert len({d % 4096 for d in distances}) == 4 and max(distances) < 64 << 10
    assert all(s.address % 64 == 0 for s in storages)


def test_large_blocks_are_unmapped_whole():
    own, capacity = Stock(keep_bytes=0), size_class(3 << 20)
    for _ in range(20):
        block = own.take(capacity)
        ctypes.memset(block, 1, capacity)
        own.give(block, capacity)
        first, last = (address // 4096 * 4096 for address in (block, block + capacity - 1))
        assert not is_mapped(first) and not is_mapped(last)


@pytest.mark.parametrize("size", [8, 40_000, 300_000])
def test_a_freed_block_is_used_again(size):
    storage = Storage(size)
    address = storage.address
    mapped = stock.mapped_blocks
    del storage
    again = Storage(size)
    assert again.address == address and stock.mapped_blocks == mapped


def test_views_have_dtype_shape_offset_and_keep_the_storage_alive():
    storage = Storage(100)
    storage.view(float64, (2, 3), 16)[...] = np.arange(6).reshape(2, 3)
    assert storage.view(float64, (6,), 16).tolist() == [0, 1, 2, 3, 4, 5]
    assert storage.view(bfloat16, (0, 3)).shape == (0, 3)
    assert storage.view(bool_, ()).shape == ()
    part = storage.view(float64, (6,), 16)[2:][::2]
    address = storage.address
    del storage
    gc.collect()
    others = [Storage(100) for _ in range(50)]
    assert all(other.address != address for other in others)
    assert part.tolist() == [2, 4]


def test_view_outside_the_storage_raises():
    storage = Storage(64)
    for shape, offset in (((17,), 0), ((16,), 4), ((1,), -4)):
        with pytest.raises(ArgumentError, match="64 bytes"):
            storage.view(float32, shape, offset)


def test_exported_while_a_view_or_a_view_of_it_is_alive():
    storage = Storage(64)
    assert not storage.exported
    view = storage.view(float32, (4, 4))
    part = view[1]
    del view
    assert storage.exported
    del part
    assert not storage.exported


def test_borrowed_storage_shares_bytes_is_exported_and_refuses_strides():
    array = np.arange(6, dtype=np.float32)
    storage = Storage.borrow(array)
    assert storage.exported and storage.address == at(array) and storage.size_bytes == 24
    storage.view(float32, (6,))[0] = 7
    assert array[0] == 7
    with pytest.raises(ArgumentError, match="contiguous"):
        Storage.borrow(array[::2])
    odd = np.zeros(9, np.uint8)[1:].view(np.float32)
    with pytest.raises(ArgumentError, match="aligned"):
        Storage.borrow(odd)


def test_stock_keeps_at_most_its_limit_and_trims():
    own = Stock(keep_bytes=1 << 20)
    capacity = size_class(700 << 10)
    blocks = [own.take(capacity) for _ in range(3)]
    for block in blocks:
        own.give(block, capacity)
    assert own.free_bytes() == capacity
    own.trim()
    assert own.free_bytes() == 0
    assert own.take(capacity)


def test_memory_that_does_not_exist_is_a_device_error():
    with pytest.raises(DeviceError, match="available"):
        Storage(1 << 60)


def test_arena_grows_in_place_and_keeps_its_contents():
    own = Arena()
    address = own.require(100)
    assert own.size_bytes >= 100 and address % pages.HUGE_BYTES == 0
    own.fill(255)
    size = own.size_bytes
    assert own.require(size + 1) == address
    assert own.size_bytes > size
    floats = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * (own.size_bytes // 4)).from_address(address))
    assert np.isnan(floats[: size // 4]).all() and (floats[size // 4 :] == 0).all()


def test_a_plan_larger_than_the_machine_says_needed_and_available():
    hand = Hand()
    hand.arena_bytes = 1 << 50
    with pytest.raises(DeviceError, match=r"1073741824 MiB of scratch needed.*MiB available"):
        hand.link(hand.plan(), 1)


def test_available_memory_is_within_the_machine():
    assert 0 < pages.available_bytes() <= pages.total_bytes()


def test_thread_scratch_gives_disjoint_aligned_pieces_and_only_grows():
    own = ThreadScratch()
    own.require(3, 1000)
    assert own.address % 64 == 0 and own.stride_bytes % 64 == 0 and own.stride_bytes >= 1000
    address, stride = own.address, own.stride_bytes
    own.require(2, 500)
    assert (own.address, own.stride_bytes) == (address, stride)
    own.require(4, 100_000)
    assert own.stride_bytes >= 100_000


def test_a_hundred_runs_fault_no_page_and_map_nothing():
    hand = Hand()
    source, middle, result = hand.buffer("input", 100_000), hand.buffer("arena", 100_000), hand.buffer("output", 100_000)
    hand.add(source, middle, 1000, chunks=100)
    hand.add(middle, result, 1000, chunks=100)
    executable = hand.link(hand.plan([result]), 2)
    values = Storage(800_000)
    values.view(int64, (100_000,))[...] = 5

    def runs(count):
        for _ in range(count):
            fresh = Storage(800_000)
            executable.run((values.address,), (fresh.address,))
        return fresh

    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    for _ in range(2):  # as below: the result of one round lives while the next one runs
        fresh = runs(5)
    mapped, rounds = stock.mapped_blocks, []
    for _ in range(5):  # on a busy machine a worker may touch its stack for the first time in a later round
        before = faults()
        fresh = runs(100)
        rounds.append(faults() - before)
    assert stock.mapped_blocks == mapped
    assert min(rounds) == 0, rounds
    assert (fresh.view(int64, (100_000,)) == 7).all()
