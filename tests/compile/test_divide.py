"""divide: what depends on steady leaves alone is computed apart, and both parts give what the whole gives."""

import pytest

from renaissance import engine, nn
from renaissance.compile.divide import MOST_GROWTH, divided
from renaissance.compile.pipeline import compile_graph
from renaissance.ir.dtype import float32
from renaissance.ir.graph import Graph
from renaissance.ir.verify import verify_graph
from renaissance.ops.composed import expanded
from renaissance.region import placeholder
from renaissance.tensor import Tensor


def leaf(*shape):
    return Tensor(placeholder(shape, float32))


def formed(inputs, outputs):
    graph = expanded(Graph(tuple(t._node for t in inputs), (), tuple(t._node for t in outputs)))
    return compile_graph(graph, engine.host_target(), stop="engines")


def parts(inputs, outputs, steady):
    graph = formed(inputs, outputs)
    found = divided(graph, {graph.leaves[i] for i in steady})
    if found is not None:
        verify_graph(found.early)
        verify_graph(found.late)
        assert found.late.leaves[:len(inputs)] == found.early.leaves == graph.leaves
        assert [n.shape for n in found.late.leaves[len(inputs):]] == [n.shape for n in found.early.outputs]
    return found


def names(graph):
    return {n.op.name for n in graph.nodes()}


def test_transformed_kernels_and_scales_are_made_early():
    x, w = leaf(8, 64, 16, 16), leaf(64, 64, 3, 3)
    mean, var = leaf(64), leaf(64)
    y = nn.functional.batch_norm(nn.functional.conv2d(x, w, None, 1, 1), mean, var, training=False)
    found = parts([x, w, mean, var], [y], (1, 2, 3))
    assert {"winograd_weights", "sqrt"} <= names(found.early)
    assert not {"winograd_weights", "sqrt", "div"} & names(found.late)


def test_kernels_of_a_direct_convolution_are_laid_out_early():
    x, w = leaf(2, 8, 9, 9), leaf(16, 8, 3, 3)
    found = parts([x, w], [nn.functional.conv2d(x, w, None, 2, 1)], (1,))
    assert "permute" in names(found.early)


def test_nothing_to_do_early_is_no_division():
    x, w = leaf(4, 8), leaf(8, 3)
    assert parts([x, w], [x @ w], (1,)) is None
    assert parts([x, w], [(x @ w).exp()], ()) is None


def test_values_that_would_grow_are_not_kept():
    x, a, b = leaf(100, 100), leaf(100, 1), leaf(1, 100)
    found = parts([x, a, b], [x + a * b.exp()], (1, 2))
    assert MOST_GROWTH * 100 < 100 * 100
    assert [n.shape for n in found.early.outputs] == [(1, 100)]


def test_outputs_are_made_late_from_what_is_early():
    x, w = leaf(8), leaf(8)
    found = parts([x, w], [w.exp().exp(), x + w.exp().exp()], (1,))
    assert len(found.late.outputs) == 2 and "exp" in names(found.late)


@pytest.mark.parametrize("steady", [(0,), (1,), (0, 1)])
def test_leaves_that_are_not_used_keep_their_places(steady):
    a, b, c = leaf(8), leaf(8), leaf(8)
    found = parts([a, b, c], [c * b.exp()], steady)
    assert (found is None) == (steady == (0,))
