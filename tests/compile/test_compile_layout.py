"""layout: between convolutions nothing is permuted, forward and backward; bits stay; other programs stay as they are."""

from __future__ import annotations

import time

import numpy as np
import pytest

from renaissance import autodiff
from renaissance.compile.layout import first_axes, last_axes, layout
from renaissance.compile.simplify import simplify
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, unique
from renaissance.ops import adaptive, compose, contraction, convolution, layer_norm, pooling
from renaissance.ops import elementwise as ew
from renaissance.ops import movement as mv
from renaissance.ops import reduce as rd
from renaissance.ops.batch_norm import batch_norm_in_training
from renaissance.ops.composed import expanded
from renaissance.ops.value import LEAF, Value, variable
from tests.compile.oracle import evaluate


def leaf(*shape: int) -> Node:
    return unique(LEAF, shape, dt.float32)


def traced(build, *shapes: tuple[int, ...], gradient: bool = False) -> Graph:
    """The simplified graph of a function of leaves; with gradient, of the gradients of the sum of squares of what it gives."""
    leaves = tuple(leaf(*shape) for shape in shapes)
    inputs = [variable(n) for n in leaves]
    y = build(*map(Value, inputs))
    outputs: tuple[Node, ...] = (y.node,)
    if gradient:
        loss = rd.sum(y * y)
        found = autodiff.vjp([loss.node], [ew.lit(1.0, loss).node], inputs)
        outputs = tuple(g for g in found if g is not None)
        assert len(outputs) == len(leaves)
    return simplify(expanded(Graph(leaves, (), outputs)), None)


def permutes(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes() if n.op.name == "permute"]


def inner(graph: Graph) -> list[Node]:
    """Permutations of what was computed that pointwise work or a convolution reads; a reduction has the order of its own axes."""
    found = []
    for n in graph.nodes():
        for i in n.inputs if n.op.kind in ("scalar", "contraction") else ():
            while i.op.kind == "movement" and i.op.name != "permute" and len(i.inputs) == 1:
                i = i.inputs[0]
            if i.op.name == "permute" and not weight_view(i):
                found.append(i)
    return found


def weight_view(n: Node) -> bool:
    """Whether a permutation is of a leaf, seen through views."""
    while n.op.kind == "movement":
        n = n.inputs[0]
    return n.op.name == "leaf"


def same_bits(graph: Graph) -> Graph:
    rng = np.random.default_rng(1)
    inputs = [(rng.integers(-9, 9, n.shape) / 8).astype(n.dtype.numpy) for n in graph.leaves]
    moved = layout(graph, None)
    for a, b in zip(evaluate(graph, inputs)[0], evaluate(moved, inputs)[0]):
        np.testing.assert_array_equal(a, b)
    again = layout(moved, None)
    assert again.outputs == moved.outputs
    return moved


def chain(x, w, v):
    return convolution.conv2d(compose.relu(convolution.conv2d(x, w, padding=1) * 0.5 + 1.0), v, stride=2)


def residual(x, w, v, b):
    h = compose.relu(convolution.conv2d(x, w, padding=1))
    h = compose.relu(convolution.conv2d(h, v, b, padding=1) + h)
    return convolution.conv2d(h, v, padding=1) + h[:, :, :, :]


def gated(x, w, v):
    """A scale per channel, a bias per channel and padding between convolutions."""
    h = convolution.conv2d(x, w)
    scale = mv.reshape(v[:, 0, 0, 0], (1, v.shape[0], 1, 1))
    h = mv.pad(mv.concat([h * scale, h[:, :, ::-1]], 1), [(0, 0), (0, 0), (1, 0), (2, 0)])
    return convolution.conv2d(h[:, :4], v)


def by_places(x, w, v):
    """Layer norm and an affine map of the channels of each place, then a sum over leaves of rows."""
    h = convolution.channels_last(convolution.conv2d(x, w))
    h = convolution.channels_first(contraction.linear(layer_norm.layer_norm(h, h.shape[-1]), v[:, :, 0, 0])) * 0.5
    leaves = mv.reshape(convolution.channels_last(h), (-1, 4, h.shape[1]))
    centred = leaves - mv.broadcast_to(rd.mean(leaves, 1, keepdims=True), leaves.shape)
    h = compose.relu(convolution.channels_first(mv.reshape(centred, convolution.channels_last(h).shape)))
    return convolution.conv2d(h, v) + h


def normalised(x, w, b):
    return compose.relu(batch_norm_in_training(x, w, b, 1e-5)[0])


def network(x, w, v, a, b):
    """A stem with batch norm and overlapping pooling, a residual block, a mean over all places."""
    h = pooling.max_pool2d(normalised(convolution.conv2d(x, w, padding=1), a, b), 3, 2, 1)
    short = h
    h = normalised(convolution.conv2d(h, v, padding=1), a, b)
    h = compose.relu(batch_norm_in_training(convolution.conv2d(h, v, padding=1), a, b, 1e-5)[0] + short)
    h = pooling.avg_pool2d(convolution.conv2d(h, v, padding=1), 2)
    return mv.flatten(adaptive.adaptive_avg_pool2d(h, 1), 1)


CASES = [
    pytest.param(network, ((2, 3, 10, 8), (4, 3, 3, 3), (4, 4, 3, 3), (4,), (4,)), id="network"),
    pytest.param(chain, ((2, 3, 6, 7), (4, 3, 3, 3), (5, 4, 2, 2)), id="chain"),
    pytest.param(residual, ((2, 3, 5, 4), (4, 3, 3, 3), (4, 4, 3, 3), (4,)), id="residual"),
    pytest.param(gated, ((2, 3, 6, 5), (4, 3, 3, 3), (4, 4, 1, 1)), id="gated"),
]


@pytest.mark.parametrize("build, shapes", CASES)
def test_forward_nothing_is_permuted_between_convolutions(build, shapes):
    graph = same_bits(traced(build, *shapes))
    assert inner(graph) == []
    if build is not network:
        assert [n.attr("axes") for n in permutes(graph)] == [last_axes(4), first_axes(4)]


@pytest.mark.parametrize("build, shapes", CASES)
def test_backward_nothing_is_permuted_between_convolutions(build, shapes):
    graph = same_bits(traced(build, *shapes, gradient=True))
    assert inner(graph) == []


def test_images_stay_images_as_rows_of_a_product_and_as_leaves_of_a_sum():
    for gradient in (False, True):
        graph = same_bits(traced(by_places, (2, 3, 6, 5), (4, 3, 3, 2), (4, 4, 1, 1), gradient=gradient))
        assert [n for n in inner(graph) if len(n.shape) == 4] == []


def test_one_axis_and_three():
    for dims, conv in ((1, convolution.conv1d), (3, convolution.conv3d)):
        size, kernel = (5, 4, 3)[:dims], (2,) * dims

        def build(x, w, v, conv=conv):
            return conv(compose.relu(conv(x, w)), v)

        graph = same_bits(traced(build, (2, 3, *size), (4, 3, *kernel), (5, 4, *(1,) * dims), gradient=True))
        assert inner(graph) == []


def test_merged_places_stay_behind():
    def build(x, w):
        h = mv.flatten(convolution.conv2d(x, w), 2)
        return mv.permute_dims(h * 2.0, (0, 2, 1))

    graph = same_bits(traced(build, (2, 3, 4, 5), (6, 3, 1, 1)))
    assert [n.attr("axes") for n in permutes(graph)] == [last_axes(4)]


def test_other_programs_stay():
    x, y = Value(leaf(3, 4)), Value(leaf(2, 3, 4, 5))
    outputs = (mv.permute_dims(x, (1, 0)) + 1.0, mv.permute_dims(y * 2.0, (0, 3, 1, 2)) + 1.0)
    graph = simplify(Graph((x.node, y.node), (), tuple(o.node for o in outputs)), None)
    assert layout(graph, None) is graph
    product = convolution.conv2d(y, Value(leaf(3, 3, 1, 1)))
    wider = simplify(expanded(Graph((x.node, y.node), (), (*graph.outputs, product.node))), None)
    assert layout(wider, None).outputs[0] is graph.outputs[0]


def test_a_long_graph_takes_little_time():
    def build(x, w):
        for _ in range(150):
            x = compose.relu(convolution.conv2d(x, w) * 0.5 + x)
        return x

    graph = traced(build, (1, 4, 3, 3), (4, 4, 1, 1), gradient=True)
    assert len(graph.nodes()) > 1500
    start = time.perf_counter()
    moved = layout(graph, None)
    assert time.perf_counter() - start < 0.5
    assert inner(moved) == []
