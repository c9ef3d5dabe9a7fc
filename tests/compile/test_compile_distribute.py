"""distribute: a large flat gradient is never stored if only a pointwise update reads it; bits stay."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from renaissance.compile.pipeline import compile_graph
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, unique
from renaissance.ops import contraction
from renaissance.ops import elementwise as ew
from renaissance.ops import movement as mv
from renaissance.ops import reduce as rd
from renaissance.ops.composed import expanded
from renaissance.ops.value import LEAF, Value
from tests.compile.golden import mlp_step
from tests.compile.running import check_plan

PASS = importlib.import_module("renaissance.compile.distribute")


def leaf(*shape: int) -> Node:
    return unique(LEAF, shape, dt.float32)


@pytest.fixture
def small(monkeypatch):
    """Let small concatenations be distributed too."""
    monkeypatch.setattr(PASS, "LARGE_BYTES", 0)


def numbers(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [(rng.integers(0, 9, n.shape) / 8).astype(n.dtype.numpy) for n in graph.leaves]


def example(shared: bool = False) -> Graph:
    x, y, z, w, m = leaf(4, 5), leaf(4, 6), leaf(4, 7), leaf(51), leaf(51)
    product = contraction.matmul(mv.permute_dims(Value(x), (1, 0)), Value(y))
    column, other = rd.sum(Value(z), 0), Value(z)[0] * 2.0
    gradient = mv.concat([mv.reshape(product, (30,)), column, other, Value(z)[1]], 0)
    moved = Value(m) * 0.9 + gradient
    outputs = (rd.sum(gradient, 0).node,) if shared else ()
    return expanded(Graph((x, y, z, w, m), (), outputs, ((w, (Value(w) - moved * 0.5).node), (m, moved.node))))


def test_each_part_is_updated_where_it_is_computed(small):
    graph = example()
    plan = check_plan(graph, numbers(graph))
    assert plan.copies == () and plan.arena_bytes == 0
    assert any(item.name.startswith("dot_mul_add_sub") for item in plan.items)
    assert any(item.name.startswith("columns_sum_mul_add_sub") for item in plan.items)


def test_a_concatenation_that_is_needed_whole_stays(small):
    graph = example(shared=True)
    plan = check_plan(graph, numbers(graph))
    assert sum("sub" in item.name for item in plan.items) == 1


def test_small_concatenations_stay():
    graph = example()
    assert sum("sub" in item.name for item in check_plan(graph, numbers(graph)).items) == 1


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_whole_step_keeps_its_bits(small, precision):
    graph = mlp_step((6, 9, 5), 4, precision)
    plan = check_plan(graph, numbers(graph), (0.5, 2.0))
    assert plan.copies == () and not any(item.name.startswith("map") for item in plan.items)


def test_a_large_model_needs_no_memory_for_gradients():
    sizes = (1000, 3000, 3000, 10)
    parameters = sum(a * b + b for a, b in zip(sizes, sizes[1:]))
    plan = compile_graph(mlp_step(sizes, 8, "fp32"), None, verify=True)
    assert 4 * parameters > PASS.LARGE_BYTES
    assert plan.copies == () and plan.arena_bytes < parameters


def test_numbers_name_the_traced_nodes(small):
    graph = example()
    traced = [n for n in graph.nodes() if n.op.kind != "identity"]
    plan = compile_graph(graph, None)
    dot = next(item for item in plan.items if item.name.startswith("dot"))
    assert {"dot", "mul", "add", "sub"} <= {traced[i].op.name for i in dot.nodes}


def test_two_concatenations_in_one_update_are_not_mixed_up(small):
    x, y, w = leaf(4, 5), leaf(4, 6), leaf(60)
    product = contraction.matmul(mv.permute_dims(Value(x), (1, 0)), Value(y))
    flat = mv.reshape(product, (30,))
    column = contraction.matmul(Value(x), mv.reshape(Value(x)[0], (5, 1)))
    first = mv.concat([flat, flat * 2.0], 0)
    second = mv.concat([mv.reshape(column, (4,)), ew.exp(Value(w)[4:60])], 0)
    graph = expanded(Graph((x, y, w), (), (), ((w, (first * second + Value(w)).node),)))
    check_plan(graph, numbers(graph))
