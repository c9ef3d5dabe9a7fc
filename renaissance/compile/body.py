"""Bodies: the scalar code of nodes at a point of an index space, written down as instructions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

import numpy as np

from renaissance.errors import PlanError
from renaissance.ir import dtype as dt
from renaissance.ir.dtype import DType
from renaissance.ir.indexmap import Affine, Extents, Guard, IndexMap, NeedsSplit, NotAffine, dense, is_view, through
from renaissance.ir.node import Node
from renaissance.ir.plan import Access, Instr, Operand, Store
from renaissance.ops.scalar import WORDS


class Place(NamedTuple):
    """Where a point's element lies: a buffer, and the element's position in it."""

    buffer: int
    position: Affine


class Operands:
    """The operand table of an item under construction: one row per buffer and direction."""

    def __init__(self, dtypes: Callable[[int], DType]):
        self._dtypes = dtypes
        self._numbers: dict[tuple[int, str], int] = {}
        self.rows: list[Operand] = []

    def number(self, buffer: int, mode: str) -> int:
        """The operand number of a buffer read ('in') or written ('out')."""
        found = self._numbers.get((buffer, mode))
        if found is None:
            found = self._numbers[buffer, mode] = len(self.rows)
            self.rows.append(Operand(buffer, self._dtypes(buffer), mode))
        return found


class Scope(NamedTuple):
    """What a body may refer to.

    locate    the place of a stored node's element, or None for a node to be computed here
    scalars   numbers of the run-time scalars
    messages  numbers of the texts of checks
    """

    locate: Callable[[Node, Affine, Extents], Place | None]
    scalars: dict[Node, int]
    messages: dict[str, int]


_Key = tuple[Node, Affine, tuple[Guard, ...]]


class Body:
    """Instructions over a space of the given extents; equal instructions are one.

    given  results that exist before the body runs, by node: ('carry', (stage, instr)) or ('acc', None)
    """

    def __init__(self, extents: Extents, scope: Scope, operands: Operands, given: dict[Node, tuple[str, Hashable]] | None = None):
        self.extents = extents
        self.instrs: list[Instr] = []
        self.computed: set[Node] = set()  # nodes whose code is here, as opposed to loads and views
        self._scope = scope
        self._operands = operands
        self._given = given or {}
        self._known: dict[Instr, int] = {}
        self._done: dict[_Key, int] = {}

    def value(self, node: Node, at: IndexMap) -> int:
        """Write the code of `node` at the points of `at`; returns the number of the instruction that gives it.

        raises  NeedsSplit, NotAffine from the index maps; PlanError for a node without scalar code
        """
        root = _key(node, at)
        waiting: dict[_Key, list[tuple[Node, IndexMap]]] = {}
        stack = [(node, at)]
        while stack:
            n, m = stack[-1]
            key = _key(n, m)
            if key in self._done:
                stack.pop()
                continue
            needs = waiting.get(key)
            if needs is None:
                needs = waiting[key] = self._needs(n, m)
                missing = [(i, im) for i, im in needs if _key(i, im) not in self._done]
                if missing:
                    stack.extend(reversed(missing))
                    continue
            self._done[key] = self._write(n, m, [self._done[_key(i, im)] for i, im in needs])
            stack.pop()
        return self._done[root]

    def result(self, node: Node, at: IndexMap) -> tuple[Instr, ...]:
        """The whole body of one value: its last instruction is the value."""
        number = self.value(node, at)
        if number != len(self.instrs) - 1:
            self.instrs.append(Instr("cast", (number,), None, node.dtype))
        return tuple(self.instrs)

    def store(self, value: int, place: Place) -> Store:
        return Store(self._access(place, "out"), value)

    def _access(self, place: Place, mode: str) -> Access:
        return Access(self._operands.number(place.buffer, mode), place.position.strides, place.position.offset)

    # ---- one node -----------------------------------------------------------------------------------------------------

    def _needs(self, n: Node, at: IndexMap) -> list[tuple[Node, IndexMap]]:
        """The values that must be written before `n`."""
        if n in self._given or self._scope.locate(n, at.flat, self.extents) is not None:
            return []
        if is_view(n):
            return [(n.inputs[0], through(n, at, self.extents))]
        if n.op.kind == "gather":
            return [(n.inputs[1], at)]
        if n.op.name == "random_at":
            return [(n.inputs[2], at)]
        if n.op.name == "check":
            return [(n.inputs[1], at), (n.inputs[0], at)]
        if n.op.kind == "scalar":
            return [(i, at) for i in n.inputs]
        return []

    def _write(self, n: Node, at: IndexMap, args: list[int]) -> int:
        if n in self._given:
            op, attr = self._given[n]
            return self._add(op, (), attr, n.dtype)
        place = self._scope.locate(n, at.flat, self.extents)
        if place is not None:
            return self._add("load", self._mask(at.guards), self._access(place, "in"), n.dtype)
        if is_view(n):
            return self._padded(n, at, args[0]) if n.op.name in ("pad", "shear") else args[0]
        self.computed.add(n)
        name = n.op.name
        if name == "check":
            self._add("check", (args[0],), self._scope.messages[n.attr("message")], dt.bool_)
            return args[1]
        if name in WORDS or name == "cast":
            return self._add(name, tuple(args), None, n.dtype)
        if name == "const":
            return self._add("const", (), n.attr("value"), n.dtype)
        if name == "scalar":
            return self._add("scalar", (), self._scope.scalars[n], n.dtype)
        if name == "iota":
            return self._converted(self._affine(at.flat), n.dtype)
        if name == "take":
            return self._gather(n, at, args[0])
        if name == "random_bits":
            return self._random(n, self._affine(at.flat))
        if name == "random_at":
            return self._random(n, args[0])
        raise PlanError(f"{n!r} cannot be computed inside a kernel; it should have been stored by an earlier one")

    def _padded(self, n: Node, at: IndexMap, value: int) -> int:
        """Padding where the guards that this view adds fail; a masked load of zeros needs no selection."""
        inner = through(n, at, self.extents).guards
        added = tuple(g for g in inner if g not in at.guards)
        if not added:
            return value
        fill = n.attr("value") if n.op.name == "pad" else bytes(n.dtype.size)
        read = self.instrs[value]
        if not any(fill) and read.op == "load" and read.args == self._mask(inner):
            return value
        constant = self._add("const", (), fill, n.dtype)
        return self._add("where", (*self._mask(added), value, constant), None, n.dtype)

    def _gather(self, n: Node, at: IndexMap, index: int) -> int:
        place = self._table(n.inputs[0])
        (stride,), offset = place.position
        table = Access(self._operands.number(place.buffer, "in"), (1,), offset)
        return self._add("load_at", (self._times(index, stride), *self._mask(at.guards)), table, n.dtype)

    def _table(self, x: Node) -> Place:
        """Where element i of a 1-d value lies, as an affine function of i.

        raises  NotAffine(x) when that is none: x must be stored dense
        """
        table, line = x, dense(x.shape)
        try:
            while True:
                place = None if line.guards else self._scope.locate(table, line.flat, x.shape)
                if place is not None:
                    return place
                if line.guards or not is_view(table):
                    raise NotAffine(x)
                line = through(table, line, x.shape)
                table = table.inputs[0]
        except (NeedsSplit, NotAffine):
            raise NotAffine(x) from None

    def _random(self, n: Node, index: int) -> int:
        seed, ticket = n.inputs[:2]
        if seed not in self._scope.scalars or ticket not in self._scope.scalars:
            raise PlanError(f"{n!r}: seed and ticket must be run-time scalars, got {seed!r} and {ticket!r}")
        numbers = (self._scope.scalars[seed], self._scope.scalars[ticket])
        return self._add("philox", (index,), numbers, n.dtype)

    # ---- index arithmetic ---------------------------------------------------------------------------------------------

    def _affine(self, position: Affine) -> int:
        """int64 code of an affine function of the point."""
        total = None
        for d, (stride, extent) in enumerate(zip(position.strides, self.extents)):
            if stride and extent > 1:
                term = self._times(self._add("coord", (), d, dt.int64), stride)
                total = term if total is None else self._add("add", (total, term), None, dt.int64)
        if total is None:
            return self._integer(position.offset)
        return self._plus(total, position.offset)

    def _integer(self, value: int) -> int:
        return self._add("const", (), np.int64(value).tobytes(), dt.int64)

    def _times(self, x: int, factor: int) -> int:
        return x if factor == 1 else self._add("mul", (x, self._integer(factor)), None, dt.int64)

    def _plus(self, x: int, offset: int) -> int:
        return x if offset == 0 else self._add("add", (x, self._integer(offset)), None, dt.int64)

    def _converted(self, x: int, dtype: DType) -> int:
        return x if dtype is dt.int64 else self._add("cast", (x,), None, dtype)

    def _mask(self, guards: tuple[Guard, ...]) -> tuple[int, ...]:
        """The argument list of a mask: one bool that all guards hold, or nothing where there is no guard."""
        mask = None
        for position, n in guards:
            least, most = position.bounds(self.extents)
            at = self._affine(position)
            if least < 0:
                mask = self._both(mask, self._add("le", (self._integer(0), at), None, dt.bool_))
            if most >= n:
                mask = self._both(mask, self._add("lt", (at, self._integer(n)), None, dt.bool_))
        return () if mask is None else (mask,)

    def _both(self, mask: int | None, more: int) -> int:
        return more if mask is None else self._add("and", (mask, more), None, dt.bool_)

    def _add(self, op: str, args: tuple[int, ...], attr: Hashable, dtype: DType) -> int:
        instr = Instr(op, args, attr, dtype)
        found = self._known.get(instr)
        if found is None:
            found = self._known[instr] = len(self.instrs)
            self.instrs.append(instr)
        return found


def _key(node: Node, at: IndexMap) -> _Key:
    return node, at.flat, at.guards
