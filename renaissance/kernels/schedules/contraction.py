"""Matrix products of any form: packed panels, one register-tiled micro-kernel, everything pointwise before and after it in place.

Replaces a Contraction item. A chunk walks its part of the work list (tiling.py, walk.py): for each panel of columns it packs B
once, then runs down the row tiles of a group; A is read in place where that is quick, else packed once for each group. The sums
of a tile go where they belong if nothing happens to them, else to scratch, from where the epilogue takes them while they are in
the first-level cache. Expected: 90 % of the multiply-add peak once a few hundred rows, columns and steps meet
(docs/decisions/002-contraction-tiling.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from renaissance.errors import KernelError
from renaissance.ir.dtype import bfloat16, float32, float64
from renaissance.ir.plan import Contraction, Item, Operand
from renaissance.ir.target import Target
from renaissance.kernels.lowered import Lowered, Slot, code_key
from renaissance.kernels.schedules import row_walk
from renaissance.kernels.schedules import walk as panel_walk
from renaissance.kernels.schedules.epilogue import epilogue, panel_kinds
from renaissance.kernels.schedules.image import ImageSource, image_source
from renaissance.kernels.schedules.image import room_bytes as image_room_bytes
from renaissance.kernels.schedules.microkernel import Unit, unit_for
from renaissance.kernels.schedules.packing import copy_cycles, stage_pitch
from renaissance.kernels.schedules.source import packing_way, plain_access, source, turned
from renaissance.kernels.schedules.tiling import Copies, Tiling, ceil_div, choose, even, laid_out, round_up
from renaissance.kernels.schedules.walk import Recipe

_DTYPES = (float32, bfloat16, float64)
# An A that is not contiguous along k is read in place up to so many columns, or so long a k: a copy costs more than it saves.
_FEW_COLUMNS = 256
_SHORT_K = 512
# Rows a multiple of so many bytes apart meet in one set of the first-level cache; with 12 ways that does no harm, with 8 it does.
_ALIASED_BYTES = 4096
_WIDE_CACHE_BYTES = 48 << 10
# From so many bytes an element on that an epilogue reads and writes, results are finished in whole rows; tiles packed at a time.
_HEAVY_TRAFFIC = 16
_ROW_GROUP = 16
_IMAGE_CYCLES = 0.4  # to pack a unit of an image's windows; measured, coarse


def lower_contraction(item: Item, target: Target, threads: int) -> Lowered:
    """Make a Contraction item ready for a Target: choose its tiles, its code and its argument block.

    C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n], then the epilogue on each element

    item     an Item whose spec is a Contraction
    threads  how many threads the chunks are meant for; never changes a bit of the result
    returns  its Lowered
    raises   KernelError unless the contraction's dtype is float32, bfloat16 or float64
    source   definition; order of work after Goto and van de Geijn 2008, doi:10.1145/1356052.1356053
    """
    spec = _along_rows(item.spec)  # type: ignore[arg-type]
    if spec.dtype not in _DTYPES:
        names = ", ".join(d.name for d in _DTYPES)
        raise KernelError(f"a contraction of {spec.dtype.name} has no code; supported are {names}: cast the operands")
    unit = unit_for(spec.dtype, target)
    direct = _is_direct(spec, item.operands, unit, target)
    copies = Copies(0.0 if direct else copy_cycles(spec.a, unit),
                    copy_cycles(spec.b, unit) if spec.image is None else _IMAGE_CYCLES)
    tiling = choose(spec, unit, target, threads, copies=copies)
    a_way, b_way = (
        packing_way(body, item.operands, spec.dtype, unit, k=spec.k, k_block=tiling.k_block, width_dimension=dimension)
        for body, dimension in ((spec.a, 1), (spec.b, 2)))
    a = source(spec.a, item.operands, "direct" if direct else a_way, width_dimension=1)
    b = (source(spec.b, item.operands, b_way, width_dimension=2) if spec.image is None
         else image_source(spec.b, spec.image, item.operands, unit))
    panels = panel_kinds(spec.n, unit.lanes, tiling.vectors, tiling.panels, tiling.last_vectors)
    recipe = Recipe(unit, tiling.heights, panels, tiling.a_width, a, b, epilogue(spec.epilogue, spec.stores, item.operands))
    by_rows = _is_by_rows(recipe, tiling)
    walk = row_walk if by_rows else panel_walk
    numbers, scratch_bytes = _row_numbers(spec, tiling, recipe, target) if by_rows else _numbers(spec, tiling, recipe)
    slots: list[Slot] = [*recipe.a.arguments.slots, *recipe.b.arguments.slots, *(("int", numbers[n]) for n in walk.NUMBERS),
                         *recipe.epilogue.arguments.slots]
    form = f"contraction_{spec.dtype.name}_{recipe.a.way}_{recipe.b.way}_{tiling.rows}x{tiling.vectors}"
    key = code_key(form + "_rows" * by_rows, recipe.structure())
    return Lowered(key, key, lambda: walk.build(key, recipe, target), tuple(slots), tiling.chunks, scratch_bytes)


def _is_by_rows(recipe: Recipe, tiling: Tiling) -> bool:
    """Whether the epilogue moves so much memory that its order counts, in one pass over k."""
    several = tiling.panels > 1 and tiling.tiles > 0
    return several and recipe.epilogue.traffic_bytes >= _HEAVY_TRAFFIC and tiling.k_blocks == 1


def _row_numbers(spec: Contraction, tiling: Tiling, recipe: Recipe, target: Target) -> tuple[dict[str, int], int]:
    """The numbers of the argument block of a walk by rows, and the bytes of scratch."""
    unit, shared, room = tiling.unit, *_shared_numbers(spec, tiling, recipe)
    b_step = round_up(tiling.k_block * tiling.width * unit.bytes, 64)
    group_tiles = min(tiling.tiles, tiling.group_tiles, _ROW_GROUP)
    band_panels = even(tiling.panels, max(1, target.l2_bytes * 3 // 8 // b_step))
    sums_row = (ceil_div(band_panels * tiling.width * unit.bytes, 64) | 1) * 64  # odd, so that rows do not collide
    numbers, end = laid_out({
        "a_at": 0 if recipe.a.way == "direct" else group_tiles * shared["a_step"], "b_at": band_panels * b_step,
        "sums_at": tiling.rows * sums_row, "room_at": room})
    bands = ceil_div(tiling.panels, band_panels)
    numbers |= shared | {"group_tiles": group_tiles, "band_panels": band_panels, "bands": bands,
                         "work": tiling.batch * bands * tiling.tiles, "b_step": b_step, "sums_row": sums_row}
    return {name: numbers[name] if name in numbers else getattr(tiling, name) for name in row_walk.NUMBERS}, end


def _shared_numbers(spec: Contraction, tiling: Tiling, recipe: Recipe) -> tuple[dict[str, int], int]:
    """The numbers that do not depend on the walk, and the bytes of room to stage rows in."""
    pitch = stage_pitch(tiling.k_block, tiling.unit)
    a_step = round_up(tiling.k_block * tiling.a_width * tiling.unit.bytes, 64)
    room = pitch * tiling.unit.lanes if "staged" in (recipe.a.way, recipe.b.way) else 0
    if isinstance(recipe.b, ImageSource):
        room = max(room, image_room_bytes(tiling.unit, tiling.vectors))
    return {"m": spec.m, "n": spec.n, "k": spec.k, "a_step": a_step, "pitch": pitch}, room


def _along_rows(spec: Contraction) -> Contraction:
    """The contraction itself, or its transpose where the results are contiguous along m: then lanes lie along what was m."""
    def contiguous(dimension: int) -> int:
        return sum(s.access.strides[dimension] == 1 for s in spec.stores)

    if contiguous(1) <= contiguous(2) or spec.image is not None:
        return spec
    order = (0, 2, 1)
    stores = tuple(replace(s, access=replace(s.access, strides=tuple(s.access.strides[d] for d in order))) for s in spec.stores)
    return replace(spec, m=spec.n, n=spec.m, a=turned(spec.b, order), b=turned(spec.a, order),
                   epilogue=turned(spec.epilogue, order), stores=stores)


def _is_direct(spec: Contraction, operands: Sequence[Operand], unit: Unit, target: Target) -> bool:
    """Whether the micro-kernel reads A in place: a plain load, pairs side by side, rows that do not evict each other."""
    access = plain_access(spec.a, operands, spec.dtype, unit)
    if access is None or (unit.depth == 2 and (access.strides[2] != 1 or spec.k % 2)):
        return False
    if access.strides[2] != 1:
        return spec.k <= _SHORT_K
    aliased = access.strides[1] * spec.dtype.size % _ALIASED_BYTES == 0
    return not aliased or target.l1_bytes >= _WIDE_CACHE_BYTES or spec.n <= _FEW_COLUMNS


def _numbers(spec: Contraction, tiling: Tiling, recipe: Recipe) -> tuple[dict[str, int], int]:
    """The numbers of the argument block, and the bytes of scratch."""
    unit, shared, room = tiling.unit, *_shared_numbers(spec, tiling, recipe)
    sums_step = round_up(tiling.rows * tiling.width * unit.bytes, 64)
    numbers, end = laid_out({
        "a_at": 0 if recipe.a.way == "direct" else tiling.group_tiles * shared["a_step"],
        "b_at": round_up(tiling.k_block * tiling.width * unit.bytes, 64),
        "sums_at": sums_step * (tiling.group_tiles * tiling.band_panels if tiling.k_blocks > 1 else 1),
        "room_at": room})
    numbers |= shared | {"k_block": tiling.k_block * unit.depth, "sums_step": sums_step if tiling.k_blocks > 1 else 0}
    return {name: numbers[name] if name in numbers else getattr(tiling, name) for name in panel_walk.NUMBERS}, end
