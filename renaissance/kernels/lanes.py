"""Questions to the lanes of a vector as a whole."""

from __future__ import annotations

from renaissance.kernels.loops import Builder, Type, Value

_BYTE = 8


def any_lane(b: Builder, mask: Value) -> Value:
    """Whether a lane of an i1 vector is true, as a scalar i1."""
    lanes = mask.type.lanes
    if lanes == 1:
        return mask
    if lanes < _BYTE:
        no = b.const(mask.type, 0)
        mask = b.shuffle(mask, no, [min(i, lanes) for i in range(_BYTE)])
        lanes = _BYTE
    return b.cmp("ne", b.bitcast(mask, Type(f"i{lanes}")), 0)


def both(b: Builder, mask: Value | None, more: Value | None) -> Value | None:
    """The lanes that are true in both masks; None stands for all."""
    if mask is None or more is None:
        return more if mask is None else mask
    return b.and_(mask, more)


def halves(b: Builder, x: Value) -> tuple[Value, Value]:
    """The lower and the upper half of a vector's lanes."""
    half = x.type.lanes // 2
    return b.shuffle(x, x, range(half)), b.shuffle(x, x, range(half, 2 * half))
