"""order: state is written in place where that is safe, after every read of the old state and after every check."""

from __future__ import annotations

import numpy as np
import pytest

from renaissance.compile.order import order, peak_bytes
from renaissance.compile.pipeline import compile_graph
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, node, unique
from renaissance.ir.plan import Plan
from renaissance.ir.traffic import has_check, reads, writes
from renaissance.ops import contraction
from renaissance.ops import elementwise as ew
from renaissance.ops import movement as mv
from renaissance.ops import reduce as rd
from renaissance.ops.composed import expanded
from renaissance.ops.index import CHECK
from renaissance.ops.value import LEAF, Value
from tests.compile.random_graphs import Maker, values_for
from tests.compile.running import check_plan


def leaf(*shape: int) -> Node:
    return unique(LEAF, shape, dt.float32)


def numbers(*leaves: Node) -> list[np.ndarray]:
    return [np.arange(np.prod(n.shape), dtype=np.float32).reshape(n.shape) % 7 - i for i, n in enumerate(leaves)]


def plan_of(leaves, outputs, assigns) -> Plan:
    graph = expanded(Graph(leaves, (), tuple(o.node for o in outputs), tuple((a, v.node) for a, v in assigns)))
    return check_plan(graph, numbers(*leaves))


def check_state(plan: Plan) -> None:
    """Reads of old state and checks come before the first write; nothing is written before the commit point."""
    state = {b for b, buffer in enumerate(plan.buffers) if buffer.place == "input"}
    written: dict[int, int] = {}
    for number, item in enumerate(plan.items):
        for touch in writes(item):
            if touch.buffer in state:
                assert number >= plan.commit
                written.setdefault(touch.buffer, number)
        assert not has_check(item) or number < plan.commit
    assert not any(source in state for source, _ in plan.copies)


def test_an_update_is_in_place():
    w, g = leaf(30), leaf(30)
    plan = plan_of((w, g), (), [(w, Value(w) - Value(g) * 0.5)])
    assert len(plan.items) == 1 and plan.copies == () and plan.arena_bytes == 0 and plan.commit == 0


def test_old_state_is_read_before_it_is_overwritten():
    w, x = leaf(6, 6), leaf(4, 6)
    h = contraction.matmul(Value(x), Value(w))
    again = contraction.matmul(h, mv.permute_dims(Value(w), (1, 0)))
    plan = plan_of((w, x), (again,), [(w, Value(w) * 0.5)])
    assert plan.copies == ()
    state = next(b for b, buffer in enumerate(plan.buffers) if buffer.place == "input" and buffer.index == 0)
    last_read = max(i for i, item in enumerate(plan.items) if any(t.buffer == state for t in reads(item)))
    first_write = min(i for i, item in enumerate(plan.items) if any(t.buffer == state for t in writes(item)))
    assert last_read == first_write == plan.commit
    check_state(plan)


def test_a_swap_copies_once():
    a, b = leaf(8), leaf(8)
    plan = plan_of((a, b), (), [(a, Value(b)), (b, Value(a))])
    assert len(plan.copies) == 1


def test_a_turned_update_goes_through_the_arena():
    w = leaf(5, 5)
    plan = plan_of((w,), (), [(w, mv.permute_dims(Value(w), (1, 0)) + 1.0)])
    assert len(plan.copies) == 1 and plan.commit == len(plan.items)


def test_new_state_computed_from_a_product_of_the_old_goes_through_the_arena():
    w = leaf(5, 5)
    plan = plan_of((w,), (), [(w, contraction.matmul(Value(w), Value(w)))])
    assert len(plan.copies) == 1


def test_new_state_that_is_also_an_output_is_written_twice():
    w = leaf(5)
    new = Value(w) * 2.0
    plan = plan_of((w,), (new,), [(w, new)])
    assert len(plan.items) == 1 and plan.copies == ()


def test_pieces_of_state_are_written_in_place():
    w, a, b = leaf(12), leaf(4), leaf(8)
    new = mv.concat([Value(w)[0:4] + Value(a), Value(w)[4:12] * Value(b)], 0)
    plan = plan_of((w, a, b), (), [(w, new)])
    assert plan.copies == () and len(plan.items) == 2


def test_pieces_that_swap_point_by_point_are_in_place():
    """One item reads both elements of a point before it writes them."""
    w = leaf(8)
    new = mv.concat([Value(w)[4:8] + 1.0, Value(w)[0:4] * 2.0], 0)
    plan = plan_of((w,), (), [(w, new)])
    assert len(plan.items) == 1 and plan.copies == ()


def test_pieces_that_read_what_other_points_write_go_through_the_arena():
    w = leaf(8)
    new = mv.concat([Value(w)[2:8] + 1.0, Value(w)[0:2] * 2.0], 0)
    plan = plan_of((w,), (), [(w, new)])
    assert len(plan.copies) == 1


def test_checks_come_before_updates_that_do_not_depend_on_them():
    w, x = leaf(6), leaf(6)
    checked = node(CHECK, (x, ew.less_equal(Value(x), 100.0).node), ("RangeError: large",))
    plan = plan_of((w, x), (Value(checked) * 2.0,), [(w, Value(w) * 0.5)])
    check_state(plan)
    assert plan.copies == () and plan.commit == 1 or plan.commit == 2


def test_a_check_of_new_state_keeps_it_from_being_written_in_place():
    w = leaf(6)
    new = ew.exp(Value(w))
    flag = rd.sum(new, 0)
    checked = node(CHECK, (flag.node, ew.less(flag, 1e30).node), ("NonFiniteError: sum",))
    plan = plan_of((w,), (Value(checked),), [(w, new)])
    check_state(plan)
    assert len(plan.copies) == 1


@pytest.mark.parametrize("seed", range(200, 260))
def test_random_graphs_write_state_last(seed):
    graph = Maker(seed).graph(40)
    check_state(check_plan(graph, values_for(graph, seed), (1.5,)))


def test_the_order_is_never_worse_than_the_given_one():
    better = 0
    for seed in range(40):
        graph = Maker(seed).graph(80)
        fused = compile_graph(graph, None, stop="fuse")
        ordered = order(fused)
        given, chosen = peak_bytes(fused, list(range(len(fused.items)))), peak_bytes(ordered, list(range(len(ordered.items))))
        assert chosen <= given or len(ordered.copies) < len(fused.copies)
        better += chosen < given
    assert better > 5


def test_independent_branches_run_one_after_the_other():
    """Two branches with large values in the middle need the memory of one."""
    leaves = tuple(leaf(3, 4) for _ in range(4))
    results = []
    for x in leaves:
        wide = ew.exp(mv.broadcast_to(mv.reshape(Value(x), (3, 4, 1)), (3, 4, 100)) * 0.25)
        results.append(rd.sum(rd.sum(wide * wide, 0), 0))
    plan = compile_graph(expanded(Graph(leaves, (), tuple(r.node for r in results))), None, verify=True)
    assert plan.arena_bytes <= 3 * 4 * 100 * 4 + 4 * 100 * 4 + 128
