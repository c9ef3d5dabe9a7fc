"""Convolutions by minimal filtering in plans: what is fused with them, what is stored, where they are chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from renaissance.compile.pipeline import compile_graph
from renaissance.compile.winograd import blocks_and_groups, by_tiles, gradient_by_tiles, winograd_tile
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, node, unique
from renaissance.ir.plan import Plan, Winograd
from renaissance.ir.target import Target
from renaissance.ops import elementwise as ew
from renaissance.ops import movement as mv
from renaissance.ops.composed import expanded
from renaissance.ops.convolution import CONV, CONV_WEIGHT, Geometry
from renaissance.ops.value import LEAF, Value
from tests.compile.plan_interpreter import run_plan

TARGET = Target("avx512", 64, 32, True, True, "", "")
SAME = Geometry((1, 3, 3), (1, 1, 1), ((0, 0), (1, 1), (1, 1)), (1, 1, 1), 1)


def leaf(*shape: int, dtype=dt.float32) -> Node:
    return unique(LEAF, shape, dtype)


def forward(x: Value, w: Value, tile: int = 4) -> Value:
    return Value(by_tiles(node(CONV, (x.node, w.node), (SAME, dt.float32)), tile, TARGET))


def check(output: Value, direct: Value, leaves: tuple[Node, ...]) -> Plan:
    """The plan; its result is that of the direct convolution."""
    graph, reference = (expanded(Graph(leaves, (), (o.node,), ())) for o in (output, direct))
    arrays = [np.random.default_rng(5).standard_normal(n.shape).astype(n.dtype.numpy) for n in leaves]
    plan = compile_graph(graph, TARGET, verify=True)
    got, = run_plan(plan, [a.copy() for a in arrays])
    off = replace(TARGET, winograd=False)
    want, = run_plan(compile_graph(reference, off), [a.copy() for a in arrays])
    scale = np.abs(want.astype(np.float64)).max()
    assert np.abs(got.astype(np.float64) - want.astype(np.float64)).max() < (1e-2 if got.dtype.itemsize == 2 else 1e-5) * scale
    return plan


def specs(plan: Plan) -> list[str]:
    return [type(item.spec).__name__ for item in plan.items]


def conv(x: Value, w: Value) -> Value:
    return Value(node(CONV, (x.node, w.node), (SAME, dt.float32)))


def test_what_is_pointwise_before_and_after_is_fused():
    x, w, bias, scale, rest = leaf(2, 1, 5, 6, 3), leaf(4, 3, 1, 3, 3), leaf(4), leaf(3), leaf(2, 1, 5, 6, 4)

    def whole(by):
        seen = ew.maximum(Value(x) * Value(scale) + 1.0, 0.0)
        return ew.maximum(by(seen, Value(w)) + Value(bias) + Value(rest), 0.0)

    plan = check(whole(forward), whole(conv), (x, w, bias, scale, rest))
    assert sorted(specs(plan)) == ["Winograd", "WinogradWeights"]
    assert plan.items[1].name == "winograd4_bias_add_maximum_f32_2x5x6x4x3"


@pytest.mark.parametrize("tile", [2, 4])
def test_layouts_and_views(tile):
    x, w = leaf(2, 3, 6, 5), leaf(3, 4, 3, 3)

    def whole(by):
        image = mv.permute_dims(mv.reshape(Value(x), (2, 3, 1, 6, 5)), (0, 2, 3, 4, 1))
        turned = mv.flip(mv.permute_dims(mv.reshape(Value(w), (3, 4, 1, 3, 3)), (1, 0, 2, 3, 4)), axis=(3, 4))
        y = by(image, turned)
        return mv.reshape(mv.permute_dims(y, (0, 4, 1, 2, 3)), (2, 4, 6, 5))

    plan = check(whole(lambda i, k: forward(i, k, tile)), whole(conv), (x, w))
    assert sorted(specs(plan)) == ["Nest", "Nest", "Winograd", "WinogradWeights"]  # the image comes and goes with channels first


def test_bfloat16_images_are_rounded_once():
    x, w = leaf(1, 1, 4, 4, 3, dtype=dt.bfloat16), leaf(4, 3, 1, 3, 3, dtype=dt.bfloat16)
    plan = check(ew.astype(forward(Value(x), Value(w)), dt.bfloat16), ew.astype(conv(Value(x), Value(w)), dt.bfloat16), (x, w))
    assert sorted(specs(plan)) == ["Winograd", "WinogradWeights"]


def test_two_users_of_one_kernel_share_its_transform():
    x, y, w = leaf(1, 1, 4, 4, 3), leaf(1, 1, 4, 4, 3), leaf(4, 3, 1, 3, 3)

    def whole(by):
        return by(Value(x), Value(w)) + by(Value(y), Value(w))

    assert specs(check(whole(forward), whole(conv), (x, y, w))).count("WinogradWeights") == 1


def test_the_gradient_of_a_weight():
    x, y = leaf(2, 1, 5, 6, 3), leaf(2, 1, 5, 6, 4)
    seen, made = ew.maximum(Value(x), 0.0), Value(y) * 2.0
    n = node(CONV_WEIGHT, (seen.node, made.node), (SAME, dt.float32))
    plan = check(Value(gradient_by_tiles(n, 4, TARGET)), Value(n), (x, y))
    assert specs(plan) == ["WinogradSums", "WinogradWeightGradient"]


def test_an_operand_of_the_products_is_never_written_over():
    x, w = leaf(1, 1, 8, 8, 4), leaf(4, 4, 1, 3, 3)
    y = forward(ew.maximum(Value(x), 0.0), Value(w)) + Value(x)
    graph = expanded(Graph((x, w), (), (y.node,), ()))
    plan = compile_graph(graph, TARGET, verify=True)
    item = next(i for i in plan.items if isinstance(i.spec, Winograd))
    read = {o.buffer for o in item.operands if o.mode == "in"}
    assert not read & {o.buffer for o in item.operands if o.mode == "out"}


@pytest.mark.parametrize(("x", "k", "tile"), [
    ((16, 1, 56, 56, 128), 128, 4), ((16, 1, 14, 14, 512), 512, 4), ((128, 1, 2, 2, 512), 512, 2), ((16, 1, 224, 224, 3), 64, None),
    ((1, 1, 7, 7, 512), 512, None)])
def test_tiles_are_chosen_by_shape(x, k, tile):
    w = (k, x[4], 1, 3, 3)
    assert winograd_tile(x, w, SAME, TARGET) == tile
    assert winograd_tile(x, w, SAME, replace(TARGET, winograd=False)) is None
    assert winograd_tile(x, w, SAME, TARGET, dt.float64) is None


@pytest.mark.parametrize("change", [{"strides": (1, 2, 2)}, {"kernel": (1, 5, 5)}, {"dilations": (1, 2, 2)}, {"groups": 2},
                                    {"spread": (1, 2, 2)}, {"padding": ((0, 0), (-1, 1), (1, 1))}])
def test_other_convolutions_are_direct(change):
    assert winograd_tile((16, 1, 56, 56, 128), (128, 128, 1, 3, 3), SAME._replace(**change), TARGET) is None


def test_sums_are_cut_by_shape():
    assert blocks_and_groups(16, 112, 112, 64, 64, 4) == (392, 16)
    assert blocks_and_groups(16, 14, 14, 512, 512, 4) == (2, 1)
    assert blocks_and_groups(1, 4, 4, 16, 16, 4) == (1, 1)
