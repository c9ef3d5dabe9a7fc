"""x**y of floats. The difficulty is the logarithm: y log x can be large, so log x is needed to many more bits than the result."""

from __future__ import annotations

import math

from renaissance.kernels.exponent import integer_to_float, power_of_two, reduce_exponent, scale, split_binade
from renaissance.kernels.float_format import FORMATS, at_least, at_most, bits, polynomial
from renaissance.kernels.loops import Builder, Value

# Beyond it x**y is 0, 1 or infinite for every x but 1 itself; it is even, as infinity counts.
_EXPONENT_LIMIT = 2.0**70
_LOG2 = (1.4426950409393946, -0.7213475252185374, 0.4808983207040605, -0.36067279966984933, 0.28854064471656843,
         -0.240504213066036, 0.20609626256846458, -0.1790463089730205, 0.1590008140950762, -0.1569858086205071,
         0.1548634733848878, -0.08634614808893072)  # log2(1 + m) / m to 2**-33.2
_EXP2 = (1.0, 0.6931472029848335, 0.24022647896804833, 0.055503321632350895, 0.009618438609568828, 0.00133990033788516,
         0.00015353255938041518)  # 2**g for |g| <= 1/2 to 2**-28.9
_ATANH = (0.40000000000002256, 0.28571428570099383, 0.22222222519984516, 0.18181784359921224, 0.15386757729757586,
          0.13256807168228293, 0.13196437253633717)  # (2 atanh(s) - 2 s - 2/3 s**3) / s**5 in s**2, to 2**-65.3 of 2 s
_TWO_THIRDS = 0.6666666666666666, 3.700743415417188e-17
_LN2 = 0.6931471805598903, 5.497923018708371e-14  # the first has 42 bits: its product with an exponent is exact


def pow(b: Builder, x: Value, y: Value) -> Value:
    """x**y, with the special cases of C and NumPy: x**0 = 1**y = 1 even for NaN; NaN for x < 0 and y not an integer.

    x, y     f32 or f64
    returns  the type of x; largest error see `vector_math`
    source   C23, annex F.10.4.5
    """
    f = FORMATS[x.type.kind]
    y = at_most(b, at_least(b, y, -_EXPONENT_LIMIT), _EXPONENT_LIMIT)
    magnitude = (_magnitude_f32 if f.kind == "f32" else _magnitude_f64)(b, b.abs(x), y)
    half = b.mul(y, 0.5)
    whole = b.cmp("eq", y, b.floor(y))
    odd = b.and_(whole, b.cmp("ne", half, b.floor(half)))
    sign = b.select(odd, b.and_(bits(b, x), f.sign_mask), 0)
    result = b.bitcast(b.xor(bits(b, magnitude), sign), x.type)
    undefined = b.and_(b.and_(b.cmp("lt", x, 0.0), b.cmp("gt", x, -math.inf)), b.not_(whole))
    result = b.select(undefined, b.const(x.type, math.nan), result)
    return b.select(b.or_(b.cmp("eq", x, 1.0), b.cmp("eq", y, 0.0)), b.const(x.type, 1.0), result)


def _magnitude_f32(b: Builder, x: Value, y: Value) -> Value:
    """x**y for x >= 0, in float64: its range holds all intermediate results, and rounding back does overflow and subnormals."""
    wide = x.type.with_kind("f64")
    x64, y64 = b.convert(x, wide), b.convert(y, wide)
    k, m = split_binade(b, x64, subnormal=False)
    log2 = _log_limits(b, x64, b.fma(m, polynomial(b, m, _LOG2), integer_to_float(b, k)))
    t = at_most(b, at_least(b, b.mul(y64, log2), -200.0), 200.0)
    offset = FORMATS["f64"].integer_offset + FORMATS["f64"].bias
    shifted = b.add(t, offset)
    p = polynomial(b, b.sub(t, b.sub(shifted, offset)), _EXP2)
    return b.convert(b.mul(p, power_of_two(b, bits(b, shifted), p)), x.type)


def _magnitude_f64(b: Builder, x: Value, y: Value) -> Value:
    """x**y for x >= 0, as exp(y log x), where y log x is a sum of two float64."""
    f = FORMATS["f64"]
    high, low = _log_double(b, x)
    high = _log_limits(b, x, high)
    t = b.mul(y, high)
    rest = b.fma(y, low, b.fma(y, high, b.neg(t)))
    rest = b.select(b.cmp("lt", b.abs(t), 1000.0), rest, 0.0)  # where exp overflows the rest may be large, or NaN
    n, r = reduce_exponent(b, at_most(b, at_least(b, t, f.exp_low), f.exp_high), 2 * f.bias)
    return scale(b, polynomial(b, b.add(r, rest), (1.0, 1.0, *f.exp)), n)


def _log_limits(b: Builder, x: Value, log: Value) -> Value:
    """The logarithm of x >= 0, given that of positive finite x."""
    log = b.select(b.cmp("lt", x, math.inf), log, x)
    return b.select(b.cmp("eq", x, 0.0), b.const(x.type, -math.inf), log)


def _log_double(b: Builder, x: Value) -> tuple[Value, Value]:
    """log x as a sum of two float64, to about 2**-63 of itself: k ln 2 + 2 atanh(s), s = m / (2 + m)."""
    k, m = split_binade(b, x)
    divisor = b.add(m, 2.0)
    divisor_low = b.sub(m, b.sub(divisor, 2.0))
    inverse = b.div(1.0, divisor)
    s = b.mul(m, inverse)
    s_low = b.mul(b.fma(b.neg(s), divisor_low, b.fma(b.neg(s), divisor, m)), inverse)
    u, u_low = _product(b, s, s_low, s, s_low)
    cube, cube_low = _product(b, s, s_low, u, u_low)
    series = b.mul(u, polynomial(b, u, _ATANH))
    factor, factor_low = _ordered_sum(b, b.const(x.type, _TWO_THIRDS[0]), series)
    tail, tail_low = _product(b, cube, cube_low, factor, b.add(factor_low, _TWO_THIRDS[1]))
    k = integer_to_float(b, k)
    total, error = _ordered_sum(b, b.mul(k, _LN2[0]), b.add(s, s))
    total, more = _ordered_sum(b, total, tail)
    low = b.fma(k, _LN2[1], b.fma(s_low, 2.0, tail_low))
    return total, b.add(low, b.add(error, more))


def _product(b: Builder, x: Value, x_low: Value, y: Value, y_low: Value) -> tuple[Value, Value]:
    """(x + x_low) (y + y_low) as a sum of two, without the product of the low parts."""
    high = b.mul(x, y)
    return high, b.add(b.fma(x, y, b.neg(high)), b.fma(x, y_low, b.mul(x_low, y)))


def _ordered_sum(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """x + y and its rounding error, for |x| >= |y| or x = 0."""
    total = b.add(x, y)
    return total, b.sub(y, b.sub(total, x))
