"""What a node's data may be: the bytes of an array, or the reason why there are none."""

from __future__ import annotations

from renaissance.ir import shape as sh
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Shape, unique
from renaissance.ops.value import LEAF, SCALAR
from renaissance.runtime.storage import Storage


class Region:
    """The bytes of a dense row-major array inside a storage."""

    __slots__ = ("storage", "offset", "address")

    def __init__(self, storage: Storage, offset: int = 0):
        self.storage = storage
        self.offset = offset
        self.address = storage.address + offset


class Stale:
    """The data of a leaf whose bytes have been overwritten: graphs that still reach it cannot be computed any more."""


STALE = Stale()


class Placeholder:
    """The data of a node that has a value only while the plan of a compiled function runs."""


PLACEHOLDER = Placeholder()


def leaf(n: Node, region: Region) -> Node:
    """A new leaf of the shape and dtype of `n` that holds the bytes of `region`."""
    made = unique(LEAF, n.shape, n.dtype)
    made.data = region
    return made


def placeholder(shape: Shape, dtype: DType) -> Node:
    """A new leaf whose bytes are known only when a compiled function runs."""
    made = unique(LEAF, shape, dtype)
    made.data = PLACEHOLDER
    return made


def scalar(value: int | float, dtype: DType) -> Node:
    """A run-time scalar: its value is bound when a plan runs and is no part of the plan."""
    made = unique(SCALAR, (), dtype)
    made.data = value
    return made


def scalar_placeholder(dtype: DType) -> Node:
    """A run-time scalar whose value is known only when a compiled function runs."""
    made = unique(SCALAR, (), dtype)
    made.data = PLACEHOLDER
    return made


def copied(region: Region, like: Node) -> Region:
    """Memory of its own with the same bytes."""
    made = Region(Storage(max(1, sh.size(like.shape) * like.dtype.size)))
    made.storage.view(like.dtype, like.shape)[...] = region.storage.view(like.dtype, like.shape, region.offset)
    return made
