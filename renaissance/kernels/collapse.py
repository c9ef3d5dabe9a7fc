"""Fewer dimensions for the same nest: drops those of one point, orders those of a map by its output, joins neighbours.

Two neighbouring dimensions are one if every access and every use of the coordinates steps through them as through one. Integer
code that is affine in the coordinates (index arithmetic) is written anew over the new dimensions. Bits do not change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from renaissance.ir.dtype import int64
from renaissance.ir.plan import Access, Instr, Nest, Stage, Store


@dataclass(frozen=True)
class _Affine:
    """offset + sum(factors[d] * coordinate[d])."""

    factors: tuple[int, ...]
    offset: int

    @property
    def is_constant(self) -> bool:
        return not any(self.factors)


def simplified(nest: Nest, fixed: int) -> Nest:
    """An equal nest of as few dimensions as possible.

    fixed   how many trailing dimensions keep their role (the reduced and the kept one); 0 for a map, whose dimensions may also be
            put in the order of its first output's strides
    gives   a nest with at least max(fixed, 1) dimensions
    """
    free = len(nest.extents) - fixed
    kept = [d for d in range(free) if nest.extents[d] != 1]
    if fixed == 2 and free and not kept:
        kept = [free - 1]  # one block of columns takes the code of several
    stores = [store.access.strides for s in nest.stages for store in s.stores]
    if fixed == 0 and stores:
        kept.sort(key=lambda d: -abs(stores[0][d]))
        kept[:-1] = _as_read(nest, kept)
    rank = len(nest.extents)
    steps = [*_access_steps(nest), *(a.factors for s in nest.stages for a in _roots(s, rank).values())]
    dimensions: list[list[int]] = []
    for d in kept:
        if dimensions and _continues(dimensions[-1][-1], d, nest.extents, steps):
            dimensions[-1].append(d)
        else:
            dimensions.append([d])
    dimensions += [[d] for d in range(free, rank)]
    if not dimensions:
        dimensions = [[]]  # a single point
    extents = tuple(math.prod(nest.extents[d] for d in g) for g in dimensions)
    return replace(nest, extents=extents, stages=_all_rewritten(nest, dimensions))


def _as_read(nest: Nest, kept: Sequence[int]) -> list[int]:
    """The outer dimensions in the order of an operand that is contiguous along one of them, if there is one: blocks of the last
    dimension go through it line by line."""
    loads: list[Access] = [i.attr for s in nest.stages for i in s.body if i.op == "load"]  # type: ignore[misc]
    for a in loads:
        if kept and abs(a.strides[kept[-1]]) > 1 and any(a.strides[d] == 1 for d in kept[:-1]):
            return sorted(kept[:-1], key=lambda d: -abs(a.strides[d]))
    return list(kept[:-1])


def _access_steps(nest: Nest) -> list[tuple[int, ...]]:
    loads = [i.attr.strides for s in nest.stages for i in s.body if i.op == "load"]  # type: ignore[union-attr]
    return [*loads, *(store.access.strides for s in nest.stages for store in s.stores)]


def _continues(outer: int, inner: int, extents: Sequence[int], steps: Sequence[Sequence[int]]) -> bool:
    return all(s[outer] == s[inner] * extents[inner] for s in steps)


def _all_rewritten(nest: Nest, dimensions: Sequence[Sequence[int]]) -> tuple[Stage, ...]:
    stages: list[Stage] = []
    carries: dict[tuple[int, int], tuple[int, int]] = {}  # where later stages find the values of earlier ones
    for number, stage in enumerate(nest.stages):
        new, moved = _rewritten(stage, dimensions, len(nest.extents), carries)
        stages.append(new)
        carries[number, 0] = (number, 0)
        if stage.kind == "point":
            carries.update({(number, old): (number, n) for old, n in moved.items()})
    return tuple(stages)


def _rewritten(stage: Stage, dimensions: Sequence[Sequence[int]], rank: int,
               carries: dict[tuple[int, int], tuple[int, int]]) -> tuple[Stage, dict[int, int]]:
    """A stage over new dimensions, each a run of old ones whose last steps like the new one; and its values' new numbers."""

    def over(steps: Sequence[int]) -> tuple[int, ...]:
        return tuple(steps[g[-1]] if g else 0 for g in dimensions)

    roots = {n: _Affine(over(a.factors), a.offset) for n, a in _roots(stage, rank).items()}
    body: list[Instr] = []
    moved: dict[int, int] = {}

    def add(op: str, args: tuple[int, ...], attr: object, dtype=int64) -> int:
        body.append(Instr(op, args, attr, dtype))  # type: ignore[arg-type]
        return len(body) - 1

    for number, instr in enumerate(stage.body):
        if number in roots:
            moved[number] = _write(roots[number], add)
            continue
        if instr.op == "coord" or any(a not in moved for a in instr.args):
            continue  # a part of an affine value, written with it
        attr = instr.attr
        if instr.op == "load":
            attr = Access(attr.operand, over(attr.strides), attr.offset)  # type: ignore[union-attr]
        elif instr.op == "carry":
            attr = carries[attr]  # type: ignore[index]
        moved[number] = add(instr.op, tuple(moved[a] for a in instr.args), attr, instr.dtype)
    if stage.kind == "reduce" and moved[len(stage.body) - 1] != len(body) - 1:
        add("cast", (moved[len(stage.body) - 1],), None, stage.body[-1].dtype)
    stores = tuple(Store(Access(s.access.operand, over(s.access.strides), s.access.offset), moved[s.value]) for s in stage.stores)
    return replace(stage, body=tuple(body), stores=stores), moved


def _write(value: _Affine, add) -> int:
    """Instructions for an affine value."""
    def constant(n: int) -> int:
        return add("const", (), np.int64(n).tobytes())

    total = None
    for d, factor in enumerate(value.factors):
        if factor:
            term = add("coord", (), d)
            if factor != 1:
                term = add("mul", (term, constant(factor)), None)
            total = term if total is None else add("add", (total, term), None)
    if total is None:
        return constant(value.offset)
    return total if value.offset == 0 else add("add", (total, constant(value.offset)), None)


def _roots(stage: Stage, rank: int) -> dict[int, _Affine]:
    """The affine values that something other than an affine value uses, by number; plain constants aside."""
    body = stage.body
    forms = {n: f for n, f in _forms(body, rank).items() if not f.is_constant}
    used = {a for n, i in enumerate(body) if n not in forms for a in i.args}
    used |= {s.value for s in stage.stores} | {len(body) - 1}
    if stage.kind == "point":  # later stages may use any of its values
        used |= set(range(len(body)))
    return {n: f for n, f in forms.items() if n in used}


def _forms(body: Sequence[Instr], rank: int) -> dict[int, _Affine]:
    """The int64 instructions that are affine in the coordinates, constants included."""
    forms: dict[int, _Affine] = {}
    for n, i in enumerate(body):
        if i.dtype is not int64:
            continue
        if i.op == "coord":
            forms[n] = _Affine(tuple(int(d == i.attr) for d in range(rank)), 0)
        elif i.op == "const":
            forms[n] = _Affine((0,) * rank, int(np.frombuffer(i.attr, np.int64)[0]))  # type: ignore[call-overload]
        elif i.op in ("add", "sub", "mul") and all(a in forms for a in i.args):
            form = _combined(i.op, *(forms[a] for a in i.args))
            if form is not None:
                forms[n] = form
    return forms


def _combined(op: str, x: _Affine, y: _Affine) -> _Affine | None:
    if op == "mul":
        if not x.is_constant and not y.is_constant:
            return None
        factor, rest = (x.offset, y) if x.is_constant else (y.offset, x)
        return _Affine(tuple(factor * f for f in rest.factors), factor * rest.offset)
    sign = 1 if op == "add" else -1
    return _Affine(tuple(f + sign * g for f, g in zip(x.factors, y.factors)), x.offset + sign * y.offset)
