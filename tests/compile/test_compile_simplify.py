"""simplify: each rule before and after (equal nodes are one object), what must stay, and equal bits on odd values."""

from __future__ import annotations

import numpy as np
import pytest

from renaissance.compile.pipeline import compile_graph
from renaissance.compile.scalar_rules import holds
from renaissance.compile.simplify import RULES, simplify
from renaissance.errors import PlanError
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, node, unique
from renaissance.ir.rewrite import Rule, rewrite
from renaissance.ir.verify import verify_graph
from renaissance.ops import elementwise as ew
from renaissance.ops import movement as mv
from renaissance.ops import reduce as rd
from renaissance.ops.contraction import DOT
from renaissance.ops.index import CHECK, TAKE
from renaissance.ops.value import LEAF, STOP_GRADIENT, Value, const, variable
from tests.compile.oracle import evaluate
from tests.compile.random_graphs import Maker, values_for
from tests.compile.running import same_bits

X = unique(LEAF, (2, 3), dt.float32)
Y = unique(LEAF, (2, 3), dt.float32)
N = unique(LEAF, (2, 3), dt.int64)
C = unique(LEAF, (2, 3), dt.bool_)
H = unique(LEAF, (2, 3), dt.bfloat16)
R = unique(LEAF, (2, 1), dt.float32)
A = unique(LEAF, (1, 2, 5), dt.float32)
B = unique(LEAF, (1, 5, 3), dt.float32)
I = unique(LEAF, (4,), dt.int64)
U = unique(LEAF, (2, 3), dt.uint8)
T = unique(LEAF, (2, 3, 4), dt.float32)
LEAVES = (X, Y, N, C, H, R, A, B, I, U, T)


def op(name: str, *inputs: Node) -> Node:
    return node(ew.OPS[name], inputs)


def cast(x: Node, dtype) -> Node:
    return node(ew.CAST, (x,), (dtype,))


def like(value, x: Node) -> Node:
    return mv.broadcast_to(Value(const(value, x.dtype)), x.shape).node


def reshape(x: Node, *shape: int) -> Node:
    return node(mv.RESHAPE, (x,), (shape,))


def permute(x: Node, *axes: int) -> Node:
    return node(mv.PERMUTE, (x,), (axes,))


def expand(x: Node, *shape: int) -> Node:
    return node(mv.EXPAND, (x,), (shape,))


def cut(x: Node, *keys: slice) -> Node:
    return Value(x)[keys].node


def concat(axis: int, *inputs: Node) -> Node:
    return node(mv.CONCAT, inputs, (axis,))


def dot(a: Node, b: Node) -> Node:
    return node(DOT, (a, b), (dt.float32,))


def simplified(n: Node) -> Node:
    graph = simplify(Graph(LEAVES, (), (n,)), None)
    verify_graph(graph)
    return graph.outputs[0]


CASES = {
    "stop_gradient": (node(STOP_GRADIENT, (X,)), X),
    "variable": (op("neg", variable(X)), op("neg", X)),
    "reshape of reshape": (reshape(reshape(X, 6), 3, 2), reshape(X, 3, 2)),
    "reshape back": (reshape(reshape(X, 6), 2, 3), X),
    "permute of permute": (permute(permute(T, 2, 0, 1), 2, 0, 1), permute(T, 1, 2, 0)),
    "permute back": (permute(permute(X, 1, 0), 1, 0), X),
    "permute of size 1": (permute(A, 1, 0, 2), reshape(A, 2, 1, 5)),
    "expand to the same": (expand(X, 2, 3), X),
    "expand of expand": (expand(expand(reshape(X, 1, 1, 6), 1, 4, 6), 5, 4, 6), expand(reshape(X, 1, 1, 6), 5, 4, 6)),
    "slice of everything": (node(mv.SLICE, (X,), ((0, 0), (2, 3), (1, 1))), X),
    "slice of slice": (cut(cut(A, slice(None), slice(None), slice(1, 5)), slice(None), slice(None), slice(1, 3)),
                       cut(A, slice(None), slice(None), slice(2, 4))),
    "flip twice": (cut(cut(X, slice(None), slice(None, None, -1)), slice(None), slice(None, None, -1)), X),
    "slice of a concat": (cut(concat(1, X, Y), slice(None), slice(4, 6)), cut(Y, slice(None), slice(1, 3))),
    "pad by nothing": (node(mv.PAD, (X,), (((0, 0), (0, 0)), b"\0" * 4)), X),
    "pad of pad": (mv.pad(mv.pad(Value(X), ((1, 0), (0, 0))), ((1, 2), (0, 1))).node, mv.pad(Value(X), ((2, 2), (0, 1))).node),
    "concat of one": (concat(0, X), X),
    "concat with empty": (concat(0, X, cut(Y, slice(0, 0))), X),
    "cast to the same": (cast(X, dt.float32), X),
    "cast there and back": (cast(cast(H, dt.float32), dt.bfloat16), H),
    "cast of bool": (cast(cast(C, dt.float32), dt.bool_), C),
    "cast through wider": (cast(cast(U, dt.float32), dt.float64), cast(U, dt.float64)),
    "negate twice": (op("neg", op("neg", X)), X),
    "not twice": (op("not", op("not", C)), C),
    "abs of neg": (op("abs", op("neg", X)), op("abs", X)),
    "times 1": (op("mul", X, like(1, X)), X),
    "1 times": (op("mul", like(1, X), X), X),
    "divided by 1": (op("div", X, like(1, X)), X),
    "minus 0": (op("sub", X, like(0.0, X)), X),
    "plus -0": (op("add", X, like(-0.0, X)), X),
    "integer plus 0": (op("add", like(0, N), N), N),
    "and true": (op("and", C, like(True, C)), C),
    "or false": (op("or", like(False, C), C), C),
    "maximum of itself": (op("maximum", X, X), X),
    "integer equals itself": (op("eq", N, N), like(True, C)),
    "where equal": (op("where", C, X, X), X),
    "where true": (op("where", like(True, C), X, Y), X),
    "where false": (op("where", like(False, C), X, Y), Y),
    "where not": (op("where", op("not", C), X, Y), op("where", C, Y, X)),
    "where of the same where": (op("where", C, op("where", C, X, op("neg", X)), Y), op("where", C, X, Y)),
    "fold": (op("add", like(1.5, X), like(2.0, X)), like(3.5, X)),
    "fold a cast": (cast(like(3, N), dt.float32), like(3.0, X)),
    "before expand": (op("mul", expand(R, 2, 3), like(2.0, X)), expand(op("mul", R, like(2.0, R)), 2, 3)),
    "check of true": (node(CHECK, (X, like(True, C)), ("RangeError: never",)), X),
    "transposed product": (permute(reshape(dot(A, B), 2, 3), 1, 0),
                           reshape(dot(permute(B, 0, 2, 1), permute(A, 0, 2, 1)), 3, 2)),
    "transposed product behind casts": (
        cast(permute(reshape(cast(dot(A, B), dt.bfloat16), 2, 3), 1, 0), dt.float32),
        cast(reshape(cast(dot(permute(B, 0, 2, 1), permute(A, 0, 2, 1)), dt.bfloat16), 3, 2), dt.float32)),
    "empty product": (dot(cut(A, slice(None), slice(None), slice(0, 0)), cut(B, slice(None), slice(0, 0))),
                      like(0.0, dot(A, B))),
    "sum of one": (node(rd.SUM, (R,), ((1,),)), reshape(R, 2)),
    "argmax of one": (node(rd.ARGMAX, (R,), (1,)), like(0, unique(LEAF, (2,), dt.int64))),
    "gather first": (node(TAKE, (reshape(cast(N, dt.float32), 6), I)), cast(node(TAKE, (reshape(N, 6), I)), dt.float32)),
}


@pytest.mark.parametrize("name", CASES)
def test_rule(name):
    before, after = CASES[name]
    assert simplified(before) is simplified(after)
    assert simplified(after) is after


STAYS = {
    "plus 0 (of -0)": op("add", X, like(0.0, X)),
    "times 0 (of NaN)": op("mul", X, like(0.0, X)),
    "minus itself (of NaN)": op("sub", X, X),
    "float equals itself (of NaN)": op("eq", X, X),
    "cast to narrow and back": cast(cast(X, dt.bfloat16), dt.float32),
    "int64 through float64": cast(cast(N, dt.float64), dt.int64),
    "float to int through wider": cast(cast(X, dt.float64), dt.int32),
    "0 minus": op("sub", like(0.0, X), X),
    "exp of a constant": op("exp", like(1.0, X)),
    "slice across a concat": cut(concat(1, X, Y), slice(None), slice(2, 4)),
    "pads with different values": mv.pad(mv.pad(Value(X), ((1, 0), (0, 0)), 1.0), ((1, 0), (0, 0)), 2.0).node,
    "gather of more than there is": node(TAKE, (cast(cut(I, slice(0, 2)), dt.float32), I)),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    assert simplified(STAYS[name]) is STAYS[name]


def test_a_product_that_others_need_is_not_computed_twice():
    product = dot(A, B)
    graph = simplify(Graph(LEAVES, (), (product, permute(reshape(product, 2, 3), 1, 0))), None)
    assert sum(n.op is DOT for n in graph.nodes()) == 1


def test_leaves_are_not_looked_behind():
    """A computed leaf is a value: what computed it may be gone."""
    computed = op("neg", X)
    graph = compile_graph(Graph((computed,), (), (op("neg", computed),)), None, stop="simplify", verify=True)
    assert [n.op.name for n in graph.nodes()] == ["leaf", "neg"] and graph.leaves[0] is not X


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_keep_their_bits(seed):
    graph = Maker(seed).graph(40)
    inputs = values_for(graph, seed)
    simple = simplify(graph, None)
    verify_graph(simple)
    before = evaluate(graph, inputs, (1.5,), check=False)
    after = evaluate(simple, inputs, (1.5,), check=False)
    for a, b in zip([*before[0], *before[1]], [*after[0], *after[1]]):
        assert same_bits(a, b)


def test_holds_is_what_numpy_says():
    for narrow in dt.ALL:
        samples = _samples(narrow)
        for wide in dt.ALL:
            with np.errstate(all="ignore"):
                kept = all(_same(s, s.astype(wide.numpy).astype(narrow.numpy)) for s in samples)
            if holds(wide, narrow):
                assert kept, (wide, narrow)
    assert holds(dt.float32, dt.uint16) and not holds(dt.float32, dt.int32) and not holds(dt.float16, dt.bfloat16)
    assert holds(dt.bfloat16, dt.uint8) and not holds(dt.int64, dt.uint64) and not holds(dt.uint64, dt.int8)


def _samples(d):
    if d.kind == "b":
        return [np.bool_(False), np.bool_(True)]
    if d.is_float:
        values = (0.0, -0.0, 1.0, 1.0078125, 3.3, 1e-7, 255.0, np.inf, np.nan)
        return [np.asarray(v, np.float64).astype(d.numpy)[()] for v in values]
    info = np.iinfo(d.numpy)
    return [np.asarray(v).astype(d.numpy)[()] for v in (0, 1, info.min, info.max, info.max - 1, info.max // 3)]


def _same(a, b) -> bool:
    return a.tobytes() == b.tobytes() or bool(np.isnan(np.float64(a)) and np.isnan(np.float64(b)))


def test_rules_that_go_round_are_named():
    swap = Rule("swap", ("add",), lambda n, users: node(n.op, (n.inputs[1], n.inputs[0])))
    with pytest.raises(PlanError, match="swap"):
        rewrite(Graph(LEAVES, (), (op("add", X, Y),)), (swap,))


def test_numbers_follow_what_replaces_a_node():
    inner = op("neg", op("neg", X))
    outer = op("mul", op("exp", inner), like(1.0, X))
    traced = Graph(LEAVES, (), (outer,))
    numbers = {n: i for i, n in enumerate(traced.nodes())}
    graph = simplify(Graph(LEAVES, (), (outer,), (), numbers), None)
    (result,) = graph.outputs
    assert result.op.name == "exp" and graph.numbers[result] == numbers[op("exp", inner)]


def test_every_rule_says_what_it_does():
    assert len({r.name for r in RULES}) == len(RULES) and all(r.name and r.ops for r in RULES)
