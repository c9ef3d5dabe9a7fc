"""The words of `ops/scalar.py` as vector code. One function: `apply`.

16-bit floats are computed in f32; what must be rounded afterwards is told by `is_exact`.
"""

from __future__ import annotations

from collections.abc import Callable

from renaissance.errors import KernelError
from renaissance.ir.dtype import DType, bool_
from renaissance.kernels import vector_math
from renaissance.kernels.loops import Builder, Value
from renaissance.kernels.power import pow as power_of_floats
from renaissance.kernels.remainder import floordiv_float, floordiv_int, mod_float, mod_int

# Words that never leave the values of a 16-bit float.
_EXACT = frozenset(("neg", "abs", "sign", "floor", "ceil", "trunc", "round", "maximum", "minimum", "where"))


def apply(b: Builder, word: str, args: list[Value], dtype: DType) -> Value:
    """A word on values of one dtype (for 'where', of its second and third argument).

    raises  KernelError if the word has no meaning for the dtype
    """
    table = _BOOL if dtype is bool_ else _FLOAT if dtype.is_float else _INT
    code = table.get(word)
    if code is None:
        raise KernelError(f"{word}: there is no kernel for {dtype.name}; it takes {', '.join(_takers(word))}")
    return code(b, dtype, *args)


def is_exact(word: str) -> bool:
    """Whether a word's result needs no rounding when its arguments are 16-bit floats."""
    return word in _EXACT


def _takers(word: str) -> list[str]:
    return [name for name, table in (("bool", _BOOL), ("integers", _INT), ("floats", _FLOAT)) if word in table] or ["nothing"]


_Code = Callable[..., Value]


def _plain(method: str) -> _Code:
    """A word that is one Builder method."""
    return lambda b, dtype, *args: getattr(b, method)(*args)


def _compare(predicate: str) -> _Code:
    def code(b: Builder, dtype: DType, x: Value, y: Value) -> Value:
        return b.cmp(f"u{predicate}" if dtype.kind == "u" and predicate in ("lt", "le") else predicate, x, y)
    return code


def _bound(larger: bool) -> _Code:
    """maximum or minimum: a NaN wins; of equal values (0 and -0) the first."""
    def code(b: Builder, dtype: DType, x: Value, y: Value) -> Value:
        if dtype.kind == "u":
            return b.select(b.cmp("ult", *((x, y) if larger else (y, x))), y, x)
        picked = b.select(b.cmp("gt" if larger else "lt", y, x), y, x)
        return b.select(b.cmp("ne", y, y), y, picked) if dtype.is_float else picked
    return code


def _where(b: Builder, dtype: DType, condition: Value, x: Value, y: Value) -> Value:
    return b.select(condition, x, y)


def _sign_float(b: Builder, dtype: DType, x: Value) -> Value:
    """-1, 0 or 1; NaN of NaN; 0 of -0."""
    of_rest = b.select(b.cmp("eq", x, 0.0), b.const(x.type, 0.0), x)
    return b.select(b.cmp("gt", x, 0.0), b.const(x.type, 1.0), b.select(b.cmp("lt", x, 0.0), b.const(x.type, -1.0), of_rest))


def _sign_int(b: Builder, dtype: DType, x: Value) -> Value:
    positive = b.zext(b.cmp("gt" if dtype.kind == "i" else "ne", x, 0), x.type)
    return positive if dtype.kind == "u" else b.sub(positive, b.zext(b.cmp("lt", x, 0), x.type))


def _shift(left: bool) -> _Code:
    """Shifts by the width or more (or by a negative count) leave nothing, or the sign."""
    def code(b: Builder, dtype: DType, x: Value, y: Value) -> Value:
        width = x.type.bits
        inside = b.cmp("ult", y, width)
        count = b.select(inside, y, b.const(y.type, width - 1))
        if left:
            return b.select(inside, b.shl(x, count), b.const(x.type, 0))
        if dtype.kind == "i":
            return b.ashr(x, count)
        return b.select(inside, b.lshr(x, count), b.const(x.type, 0))
    return code


def _pow_int(b: Builder, dtype: DType, x: Value, y: Value) -> Value:
    """x**y wrapped, by squaring; y is taken as unsigned."""
    if isinstance(y.bits, int):
        return _pow_known(b, x, y.bits)
    with b.loop(0, x.type.bits, carried=[b.const(x.type, 1), x, y]) as loop:
        result, power, left = loop.carried
        odd = b.cmp("ne", b.and_(left, 1), 0)
        loop.next([b.select(odd, b.mul(result, power), result), b.mul(power, power), b.lshr(left, 1)])
    return loop.results[0]


def _pow_known(b: Builder, x: Value, exponent: int) -> Value:
    result, power = b.const(x.type, 1), x
    while exponent:
        if exponent & 1:
            result = b.mul(result, power)
        exponent >>= 1
        if exponent:
            power = b.mul(power, power)
    return result


def _math(name: str) -> _Code:
    function = getattr(vector_math, name)
    return lambda b, dtype, *args: function(b, *args)


_FLOAT: dict[str, _Code] = {
    **{w: _plain(w) for w in ("neg", "abs", "floor", "ceil", "trunc", "round", "sqrt", "add", "sub", "mul", "div", "fma")},
    **{w: _math(w) for w in ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "atan")},
    **{w: _compare(w) for w in ("lt", "le", "eq", "ne")},
    "pow": lambda b, dtype, x, y: power_of_floats(b, x, y),
    "sign": _sign_float, "maximum": _bound(True), "minimum": _bound(False), "where": _where,
    "floordiv": lambda b, dtype, x, y: floordiv_float(b, x, y), "mod": lambda b, dtype, x, y: mod_float(b, x, y)}
_INT: dict[str, _Code] = {
    **{w: _plain(w) for w in ("neg", "abs", "add", "sub", "mul")},
    "xor": _plain("xor"), **{w: _plain(f"{w}_") for w in ("not", "and", "or")},
    **{w: _compare(w) for w in ("lt", "le", "eq", "ne")},
    "sign": _sign_int, "maximum": _bound(True), "minimum": _bound(False), "where": _where, "pow": _pow_int,
    "shl": _shift(True), "shr": _shift(False),
    "floordiv": lambda b, dtype, x, y: floordiv_int(b, x, y, dtype), "mod": lambda b, dtype, x, y: mod_int(b, x, y, dtype)}
_BOOL: dict[str, _Code] = {
    "xor": _plain("xor"), **{w: _plain(f"{w}_") for w in ("not", "and", "or")},
    "maximum": _plain("or_"), "minimum": _plain("and_"), "ne": _plain("xor"), "where": _where,
    "lt": lambda b, dtype, x, y: b.and_(b.not_(x), y), "le": lambda b, dtype, x, y: b.or_(b.not_(x), y),
    "eq": lambda b, dtype, x, y: b.not_(b.xor(x, y))}
