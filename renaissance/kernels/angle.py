"""Reduction of an angle to the nearest multiple of pi/2, to working accuracy for every finite argument.

Up to `direct_limit` by Cody and Waite's method: the multiple is subtracted in three parts, each by one fma. Beyond it by Payne
and Hanek's: only the bits of 2/pi that matter for the argument's exponent are multiplied, in integers, so huge arguments are as
exact as small ones.
"""

from __future__ import annotations

import math

from renaissance.kernels.exponent import integer_to_float
from renaissance.kernels.float_format import FORMATS, bits
from renaissance.kernels.loops import Builder, Value, vec

# The first 1248 bits of 2/pi after the binary point.
_TWO_OVER_PI_BITS = 1248
_TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb"
    "4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7"
    "ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc20", 16)
_LIMB = 0xFFFFFFFF
# pi/2 * 2**-62 as a sum of two float64
_HALF_PI_62 = math.ldexp(1.5707963267948966, -62), math.ldexp(6.123233995736766e-17, -62)


def reduce_near(b: Builder, x: Value) -> tuple[Value, Value]:
    """x = q pi/2 + r with |r| <= pi/4 (and a rounding), for 0 <= x <= direct_limit; larger x give any r and q, NaN gives NaN.

    x        f32 or f64
    returns  r of the type of x, to 1 ulp, and an integer of equal width whose lowest two bits are those of q
    source   Cody, Waite 1980, "Software manual for the elementary functions"
    """
    f = FORMATS[x.type.kind]
    shifted = b.fma(x, f.two_over_pi, f.integer_offset)
    n = b.sub(shifted, f.integer_offset)
    r = x
    for part in f.half_pi:
        r = b.fma(n, -part, r)
    return r, bits(b, shifted)


def reduce_far(b: Builder, x: Value) -> tuple[Value, Value]:
    """The same for x >= direct_limit, from 32-bit limbs of 2/pi held in 64-bit lanes; smaller x give any r and q, inf gives NaN.

    x        f32 or f64
    returns  r of the type of x, to 1 ulp, and an integer of equal width whose lowest two bits are those of q
    source   Payne, Hanek 1983, "Radian reduction for trigonometric functions", doi:10.1145/1057600.1057602
    """
    f = FORMATS[x.type.kind]
    wide = vec("i64", x.type.lanes)
    raw = b.convert(bits(b, x), wide)
    integer = b.or_(b.and_(raw, f.mantissa_mask), 1 << f.mantissa)
    significand = [integer] if f.width == 32 else [b.and_(integer, _LIMB), b.lshr(integer, 32)]
    limbs = 3 * len(significand)
    least_exponent = f.bias + int(math.log2(f.direct_limit))
    position = b.sub(b.lshr(raw, f.mantissa), least_exponent)
    # A significand of weight 2**w meets the bits of 2/pi from number w - 1 on: those before it make whole multiples of 4.
    first_bit = least_exponent - f.bias - f.mantissa - 1
    window = _window(b, position, limbs, first_bit, (f.bias + 1).bit_length() - 6)
    product = _product_tail(b, window, significand)
    top = product[-1]
    q = b.lshr(b.add(top, 1 << 29), 30)
    signed = b.sub(top, b.shl(q, 30))
    parts = [integer_to_float(b, v) for v in (signed, *reversed(product[:-1]))]
    r = b.convert(_scaled_sum(b, parts), x.type)
    return b.add(r, b.sub(x, x)), b.convert(q, x.type.with_kind(f.word))  # x - x is NaN for an infinite x


def _window(b: Builder, position: Value, limbs: int, first_bit: int, reach: int) -> list[Value]:
    """`limbs` words of 32 bits of 2/pi from bit first_bit + position on (bit 1 weighs 1/2), the most significant first.

    The word number, of `reach` bits, is applied bit by bit, as in a barrel shifter: no table in memory, no gather.
    """
    count = (1 << reach) + limbs
    table = _TWO_OVER_PI >> (_TWO_OVER_PI_BITS - (32 * count + first_bit - 1))
    words = [b.const(position.type, (table >> (32 * (count - 1 - i))) & _LIMB) for i in range(count)]
    for stage in reversed(range(reach)):
        step = 1 << stage
        skip = b.cmp("ne", b.and_(position, step << 5), 0)
        words = [b.select(skip, words[i + step], words[i]) for i in range(step + limbs)]
    shift = b.and_(position, 31)
    return [b.lshr(b.shl(b.or_(b.shl(high, 32), low), shift), 32) for high, low in zip(words, words[1:])]


def _product_tail(b: Builder, window: list[Value], significand: list[Value]) -> list[Value]:
    """The product modulo the window's length, in limbs, the least significant first; the lowest, mere rounding, are left out."""
    limbs = len(window)
    columns: list[list[Value]] = [[] for _ in range(limbs + 1)]
    for i, w in enumerate(reversed(window)):
        for j, s in enumerate(significand):
            if i + j < limbs:
                product = b.mul(w, s)
                columns[i + j].append(b.and_(product, _LIMB))
                columns[i + j + 1].append(b.lshr(product, 32))
    result: list[Value] = []
    carry = b.const(window[0].type, 0)
    for column in columns[:limbs]:
        total = carry
        for term in column:
            total = b.add(total, term)
        result.append(b.and_(total, _LIMB))
        carry = b.lshr(total, 32)
    return result[len(significand):]


def _scaled_sum(b: Builder, parts: list[Value]) -> Value:
    """pi/2 * 2**-62 * (p0 2**32 + p1 + p2 2**-32 + p3 2**-64), p2 and p3 optional, with one rounding error."""
    high = b.mul(parts[0], 2.0**32)
    total = b.add(high, parts[1])
    if len(parts) == 2:
        return b.mul(total, _HALF_PI_62[0])
    rest = b.sub(parts[1], b.sub(total, high))
    rest = b.add(rest, b.fma(parts[2], 2.0**-32, b.mul(parts[3], 2.0**-64)))
    product = b.mul(total, _HALF_PI_62[0])
    error = b.fma(total, _HALF_PI_62[0], b.neg(product))
    return b.add(product, b.add(error, b.fma(total, _HALF_PI_62[1], b.mul(rest, _HALF_PI_62[0]))))
