"""Pooling in a network: a kernel each way, batch norm and ReLU inside it, windows of windows stored in between."""

from __future__ import annotations

import numpy as np

from renaissance import autodiff
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, unique
from renaissance.ir.plan import Plan
from renaissance.ops import compose, contraction, pooling
from renaissance.ops import elementwise as ew
from renaissance.ops import movement as mv
from renaissance.ops import reduce as rd
from renaissance.ops.composed import expanded
from renaissance.ops.convolution import channels_first, channels_last
from renaissance.ops.value import LEAF, Value, variable
from tests.compile.running import check_plan

N, H, W, C = 2, 12, 10, 6


def leaf(*shape: int) -> Node:
    return unique(LEAF, shape, dt.float32)


def checked(leaves: tuple[Node, ...], outputs: list[Node]) -> Plan:
    graph = expanded(Graph(leaves, (), tuple(outputs)))
    rng = np.random.default_rng(0)
    return check_plan(graph, [(rng.integers(-9, 9, n.shape) / 8).astype(np.float32) for n in leaves])


def kinds(plan: Plan) -> list[str]:
    return [item.name.split("_")[0] for item in plan.items]


def test_a_stem_and_its_gradient():
    """Scale, shift and ReLU are computed inside; what is kept for the gradient is one byte for each output."""
    leaves = leaf(N, H, W, C), leaf(C), leaf(C, 4)
    x, scale, w = inputs = [variable(n) for n in leaves]
    image = channels_first(compose.relu(Value(x) * Value(scale) + 1.0))
    pooled = channels_last(pooling.max_pool2d(image, 3, 2, 1))
    y = contraction.matmul(mv.reshape(pooled, (-1, C)), Value(w))
    loss = rd.sum(y * y)
    gradients = autodiff.vjp([loss.node], [ew.lit(1.0, loss).node], inputs[2:] + inputs[:1])
    plan = checked(leaves, [g for g in gradients if g is not None])
    assert kinds(plan) == ["map", "dot", "dot", "dot", "map", "map"]
    first = plan.items[0]
    assert [operand.dtype.name for operand in first.operands if operand.mode == "out"].count("uint8") == 1
    assert first.bytes < 4 * (N * H * W * C + 2 * N * H * W * C // 4 * 1.4)


def test_pools_of_pools_and_all_of_them_concatenated():
    x = leaf(N, H, W, C)
    found = [channels_first(Value(x))]
    for _ in range(3):
        found.append(pooling.max_pool2d(found[-1], 5, 1, 2))
    plan = checked((x,), [mv.concat(found, 1).node])
    assert sum("maximum" in item.name for item in plan.items) == 3
    assert len(plan.items) <= 6


def test_a_product_reads_what_was_pooled():
    x, w = leaf(N, H, W, C), leaf(C, 4)
    pooled = channels_last(pooling.avg_pool2d(channels_first(Value(x)), 3, 1, 1))
    plan = checked((x, w), [contraction.matmul(mv.reshape(pooled, (-1, C)), Value(w)).node])
    assert kinds(plan)[-2:] == ["map", "dot"]
