"""How each dtype is held in registers and in memory, and how one becomes another.

bool is a byte 0 or 1 in memory and an i1 in registers. bfloat16 and float16 take 2 bytes in memory and are an f32 in registers
that holds a value of the narrow format. The others are the same in both places.
"""

from __future__ import annotations

from renaissance.ir.dtype import DType, bfloat16, bool_, float16, float64, uint64
from renaissance.kernels.loops import Builder, Type, Value


def register(dtype: DType, lanes: int = 1) -> Type:
    """How a dtype is held in registers."""
    if dtype is bool_:
        return Type("i1", lanes)
    if dtype.is_float:
        return Type("f64" if dtype is float64 else "f32", lanes)
    return Type(f"i{8 * dtype.size}", lanes)


def memory(dtype: DType, lanes: int = 1) -> Type:
    """How a dtype is read and written; the bits of a bfloat16 go as an integer."""
    if dtype is bfloat16 or dtype is bool_:
        return Type(f"i{8 * dtype.size}", lanes)
    return Type("f16", lanes) if dtype is float16 else register(dtype, lanes)


def from_memory(b: Builder, x: Value, dtype: DType) -> Value:
    """The register form of what was read."""
    if dtype is bool_:
        return b.cmp("ne", x, 0)
    if dtype is bfloat16:
        return b.bitcast(b.shl(b.zext(x, x.type.with_kind("i32")), 16), x.type.with_kind("f32"))
    return b.convert(x, x.type.with_kind("f32")) if dtype is float16 else x


def to_memory(b: Builder, x: Value, dtype: DType) -> Value:
    """What is written for a register value of a dtype."""
    if dtype is bool_:
        return b.zext(x, x.type.with_kind("i8"))
    if dtype is bfloat16:  # a bfloat16 value: the lower half of its f32 is 0
        return b.convert(b.lshr(b.bitcast(x, x.type.with_kind("i32")), 16), x.type.with_kind("i16"))
    return b.convert(x, x.type.with_kind("f16")) if dtype is float16 else x


def rounded(b: Builder, x: Value, dtype: DType) -> Value:
    """An f32 rounded to nearest even to the values of a 16-bit float; other dtypes are left alone. NaN stays NaN."""
    if dtype is float16:
        return b.convert(b.convert(x, x.type.with_kind("f16")), x.type)
    if dtype is not bfloat16:
        return x
    bits = b.bitcast(x, x.type.with_kind("i32"))
    odd = b.and_(b.lshr(bits, 16), 1)
    nearest = b.add(bits, b.add(odd, 0x7FFF))
    kept = b.select(b.cmp("ne", x, x), b.or_(bits, 0x400000), nearest)
    return b.bitcast(b.and_(kept, -0x10000), x.type)


def cast(b: Builder, x: Value, source: DType, to: DType) -> Value:
    """x of dtype `source` as `to`, by NumPy's rules: to bool is != 0, floats to integers truncate, integers wrap.

    A float outside the integer's range gives what x86 gives: the low bits of the least i32 (i64 for 32-bit unsigned and wider).
    """
    lanes = x.type.lanes
    type = register(to, lanes)
    if source is to:
        return x
    if to is bool_:
        return b.cmp("ne", x, 0)
    if source is bool_:
        return b.select(x, b.const(type, 1), b.const(type, 0)) if to.is_float else b.zext(x, type)
    if source.is_float:
        return _from_float(b, x, to, type)
    if to.is_float:
        single = b.utof(x, type) if source.kind == "u" else b.convert(x, type)
        return rounded(b, single, to)
    if source.kind == "u" and to.size > source.size:
        return b.zext(x, type)
    return b.convert(x, type)


def _from_float(b: Builder, x: Value, to: DType, type: Type) -> Value:
    if to.is_float:
        return rounded(b, b.convert(x, type), to)
    if to is uint64:
        return _to_uint64(b, x, type)
    wide = "i64" if to.size == 8 or (to.kind == "u" and to.size == 4) else "i32"
    return b.convert(b.convert(x, type.with_kind(wide)), type)


def _to_uint64(b: Builder, x: Value, type: Type) -> Value:
    """Values from 2**63 on are brought below it and get their high bit back."""
    high = b.cmp("ge", x, 2.0**63)
    low = b.convert(b.select(high, b.sub(x, 2.0**63), x), type)
    return b.select(high, b.xor(low, -(2**63)), low)
