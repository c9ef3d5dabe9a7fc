"""Floor division and modulo, of floats and of integers, by NumPy's rules."""

from __future__ import annotations

from renaissance.ir.dtype import DType
from renaissance.kernels.lanes import any_lane
from renaissance.kernels.loops import I64, Builder, Type, Value

_EXACT = 2.0**52  # quotients from here on are integers already
_SCALE = 2.0**500
_ROUNDS = 48  # each takes 53 bits off a quotient of at most 2**2098


def floordiv_int(b: Builder, x: Value, y: Value, dtype: DType) -> Value:
    """floor(x / y); 0 where y is 0; the least integer by -1 stays what it is."""
    zero, divisor = _safe(b, x, y, dtype)
    if dtype.kind == "u":
        return b.select(zero, b.const(x.type, 0), b.udiv(x, divisor))
    q = b.div(x, divisor)
    r = b.sub(x, b.mul(q, divisor))
    q = b.select(_wrong_side(b, r, divisor), b.sub(q, 1), q)
    return b.select(zero, b.const(x.type, 0), q)


def mod_int(b: Builder, x: Value, y: Value, dtype: DType) -> Value:
    """x - floor(x / y) * y, with the sign of y; 0 where y is 0."""
    _, divisor = _safe(b, x, y, dtype)
    if dtype.kind == "u":
        return b.urem(x, divisor)
    r = b.rem(x, divisor)
    return b.select(_wrong_side(b, r, divisor), b.add(r, divisor), r)


def _safe(b: Builder, x: Value, y: Value, dtype: DType) -> tuple[Value, Value]:
    """Where y is 0, and a divisor the hardware takes: 1 there and where the quotient would overflow."""
    zero = b.cmp("eq", y, 0)
    bad = zero
    if dtype.kind != "u":
        least = -(1 << (x.type.bits - 1))
        bad = b.or_(zero, b.and_(b.cmp("eq", x, least), b.cmp("eq", y, -1)))
    return zero, b.select(bad, b.const(y.type, 1), y)


def _wrong_side(b: Builder, r: Value, y: Value) -> Value:
    """Where a remainder of truncating division is not 0 and has the sign opposite to y."""
    return b.and_(b.cmp("ne", r, 0), b.cmp("lt", b.xor(r, y), 0))


def floordiv_float(b: Builder, x: Value, y: Value) -> Value:
    """floor(x / y) as Python has it: from the exact remainder; x / y where y is 0."""
    type = x.type
    r = _fmod(b, x, y)
    wrong = _opposite(b, r, y)
    quotient = b.div(b.sub(x, r), y)
    quotient = b.select(wrong, b.sub(quotient, 1.0), quotient)
    floor = b.floor(quotient)
    floor = b.select(b.cmp("gt", b.sub(quotient, floor), 0.5), b.add(floor, 1.0), floor)
    direct = b.div(x, y)
    floor = b.select(b.cmp("eq", quotient, 0.0), _with_sign(b, b.const(type, 0.0), direct), floor)
    return b.select(b.cmp("eq", y, 0.0), direct, floor)


def mod_float(b: Builder, x: Value, y: Value) -> Value:
    """The exact remainder of x / y with the sign of y; NaN where y is 0 or x is infinite."""
    r = _fmod(b, x, y)
    moved = b.select(_opposite(b, r, y), b.add(r, y), r)
    return b.select(b.cmp("eq", r, 0.0), _with_sign(b, b.const(x.type, 0.0), y), moved)


def _opposite(b: Builder, r: Value, y: Value) -> Value:
    return b.and_(b.cmp("ne", r, 0.0), b.xor(b.cmp("lt", r, 0.0), b.cmp("lt", y, 0.0)))


def _fmod(b: Builder, x: Value, y: Value) -> Value:
    """The exact remainder with the sign of x, through f64."""
    wide = x.type.with_kind("f64")
    return b.convert(_fmod64(b, b.convert(x, wide), b.convert(y, wide)), x.type)


def _fmod64(b: Builder, x: Value, y: Value) -> Value:
    """Quotients too long for one division are taken off in rounds.

    The remainder r - q*d of a correctly rounded quotient q is a double, so one fma gives it exactly; where q was rounded up it is
    negative: the rest goes on with its magnitude, and `turned` remembers to take it from d at the end.
    """
    type = x.type
    a, d = b.abs(x), b.abs(y)
    finite = b.and_(b.cmp("lt", a, float("inf")), b.cmp("gt", d, 0.0))
    far = b.and_(finite, b.cmp("ge", b.div(a, d), _EXACT))
    rounds = b.select(any_lane(b, far), b.const(I64, _ROUNDS), b.const(I64, 1))
    with b.loop(0, rounds, carried=[a, b.const(type.with_kind("i1"), 0)]) as loop:
        r, turned = loop.carried
        over = b.cmp("eq", b.div(r, d), float("inf"))
        divisor = b.select(over, b.mul(d, _SCALE), d)
        q = b.div(r, divisor)
        whole = b.select(b.cmp("ge", q, _EXACT), q, b.trunc(q))
        rest = b.fma(b.neg(whole), divisor, r)
        negative = b.cmp("lt", rest, 0.0)
        rest = b.abs(rest)
        rest = b.select(b.and_(b.cmp("lt", q, _EXACT), b.cmp("ge", rest, d)), b.sub(rest, d), rest)
        loop.next([rest, b.xor(turned, negative)])
    rest, turned = loop.results
    rest = b.select(b.and_(turned, b.cmp("ne", rest, 0.0)), b.sub(d, rest), rest)
    rest = b.select(b.cmp("lt", a, d), a, rest)  # also where d is infinite
    invalid = b.or_(b.not_(b.cmp("lt", a, float("inf"))), b.not_(b.cmp("gt", d, 0.0)))
    return _with_sign(b, b.select(invalid, b.const(type, float("nan")), rest), x)


def _with_sign(b: Builder, magnitude: Value, sign: Value) -> Value:
    """A non-negative float given the sign of another."""
    integer = Type(f"i{sign.type.bits}", sign.type.lanes)
    top = b.and_(b.bitcast(sign, integer), -(1 << (sign.type.bits - 1)))
    return b.bitcast(b.or_(b.bitcast(magnitude, integer), top), sign.type)
