"""Body emission: the instructions of a pointwise body, bound by `Arguments.bind`, as vector code.

A body is evaluated at `lanes` consecutive positions along the frame's vector dimension. `index` gives the position of lane 0 in
each dimension of the index space (i64 values; None is 0), `ahead` a constant to add along the vector dimension; lanes outside
`mask` read and write nothing. Along the vector dimension an access is a scalar load spread over the lanes (stride 0), a vector
load (stride 1), or a gather.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from renaissance.errors import KernelError
from renaissance.ir.dtype import DType
from renaissance.ir.plan import Instr
from renaissance.kernels.arguments import Frame, Place, Table
from renaissance.kernels.lanes import any_lane, both
from renaissance.kernels.loops import I64, Builder, Value, vec
from renaissance.kernels.numbers import cast, from_memory, memory, register, rounded, to_memory
from renaissance.kernels.philox import philox
from renaissance.kernels.steps import lane_steps
from renaissance.kernels.words import apply, is_exact

_NARROW = 2  # bytes: elements up to here are picked one by one
_BITS = {1: "i8", 2: "i16", 4: "i32"}

Index = Sequence[Value | None]
Carries = Mapping[tuple[int, int], Value]

_COSTS = {"const": 0, "scalar": 0, "carry": 0, "acc": 0, "load_at": 16, "philox": 12, "exp": 14, "expm1": 20, "log": 20,
          "log1p": 24, "sin": 24, "cos": 24, "tanh": 20, "erf": 24, "atan": 20, "pow": 40, "floordiv": 40, "mod": 40, "div": 4,
          "sqrt": 4}


def emit(b: Builder, body: Sequence[Instr], frame: Frame, index: Index, lanes: int, mask: Value | None = None,
         acc: Value | None = None, *, ahead: int = 0, carries: Carries | None = None,
         known: Mapping[int, Value] | None = None) -> list[Value]:
    """The value of every instruction of a bound body at `lanes` positions from `index` on.

    mask     i1 of `lanes` (None: all): other lanes read nothing; what they compute means nothing
    acc      value of the `acc` instruction
    carries  values of `carry` instructions, scalar or of `lanes`
    known    values of instructions that are known already (see `invariants`), scalar or of `lanes`
    returns  one Value for each instruction, in the register form of its dtype
    raises   KernelError for a word that has no code for its dtype
    """
    emitter = _Emitter(b, body, frame, index, lanes, mask, ahead)
    emitter.given = {"acc": acc, **{("carry", k): v for k, v in (carries or {}).items()}}
    for number in range(len(body)):
        value = known.get(number) if known else None
        emitter.values.append(emitter.value(number) if value is None else emitter.spread(value))
    return emitter.values


def invariants(b: Builder, body: Sequence[Instr], frame: Frame, index: Index, carries: Carries | None = None) -> dict[int, Value]:
    """The instructions of a body that are the same all along the vector dimension, as scalars, by number.

    Meant for the code before a loop along that dimension, which must not be empty: what is loaded here is loaded once.
    """
    emitter = _Emitter(b, body, frame, index, 1, None, 0)
    emitter.given = {("carry", k): v for k, v in (carries or {}).items()}
    found: dict[int, Value] = {}
    for number, step in enumerate(emitter.steps):
        if step == 0:
            found[number] = emitter.value(number)
            emitter.values.append(found[number])
        else:
            emitter.values.append(b.const(I64, 0))  # never read: a user of it is not invariant
    return found


def store(b: Builder, frame: Frame, place: int, value: Value, index: Index, lanes: int, mask: Value | None = None, *,
          ahead: int = 0) -> None:
    """Write the value of an instruction through an output's place, lanes along the vector dimension."""
    p = frame.places[place]
    value = to_memory(b, value, p.dtype)
    at = frame.address(place, index, ahead)
    if lanes == 1 or p.row == "next":
        b.store(value, at, mask=mask)
    else:
        b.scatter(value, at, _lane_elements(b, frame, p, lanes), mask)


def cost(body: Sequence[Instr]) -> int:
    """Roughly how many simple vector operations an evaluation of a body takes."""
    return sum(_COSTS.get(i.op, 1) for i in body)


def _lane_elements(b: Builder, frame: Frame, place: Place, lanes: int) -> Value:
    """How many elements behind lane 0 each lane lies; 32 bits wide where the stride allows."""
    slot = place.strides[frame.vector]
    if slot is None:
        return b.const(vec("i32", lanes), 0)
    stride = frame[slot]
    kind = "i64" if place.row == "far" else "i32"
    numbers = b.iota(vec(kind, lanes))
    return b.mul(numbers, b.splat(b.convert(stride, numbers.type.with_lanes(1)), lanes))


class _Emitter:
    def __init__(self, b: Builder, body: Sequence[Instr], frame: Frame, index: Index, lanes: int, mask: Value | None,
                 ahead: int):
        self.b = b
        self.body = body
        self.frame = frame
        self.index = index
        self.lanes = lanes
        self.mask = mask
        self.ahead = ahead
        self.steps = lane_steps(body, frame.places, frame.vector)
        self.given: Mapping[object, Value | None] = {}
        self.values: list[Value] = []
        self.picked: dict[tuple[int, Table], Value] = {}

    def spread(self, value: Value) -> Value:
        """A scalar in all lanes."""
        return value if value.type.lanes == self.lanes else self.b.splat(value, self.lanes)

    def value(self, number: int) -> Value:
        instr = self.body[number]
        special = getattr(self, f"_{instr.op}", None)
        args = [self.values[a] for a in instr.args]
        if special is not None:
            return special(instr, args)
        dtype = self.body[instr.args[-1]].dtype  # of `where`, the last argument tells; other words' arguments agree
        result = apply(self.b, instr.op, args, dtype)
        return result if is_exact(instr.op) else rounded(self.b, result, instr.dtype)

    # ---- one method for each instruction that is not a word -----------------------------------------------------------

    def _load(self, instr: Instr, args: list[Value]) -> Value:
        b, number, lanes = self.b, instr.attr, self.lanes
        place = self.frame.places[number]  # type: ignore[index]
        at = self.frame.address(number, self.index, self.ahead)  # type: ignore[arg-type]
        if lanes == 1:
            return self._one(at, place.dtype, args[0] if args else None)
        if place.row == "same" and not args:
            return self.spread(self._one(at, place.dtype, None))
        mask = both(b, self.mask, args[0] if args else None)
        if place.row == "next":
            raw = b.load(at, memory(place.dtype, lanes), mask=mask)
        elif place.row == "second" and mask is None:
            raw = self._every_second(at, place.dtype)
        else:
            raw = b.gather(at, _lane_elements(b, self.frame, place, lanes), memory(place.dtype, lanes), mask)
        return from_memory(b, raw, place.dtype)

    def _every_second(self, at: Value, dtype: DType) -> Value:
        """Two loads, of which the second begins at an odd element so that nothing behind the last lane is read."""
        b, lanes, type = self.b, self.lanes, memory(dtype, self.lanes)
        low, high = b.load(at, type), b.load(b.offset(at, (lanes - 1) * dtype.size), type)
        return b.shuffle(low, high, [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)])

    def _load_at(self, instr: Instr, args: list[Value]) -> Value:
        b = self.b
        table: Table = instr.attr  # type: ignore[assignment]
        dtype, step = table.dtype, self.steps[instr.args[0]]
        if len(args) == 1 and self.lanes > 1 and step != 1 and dtype.size <= _NARROW:
            return from_memory(b, self._picked(table, instr.args[0], args[0]), dtype)
        start = b.offset(self.frame[table.slot], table.shift * dtype.size)
        if self.lanes == 1:
            return self._one(b.offset(start, b.mul(args[0], dtype.size)), dtype, args[1] if len(args) == 2 else None)
        mask = both(b, self.mask, args[1] if len(args) == 2 else None)
        type = memory(dtype, self.lanes)
        if step == 1:  # a row of a table: its elements lie side by side
            at = b.offset(start, b.mul(b.extract(args[0], 0), dtype.size))
            return from_memory(b, b.load(at, type, mask=mask), dtype)
        return from_memory(b, b.gather(start, args[0], type, mask), dtype)

    def _picked(self, table: Table, index: int, numbers: Value) -> Value:
        """Narrow elements, for which there is no gather instruction: lane by lane, what shares the index together, neighbours in
        one load. Behind the last row of a masked vector lane 0, which is always there, is read again."""
        if (index, table) not in self.picked:
            b, lanes = self.b, self.lanes
            if self.mask is not None:
                numbers = b.select(self.mask, numbers, b.splat(b.extract(numbers, 0), lanes))
            tables: list[Table] = [i.attr for i in self.body if i.op == "load_at" and i.args == (index,)]  # type: ignore[misc]
            size = {t.slot: t.dtype.size for t in tables}
            words = {t.slot: b.const(vec(_BITS[t.dtype.size], lanes), 0) for t in tables}
            words |= {t.slot: b.const(vec(_BITS[2 * t.dtype.size], lanes), 0) for t in tables if t.shift}
            for lane in range(lanes):
                number = b.extract(numbers, lane)
                for slot, word in words.items():
                    at = b.offset(self.frame[slot], b.mul(number, size[slot]))
                    words[slot] = b.insert(word, b.load(at, word.type.with_lanes(1), align=1), lane)
            for t in tables:
                bits = b.lshr(words[t.slot], 8 * t.dtype.size) if t.shift else words[t.slot]
                narrow = b.convert(bits, vec(_BITS[t.dtype.size], lanes))
                self.picked[index, t] = b.bitcast(narrow, memory(t.dtype, lanes))
        return self.picked[index, table]

    def _one(self, at: Value, dtype: DType, mask: Value | None) -> Value:
        """One element. Where it must not be read, the argument block, which can be, is read instead and the value is 0."""
        b = self.b
        if mask is None:
            return from_memory(b, b.load(at, memory(dtype)), dtype)
        raw = b.load(b.select(mask, at, b.param("args")), memory(dtype))
        zero = b.const(register(dtype), 0)
        return b.select(mask, from_memory(b, raw, dtype), zero)

    def _const(self, instr: Instr, args: list[Value]) -> Value:
        b = self.b
        if not isinstance(instr.attr, tuple):
            return self.spread(from_memory(b, self.frame[instr.attr], instr.dtype))  # type: ignore[index]
        type, bits = register(instr.dtype, self.lanes), instr.attr[1]
        if instr.dtype.is_float and instr.dtype.size == 2:
            narrow = b.const_bits(memory(instr.dtype), bits)
            return self.spread(from_memory(b, narrow, instr.dtype))
        return b.const_bits(type, bits)

    def _scalar(self, instr: Instr, args: list[Value]) -> Value:
        return self.spread(from_memory(self.b, self.frame[instr.attr], instr.dtype))  # type: ignore[index]

    def _coord(self, instr: Instr, args: list[Value]) -> Value:
        b = self.b
        first = self.index[instr.attr]  # type: ignore[index]
        at = self.spread(b.const(I64, 0) if first is None else first)
        if instr.attr != self.frame.vector or (self.lanes == 1 and not self.ahead):
            return at
        return b.add(at, b.const(at.type, [self.ahead + i for i in range(self.lanes)] if self.lanes > 1 else self.ahead))

    def _cast(self, instr: Instr, args: list[Value]) -> Value:
        return cast(self.b, args[0], self.body[instr.args[0]].dtype, instr.dtype)

    def _carry(self, instr: Instr, args: list[Value]) -> Value:
        value = self.given.get(("carry", instr.attr))
        if value is None:
            raise KernelError(f"{self.b.name}: no earlier stage gives {instr.attr}")
        return self.spread(value)

    def _acc(self, instr: Instr, args: list[Value]) -> Value:
        value = self.given["acc"]
        if value is None:
            raise KernelError(f"{self.b.name}: acc has a value in the epilogue of a contraction only")
        return value

    def _philox(self, instr: Instr, args: list[Value]) -> Value:
        seed, ticket = (self.frame[slot] for slot in instr.attr)  # type: ignore[union-attr]
        return philox(self.b, seed, ticket, args[0])

    def _check(self, instr: Instr, args: list[Value]) -> Value:
        b = self.b
        error, code = instr.attr  # type: ignore[misc]
        failed = both(b, self.mask, b.not_(args[0]))
        assert failed is not None
        with b.if_(any_lane(b, failed)):
            b.atomic_flag(self.frame[error], self.frame[code])
        return args[0]
