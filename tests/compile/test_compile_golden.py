"""Plans of small models compared with the text on file: a change of plan is seen, and must be meant."""

from __future__ import annotations

import numpy as np
import pytest

from renaissance.compile.pipeline import compile_graph
from renaissance.ir.show import scaled
from tests.compile.golden import FOLDER, MODELS, attention_scores, mlp_step, normalised
from tests.compile.running import check_plan


@pytest.mark.parametrize("name", MODELS)
def test_plan_is_the_one_on_file(name):
    text = MODELS[name]()
    on_file = (FOLDER / f"{name}.txt").read_text()
    assert text == on_file, "the plan changed; if that is meant, run `python -m tests.compile.golden` and commit the difference"


def test_text_is_stable():
    assert all(make() == make() for make in MODELS.values())


SMALL = [mlp_step((6, 9, 5), 4, "fp32"), mlp_step((6, 9, 5), 4, "bf16"), attention_scores(), normalised()]


@pytest.mark.parametrize("graph", SMALL)
def test_models_keep_their_bits(graph):
    rng = np.random.default_rng(1)
    inputs = [(rng.integers(0, 9, n.shape) / 8).astype(n.dtype.numpy) for n in graph.leaves]
    check_plan(graph, inputs, (0.5, 2.0)[:len(graph.scalars)])


def test_one_update_moves_every_state_once():
    graph = mlp_step((784, 128, 64, 10), 200, "fp32")
    plan = compile_graph(graph, None)
    (update,) = plan.items[plan.commit:]
    parameters = graph.leaves[2].shape[0]
    assert plan.copies == () and 7 * 4 * parameters <= update.bytes <= 7 * 4 * parameters + 64


def test_scaled_numbers_have_three_digits():
    assert [scaled(n) for n in (0, 7, 999, 1000, 12345, 999_600, 5_300_000_000)] == \
        ["0 ", "7 ", "999 ", "1 k", "12.3 k", "1 M", "5.3 G"]
