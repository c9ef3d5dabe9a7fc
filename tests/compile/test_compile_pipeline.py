"""The pipeline: stopping at a pass, timings, numbers, and what verify finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from renaissance.compile.pipeline import PASSES, compile_graph
from renaissance.errors import ArgumentError, PlanError
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, Op, node, unique
from renaissance.ir.plan import Access, Instr, Plan
from renaissance.ir.verify import verify_graph, verify_plan
from renaissance.ops import compose, contraction
from renaissance.ops import elementwise as ew
from renaissance.ops import reduce as rd
from renaissance.ops.composed import expanded
from renaissance.ops.value import LEAF, Value, variable


def leaf(*shape: int) -> Node:
    return unique(LEAF, shape, dt.float32)


def example() -> tuple[Graph, list[Node]]:
    x, w, b = leaf(6, 5), leaf(4, 5), leaf(4)
    scores = compose.relu(contraction.linear(Value(x), Value(variable(w)), Value(b)))
    result = rd.sum(ew.exp(scores), -1)
    graph = expanded(Graph((x, w, b), (), (result.node,), ((b, (Value(b) * 0.5).node),)))
    return graph, list(graph.outputs)


def test_each_pass_can_be_stopped_at():
    graph, _ = example()
    seen = [type(compile_graph(graph, None, stop=p.name, verify=True)) for p in PASSES]
    assert seen == [Graph, Graph, Graph, Graph, Graph, Plan, Plan, Plan]
    assert all(p.reason for p in PASSES)
    with pytest.raises(ArgumentError, match="fuse"):
        compile_graph(graph, None, stop="fusion")


def test_timings_name_every_pass():
    graph, _ = example()
    timings: dict[str, float] = {}
    compile_graph(graph, None, timings=timings)
    assert list(timings) == [p.name for p in PASSES] and all(t >= 0 for t in timings.values())


def test_the_same_graph_gives_the_same_plan():
    graph, _ = example()
    assert compile_graph(graph, None) == compile_graph(graph, None)


def test_items_name_the_nodes_of_the_traced_graph():
    graph, (result,) = example()
    plan = compile_graph(graph, None)
    traced = [n for n in graph.nodes() if n.op.kind != "identity"]
    numbers = {n: i for i, n in enumerate(traced)}
    (rows,) = [item for item in plan.items if item.name.startswith("rows")]
    (product,) = [item for item in plan.items if item.name.startswith("dot")]
    assert numbers[result] in rows.nodes
    assert {"dot", "add", "le", "where", "exp"} <= {traced[i].op.name for i in product.nodes}
    assert all(0 <= i < len(traced) for item in plan.items for i in item.nodes)


def test_verify_finds_graphs_that_are_none():
    x, y = leaf(3), leaf(4)
    with pytest.raises(PlanError, match="among the graph's leaves"):
        verify_graph(Graph((), (), (ew.exp(Value(x)).node,)))
    with pytest.raises(PlanError, match="twice"):
        verify_graph(Graph((x, x), (), ()))
    with pytest.raises(PlanError, match="cannot hold"):
        verify_graph(Graph((x, y), (), (), ((x, y),)))
    wrong = Node(ew.OPS["exp"], (x,), (), (4,), dt.float32)
    with pytest.raises(PlanError, match="infers"):
        verify_graph(Graph((x,), (), (wrong,)))


def broken(plan: Plan, number: int, **changes) -> Plan:
    items = list(plan.items)
    items[number] = replace(items[number], **changes)
    return replace(plan, items=tuple(items))


def test_verify_finds_plans_that_are_none():
    graph, _ = example()
    plan = compile_graph(graph, None)
    verify_plan(plan)
    dot = next(i for i, item in enumerate(plan.items) if item.name.startswith("dot"))
    spec = plan.items[dot].spec
    outside = replace(spec.stores[0], access=Access(spec.stores[0].access.operand, (0, 4, 1), 1))
    with pytest.raises(PlanError, match="outside a buffer"):
        verify_plan(broken(plan, dot, spec=replace(spec, stores=(outside,))))
    late = (Instr("neg", (1,), None, dt.float32), *spec.epilogue[1:])
    with pytest.raises(PlanError, match="earlier instructions"):
        verify_plan(broken(plan, dot, spec=replace(spec, epilogue=late)))
    with pytest.raises(PlanError, match="before anything wrote it"):
        verify_plan(replace(plan, items=plan.items[dot + 1:], commit=0))
    with pytest.raises(PlanError, match="commit point"):
        verify_plan(replace(plan, commit=len(plan.items)))
    with pytest.raises(PlanError, match="never written"):
        verify_plan(replace(plan, items=plan.items[:dot + 1], commit=0))
    assert plan.arena_bytes
    with pytest.raises(PlanError, match="do not fit"):
        verify_plan(replace(plan, arena_bytes=plan.arena_bytes - 64))


def test_an_op_without_a_rule_is_an_error():
    strange = Op("strange", "index", lambda inputs: (inputs[0].shape, inputs[0].dtype))
    x = leaf(3)
    with pytest.raises(PlanError, match="strange"):
        compile_graph(Graph((x,), (), (node(strange, (x,)),)), None)


def test_a_computed_leaf_is_a_leaf():
    x = leaf(3)
    held = ew.exp(Value(x)).node
    plan = compile_graph(Graph((held,), (), ((Value(held) * 2.0).node,)), None, verify=True)
    assert plan.buffers[0].place == "input" and "exp" not in plan.items[0].name


def test_a_long_chain_of_nodes_is_no_deep_recursion():
    x = leaf(4)
    v = Value(x)
    for i in range(3000):
        v = ew.exp(v) if i % 2 else v * 0.5
    plan = compile_graph(Graph((x,), (), (v.node,)), None, verify=True)
    assert 3000 / 160 - 1 < len(plan.items) < 60
