"""Convolutions that make few channels: where several places are made at once, and that the numbers stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from renaissance.compile.pipeline import compile_graph
from renaissance.compile.side_by_side import by_classes, by_neighbours, classes_of, classes_together, neighbours
from renaissance.compile.spread import interleaved
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import node, unique
from renaissance.ir.target import Target
from renaissance.ops.composed import expanded
from renaissance.ops.convolution import CONV, Geometry
from renaissance.ops.value import LEAF, Value
from tests.compile.plan_interpreter import run_plan

TARGET = Target("avx512", 64, 32, True, True, "", "")


def leaves(*shapes: tuple[int, ...]) -> tuple[Value, ...]:
    return tuple(Value(unique(LEAF, s, dt.float32)) for s in shapes)


def results(inputs: tuple[Value, ...], *outputs: Value) -> list[np.ndarray]:
    graph = expanded(Graph(tuple(x.node for x in inputs), (), tuple(y.node for y in outputs), ()))
    arrays = [np.random.default_rng(1).standard_normal(x.shape).astype(np.float32) for x in inputs]
    return run_plan(compile_graph(graph, TARGET, verify=True), arrays)


@pytest.mark.parametrize(("stride", "taps", "count"), [(1, 3, 4), (1, 1, 2), (2, 3, 2), (3, 2, 6)])
def test_neighbouring_places_at_once_are_the_same_numbers(stride: int, taps: int, count: int):
    x, w = leaves((2, 1, 5, stride * 11 + taps, 3), (2, 3, 1, 2, taps))
    geometry = Geometry((1, 2, taps), (1, 1, stride), ((0, 0), (1, 0), (0, 0)), (1, 1, 1), 1)
    plain = Value(node(CONV, (x.node, w.node), (geometry, dt.float32)))
    assert plain.shape[3] == 12
    one, other = results((x, w), plain, by_neighbours(x, w, geometry, count, dt.float32))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("size", [6, 7])
@pytest.mark.parametrize("taps", [3, 4, 7])
def test_classes_of_places_at_once_are_the_same_numbers(taps: int, size: int):
    dy, w = leaves((2, 1, 4, 4, 5), (3, 5, 1, taps, taps))
    low = taps // 2
    high = size + taps - 8 - low
    geometry = Geometry((1, taps, taps), (1, 1, 1), ((0, 0), (low, high), (low, high)), (1, 1, 1), 1, (1, 2, 2))
    windows = geometry.windows((1, 4, 4))
    assert windows == (1, size, size)
    both = (way(dy, w, geometry, windows, dt.float32) for way in (interleaved, by_classes))
    one, other = results((dy, w), *both)
    np.testing.assert_array_equal(one, other)


def test_it_is_chosen_where_channels_fill_too_few_lanes():
    assert neighbours(3, 224, 3, 1) == 4
    assert neighbours(3, 7, 3, 1) == 1  # 7 windows are not cut evenly
    assert neighbours(16, 224, 3, 1) == neighbours(64, 224, 3, 1) == 1
    strided = classes_of(Geometry((1, 3, 3), (1, 1, 1), ((0, 0), (1, 1), (1, 1)), (1, 1, 1), 1, (1, 2, 2)), (1, 8, 8))
    assert classes_together(3, strided)
    assert not classes_together(32, strided)
