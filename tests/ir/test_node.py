"""Nodes: equal ones are one object while alive; walks give inputs before users."""

import gc

from renaissance.ir import dtype as dt
from renaissance.ir import node as nodes
from renaissance.ir.node import forget_history, node, topological, unique
from renaissance.ops.elementwise import OPS
from renaissance.ops.value import LEAF


def leaf():
    return unique(LEAF, (2,), dt.float32)


def test_equal_nodes_are_one():
    x, y = leaf(), leaf()
    assert node(OPS["add"], (x, y)) is node(OPS["add"], (x, y))
    assert node(OPS["add"], (x, y)) is not node(OPS["add"], (y, x))


def test_freed_nodes_leave_the_table():
    x, y = leaf(), leaf()
    gc.collect()
    before = len(nodes._table)
    total = node(OPS["mul"], (node(OPS["add"], (x, y)), y))
    assert len(nodes._table) == before + 2
    del total
    assert len(nodes._table) == before


def test_a_node_without_history_is_not_found_again():
    x, y = leaf(), leaf()
    old = node(OPS["add"], (x, y))
    forget_history(old)
    new = node(OPS["add"], (x, y))
    assert new is not old
    del old
    assert node(OPS["add"], (x, y)) is new


def test_walks_give_inputs_before_users_each_once():
    x, y = leaf(), leaf()
    a = node(OPS["add"], (x, y))
    b = node(OPS["mul"], (a, x))
    c = node(OPS["sub"], (b, a))
    assert topological([a, c, b]) == [x, y, a, b, c]
    assert topological([c], lambda n: n is a) == [a, x, b, c]


def test_long_chains_are_walked_and_freed():
    n = x = leaf()
    for _ in range(50_000):
        n = node(OPS["add"], (n, x))
    assert len(topological([n])) == 50_001
    before = len(nodes._table)
    del n
    assert len(nodes._table) == before - 50_000
