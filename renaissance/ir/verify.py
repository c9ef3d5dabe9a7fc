"""verify: what must hold for every graph and every plan. Run after each pass in tests; it never changes anything."""

from __future__ import annotations

import math

from renaissance.errors import PlanError
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node
from renaissance.ir.plan import Access, Contraction, Host, Instr, Item, Nest, Plan, Scatter, Store

_SILENT_LEAVES = ("const", "iota")


def verify_graph(graph: Graph) -> None:
    """Check that nodes are what their ops say, that there is no cycle, and that leaves are declared.

    raises  PlanError naming the node
    """
    leaves, scalars = set(graph.leaves), set(graph.scalars)
    if len(leaves) != len(graph.leaves) or len(scalars) != len(graph.scalars):
        raise PlanError("graph: a leaf or scalar is listed twice")
    seen: set[Node] = set()
    for n in graph.nodes():
        if n in leaves:
            seen.add(n)
            continue
        for i in n.inputs:
            if i not in seen:
                raise PlanError(f"{n!r}: input {i!r} does not come before it; there is a cycle")
        seen.add(n)
        if n.op.kind == "leaf":
            if n.op.name not in _SILENT_LEAVES and n not in scalars:
                raise PlanError(f"{n!r}: neither among the graph's leaves nor among its scalars")
        elif n.op.infer(n.inputs, *n.attrs) != (n.shape, n.dtype):
            raise PlanError(f"{n!r}: its op infers {n.op.infer(n.inputs, *n.attrs)} from {n.inputs!r}")
    for leaf, value in graph.assigns:
        if leaf not in leaves:
            raise PlanError(f"assign: {leaf!r} is not among the graph's leaves")
        if (leaf.shape, leaf.dtype) != (value.shape, value.dtype):
            raise PlanError(f"assign: {leaf!r} cannot hold {value!r}: shape and dtype must be equal")
    if len({leaf for leaf, _ in graph.assigns}) != len(graph.assigns):
        raise PlanError("assign: a leaf is assigned twice")


def verify_plan(plan: Plan, placed: bool = True) -> None:
    """Check that items are well formed, stay inside their buffers, and read only what was written.

    placed  whether arena buffers must have offsets inside the arena (they have none before the memory pass)
    raises  PlanError naming the item
    """
    for b, buffer in enumerate(plan.buffers):
        if placed and buffer.place == "arena" and not 0 <= buffer.offset <= plan.arena_bytes - buffer.size_bytes:
            raise PlanError(f"buffer {b}: {buffer.size_bytes} bytes at {buffer.offset} lie outside the arena of {plan.arena_bytes}")
    written = {b for b, buffer in enumerate(plan.buffers) if buffer.place == "input"}
    for number, item in enumerate(plan.items):
        _verify_item(plan, item, f"item {number} ({item.name})")
        own = {o.buffer for o in item.operands if o.mode == "out"}
        for o in item.operands:
            if o.mode == "in" and o.buffer not in written and o.buffer not in own:
                raise PlanError(f"item {number} ({item.name}): reads buffer {o.buffer} before anything wrote it")
        written |= own
        if number < plan.commit and any(plan.buffers[b].place == "input" for b in own):
            raise PlanError(f"item {number} ({item.name}): writes state before the commit point {plan.commit}")
    for number, item in enumerate(plan.items[plan.commit:], plan.commit):
        if any(i.op == "check" for body, _, _ in _bodies(item) for i in body):
            raise PlanError(f"item {number} ({item.name}): checks after the commit point {plan.commit}")
    for b in plan.outputs:
        if b not in written and plan.buffers[b].size_bytes:
            raise PlanError(f"output buffer {b} is never written")


def _verify_item(plan: Plan, item: Item, where: str) -> None:
    for o in item.operands:
        if not 0 <= o.buffer < len(plan.buffers) or o.dtype is not plan.buffers[o.buffer].dtype:
            raise PlanError(f"{where}: operand {o} does not fit its buffer")
    for body, stores, extents in _bodies(item):
        for number, instr in enumerate(body):
            _verify_instr(plan, item, body[:number], instr, extents, f"{where}: instruction {number} ({instr.op})")
        for store in stores:
            _verify_access(plan, item, store.access, extents, "out", f"{where}: store of instruction {store.value}")
            if not 0 <= store.value < len(body) or body[store.value].dtype is not item.operands[store.access.operand].dtype:
                raise PlanError(f"{where}: stores instruction {store.value} with another dtype than its operand has")
    if isinstance(item.spec, Nest):
        _verify_nest(item.spec, where)


def _verify_nest(nest: Nest, where: str) -> None:
    kinds = [stage.kind for stage in nest.stages]
    if nest.layout == "column" and kinds not in (["reduce"], ["reduce", "point"]):
        raise PlanError(f"{where}: a column nest has one reduce stage and at most one point stage, got {kinds}")
    if nest.layout == "row" and len(nest.extents) < (1 if kinds == ["map"] else 2):
        raise PlanError(f"{where}: {len(nest.extents)} dimensions are too few")
    for stage in nest.stages:
        if (stage.kind == "reduce") != (stage.combine is not None) or (stage.kind == "reduce" and stage.stores):
            raise PlanError(f"{where}: a reduce stage, and no other, combines and stores nothing itself")


def _verify_instr(plan: Plan, item: Item, before: tuple[Instr, ...], instr: Instr, extents: tuple[int, ...], where: str) -> None:
    if any(not 0 <= a < len(before) for a in instr.args):
        raise PlanError(f"{where}: arguments {instr.args} must be earlier instructions")
    if instr.op == "load":
        assert isinstance(instr.attr, Access)
        _verify_access(plan, item, instr.attr, extents, "in", where, masked=bool(instr.args))
        if instr.dtype is not item.operands[instr.attr.operand].dtype:
            raise PlanError(f"{where}: loads {instr.dtype.name} from {item.operands[instr.attr.operand].dtype.name}")
    elif instr.op == "load_at":
        assert isinstance(instr.attr, int)
        if before[instr.args[0]].dtype is not dt.int64 or instr.dtype is not item.operands[instr.attr].dtype:
            raise PlanError(f"{where}: takes an int64 index and gives the dtype of its operand")
    elif instr.op == "coord":
        if not 0 <= instr.attr < len(extents):  # type: ignore[operator]
            raise PlanError(f"{where}: the space has {len(extents)} dimensions")
    elif instr.op == "where" and before[instr.args[0]].dtype is not dt.bool_:
        raise PlanError(f"{where}: its condition must be bool")


def _verify_access(plan: Plan, item: Item, access: Access, extents: tuple[int, ...], mode: str, where: str,
                   masked: bool = False) -> None:
    operand = item.operands[access.operand]
    if operand.mode != mode or len(access.strides) != len(extents):
        raise PlanError(f"{where}: {access} does not fit operand {operand} over {extents}")
    low = access.offset + sum(s * (e - 1) for s, e in zip(access.strides, extents) if s < 0)
    high = access.offset + sum(s * (e - 1) for s, e in zip(access.strides, extents) if s > 0)
    if not masked and math.prod(extents) and not 0 <= low <= high < math.prod(plan.buffers[operand.buffer].shape):
        raise PlanError(f"{where}: elements {low} to {high} lie outside a buffer of {plan.buffers[operand.buffer].shape}")


def _bodies(item: Item) -> list[tuple[tuple[Instr, ...], tuple[Store, ...], tuple[int, ...]]]:
    spec = item.spec
    if isinstance(spec, Nest):
        return [(stage.body, stage.stores, spec.extents) for stage in spec.stages]
    if isinstance(spec, Contraction):
        return [(spec.a, (), (spec.batch, spec.m, spec.k)), (spec.b, (), (spec.batch, spec.k, spec.n)),
                (spec.epilogue, spec.stores, (spec.batch, spec.m, spec.n))]
    if isinstance(spec, Scatter):
        return [(spec.index, (), (spec.m, spec.n)), (spec.value, (), (spec.m, spec.n))]
    assert isinstance(spec, Host)
    return []
