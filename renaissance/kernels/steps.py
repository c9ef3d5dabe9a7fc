"""How the values of a body change from lane to lane, as far as that is known without running it."""

from __future__ import annotations

from collections.abc import Sequence

from renaissance.ir.dtype import int64
from renaissance.ir.plan import Instr
from renaissance.kernels.arguments import Place


def lane_steps(body: Sequence[Instr], places: Sequence[Place], vector: int) -> list[int | None]:
    """For each instruction, what is added from one lane to the next: 0 for what is the same in all, None for what is not known.

    body     bound to `places`; `vector` is the dimension along the lanes
    returns  one entry for each instruction; only int64 values can have one other than 0 and None
    """
    steps: list[int | None] = []
    for i in body:
        steps.append(_step(i, [steps[a] for a in i.args], places, vector))
    return steps


def _step(i: Instr, args: list[int | None], places: Sequence[Place], vector: int) -> int | None:
    if i.op == "coord":
        return int(i.attr == vector)
    if i.op == "acc" or (i.op == "load" and places[i.attr].row != "same"):  # type: ignore[index]
        return None
    if all(a == 0 for a in args):
        return 0
    if i.dtype is int64 and None not in args:
        if i.op == "add":
            return args[0] + args[1]  # type: ignore[operator]
        if i.op == "sub":
            return args[0] - args[1]  # type: ignore[operator]
        if i.op == "where" and args[0] == 0 and args[1] == args[2]:
            return args[1]
    return None
