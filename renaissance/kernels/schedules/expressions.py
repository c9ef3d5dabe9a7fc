"""What the stages of a row nest compute, each value named once: which of them differ along a row, and which one stage can leave
in memory for the next.

Two instructions, of whatever stages, are one expression if they do the same to the same expressions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from renaissance.ir.dtype import DType
from renaissance.ir.plan import Instr, Stage
from renaissance.kernels.arguments import Place
from renaissance.kernels.schedules.sweep import Sweep


@dataclass(frozen=True)
class Part:
    """Some instructions of a body as a body of their own, and the expression that each computes."""

    body: tuple[Instr, ...]
    expressions: tuple[int, ...]


class Expressions:
    """The expressions of a nest's stages, by number.

    stages    what the sweeps are bound from: there, equal constants are equal
    row       the dimension along which an expression may be `moving`
    whole     places that are read for all elements of a row at once
    of        for each stage, the expression of each instruction
    moving    expressions whose value differs from element to element of a row
    dtypes    by expression
    fixed     for each stage, what it computes once for each row (of a point stage, all but what moves)
    along     for each stage, what it computes at each element, and what that is made of; empty where nothing is
    kept      expressions that are needed again when the loop over the elements that computes them has ended
    """

    def __init__(self, stages: Sequence[Stage], sweeps: Sequence[Sweep], places: Sequence[Place], row: int,
                 whole: Collection[int]):
        self.of: list[list[int]] = []
        self.moving: set[int] = set()
        self.dtypes: dict[int, DType] = {}
        self.fixed: list[Part] = []
        self.along: list[Part] = []
        self.kept: set[int] = set()
        self._places, self._row, self._whole = places, row, whole
        self._numbers: dict[object, int] = {}
        self._stored: dict[int, int] = {}  # by place, what it holds now
        self._carried: dict[object, int] = {}
        self._computed: set[int] = set()
        for number, (stage, sweep) in enumerate(zip(stages, sweeps)):
            self._name(number, sweep, [i.attr if i.op == "const" else None for i in stage.body])
            self._divide(number, sweep)

    def _name(self, stage: int, sweep: Sweep, constants: Sequence[object]) -> None:
        """Number the expressions of a stage."""
        found: list[int] = []
        for i, constant in zip(sweep.body, constants):
            args = tuple(found[a] for a in i.args)
            if i.op == "carry":
                found.append(self._carried[i.attr])
            elif i.op == "load" and not args and i.attr in self._stored:
                found.append(self._stored[i.attr])  # type: ignore[index]
            else:
                attr = i.attr if constant is None else constant
                found.append(self._number((i.op, args, attr, i.dtype), i.dtype))
                if self._moves(i) or any(a in self.moving for a in args):
                    self.moving.add(found[-1])
        self.of.append(found)
        if sweep.combine is not None:
            self._carried[stage, 0] = self._number((stage, "reduced"), sweep.combine.dtype)
        elif sweep.kind == "point":  # it sees the first element of a row only
            for n, (e, i) in enumerate(zip(found, sweep.body)):
                self._carried[stage, n] = self._number(("first", e), i.dtype) if e in self.moving else e
        self._stored.update({place: found[value] for place, value in sweep.stores})

    def _number(self, expression: object, dtype: DType) -> int:
        number = self._numbers.setdefault(expression, len(self._numbers))
        self.dtypes[number] = dtype
        return number

    def _moves(self, i: Instr) -> bool:
        if i.op == "load":
            return self._places[i.attr].strides[self._row] is not None  # type: ignore[index]
        return i.op == "coord" and i.attr == self._row

    def _divide(self, stage: int, sweep: Sweep) -> None:
        """Find what a stage must compute itself, once for each row and at each element."""
        found = self.of[stage]
        first = {e: n for n, e in reversed(list(enumerate(found)))}
        self.fixed.append(self._part(sweep.body, found, (n for e, n in first.items() if e not in self.moving)))
        ends = [value for _, value in sweep.stores] + ([len(found) - 1] if sweep.combine is not None else [])
        by_rows = {found[value] for place, value in sweep.stores if place in self._whole}
        by_rows |= {found[-1]} if sweep.combine is not None else set()
        checks = [n for n, i in enumerate(sweep.body) if i.op == "check" and found[n] not in self._computed]
        needed: set[int] = set()
        waiting = [] if sweep.kind == "point" else ends + checks
        if waiting:
            self.kept |= by_rows & self.moving
        while waiting:
            e = found[waiting.pop()]
            i = sweep.body[first[e]]
            if first[e] in needed:
                continue
            needed.add(first[e])
            if e in self.moving and i.op != "coord" and (e in self._computed or self.is_whole(i)):
                self.kept.add(e)
            else:
                waiting += i.args
        self._computed |= {found[n] for n in needed}
        self.along.append(self._part(sweep.body, found, needed))

    def is_whole(self, i: Instr) -> bool:
        """Whether an instruction reads all elements of a row at once."""
        return i.op == "load" and not i.args and i.attr in self._whole

    @staticmethod
    def _part(body: Sequence[Instr], found: Sequence[int], picked: Iterable[int]) -> Part:
        order = sorted(picked)
        number = {found[n]: new for new, n in enumerate(order)}
        instrs = []
        for n in order:
            args = [found[a] for a in body[n].args]
            there = all(e in number for e in args)  # else its value is kept and what it was made of is not needed
            instrs.append(replace(body[n], args=tuple(number[e] for e in args) if there else ()))
        return Part(tuple(instrs), tuple(found[n] for n in order))
