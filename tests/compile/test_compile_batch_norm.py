"""Batch norm in a network: statistics in one pass, both sums of the gradient in one, and everything pointwise where it is read."""

from __future__ import annotations

import numpy as np

from renaissance import autodiff
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, unique
from renaissance.ir.plan import Nest
from renaissance.ops import compose, contraction
from renaissance.ops import elementwise as ew
from renaissance.ops import movement as mv
from renaissance.ops import reduce as rd
from renaissance.ops.batch_norm import batch_norm_in_training
from renaissance.ops.composed import expanded
from renaissance.ops.value import LEAF, Value, variable
from tests.compile.running import check_plan

N, H, W, C, K = 3, 16, 32, 20, 6


def network(backward: bool) -> Graph:
    """An image with channels last through a product, batch norm, relu and a product; with the gradients of all parameters."""
    leaves = [unique(LEAF, shape, dt.float32) for shape in ((N * H * W, 4), (4, C), (C,), (C,), (C, K))]
    x, v, weight, bias, w = inputs = [variable(n) for n in leaves]
    image = mv.permute_dims(mv.reshape(contraction.matmul(Value(x), Value(v)), (N, H, W, C)), (0, 3, 1, 2))
    y, mean, var = batch_norm_in_training(image, Value(weight), Value(bias), 1e-5)
    last = mv.reshape(mv.permute_dims(y, (0, 2, 3, 1)), (N * H * W, C))
    out = contraction.matmul(compose.relu(last), Value(w))
    outputs: list[Node | None] = [out.node, mean.node, var.node]
    if backward:
        loss = rd.sum(out * out)
        outputs = list(autodiff.vjp([loss.node], [ew.lit(1.0, loss).node], inputs[1:]))
    return expanded(Graph(tuple(leaves), (), tuple(o for o in outputs if o is not None)))


def run(graph: Graph) -> list:
    """The items of its plan that go over all elements of the image, checked bit by bit."""
    rng = np.random.default_rng(0)
    plan = check_plan(graph, [(rng.integers(-9, 9, n.shape) / 8).astype(np.float32) for n in graph.leaves])
    return [item for item in plan.items if item.bytes > 4 * N * H * W * C // 2]


def reductions(item) -> int:
    return sum(stage.kind == "reduce" for stage in item.spec.stages) if isinstance(item.spec, Nest) else 0


def test_forward_reads_the_image_once_for_both_sums():
    product, statistics, last = run(network(backward=False))
    assert reductions(statistics) == 2 and statistics.spec.extents == (6, 256, C)
    assert last.name.startswith("dot") and last.bytes < 1.1 * product.bytes


def test_backward_reads_image_and_cotangent_once_for_both_sums():
    items = run(network(backward=True))
    sums = [item for item in items if reductions(item)]
    assert [reductions(item) for item in sums] == [2, 2]
    assert sums[1].bytes < 1.1 * 2 * 4 * N * H * W * C  # the image and the cotangent
    assert all(item.name.startswith("dot") for item in items if item not in sums)
