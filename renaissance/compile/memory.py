"""memory: where each arena buffer lies.

Takes a plan with its items in order. Gives each arena buffer an offset, so that no two that are live at the same time share a
byte, except where an item overwrites what it reads point by point; drops arena buffers that nothing touches. Keeps items and
their order. Says in the plan's notes how near the arena is to the lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from renaissance.ir.plan import Item, Plan
from renaissance.ir.traffic import may_overwrite

ALIGN_BYTES = 64


@dataclass
class Block:
    """Bytes that one buffer, or several one after another, occupy from item `first` to item `last`, both included."""

    buffers: list[int]
    size_bytes: int
    first: int
    last: int
    offset: int = -1


def memory(plan: Plan) -> Plan:
    """The plan with offsets for its arena buffers and the size of the arena."""
    blocks = _share_in_place(plan, live_ranges(plan))
    arena_bytes = pack(blocks)
    offsets = {b: block.offset for block in blocks for b in block.buffers}
    kept = [b for b, buffer in enumerate(plan.buffers) if buffer.place != "arena" or b in offsets]
    number = {b: i for i, b in enumerate(kept)}
    buffers = tuple(replace(plan.buffers[b], offset=offsets.get(b, 0)) for b in kept)
    items = tuple(_renumbered(item, number) for item in plan.items)
    bound = lower_bound(blocks, len(plan.items))
    note = f"arena {arena_bytes} bytes, lower bound {bound}"
    return replace(plan, items=items, buffers=buffers, outputs=tuple(number[b] for b in plan.outputs), arena_bytes=arena_bytes,
                   copies=tuple((number[a], number[b]) for a, b in plan.copies), notes=(*plan.notes, note))


def _renumbered(item: Item, number: dict[int, int]) -> Item:
    return replace(item, operands=tuple(replace(o, buffer=number[o.buffer]) for o in item.operands))


def live_ranges(plan: Plan) -> dict[int, tuple[int, int]]:
    """For each arena buffer that an item touches: the first and last item for which its bytes matter."""
    ranges: dict[int, tuple[int, int]] = {}
    for i, item in enumerate(plan.items):
        for o in item.operands:
            if plan.buffers[o.buffer].place == "arena":
                first, _ = ranges.get(o.buffer, (i, i))
                ranges[o.buffer] = (first, i)
    for source, _ in plan.copies:
        if source in ranges:
            ranges[source] = (ranges[source][0], len(plan.items))
    return ranges


def _share_in_place(plan: Plan, ranges: dict[int, tuple[int, int]]) -> list[Block]:
    """One block per buffer, but a buffer born where another of its size dies takes over that one's bytes if the item allows."""
    blocks: dict[int, Block] = {}
    for b, (first, last) in sorted(ranges.items(), key=lambda entry: (entry[1], entry[0])):
        size_bytes = -(-plan.buffers[b].size_bytes // ALIGN_BYTES) * ALIGN_BYTES
        block = Block([b], size_bytes, first, last)
        heir = _predecessor(plan, block, blocks)
        if heir is not None:
            heir.buffers.append(b)
            heir.last = last
        blocks[b] = heir or block
    return list({id(block): block for block in blocks.values()}.values())


def _predecessor(plan: Plan, new: Block, blocks: dict[int, Block]) -> Block | None:
    """A block of the same size that dies in the item where `new` is born, and whose bytes that item may overwrite."""
    item, (b,) = plan.items[new.first], new.buffers
    for o in item.operands:
        old = blocks.get(o.buffer)
        if o.mode == "out" or old is None or old.buffers[-1] != o.buffer or not old.first < old.last == new.first:
            continue
        fits = old.size_bytes == new.size_bytes and plan.buffers[o.buffer].dtype.size == plan.buffers[b].dtype.size
        if fits and may_overwrite(item, o.buffer, b):
            return old
    return None


def pack(blocks: list[Block]) -> int:
    """Set the offset of every block, largest first, each in the tightest gap among those that live with it; returns the size."""
    placed: list[Block] = []
    top = 0
    for block in sorted(blocks, key=lambda k: (-k.size_bytes, k.first, k.buffers[0])):
        others = sorted((p for p in placed if p.first <= block.last and block.first <= p.last), key=lambda p: p.offset)
        best, best_gap, end = None, None, 0
        for p in others:
            gap = p.offset - end
            if gap >= block.size_bytes and (best_gap is None or gap < best_gap):
                best, best_gap = end, gap
            end = max(end, p.offset + p.size_bytes)
        block.offset = end if best is None else best
        placed.append(block)
        top = max(top, block.offset + block.size_bytes)
    return top


def lower_bound(blocks: list[Block], items: int) -> int:
    """The most bytes that are live during one item: no packing needs less."""
    change = [0] * (items + 2)
    for block in blocks:
        change[block.first] += block.size_bytes
        change[block.last + 1] -= block.size_bytes
    live = most = 0
    for c in change:
        live += c
        most = max(most, live)
    return most
