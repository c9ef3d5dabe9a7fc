"""doc"""

from __future__ import annotations

import math

from renaissance.kernels.angle import reduce_far, reduce_near
from renaissance.kernels.float_format import FORMATS, FloatFormat, at_least, at_most, bits, horner, with_sign
from renaissance.kernels.lanes import any_lane
from renaissance.kernels.loops import I64, Builder, Module, Type, Value

_TANH_BREAK = 0.4  # below it the quotient of two rounded numbers would lose more than 2 ulp


def exp(b: Builder, x: Value) -> Value:
    """e**x"""
    f = FORMATS[x.type.kind]
    x = at_most(b, at_least(b, x, f.exp_low), f.exp_high)
    n, r = _split_exponent(b, x, f, 2 * f.bias)
    p = horner(b, r, (1.0, 1.0, *f.exp))
    # 2**n may lie outside the exponents of the format: it is applied as 2**floor(n/2) and the rest.
    half = b.lshr(n, 1)
    first = b.bitcast(b.shl(half, f.mantissa), x.type)
    second = b.bitcast(b.shl(b.sub(n, half), f.mantissa), x.type)
    return b.mul(b.mul(p, first), second)


def expm1(b: Builder, x: Value) -> Value:
    """e**x - 1"""
    f = FORMATS[x.type.kind]
    clamped = at_most(b, at_least(b, x, f.expm1_low), f.exp_high)
    n, r = _split_exponent(b, clamped, f, f.bias - 1)
    half_scale = b.bitcast(b.shl(n, f.mantissa), x.type)  # 2**(n-1): 2**n may overflow where the result does not
    half = b.fma(_expm1_reduced(b, r, f), half_scale, b.sub(half_scale, 0.5))
    tiny = b.cmp("lt", b.abs(x), 2.0 ** -(f.mantissa + 2))  # here e**x - 1 rounds to x, also for -0.0 and subnormal x
    return b.select(tiny, x, b.add(half, half))


def tanh(b: Builder, x: Value) -> Value:
    f = FORMATS[x.type.kind]
    a = at_most(b, b.abs(x), f.tanh_high)
    n, r = _split_exponent(b, b.add(a, a), f, f.bias)
    scale = b.bitcast(b.shl(n, f.mantissa), x.type)
    e = b.fma(_expm1_reduced(b, r, f), scale, b.sub(scale, 1.0))
    y = b.div(e, b.add(e, 2.0))
    near = b.cmp("lt", a, _TANH_BREAK)
    return with_sign(b, b.select(near, _odd(b, a, f.tanh), y), x)


def log(b: Builder, x: Value) -> Value:
    f = FORMATS[x.type.kind]
    raw = b.select(b.cmp("lt", x, f.least_normal),
                   b.sub(bits(b, b.mul(x, 2.0**f.mantissa)), f.mantissa << f.mantissa), bits(b, x))
    offset = b.sub(raw, _root_half(f))
    k = b.ashr(offset, f.mantissa)
    m = b.bitcast(b.add(b.and_(offset, f.mantissa_mask), _root_half(f)), x.type)
    y = _log_sum(b, k, b.sub(m, 1.0), f)
    y = b.select(b.cmp("lt", x, math.inf), y, x)
    return b.select(b.cmp("le", x, 0.0), _pole(b, x, 0.0), y)


def log1p(b: Builder, x: Value) -> Value:
    f = FORMATS[x.type.kind]
    exponent = b.and_(b.sub(bits(b, b.add(x, 1.0)), _root_half(f)), ~f.mantissa_mask)
    # (1 + x) 2**-k - 1 = x 2**-k + (2**-k - 1), exact but for huge x; 4 * 2**-k, as 2**-k alone may be subnormal
    scaled = b.bitcast(b.sub(bits(b, x), exponent), x.type)
    scale = b.bitcast(b.sub(f.one + (2 << f.mantissa), exponent), x.type)
    m = b.add(scaled, b.fma(scale, 0.25, -1.0))
    y = _log_sum(b, b.ashr(exponent, f.mantissa), m, f)
    a = b.abs(x)
    y = b.select(b.cmp("lt", a, b.add(a, a)), y, x)  # false for 0, inf and NaN
    return b.select(b.cmp("le", x, -1.0), _pole(b, x, -1.0), y)


def sin(b: Builder, x: Value) -> Value:
    return _circular(b, x, 0)


def cos(b: Builder, x: Value) -> Value:
    return _circular(b, x, 1)


def erf(b: Builder, x: Value) -> Value:
    f = FORMATS[x.type.kind]
    a = at_most(b, b.abs(x), f.erf_high)
    near = b.fma(a, horner(b, b.mul(a, a), f.erf), a)
    root = horner(b, a, f.erf_tail)
    root = b.mul(root, root)
    root = b.mul(root, root)
    tail = b.fma(b.neg(root), root, 1.0)
    return with_sign(b, b.select(b.cmp("gt", a, f.erf_break), tail, near), x)


def atan(b: Builder, x: Value) -> Value:
    f = FORMATS[x.type.kind]
    a = b.abs(x)
    far = b.cmp("gt", a, 1.0)
    z = b.select(far, b.div(1.0, a), a)
    y = _odd(b, z, f.atan)
    first, second = f.half_pi_factors
    y = b.select(far, b.fma(b.const(x.type, first), second, b.neg(y)), y)
    return with_sign(b, y, x)


def _split_exponent(b: Builder, x: Value, f: FloatFormat, bias: int) -> tuple[Value, Value]:
    offset = f.integer_offset + bias
    shifted = b.fma(x, f.log2e, offset)
    n = b.sub(shifted, offset)
    r = b.fma(n, -f.ln2[1], b.fma(n, -f.ln2[0], x))
    return bits(b, shifted), r


def _expm1_reduced(b: Builder, r: Value, f: FloatFormat) -> Value:
    return b.fma(b.mul(r, r), horner(b, r, f.expm1), r)


def _odd(b: Builder, x: Value, coefficients: tuple[float, ...]) -> Value:
    """x + x**3 (c0 + c1 x**2 + ...)"""
    u = b.mul(x, x)
    return b.fma(b.mul(x, u), horner(b, u, coefficients), x)


def _root_half(f: FloatFormat) -> int:
    return {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}[f.kind]


def _log_sum(b: Builder, k: Value, m: Value, f: FloatFormat) -> Value:
    square = b.mul(m, m)
    y = b.fma(square, b.fma(m, horner(b, m, f.log), -0.5), m)
    return b.fma(_integer_to_float(b, k, f), math.log(2.0), y)


def _integer_to_float(b: Builder, k: Value, f: FloatFormat) -> Value:
    """A small integer as a float; for 64 bits without the conversion that AVX2 lacks."""
    type = k.type.with_kind(f.kind)
    if f.kind == "f32":
        return b.convert(k, type)
    shifted = b.add(k, b.bitcast(b.const(type, f.integer_offset), k.type))
    return b.sub(b.bitcast(shifted, type), f.integer_offset)


def _pole(b: Builder, x: Value, at: float) -> Value:
    return b.select(b.cmp("eq", x, at), b.const(x.type, -math.inf), math.nan)


def _circular(b: Builder, x: Value, quarters: int) -> Value:
    """sin(x + quarters pi/2); the way for huge x is a function of its own, called as soon as one lane needs it."""
    f = FORMATS[x.type.kind]
    a = b.abs(x)
    far = b.cmp("gt", a, f.direct_limit)
    y = _quadrant(b, x, *reduce_near(b, a), quarters)
    with b.loop(0, b.select(any_lane(b, far), b.const(I64, 1), 0), 1, carried=[y]) as loop:
        exact = b.call(_far_function(b.module, x.type, quarters), x)
        loop.next([b.select(far, exact, loop.carried[0])])
    return loop.results[0]


def _far_function(module: Module, type: Type, quarters: int) -> Builder:
    name = f"{('sin', 'cos')[quarters]}_far_{type!r}"
    if name in module.functions:
        return module.functions[name]
    b = module.function(name, [("x", type)], exported=False, result=type, noinline=True, cold=True)
    x = b.param("x")
    b.ret(_quadrant(b, x, *reduce_far(b, b.abs(x)), quarters))
    return b


def _quadrant(b: Builder, x: Value, r: Value, q: Value, quarters: int) -> Value:
    """The sine or cosine of r, by quadrant, with the sign of sin(|x| + quarters pi/2), times that of x for a sine."""
    f = FORMATS[x.type.kind]
    sine = _odd(b, r, f.sin)
    cosine = horner(b, b.mul(r, r), (1.0, -0.5, *f.cos))
    q = b.add(q, quarters)
    y = b.select(b.cmp("ne", b.and_(q, 1), 0), cosine, sine)
    sign = b.shl(q, f.width - 2) if quarters else b.xor(b.shl(q, f.width - 2), bits(b, x))
    return b.bitcast(b.xor(bits(b, y), b.and_(sign, f.sign_mask)), x.type)
