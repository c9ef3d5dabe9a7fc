"""show: stable text of a graph and of a plan, for dumps and for files that tests compare with."""

from __future__ import annotations

import numpy as np

from renaissance.ir.dtype import DType
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node
from renaissance.ir.plan import Access, Buffer, Instr, Item, Plan
from renaissance.ir.traffic import bodies

_UNITS = ("", "k", "M", "G", "T")


def show_graph(graph: Graph) -> str:
    """One line per node, inputs first; nodes are numbered in that order, so equal graphs have equal text."""
    number: dict[Node, int] = {}
    lines = []
    leaves = {leaf: i for i, leaf in enumerate(graph.leaves)}
    scalars = {s: i for i, s in enumerate(graph.scalars)}
    for n in graph.nodes():
        number[n] = len(number)
        if n in leaves:
            what = f"leaf {leaves[n]}"
        elif n in scalars:
            what = f"scalar {scalars[n]}"
        else:
            words = [n.op.name, *(f"%{number[i]}" for i in n.inputs), *(_attribute(n, a) for a in n.op.attrs)]
            what = " ".join(words)
        lines.append(f"%{number[n]} = {what} : {_type(n.dtype, n.shape)}")
    lines += [f"output {i}: %{number[n]}" for i, n in enumerate(graph.outputs)]
    lines += [f"leaf {leaves[leaf]} := %{number[value]}" for leaf, value in graph.assigns]
    return "\n".join(lines) + "\n"


def show_plan(plan: Plan, *, code: bool = False) -> str:
    """Totals, one line per item with what it costs and touches, the buffers, and what happens around the items.

    code  also write down every body
    """
    flops, moved = sum(i.flops for i in plan.items), sum(i.bytes for i in plan.items)
    lines = [f"plan: {len(plan.items)} items, {scaled(flops)}flop, {scaled(moved)}B moved, arena {scaled(plan.arena_bytes)}B, "
             f"commit before item {plan.commit}"]
    for number, item in enumerate(plan.items):
        lines.append(f"{number:4} {item.name}: {scaled(item.flops)}flop, {scaled(item.bytes)}B, {_operands(item)}")
        if code:
            lines += _code(item)
    lines += [f"  b{number} {_buffer(buffer)}" for number, buffer in enumerate(plan.buffers)]
    lines += [f"  output {i}: b{b}" for i, b in enumerate(plan.outputs)]
    lines += [f"  after the run: b{target} := b{source}" for source, target in plan.copies]
    lines += [f"  message {i}: {text}" for i, text in enumerate(plan.messages)]
    lines += [f"  note: {note}" for note in plan.notes]
    return "\n".join(lines) + "\n"


def scaled(number: int) -> str:
    """A number to three digits with a unit prefix: 12345 is '12.3 k'."""
    value, unit = float(number), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.3g} {_UNITS[unit]}"


def _type(dtype: DType, shape: tuple[int, ...]) -> str:
    return f"{dtype.name}[{','.join(map(str, shape))}]"


def _attribute(n: Node, name: str) -> str:
    value = n.attr(name)
    if isinstance(value, DType):
        return f"{name}={value.name}"
    if isinstance(value, bytes):
        return f"{name}={_number(value, n.dtype)}"
    return f"{name}={str(value).replace(' ', '')}" if isinstance(value, (tuple, int)) else f"{name}={value}"


def _number(value: bytes, dtype: DType) -> str:
    return str(np.frombuffer(value, dtype.numpy)[0])


def _operands(item: Item) -> str:
    reads = [f"b{o.buffer}" for o in item.operands if o.mode == "in"]
    writes = [f"b{o.buffer}" for o in item.operands if o.mode == "out"]
    return f"{' '.join(reads) or 'nothing'} -> {' '.join(writes)}"


def _buffer(buffer: Buffer) -> str:
    where = f"arena at {buffer.offset}" if buffer.place == "arena" else f"{buffer.place} {buffer.index}"
    return f"{_type(buffer.dtype, buffer.shape)} {where}"


def _code(item: Item) -> list[str]:
    lines = []
    for body in bodies(item):
        lines.append(f"       sweep {body.sweep} over {body.extents}")
        lines += [f"         {number} = {_instr(item, i)}" for number, i in enumerate(body.code)]
        lines += [f"         {_place(item, s.access)} := {s.value}" for s in body.stores]
    return lines


def _instr(item: Item, i: Instr) -> str:
    if isinstance(i.attr, Access):
        attr = _place(item, i.attr)
    elif isinstance(i.attr, bytes):
        attr = _number(i.attr, i.dtype)
    else:
        attr = "" if i.attr is None else str(i.attr)
    return " ".join(filter(None, (i.op, attr, *map(str, i.args), ":", i.dtype.name)))


def _place(item: Item, access: Access) -> str:
    return f"b{item.operands[access.operand].buffer}[{access.offset}; {','.join(map(str, access.strides))}]"

