"""Rewrite rules for pointwise nodes and casts. Each keeps every bit of every input, NaN, -0 and infinities included."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from renaissance.compile.constants import constant_bytes, constant_value, filled, is_constant
from renaissance.ir import dtype as dt
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, node
from renaissance.ir.rewrite import Rule
from renaissance.ir.shape import size
from renaissance.ops.elementwise import CAST, OPS
from renaissance.ops.movement import EXPAND

Users = Mapping[Node, int]

# Words whose result is the correctly rounded one everywhere, so that folding them here gives what a kernel would.
_EXACT = ("neg", "abs", "sign", "floor", "ceil", "trunc", "round", "sqrt", "not", "add", "sub", "mul", "div", "maximum",
          "minimum", "and", "or", "xor", "lt", "le", "eq", "ne", "where", "cast")


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is a value of `wide`."""
    if narrow is wide or narrow.kind == "b":
        return True
    if wide.kind == "b":
        return False
    if narrow.is_float:
        return wide.is_float and wide.size > narrow.size
    bits = narrow.size * 8 - (narrow.kind == "i")
    if wide.is_float:
        return bits <= {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}[wide.name]
    if narrow.kind == "i" and wide.kind == "u":
        return False
    return wide.size * 8 - (wide.kind == "i") >= bits


def _cast(n: Node, users: Users) -> Node | None:
    x = n.inputs[0]
    if x.dtype is n.dtype:
        return x
    if x.op is not CAST:
        return None
    first = x.inputs[0]
    if not holds(x.dtype, first.dtype):
        return None
    if first.dtype is n.dtype:
        return first
    # From float to integer what does not fit is undefined, so there the float must stay.
    defined = n.dtype.kind in "fb" or not x.dtype.is_float or holds(n.dtype, first.dtype)
    return node(CAST, (first,), (n.dtype,)) if defined else None


def _twice(n: Node, users: Users) -> Node | None:
    x = n.inputs[0]
    return x.inputs[0] if x.op is n.op else None


def _abs(n: Node, users: Users) -> Node | None:
    x = n.inputs[0]
    if x.op.name == "abs":
        return x
    return node(n.op, x.inputs) if x.op.name == "neg" else None


def _neutral(n: Node, users: Users) -> Node | None:
    """x * 1, x / 1, x - 0, x + -0 (of floats), x + 0 (of integers), and with true, or with false."""
    x, y = n.inputs
    name = n.op.name
    zero = -0.0 if n.dtype.is_float else 0
    right: dict[str, float] = {"mul": 1, "div": 1, "sub": 0, "add": zero}
    if n.dtype.kind == "b":
        right = {"and": True, "or": False, "xor": False}
    if name not in right:
        return None
    if is_constant(y, right[name]):
        return x
    return y if name not in ("div", "sub") and is_constant(x, right[name]) else None


def _same_arguments(n: Node, users: Users) -> Node | None:
    """max(x, x), x and x; comparisons of an integer with itself."""
    x, y = n.inputs
    if x is not y:
        return None
    if n.op.name in ("maximum", "minimum", "and", "or"):
        return x
    return None if x.dtype.is_float else filled(np.bool_(n.op.name in ("eq", "le")).tobytes(), dt.bool_, n.shape)


def _where(n: Node, users: Users) -> Node | None:
    condition, x, y = n.inputs
    if x is y:
        return x
    known = constant_value(condition)
    if known is not None:
        return x if known else y
    if condition.op.name == "not":
        return node(n.op, (condition.inputs[0], y, x))
    if x.op is n.op and x.inputs[0] is condition:
        return node(n.op, (condition, x.inputs[1], y))
    if y.op is n.op and y.inputs[0] is condition:
        return node(n.op, (condition, x, y.inputs[2]))
    return None


def _fold(n: Node, users: Users) -> Node | None:
    """The value of an exact word on constants."""
    values = [constant_value(i) for i in n.inputs]
    if any(v is None for v in values) or n.op.reference is None:
        return None
    with np.errstate(all="ignore"):
        result = np.asarray(n.op.reference([np.asarray(v) for v in values], *n.attrs, ((), n.dtype)))
    return filled(result.astype(n.dtype.numpy).tobytes(), n.dtype, n.shape)


def _before_expand(n: Node, users: Users) -> Node | None:
    """A word on values that are stretched alike, or constant, is computed before they are stretched."""
    stretched = [i for i in n.inputs if constant_bytes(i) is None]
    if not stretched or any(i.op is not EXPAND for i in stretched):
        return None
    shape = stretched[0].inputs[0].shape
    if any(i.inputs[0].shape != shape for i in stretched) or size(shape) >= size(n.shape):
        return None
    inputs = []
    for i in n.inputs:
        value = constant_bytes(i)
        inputs.append(i.inputs[0] if value is None else filled(value, i.dtype, shape))
    return node(EXPAND, (node(n.op, tuple(inputs), n.attrs),), (n.shape,))


def _check(n: Node, users: Users) -> Node | None:
    return n.inputs[0] if is_constant(n.inputs[1], True) else None


_WORDS = (*OPS, "cast")
SCALAR_RULES: tuple[Rule, ...] = (
    Rule("a cast to the same dtype, or through one that holds every value of the first", ("cast",), _cast),
    Rule("the negative of the negative, the not of the not", ("neg", "not"), _twice),
    Rule("the absolute value does not see signs", ("abs",), _abs),
    Rule("a neutral argument", ("mul", "div", "sub", "add", "and", "or", "xor"), _neutral),
    Rule("equal arguments", ("maximum", "minimum", "and", "or", "eq", "le", "lt", "ne"), _same_arguments),
    Rule("a choice that is none", ("where",), _where),
    Rule("exact words of constants are constants", _EXACT, _fold),
    Rule("words are computed before their arguments are stretched", _WORDS, _before_expand),
    Rule("a check of what is always true", ("check",), _check),
)
