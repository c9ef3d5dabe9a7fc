"""fuse: what becomes one item and what does not, and equal bits for random graphs."""

from __future__ import annotations

import numpy as np
import pytest

from renaissance.compile.pipeline import compile_graph
from renaissance.errors import PlanError
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, node, unique
from renaissance.ir.plan import Contraction, Nest, Scatter
from renaissance.ops import compose, contraction
from renaissance.ops import elementwise as ew
from renaissance.ops import movement as mv
from renaissance.ops import reduce as rd
from renaissance.ops.composed import expanded
from renaissance.ops.index import CHECK, SCATTER, gather_inside
from renaissance.ops.precision import precision
from renaissance.ops.random import bernoulli, random_at, random_bits, unit_uniform
from renaissance.ops.value import IOTA, LEAF, SCALAR, Value
from tests.compile.plan_interpreter import CheckFailed, run_plan
from tests.compile.random_graphs import Maker, values_for
from tests.compile.running import check_plan, words


def leaf(*shape: int, dtype=dt.float32) -> Node:
    return unique(LEAF, shape, dtype)


def values(*leaves: Node) -> list[np.ndarray]:
    """Whole numbers and halves: sums of them are exact."""
    rng = np.random.default_rng(3)
    arrays = [rng.integers(-8, 9, n.shape) / 2 if n.dtype.is_float else rng.integers(0, 4, n.shape) for n in leaves]
    return [np.asarray(a).astype(n.dtype.numpy) for a, n in zip(arrays, leaves)]


def run(*outputs: Value, leaves: tuple[Node, ...], assigns=()):
    return check_plan(expanded(Graph(leaves, (), tuple(o.node for o in outputs), assigns)), values(*leaves))


def kinds(plan) -> list[list[str]]:
    specs = [item.spec for item in plan.items]
    return [[s.kind for s in spec.stages] if isinstance(spec, Nest) else [type(spec).__name__] for spec in specs]


# ---- maps --------------------------------------------------------------------------------------------------------------


def test_a_chain_of_words_is_one_item():
    x, y = leaf(4, 6), leaf(4, 6)
    plan = run((Value(x) + Value(y)) * 2.0 - ew.exp(Value(x)), leaves=(x, y))
    assert kinds(plan) == [["map"]] and plan.items[0].spec.extents == (24,)


def test_broadcasting_makes_the_space_no_finer_than_needed():
    x, bias = leaf(2, 3, 4), leaf(4)
    plan = run(Value(x) + Value(bias), leaves=(x, bias))
    assert plan.items[0].spec.extents == (6, 4)


def test_several_outputs_of_one_space_are_one_item():
    x = leaf(4, 6)
    plan = run(Value(x) * 2.0, ew.exp(Value(x)) + Value(x), ew.less(Value(x), 0.0), leaves=(x,))
    assert len(plan.items) == 1


def test_movements_are_index_maps():
    x = leaf(3, 4)
    v = mv.permute_dims(Value(x), (1, 0))[::-1]
    padded = mv.pad(v, ((1, 0), (0, 2)), 5.0)
    plan = run(ew.negative(padded), leaves=(x,))
    assert len(plan.items) == 1 and "where" in words(plan, 0)


def test_padding_with_zeros_is_a_masked_load():
    x = leaf(5)
    plan = run(ew.negative(mv.pad(Value(x), ((2, 1),))), leaves=(x,))
    assert len(plan.items) == 1 and "where" not in words(plan, 0)


def test_what_no_affine_map_reaches_is_stored_first():
    x = leaf(2, 3, 4)
    turned = mv.reshape(mv.permute_dims(Value(x), (2, 1, 0)), (24,))[1:23]
    again = mv.permute_dims(mv.reshape(turned, (2, 11)), (1, 0))
    plan = run(ew.exp(mv.reshape(again, (22,))) * 2.0, leaves=(x,))
    assert len(plan.items) == 2


def test_dear_words_are_not_computed_again_for_every_point():
    angle, x = leaf(6), leaf(6, 50)
    turned = Value(x) * mv.broadcast_to(mv.reshape(ew.sin(Value(angle)), (6, 1)), (6, 50))
    plan = run(turned, leaves=(angle, x))
    assert [i.spec.extents for i in plan.items] == [(6,), (6, 50)]


def test_cheap_words_are_computed_again_instead_of_stored():
    x, y = leaf(6, 50), leaf(50, 6)
    half = ew.astype(Value(x), dt.bfloat16)
    first = ew.exp(ew.astype(half, dt.float32))
    second = ew.log(ew.astype(mv.permute_dims(half, (1, 0)), dt.float32)) + Value(y)
    plan = run(first, second, leaves=(x, y))
    assert len(plan.items) == 2
    assert all(b.place != "arena" for b in plan.buffers)


# ---- contractions ------------------------------------------------------------------------------------------------------


def test_everything_pointwise_ends_in_the_epilogue():
    x, w, b = leaf(8, 5), leaf(7, 5), leaf(7)
    h = compose.relu(contraction.linear(Value(x), Value(w), Value(b)))
    plan = run(h, ew.less(h, 1.0), leaves=(x, w, b))
    assert len(plan.items) == 1
    spec = plan.items[0].spec
    assert isinstance(spec, Contraction) and len(spec.stores) == 2
    assert plan.items[0].name == "dot_bias_relu_lt_f32_8x7x5"


def test_a_bias_over_several_leading_axes_stays_in_the_epilogue():
    x, w, b = leaf(2, 4, 5), leaf(5, 6), leaf(6)
    plan = run(contraction.matmul(Value(x), Value(w)) + Value(b), leaves=(x, w, b))
    assert kinds(plan) == [["Contraction"]]


def test_casts_are_prologues_but_exponentials_are_stored():
    x, w = leaf(8, 5), leaf(7, 5)
    with precision("bf16"):
        plan = run(contraction.linear(Value(x), Value(w)), leaves=(x, w))
    assert len(plan.items) == 1
    assert [i.op for i in plan.items[0].spec.a] == ["load", "cast"]
    plan = run(contraction.linear(ew.exp(Value(x)), Value(w)), leaves=(x, w))
    assert kinds(plan) == [["map"], ["Contraction"]]


def test_a_transposed_result_is_written_in_order():
    x, y = leaf(8, 5), leaf(5, 7)
    plan = run(mv.permute_dims(contraction.matmul(Value(x), Value(y)), (1, 0)), leaves=(x, y))
    assert len(plan.items) == 1
    assert plan.items[0].spec.stores[0].access.strides == (56, 8, 1)


def test_a_sum_of_two_products_is_the_epilogue_of_the_second():
    x, w, y, v = leaf(4, 5), leaf(5, 6), leaf(4, 3), leaf(3, 6)
    plan = run(contraction.matmul(Value(x), Value(w)) + contraction.matmul(Value(y), Value(v)), leaves=(x, w, y, v))
    assert kinds(plan) == [["Contraction"], ["Contraction"]]


# ---- rows and columns --------------------------------------------------------------------------------------------------


def test_softmax_is_one_nest_and_computes_each_exponential_once():
    x = leaf(6, 40)
    plan = run(compose.softmax(Value(x), -1), leaves=(x,))
    assert kinds(plan) == [["reduce", "map", "reduce", "map"]]
    assert words(plan, 0).count("exp") == 1


def test_log_softmax_and_layer_norm_are_one_nest():
    x, g = leaf(6, 40), leaf(40)
    plan = run(compose.log_softmax(Value(x), -1), leaves=(x,))
    assert len(plan.items) == 1
    v = Value(x)
    centred = v - rd.mean(v, -1, keepdims=True)
    spread = rd.mean(centred * centred, -1, keepdims=True)
    plan = run(centred / ew.sqrt(spread + 1e-5) * Value(g), leaves=(x, g))
    assert len(plan.items) == 1 and plan.items[0].spec.extents == (6, 40)


def test_values_of_one_element_per_row_are_computed_once_per_row():
    x, t = leaf(6, 40), leaf(6)
    scale = mv.broadcast_to(mv.reshape(ew.exp(Value(t)) + 1.0, (6, 1)), (6, 40))
    plan = run(rd.sum(Value(x) * scale, -1), leaves=(x, t))
    assert kinds(plan) == [["point", "reduce", "point"]]


def test_a_column_sum_computes_its_producer():
    x, y = leaf(30, 7), leaf(30, 7)
    plan = run(rd.sum(Value(x) * Value(y), 0) * 2.0, leaves=(x, y))
    assert kinds(plan) == [["reduce", "point"]] and plan.items[0].spec.layout == "column"


def test_a_column_of_finer_shape_is_split_in_the_kept_dimension():
    x, b = leaf(2, 5, 3, 4), leaf(2, 1, 3, 1)
    plan = run(rd.sum(Value(x) * Value(b), 1), leaves=(x, b))
    assert len(plan.items) == 1
    assert plan.items[0].spec.extents == (2, 3, 5, 4)


def test_reductions_that_do_not_share_rows_are_apart():
    x = leaf(6, 8)
    total = rd.sum(Value(x), -1)
    plan = run(Value(x) / mv.broadcast_to(rd.sum(total, 0), (6, 8)), leaves=(x,))
    assert len(plan.items) == 3


# ---- places ------------------------------------------------------------------------------------------------------------


def test_pieces_of_a_concatenation_are_written_where_they_belong():
    x, w, b = leaf(4, 5), leaf(5, 6), leaf(4, 6)
    product, column = contraction.matmul(Value(x), Value(w)), rd.sum(Value(b), 0)
    flat = mv.concat([mv.reshape(product, (24,)), column, mv.reshape(Value(x), (20,))], 0)
    plan = run(flat, leaves=(x, w, b))
    assert len(plan.items) == 3 and [b.place for b in plan.buffers].count("arena") == 0
    offsets = sorted(s.access.offset for item in plan.items for s in
                     (item.spec.stores if isinstance(item.spec, Contraction) else item.spec.stages[-1].stores))
    assert offsets == [0, 24, 30]


def test_a_concatenation_along_an_inner_axis_is_written_with_gaps():
    x, y = leaf(4, 3), leaf(4, 2)
    plan = run(mv.concat([ew.exp(Value(x)), Value(y)], 1), leaves=(x, y))
    assert {s.access.strides for item in plan.items for s in item.spec.stages[0].stores} == {(5, 1)}


def test_an_output_that_is_a_leaf_or_constant_is_copied():
    x = leaf(4)
    plan = run(Value(x), ew.lit(2.0, Value(x)), leaves=(x,))
    assert len(plan.items) == 2 and len(set(plan.outputs)) == 2


# ---- the rest of the vocabulary ----------------------------------------------------------------------------------------


def test_a_gather_is_a_load_in_the_body():
    table, index = leaf(30), leaf(2, 5, dtype=dt.int64)
    at = Value(index)
    plan = run(gather_inside(Value(table), at) * 0.5 + gather_inside(Value(table), at + 1), leaves=(table, index))
    assert len(plan.items) == 1 and words(plan, 0).count("load_at") == 2


def test_a_gather_from_a_slice_adds_its_offset():
    table, index = leaf(30), leaf(5, dtype=dt.int64)
    plan = run(gather_inside(Value(table)[3:27:2], Value(index)), leaves=(table, index))
    assert len(plan.items) == 1


def test_scatter_starts_from_zero_or_from_a_value():
    x, rows, index = leaf(6, 3), leaf(4, 3), leaf(4, dtype=dt.int64)
    summed = Value(node(SCATTER, (x, index, rows), ("sum",)))
    zero = Value(node(SCATTER, (ew.lit(0, Value(x)).node, index, rows), ("last",)))
    plan = run(summed, zero, leaves=(x, rows, index))
    assert [i.spec.init is None for i in plan.items if isinstance(i.spec, Scatter)].count(True) == 1


def test_random_words_are_made_where_they_are_used():
    x = leaf(4, 6)
    seed, ticket = unique(SCALAR, (), dt.uint64), unique(SCALAR, (), dt.uint64)
    keep = bernoulli(Value(random_bits((4, 6), seed, ticket)), 0.5)
    at = Value(node(IOTA, (), (24, dt.int64)))
    noise = mv.reshape(unit_uniform(random_at(at, seed, ticket)), (4, 6))
    out = ew.where(keep, Value(x), 0.0) + noise
    plan = check_plan(expanded(Graph((x,), (seed, ticket), (out.node,))), values(x), (5, 9))
    assert len(plan.items) == 1


def test_a_check_has_an_item_of_its_own_before_any_state_is_written():
    x, i = leaf(6), leaf(6, dtype=dt.int64)
    checked = Value(node(CHECK, (i, ew.less(Value(i), 3).node), ("RangeError: too large",)))
    new = Value(x) + gather_inside(Value(x), checked)
    graph = expanded(Graph((x, i), (), (), ((x, new.node),)))
    plan = compile_graph(graph, None, verify=True)
    assert plan.messages == ("RangeError: too large",) and plan.commit >= 1
    state = [np.arange(6, dtype=np.float32), np.arange(6)]
    with pytest.raises(CheckFailed, match="too large"):
        run_plan(plan, state)
    assert (state[0] == np.arange(6)).all()
    state[1] %= 3
    run_plan(plan, state)
    assert (state[0] == np.arange(6) + np.arange(6) % 3).all()


def test_empty_values_need_no_item():
    x = leaf(0, 4)
    plan = run(ew.exp(Value(x)) * 2.0, leaves=(x,))
    assert plan.items == ()


def test_scalar_code_for_what_is_none_is_refused():
    x, total = leaf(4), leaf()
    random = random_bits((4,), Value(total).node, Value(total).node)
    with pytest.raises(PlanError, match="run-time scalars"):
        compile_graph(Graph((x, total), (), (random,)), None)


# ---- random graphs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_small_random_graphs_keep_their_bits(seed):
    graph = Maker(seed).graph(18)
    check_plan(graph, values_for(graph, seed), (1.5,))


@pytest.mark.parametrize("seed", range(100, 130))
def test_large_random_graphs_keep_their_bits(seed):
    graph = Maker(seed).graph(100)
    check_plan(graph, values_for(graph, seed), (1.5,))
