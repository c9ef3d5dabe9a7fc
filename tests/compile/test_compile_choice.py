"""Which engine does a convolution: names, the model's choice, overrides, and that those change nothing but the choice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from renaissance.compile.choice import (
    TILES,
    Convolution,
    by_model,
    convolution_named,
    convolution_of,
    engine_of,
    engines_on,
    most_of,
)
from renaissance.compile.engines import undecided
from renaissance.compile.pipeline import compile_graph
from renaissance.compile.winograd import winograd_tile
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import node, unique
from renaissance.ir.target import Target
from renaissance.ops import elementwise as ew
from renaissance.ops.composed import expanded
from renaissance.ops.convolution import CONV, CONV_WEIGHT, Geometry, convolved, input_gradient, weight_gradient
from renaissance.ops.value import LEAF, Value
from tests.compile.plan_interpreter import run_plan
from tests.compile.running import same_bits

TARGET = Target("avx512", 64, 32, True, True, "", "")
OFF = replace(TARGET, winograd=False)
SAME = ((1, 1), (1, 1))
LARGE = Convolution("conv", "float32", (16, 56, 56, 128), 128, SAME)  # by tiles of 4
SMALL = Convolution("conv", "float32", (2, 5, 6, 3), 4, SAME)  # directly
CASES = [LARGE, SMALL, Convolution("conv_weight", "bfloat16", (1, 7, 9, 20), 30, ((0, 2), (1, 0))),
         Convolution("conv_weight", "float32", (128, 2, 2, 512), 512, SAME)]
cases = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


def leaf(*shape, dtype=dt.float32):
    return Value(unique(LEAF, shape, dtype))


def overriding(target, *pairs):
    return replace(target, overrides=tuple(sorted((c.name, engine) for c, engine in pairs)))


def alone(case):
    other = case.y if case.op == "conv_weight" else case.w
    return case.of(*(unique(LEAF, shape, dt.dtype(case.dtype)) for shape in (case.x, other)))


def graph_of(case):
    n = alone(case)
    return Graph(n.inputs, (), (n,))


def names(case, target):
    return [type(item.spec).__name__ for item in compile_graph(graph_of(case), target, verify=True).items]


# ---- names -----------------------------------------------------------------------------------------------------------------


@cases
def test_a_name_says_all(case):
    assert convolution_named(case.name) == case and convolution_of(alone(case)) == case
    n = alone(case)
    assert n.shape == (case.w if case.op == "conv_weight" else case.y)


def test_a_name_for_people():
    assert LARGE.name == "conv float32 16x56x56x128 to 128 padding 1 1 1 1"


@pytest.mark.parametrize("name", [
    "", "conv", "conv float64 1x5x5x3 to 4 padding 1 1 1 1", "pool float32 1x5x5x3 to 4 padding 1 1 1 1",
    "conv float32 1x5x5 to 4 padding 1 1 1 1", "conv float32 0x5x5x3 to 4 padding 1 1 1 1",
    "conv float32 1x5x5x3 to 0 padding 1 1 1 1", "conv float32 1x2x5x3 to 4 padding 0 0 1 1",
    "conv float32 01x5x5x3 to 4 padding 1 1 1 1", "conv float32 1x5x5x3 to 4 padding -1 1 1 1",
    "conv float32 1x5x5x3 to 4 padding 1 1 1 1 "])
def test_other_names_are_none(name):
    assert convolution_named(name) is None


@pytest.mark.parametrize("geometry", [
    Geometry((1, 3, 3), (1, 2, 2), ((0, 0), *SAME), (1, 1, 1), 1), Geometry((1, 5, 5), (1, 1, 1), ((0, 0), *SAME), (1, 1, 1), 1),
    Geometry((1, 3, 3), (1, 1, 1), ((0, 0), *SAME), (1, 1, 1), 3)])
def test_what_one_engine_does_has_no_choice(geometry):
    w = (6, 6 // geometry.groups, *geometry.kernel)
    assert convolution_of(node(CONV, (leaf(2, 1, 8, 8, 6).node, leaf(*w).node), (geometry, dt.float32))) is None


def test_nor_has_float64():
    x, w = leaf(2, 1, 8, 8, 3, dtype=dt.float64), leaf(4, 3, 1, 3, 3, dtype=dt.float64)
    assert convolution_of(node(CONV, (x.node, w.node), (SMALL.geometry, dt.float64))) is None


# ---- choice ----------------------------------------------------------------------------------------------------------------


@cases
def test_the_model_chooses_the_engine_of_least_cost(case):
    tile = winograd_tile(case.x, case.w, case.geometry, TARGET, dt.dtype(case.dtype), of_weight=case.op == "conv_weight")
    assert TILES[by_model(case, TARGET)] == tile and by_model(case, OFF) == "direct"
    assert engine_of(case, TARGET) == by_model(case, TARGET)


def test_engines():
    assert engines_on(TARGET) == ("direct", "winograd2", "winograd4") and engines_on(OFF) == ("direct",)
    assert most_of("direct") < most_of("winograd2") == most_of("winograd4") < 1


@cases
@pytest.mark.parametrize("engine", TILES)
def test_an_override_is_the_choice_for_its_convolution_alone(case, engine):
    target = overriding(TARGET, (case, engine))
    assert engine_of(case, target) == engine
    others = [case._replace(made=case.made + 1), case._replace(dtype="bfloat16" if case.dtype == "float32" else "float32"),
              case._replace(op="conv" if case.op == "conv_weight" else "conv_weight"), case._replace(image=(3, *case.image[1:]))]
    assert all(engine_of(other, target) == by_model(other, TARGET) for other in others)


def test_an_override_changes_the_kernels():
    assert names(SMALL, TARGET) == names(SMALL, overriding(TARGET, (SMALL, "direct")))
    assert not any("Winograd" in name for name in names(SMALL, TARGET))
    for engine in ("winograd2", "winograd4"):
        plan = compile_graph(graph_of(SMALL), overriding(TARGET, (SMALL, engine)), verify=True)
        assert [item.name.split("_")[0] for item in plan.items] == [engine, engine]
    gradient = SMALL._replace(op="conv_weight")
    assert names(gradient, overriding(TARGET, (gradient, "winograd4"))) == ["WinogradSums", "WinogradWeightGradient"]
    assert not any("Winograd" in name for name in names(LARGE, overriding(TARGET, (LARGE, "direct"))))


def test_an_override_gives_the_bits_of_its_engine():
    case = Convolution("conv", "float32", (1, 24, 24, 32), 32, SAME)
    assert by_model(case, TARGET) == "winograd4"
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in (case.x, case.w)]

    def bits(target):
        return run_plan(compile_graph(graph_of(case), target), [a.copy() for a in arrays])[0]

    direct, tiles = bits(OFF), bits(TARGET)
    assert same_bits(bits(overriding(TARGET, (case, "direct"))), direct)
    assert same_bits(bits(overriding(TARGET, (case, "winograd4"))), tiles)
    assert not same_bits(direct, tiles)


def test_the_choice_does_not_look_at_what_is_fused():
    x, w, bias = leaf(*SMALL.x), leaf(*SMALL.w), leaf(4)
    y = ew.maximum(convolved(ew.maximum(x, 0.0), w, SMALL.geometry, dt.float32) + bias, 0.0)
    graph = expanded(Graph((x.node, w.node, bias.node), (), (y.node,)))
    plan = compile_graph(graph, overriding(TARGET, (SMALL, "winograd2")), verify=True)
    assert sorted(type(item.spec).__name__ for item in plan.items) == ["Winograd", "WinogradWeights"]


def test_what_is_chosen_is_no_part_of_the_machine():
    assert overriding(TARGET, (SMALL, "winograd4")) != TARGET
    assert overriding(OFF, (SMALL, "direct")).machine == TARGET.machine == TARGET
    assert len({TARGET, overriding(TARGET, (SMALL, "winograd4"))}) == 2


# ---- what is undecided -----------------------------------------------------------------------------------------------------


def test_convolutions_are_counted_by_what_decides():
    x, w, v, ct = leaf(2, 1, 8, 8, 6), leaf(6, 6, 1, 3, 3), leaf(6, 6, 1, 3, 3), leaf(2, 1, 8, 8, 6)
    geometry = Geometry((1, 3, 3), (1, 1, 1), ((0, 0), *SAME), (1, 1, 1), 1)
    y = convolved(ew.maximum(convolved(x, w, geometry, dt.float32), 0.0), v, geometry, dt.float32)
    back = input_gradient(ct, v, geometry, x.shape, dt.float32)
    dv = weight_gradient(x, ct, geometry, dt.float32)
    graph = Graph(tuple(leaf.node for leaf in (x, w, v, ct)), (), (y.node, back.node, dv.node))
    case = Convolution("conv", "float32", (2, 8, 8, 6), 6, SAME)
    assert undecided(compile_graph(expanded(graph), TARGET, stop="layout")) == {case: 3, case._replace(op="conv_weight"): 1}


def test_classes_of_a_spread_image_are_counted_too():
    image, w = leaf(1, 1, 8, 8, 20), leaf(5, 20, 1, 5, 5)
    geometry = Geometry((1, 5, 5), (1, 2, 2), ((0, 0), (2, 2), (2, 2)), (1, 1, 1), 1)
    ct = leaf(1, 1, 4, 4, 5)
    back = input_gradient(ct, w, geometry, image.shape, dt.float32)
    found = undecided(Graph((ct.node, w.node), (), (back.node,)))  # one class in four has nine taps
    assert [(c.op, c.image, c.made, n) for c, n in found.items()] == [("conv", (1, 4, 4, 5), 20, 1)]
    (case,) = found
    plan = compile_graph(expanded(Graph((ct.node, w.node), (), (back.node,))), overriding(TARGET, (case, "winograd4")), verify=True)
    assert [type(item.spec).__name__ for item in plan.items].count("Winograd") == 1


def test_other_convolutions_are_not_counted():
    x, y = leaf(2, 1, 8, 8, 4), leaf(2, 1, 8, 8, 4)
    point = Geometry((1, 1, 1), (1, 1, 1), ((0, 0),) * 3, (1, 1, 1), 1)
    n = node(CONV_WEIGHT, (x.node, y.node), (point, dt.float32))
    assert undecided(Graph(n.inputs, (), (n,))) == {}
