"""Rewrite rules for movements: compositions become one movement, movements that move nothing go."""

from __future__ import annotations

from collections.abc import Mapping

from renaissance.compile.constants import filled
from renaissance.ir.node import Node, Shape, node
from renaissance.ir.rewrite import Rule
from renaissance.ops.movement import EXPAND, PAD, PERMUTE, RESHAPE, SLICE

Users = Mapping[Node, int]


def reshaped(x: Node, shape: Shape) -> Node:
    """`x` with another shape; `x` itself where it has that shape."""
    return x if x.shape == shape else node(RESHAPE, (x,), (shape,))


def _reshape(n: Node, users: Users) -> Node | None:
    x = n.inputs[0]
    if x.shape == n.shape:
        return x
    return reshaped(x.inputs[0], n.shape) if x.op is RESHAPE else None


def _permute(n: Node, users: Users) -> Node | None:
    """Axes of size 1 may go anywhere: what leaves the others in order is a reshape."""
    x, axes = n.inputs[0], n.attr("axes")
    if x.op is PERMUTE:
        inner = x.attr("axes")
        return node(PERMUTE, (x.inputs[0],), (tuple(inner[a] for a in axes),))
    long = [a for a in axes if x.shape[a] != 1]
    return reshaped(x, n.shape) if long == sorted(long) else None


def _expand(n: Node, users: Users) -> Node | None:
    x = n.inputs[0]
    if x.shape == n.shape:
        return x
    return node(EXPAND, (x.inputs[0],), (n.shape,)) if x.op is EXPAND else None


def _slice(n: Node, users: Users) -> Node | None:
    x = n.inputs[0]
    starts, steps = n.attr("starts"), n.attr("steps")
    if x.shape == n.shape and all((a, s) == (0, 1) or size == 1 for a, s, size in zip(starts, steps, x.shape)):
        return x
    if x.op is not SLICE or 0 in n.shape:
        return None
    inner_starts, inner_steps = x.attr("starts"), x.attr("steps")
    first = tuple(a + b * t for a, b, t in zip(inner_starts, starts, inner_steps))
    step = tuple(s * t for s, t in zip(steps, inner_steps))
    last = tuple(a + (size - 1) * s for a, size, s in zip(first, n.shape, step))
    stops = tuple(z + (1 if s > 0 else -1) for z, s in zip(last, step))
    return node(SLICE, (x.inputs[0],), (first, stops, step))


def _slice_of_concat(n: Node, users: Users) -> Node | None:
    """A slice that lies inside one input of a concatenation is a slice of that input."""
    x = n.inputs[0]
    if x.op.name != "concat" or 0 in n.shape:
        return None
    axis = x.attr("axis")
    starts, stops, steps = n.attr("starts"), n.attr("stops"), n.attr("steps")
    if steps[axis] < 0:
        return None
    at = 0
    for part in x.inputs:
        end = at + part.shape[axis]
        if at <= starts[axis] and stops[axis] <= end:
            moved = tuple(a - at if d == axis else a for d, a in enumerate(starts))
            until = tuple(b - at if d == axis else b for d, b in enumerate(stops))
            return node(SLICE, (part,), (moved, until, steps))
        at = end
    return None


def _pad(n: Node, users: Users) -> Node | None:
    x = n.inputs[0]
    if x.shape == n.shape:
        return x
    if 0 in x.shape:
        return filled(n.attr("value"), n.dtype, n.shape)
    if x.op is not PAD or x.attr("value") != n.attr("value"):
        return None
    widths = tuple((a + c, b + d) for (a, b), (c, d) in zip(n.attr("widths"), x.attr("widths")))
    return node(PAD, (x.inputs[0],), (widths, n.attr("value")))


def _concat(n: Node, users: Users) -> Node | None:
    parts = tuple(x for x in n.inputs if x.shape[n.attr("axis")])
    if len(parts) == 1:
        return parts[0]
    return node(n.op, parts, n.attrs) if 0 < len(parts) < len(n.inputs) else None


MOVEMENT_RULES: tuple[Rule, ...] = (
    Rule("a reshape of a reshape is one; to the same shape none", ("reshape",), _reshape),
    Rule("a permutation of a permutation is one; of axes of size 1 a reshape", ("permute",), _permute),
    Rule("an expansion of an expansion is one; to the same shape none", ("expand",), _expand),
    Rule("a slice of a slice is one; of everything none", ("slice",), _slice),
    Rule("a slice inside one part of a concatenation is a slice of the part", ("slice",), _slice_of_concat),
    Rule("a pad of a pad with the same value is one; by nothing none; of nothing a constant", ("pad",), _pad),
    Rule("empty parts add nothing; a concatenation of one part is the part", ("concat",), _concat),
)
