"""Taking apart and putting together powers of two: what logarithms and exponentials of both float formats share."""

from __future__ import annotations

from renaissance.kernels.float_format import FORMATS, bits
from renaissance.kernels.loops import Builder, Value

_KINDS = {"i32": "f32", "i64": "f64"}


def integer_to_float(b: Builder, k: Value) -> Value:
    """An i32 as f32, or an i64 below 2**51 as f64: the latter without the conversion that AVX2 lacks."""
    type = k.type.with_kind(_KINDS[k.type.kind])
    if type.kind == "f32":
        return b.convert(k, type)
    offset = FORMATS["f64"].integer_offset
    return b.sub(b.bitcast(b.add(k, bits(b, b.const(type, offset))), type), offset)


def reduce_exponent(b: Builder, x: Value, bias: int) -> tuple[Value, Value]:
    """x = n ln 2 + r with |r| <= ln(2) / 2 (and a rounding).

    x        f32 or f64, such that |n| fits the mantissa
    bias     added to n
    returns  an integer whose low bits are those of n + bias, and r to half an ulp
    """
    f = FORMATS[x.type.kind]
    offset = f.integer_offset + bias
    shifted = b.fma(x, f.log2e, offset)
    n = b.sub(shifted, offset)
    return bits(b, shifted), b.fma(n, -f.ln2[1], b.fma(n, -f.ln2[0], x))


def power_of_two(b: Builder, n: Value, like: Value) -> Value:
    """2**(low bits of n - bias), of the type of `like`."""
    return b.bitcast(b.shl(n, FORMATS[like.type.kind].mantissa), like.type)


def scale(b: Builder, p: Value, n: Value) -> Value:
    """p 2**(n - 2 bias) for p near 1, rounded once: the power may lie outside the format's exponents, so it is applied in two."""
    half = b.lshr(n, 1)
    return b.mul(b.mul(p, power_of_two(b, half, p)), power_of_two(b, b.sub(n, half), p))


def split_binade(b: Builder, x: Value, subnormal: bool = True) -> tuple[Value, Value]:
    """x = 2**k (1 + m) with sqrt(1/2) <= 1 + m < sqrt(2), exactly.

    x          f32 or f64, positive and finite; of other x nothing is promised
    subnormal  whether x may be subnormal
    returns    k, an integer of equal width, and m of the type of x
    """
    f = FORMATS[x.type.kind]
    raw = bits(b, x)
    if subnormal:
        lifted = b.sub(bits(b, b.mul(x, 2.0**f.mantissa)), f.mantissa << f.mantissa)
        raw = b.select(b.cmp("lt", x, f.least_normal), lifted, raw)
    offset = b.sub(raw, f.root_half)
    m = b.bitcast(b.add(b.and_(offset, f.mantissa_mask), f.root_half), x.type)
    return b.ashr(offset, f.mantissa), b.sub(m, 1.0)
