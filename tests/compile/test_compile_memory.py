"""memory: no byte is used by two live buffers, checked byte by byte; the arena is near the lower bound."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from renaissance.compile.memory import ALIGN_BYTES, Block, lower_bound, pack
from renaissance.compile.pipeline import compile_graph
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import unique
from renaissance.ir.plan import Plan
from renaissance.ir.traffic import Touch, reads, writes
from renaissance.ops import elementwise as ew
from renaissance.ops import movement as mv
from renaissance.ops import reduce as rd
from renaissance.ops.composed import expanded
from renaissance.ops.value import LEAF, Value
from tests.compile.random_graphs import Maker


def elements(touch: Touch, total: int) -> np.ndarray:
    """Every element a touch reaches."""
    if touch.access is None:
        return np.arange(total)
    index = np.asarray(touch.access.offset)
    for s, e in zip(touch.access.strides, touch.extents):
        index = index[..., None] + s * np.arange(e)
    return index[(index >= 0) & (index < total)].reshape(-1)


def check_arena(plan: Plan) -> None:
    """Run the plan on owners instead of values: each byte read must still belong to the buffer it is read as."""
    owner = np.full(plan.arena_bytes, -1)

    def span(touch: Touch) -> np.ndarray:
        buffer = plan.buffers[touch.buffer]
        first = elements(touch, buffer.size_bytes // buffer.dtype.size) * buffer.dtype.size + buffer.offset
        return (first[:, None] + np.arange(buffer.dtype.size)).reshape(-1)

    for item in plan.items:
        own = {o.buffer for o in item.operands if o.mode == "out"}
        for touch in reads(item):
            if plan.buffers[touch.buffer].place == "arena" and touch.buffer not in own:
                assert (owner[span(touch)] == touch.buffer).all(), item.name
        for touch in writes(item):
            if plan.buffers[touch.buffer].place == "arena":
                owner[span(touch)] = touch.buffer
    for source, _ in plan.copies:
        buffer = plan.buffers[source]
        if buffer.place == "arena":
            assert (owner[buffer.offset:buffer.offset + buffer.size_bytes] == source).all()


@pytest.mark.parametrize("seed", range(80))
def test_no_live_byte_is_overwritten(seed):
    plan = compile_graph(Maker(seed).graph(60), None, verify=True)
    check_arena(plan)
    assert all(b.offset % ALIGN_BYTES == 0 for b in plan.buffers if b.place == "arena")


def random_blocks(rng: random.Random, count: int) -> list[Block]:
    blocks = []
    for b in range(count):
        first = rng.randrange(20)
        blocks.append(Block([b], ALIGN_BYTES * rng.choice((1, 1, 2, 3, 5, 8, 20)), first, min(19, first + rng.randrange(8))))
    return blocks


def test_packed_blocks_never_meet_and_waste_little():
    rng = random.Random(2)
    worst = 1.0
    for _ in range(100):
        blocks = random_blocks(rng, 30)
        size_bytes = pack(blocks)
        for a, b in itertools.combinations(blocks, 2):
            together = a.first <= b.last and b.first <= a.last
            assert not together or a.offset + a.size_bytes <= b.offset or b.offset + b.size_bytes <= a.offset
        assert size_bytes == max(b.offset + b.size_bytes for b in blocks)
        worst = max(worst, size_bytes / lower_bound(blocks, 20))
    assert worst < 1.35


def test_lower_bound_is_what_is_live_at_once():
    blocks = random_blocks(random.Random(3), 25)
    assert lower_bound(blocks, 20) == max(sum(b.size_bytes for b in blocks if b.first <= t <= b.last) for t in range(20))


def leaf(*shape):
    return unique(LEAF, shape, dt.float32)


def arena_buffers(plan: Plan) -> list[int]:
    return [b.offset for b in plan.buffers if b.place == "arena"]


def test_a_map_overwrites_what_it_reads_last():
    x = leaf(64, 64)
    first = ew.exp(Value(x))  # dear words are stored, since two later items read each of these
    second = ew.tanh(first / mv.broadcast_to(rd.sum(first, 0), (64, 64)))
    third = ew.sin(second / mv.broadcast_to(rd.sum(second, 0), (64, 64)))
    plan = compile_graph(expanded(Graph((x,), (), (rd.sum(third, 0).node,))), None, verify=True)
    big = [b.offset for b in plan.buffers if b.place == "arena" and b.size_bytes == 64 * 64 * 4]
    assert len(big) >= 2 and len(set(big)) == 1
    check_arena(plan)


def test_a_turned_reading_is_not_overwritten():
    """Element (i, j) of the result needs element (j, i) of the input, so they cannot share bytes."""
    x = leaf(48, 48)
    first = ew.exp(Value(x) + mv.broadcast_to(rd.sum(Value(x), 0), (48, 48)))
    second = first + mv.permute_dims(first, (1, 0))
    plan = compile_graph(expanded(Graph((x,), (), (rd.sum(second * second, 0).node, second.node))), None, verify=True)
    check_arena(plan)
