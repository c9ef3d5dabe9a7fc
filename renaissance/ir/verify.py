"""verify: what must hold for every graph and every plan. Run after each pass in tests; it never changes anything."""

from __future__ import annotations

import math

from renaissance.errors import PlanError
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node
from renaissance.ir.plan import Access, Instr, Item, Nest, Plan, Store
from renaissance.ir.traffic import Body, Touch, bodies, has_check

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
            raise PlanError(f"buffer {b}: {buffer.size_bytes} bytes at {buffer.offset} do not fit into {plan.arena_bytes}")
    written = {b for b, buffer in enumerate(plan.buffers) if buffer.place == "input"}
    for number, item in enumerate(plan.items):
        _ItemCheck(plan, item, f"item {number} ({item.name})").run()
        own = {o.buffer for o in item.operands if o.mode == "out"}
        for o in item.operands:
            if o.mode == "in" and o.buffer not in written and o.buffer not in own:
                raise PlanError(f"item {number} ({item.name}): reads buffer {o.buffer} before anything wrote it")
        written |= own
        if number < plan.commit and any(plan.buffers[b].place == "input" for b in own):
            raise PlanError(f"item {number} ({item.name}): writes state before the commit point {plan.commit}")
    for number, item in enumerate(plan.items[plan.commit:], plan.commit):
        if has_check(item):
            raise PlanError(f"item {number} ({item.name}): checks after the commit point {plan.commit}")
    for b in plan.outputs:
        if b not in written and plan.buffers[b].size_bytes:
            raise PlanError(f"output buffer {b} is never written")


class _ItemCheck:
    """The checks of one item."""

    def __init__(self, plan: Plan, item: Item, where: str):
        self._plan = plan
        self._item = item
        self._where = where

    def run(self) -> None:
        for o in self._item.operands:
            if not 0 <= o.buffer < len(self._plan.buffers) or o.dtype is not self._plan.buffers[o.buffer].dtype:
                raise PlanError(f"{self._where}: operand {o} does not fit its buffer")
        for body in bodies(self._item):
            for number, instr in enumerate(body.code):
                self._instr(body, number, instr)
            for store in body.stores:
                self._store(body, store)
        if isinstance(self._item.spec, Nest):
            self._nest(self._item.spec)

    def _nest(self, nest: Nest) -> None:
        kinds = [stage.kind for stage in nest.stages]
        reduces = [kind for kind in kinds if kind == "reduce"]
        if nest.layout == "column" and (not reduces or kinds not in (reduces, [*reduces, "point"])):
            raise PlanError(f"{self._where}: a column nest has reduce stages, then at most one point stage, got {kinds}")
        if nest.layout == "row" and len(nest.extents) < (1 if kinds == ["map"] else 2):
            raise PlanError(f"{self._where}: {len(nest.extents)} dimensions are too few")
        for stage in nest.stages:
            if (stage.kind == "reduce") != (stage.combine is not None) or (stage.kind == "reduce" and stage.stores):
                raise PlanError(f"{self._where}: a reduce stage, and no other, combines; it stores nothing itself")

    def _instr(self, body: Body, number: int, instr: Instr) -> None:
        where = f"{self._where}: instruction {number} ({instr.op})"
        if any(not 0 <= a < number for a in instr.args):
            raise PlanError(f"{where}: arguments {instr.args} must be earlier instructions")
        if instr.op == "load":
            assert isinstance(instr.attr, Access)
            self._access(body, instr.attr, "in", where, masked=bool(instr.args))
            if instr.dtype is not self._item.operands[instr.attr.operand].dtype:
                raise PlanError(f"{where}: loads {instr.dtype.name} from {self._item.operands[instr.attr.operand].dtype.name}")
        elif instr.op == "load_at":
            assert isinstance(instr.attr, Access)
            if body.code[instr.args[0]].dtype is not dt.int64 or instr.dtype is not self._item.operands[instr.attr.operand].dtype:
                raise PlanError(f"{where}: takes an int64 index and gives the dtype of its operand")
        elif instr.op == "coord":
            if instr.attr not in range(len(body.extents)):
                raise PlanError(f"{where}: the space has {len(body.extents)} dimensions")
        elif instr.op == "where" and body.code[instr.args[0]].dtype is not dt.bool_:
            raise PlanError(f"{where}: its condition must be bool")

    def _store(self, body: Body, store: Store) -> None:
        where = f"{self._where}: store of instruction {store.value}"
        self._access(body, store.access, "out", where)
        operand = self._item.operands[store.access.operand]
        if not 0 <= store.value < len(body.code) or body.code[store.value].dtype is not operand.dtype:
            raise PlanError(f"{where}: its dtype is not that of the operand")

    def _access(self, body: Body, access: Access, mode: str, where: str, *, masked: bool = False) -> None:
        operand = self._item.operands[access.operand]
        if operand.mode != mode or len(access.strides) != len(body.extents):
            raise PlanError(f"{where}: {access} does not fit operand {operand} over {body.extents}")
        low, high = Touch(operand.buffer, access, body.sweep, body.extents).span()
        shape = self._plan.buffers[operand.buffer].shape
        if not masked and math.prod(body.extents) and not 0 <= low <= high < math.prod(shape):
            raise PlanError(f"{where}: elements {low} to {high} lie outside a buffer of {shape}")
