"""Rewrite rules for contractions, reductions and gathers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from renaissance.compile.constants import constant_bytes, filled
from renaissance.compile.movement_rules import reshaped
from renaissance.ir.node import Node, node
from renaissance.ir.rewrite import Rule
from renaissance.ir.shape import size
from renaissance.ops.contraction import DOT
from renaissance.ops.movement import PERMUTE, RESHAPE

Users = Mapping[Node, int]

_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_any", "reduce_all", "argmax", "argmin")
_CHEAP_UNARY = ("cast", "neg", "abs", "add", "sub", "mul", "div", "le", "lt", "eq", "ne", "where")


def _transposed(x: Node) -> Node:
    axes = (0, 2, 1) if len(x.shape) == 3 else (1, 0)
    return node(PERMUTE, (x,), (axes,))


def _transposed_product(n: Node, users: Users) -> Node | None:
    """(A B)^T = B^T A^T, chain by chain: each output's multiply-adds have the same factors in the same order.

    Between product and transposition may lie casts and words with constants. Only where nothing else needs the product.
    """
    if n.attr("axes") not in ((1, 0), (0, 2, 1)):
        return None
    chain: list[Node] = []
    x = n.inputs[0]
    while x.op is not DOT:
        batch = n.shape[0] if len(n.shape) == 3 else 1
        fits = x.shape[-2:] == n.inputs[0].shape[-2:] and size(x.shape) == size(n.shape[-2:]) * batch
        changing = [i for i in x.inputs if constant_bytes(i) is None]
        if users.get(x) != 1 or not fits or len(changing) != 1 or not (x.op is RESHAPE or x.op.name in _CHEAP_UNARY):
            return None
        chain.append(x)
        x = changing[0]
    if users.get(x) != 1 or x.shape[-2:] != n.inputs[0].shape[-2:]:
        return None
    a, b = x.inputs
    result = node(DOT, (_transposed(b), _transposed(a)), x.attrs)
    for step in reversed(chain):
        shape = (*step.shape[:-2], step.shape[-1], step.shape[-2])
        if step.op is RESHAPE:
            result = reshaped(result, shape)
        else:
            result = node(step.op, tuple(_constant(i, shape) or result for i in step.inputs), step.attrs)
    return result


def _constant(n: Node, shape: tuple[int, ...]) -> Node | None:
    value = constant_bytes(n)
    return None if value is None else filled(value, n.dtype, shape)


def _empty_product(n: Node, users: Users) -> Node | None:
    """A sum of no products is 0."""
    return None if n.inputs[0].shape[2] else filled(np.zeros((), n.dtype.numpy).tobytes(), n.dtype, n.shape)


def _reduce_one(n: Node, users: Users) -> Node | None:
    """One element is its own sum, maximum, ...; the place of the largest of one is 0."""
    x = n.inputs[0]
    if size(x.shape) != size(n.shape):
        return None
    if n.op.name.startswith("arg"):
        return filled(np.int64(0).tobytes(), n.dtype, n.shape)
    return reshaped(x, n.shape) if x.dtype is n.dtype else None


def _gather_first(n: Node, users: Users) -> Node | None:
    """Words are computed on what a gather picks, not on all it could pick from, if those are more."""
    x, index = n.inputs
    inner = x
    while inner.op is RESHAPE:
        inner = inner.inputs[0]
    if inner.op.name not in _CHEAP_UNARY or size(index.shape) > size(x.shape):
        return None
    changing = [i for i in inner.inputs if constant_bytes(i) is None]
    if len(changing) != 1:
        return None
    picked = node(n.op, (reshaped(changing[0], x.shape), index))
    return node(inner.op, tuple(_constant(i, index.shape) or picked for i in inner.inputs), inner.attrs)


PRODUCT_RULES: tuple[Rule, ...] = (
    Rule("the transpose of a product is the product of the transposes", ("permute",), _transposed_product),
    Rule("a product over nothing is zero", ("dot",), _empty_product),
    Rule("a reduction of one element", _REDUCTIONS, _reduce_one),
    Rule("gather, then compute", ("take",), _gather_first),
)
