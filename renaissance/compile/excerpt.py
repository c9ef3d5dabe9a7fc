"""Excerpt: an item that writes only some of what it wrote, with no code for the rest."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Any

from renaissance.compile.describe import cost, name_of
from renaissance.ir.plan import (
    Access,
    Buffer,
    Contraction,
    Depthwise,
    Instr,
    Item,
    Nest,
    Operand,
    Spec,
    Stage,
    Store,
    Winograd,
)

_Carries = set[tuple[int, int]]  # (stage, instruction)


def excerpt(item: Item, wanted: Iterable[int], buffers: tuple[Buffer, ...]) -> Item:
    """The item with stores to the `wanted` buffers alone, and to those that it reads again itself; it checks and updates nothing.

    wanted   buffers that it writes
    buffers  of the plan
    """
    loaded = {o.buffer for o in item.operands if o.mode == "in"}
    stored = {o.buffer for o in item.operands if o.mode == "out"}
    kept = {*wanted, *(b for b in loaded & stored if buffers[b].place != "input")}
    spec = item.spec
    numbers = {n for n, o in enumerate(item.operands) if o.mode == "in" or o.buffer in kept}
    if isinstance(spec, Nest):
        spec = _nest(spec, numbers)
    elif isinstance(spec, (Contraction, Depthwise, Winograd)):
        stores = tuple(s for s in spec.stores if s.access.operand in numbers)
        code, moved = _live(spec.epilogue, {s.value for s in stores})
        changes = {part: _value(getattr(spec, part)) for part in _inputs(spec)}
        spec = replace(spec, epilogue=code, stores=_renumbered(stores, moved), **changes)
    if spec == item.spec:
        return item
    spec, operands = _without_idle(spec, item.operands)
    dtypes = [o.dtype for o in operands]
    flops, moved_bytes = cost(spec, dtypes, [buffers[o.buffer].size_bytes for o in operands])
    return Item(name_of(spec, dtypes), spec, operands, item.nodes, flops, moved_bytes)


def _inputs(spec: Contraction | Depthwise | Winograd) -> tuple[str, ...]:
    """The bodies that give a product's factors."""
    return ("a", "b") if isinstance(spec, Contraction) else ("image", "right") if isinstance(spec, Depthwise) else ("x",)


def _value(code: tuple[Instr, ...]) -> tuple[Instr, ...]:
    """A body of which only the last instruction is wanted."""
    return _live(code, {len(code) - 1})[0]


def _live(code: tuple[Instr, ...], wanted: Iterable[int]) -> tuple[tuple[Instr, ...], dict[int, int]]:
    """The instructions that the wanted ones need, and the new number of each; a check is its condition."""
    live = set(wanted)
    for n in reversed(range(len(code))):
        if n in live:
            live.update(code[n].args)
    result: list[Instr] = []
    moved: dict[int, int] = {}
    for n in sorted(live):
        if code[n].op == "check":
            moved[n] = moved[code[n].args[0]]
        else:
            moved[n] = len(result)
            result.append(replace(code[n], args=tuple(moved[a] for a in code[n].args)))
    return tuple(result), moved


def _renumbered(stores: Iterable[Store], moved: dict[int, int]) -> tuple[Store, ...]:
    return tuple(replace(s, value=moved[s.value]) for s in stores)


def _nest(nest: Nest, numbers: Container[int]) -> Nest:
    """The stages that stores to these operands need; a nest with kept values goes on to reduce something."""
    carried: _Carries = set()
    parts: dict[int, tuple[Stage, dict[int, int]]] = {}
    for number, stage in reversed([*enumerate(nest.stages)]):
        stores = tuple(s for s in stage.stores if s.access.operand in numbers)
        wanted = {s.value for s in stores} | {i for s, i in carried if s == number and stage.kind == "point"}
        if stage.kind == "reduce":
            if (number, 0) not in carried and not (nest.layout == "column" or any(p.kind == "point" for p, _ in parts.values())):
                continue
            wanted = {len(stage.body) - 1}
        if wanted:
            code, moved = _live(stage.body, wanted)
            carried |= {i.attr for i in code if i.op == "carry"}  # type: ignore[misc]
            parts[number] = replace(stage, body=code, stores=_renumbered(stores, moved)), moved
    place = {number: n for n, number in enumerate(sorted(parts))}

    def led(i: Instr) -> Instr:
        if i.op != "carry":
            return i
        stage, at = i.attr  # type: ignore[misc]
        return replace(i, attr=(place[stage], 0 if nest.stages[stage].kind == "reduce" else parts[stage][1][at]))

    return replace(nest, stages=tuple(replace(s, body=tuple(map(led, s.body))) for _, (s, _) in sorted(parts.items())))


def _without_idle(spec: Spec, operands: tuple[Operand, ...]) -> tuple[Spec, tuple[Operand, ...]]:
    """The spec and its operands without those that it no longer touches."""
    used: set[int] = set()
    place: dict[int, int] = {}

    def access(a: Access) -> Access:
        used.add(a.operand)
        return replace(a, operand=place.get(a.operand, a.operand))

    def body(code: tuple[Instr, ...]) -> tuple[Instr, ...]:
        return tuple(replace(i, attr=access(i.attr)) if isinstance(i.attr, Access) else i for i in code)

    def stores(given: tuple[Store, ...]) -> tuple[Store, ...]:
        return tuple(replace(s, access=access(s.access)) for s in given)

    def walked() -> Spec:
        if isinstance(spec, Nest):
            return replace(spec, stages=tuple(replace(s, body=body(s.body), stores=stores(s.stores)) for s in spec.stages))
        assert isinstance(spec, (Contraction, Depthwise, Winograd))
        changes: dict[str, Any] = {part: body(getattr(spec, part)) for part in _inputs(spec)}
        if isinstance(spec, Winograd):
            used.add(spec.u)
            changes["u"] = place.get(spec.u, spec.u)
        return replace(spec, epilogue=body(spec.epilogue), stores=stores(spec.stores), **changes)

    walked()
    place.update({old: new for new, old in enumerate(sorted(used))})
    return walked(), tuple(operands[n] for n in sorted(used))
