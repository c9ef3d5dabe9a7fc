"""Constants inside a graph: recognising them through views, and making them."""

from __future__ import annotations

from typing import Any

import numpy as np

from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Shape, node
from renaissance.ops.movement import EXPAND, RESHAPE
from renaissance.ops.value import CONST


def constant_bytes(n: Node) -> bytes | None:
    """The bytes of the one number all elements of `n` are, if views of a constant show that they are."""
    while n.op.name in ("reshape", "expand", "permute", "slice"):
        n = n.inputs[0]
    return n.attr("value") if n.op is CONST else None


def constant_value(n: Node) -> Any:
    """The same as a NumPy scalar; None where `n` is no constant."""
    found = constant_bytes(n)
    return None if found is None else np.frombuffer(found, n.dtype.numpy)[0]


def is_constant(n: Node, number: float) -> bool:
    """Whether all elements of `n` are `number`, the sign of a zero included."""
    return constant_bytes(n) == np.asarray(number).astype(n.dtype.numpy).tobytes()


def filled(value: bytes, dtype: DType, shape: Shape) -> Node:
    """A node of `shape` whose elements all are the number with these bytes."""
    n = node(CONST, (), (value, dtype))
    if not shape:
        return n
    ones = (1,) * len(shape)
    n = node(RESHAPE, (n,), (ones,))
    return n if shape == ones else node(EXPAND, (n,), (shape,))
