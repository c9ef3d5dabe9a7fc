"""Pointwise ops: one record per scalar word with its gradient, and the functions users call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from renaissance.errors import ArgumentError, DTypeError, ShapeError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Op, Shape
from renaissance.ops.movement import broadcast_to
from renaissance.ops.scalar import WORDS, Word
from renaissance.ops.value import Value, apply, const, is_number, method, need_tensor, number_dtype

# ---- records -----------------------------------------------------------------------------------------------------------


def _infer(word: Word):
    def infer(inputs: tuple[Node, ...]) -> tuple[Shape, DType]:
        operands = inputs[1:] if word.name == "where" else inputs
        first = operands[0]
        if word.name == "where" and inputs[0].dtype is not dt.bool_:
            raise DTypeError(f"where: condition must be bool, got {inputs[0].dtype.name}")
        if any(i.shape != first.shape for i in inputs):
            raise ShapeError(f"{word.name}: shapes must agree, got {', '.join(str(i.shape) for i in inputs)}")
        if any(i.dtype is not first.dtype for i in operands):
            raise DTypeError(f"{word.name}: dtypes must agree, got {', '.join(i.dtype.name for i in operands)}")
        if first.dtype.kind not in word.kinds:
            raise DTypeError(f"{word.name}: dtype {first.dtype.name} is not supported; cast it first (takes {_kinds(word)})")
        return first.shape, dt.bool_ if word.result == "bool" else first.dtype

    return infer


def _kinds(word: Word) -> str:
    return ", ".join({"f": "floats", "i": "signed ints", "u": "unsigned ints", "b": "bool"}[k] for k in word.kinds)


def _reference(word: Word):
    def reference(arrays: Any, out: tuple[Shape, DType]) -> Any:
        narrow = out[1].is_float and out[1].size == 2
        wide = [a.astype(np.float32) if narrow and a.dtype.itemsize == 2 and a.dtype.kind not in "iub" else a for a in arrays]
        with np.errstate(all="ignore"):
            return np.asarray(word.numpy(*wide)).astype(out[1].numpy)

    return reference


def _half_where_equal(ct: Value, x: Value, y: Value, pick_x: Value) -> tuple[Value, Value]:
    """Gradient of maximum and minimum: to the one picked, half to each at a tie."""
    zero, half = lit(0, ct), ct * lit(0.5, ct)
    tie = equal(x, y)
    gx = where(tie, half, where(pick_x, ct, zero))
    gy = where(tie, half, where(pick_x, zero, ct))
    return gx, gy


def _vjp_pow(ct: Any, out: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """d x^y/dx = y x^(y-1), 0 where y = 0; d x^y/dy = x^y log x, 0 where x = 0 and y >= 0."""
    x, y = inputs
    zero, one = lit(0, ct), lit(1, ct)
    gx = where(equal(y, zero), zero, ct * y * power(x, y - one))
    quiet = logical_and(equal(x, zero), greater_equal(y, zero))
    gy = where(quiet, zero, ct * out * log(where(quiet, one, x)))
    return gx, gy


def _vjp_abs(ct: Value, out: Value, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    return (ct * sign(inputs[0]),)


_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)

_VJP: dict[str, Any] = {
    "neg": lambda ct, out, i: (negative(ct),),
    "abs": _vjp_abs,
    "sign": lambda ct, out, i: (None,),
    "floor": lambda ct, out, i: (None,),
    "ceil": lambda ct, out, i: (None,),
    "trunc": lambda ct, out, i: (None,),
    "round": lambda ct, out, i: (None,),
    "sqrt": lambda ct, out, i: (ct * lit(0.5, ct) / out,),
    "exp": lambda ct, out, i: (ct * out,),
    "expm1": lambda ct, out, i: (ct * (out + lit(1, ct)),),
    "log": lambda ct, out, i: (ct / i[0],),
    "log1p": lambda ct, out, i: (ct / (i[0] + lit(1, ct)),),
    "sin": lambda ct, out, i: (ct * cos(i[0]),),
    "cos": lambda ct, out, i: (negative(ct * sin(i[0])),),
    "tanh": lambda ct, out, i: (ct * (lit(1, ct) - out * out),),
    "erf": lambda ct, out, i: (ct * lit(_TWO_OVER_SQRT_PI, ct) * exp(negative(i[0] * i[0])),),
    "atan": lambda ct, out, i: (ct / (lit(1, ct) + i[0] * i[0]),),
    "add": lambda ct, out, i: (ct, ct),
    "sub": lambda ct, out, i: (ct, negative(ct)),
    "mul": lambda ct, out, i: (ct * i[1], ct * i[0]),
    "div": lambda ct, out, i: (ct / i[1], negative(ct * out / i[1])),
    "floordiv": lambda ct, out, i: (None, None),
    "mod": lambda ct, out, i: (ct, negative(ct * floor_divide(i[0], i[1]))),
    "pow": _vjp_pow,
    "maximum": lambda ct, out, i: _half_where_equal(ct, i[0], i[1], greater(i[0], i[1])),
    "minimum": lambda ct, out, i: _half_where_equal(ct, i[0], i[1], less(i[0], i[1])),
    "where": lambda ct, out, i: (None, where(i[0], ct, lit(0, ct)), where(i[0], lit(0, ct), ct)),
    "fma": lambda ct, out, i: (ct * i[1], ct * i[0], ct),
}

OPS: dict[str, Op] = {w.name: Op(w.name, "scalar", _infer(w), _reference(w), _VJP.get(w.name)) for w in WORDS.values()}


def _infer_cast(inputs: tuple[Node, ...], dtype: DType) -> tuple[Shape, DType]:
    return inputs[0].shape, dtype


def _reference_cast(arrays: Any, dtype: DType, out: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(arrays[0]).astype(dtype.numpy)


CAST = Op("cast", "scalar", _infer_cast, _reference_cast,
          lambda ct, out, inputs, dtype: (astype(ct, inputs[0].dtype) if inputs[0].dtype.is_float else None,), ("dtype",))


# ---- operands ----------------------------------------------------------------------------------------------------------


def lit(value: Any, like: Value) -> Any:
    """A constant of the program with the dtype of `like`, stretched to its shape; a weak value stays what it is."""
    if isinstance(value, Value):
        return broadcast_to(astype(value, like.dtype), like.shape)
    return broadcast_to(Value(const(value, like.dtype)), like.shape)


def _operand(x: Any, other: Value) -> Any:
    """A number beside a tensor becomes a 0-d value of the handle's own kind (see Value.number); beside a weak one it is weak."""
    if isinstance(x, Value):
        return x
    if is_number(x):
        if other.weak and type(x) in (bool, int, float):
            return type(other)(other.handle.number(x, dt.float64 if type(x) is float else dt.int64))
        return other.handle(other.handle.number(x, number_dtype(x, other.dtype)))
    raise DTypeError(f"{type(x).__name__} {x!r} is neither a number nor a tensor; make it one with rn.tensor(...)")


def operands(op: str, *xs: Any) -> tuple[Any, ...]:
    """The arguments of a pointwise op with one dtype and one shape."""
    like = next((x for x in xs if isinstance(x, Value)), None)
    if like is None:
        raise DTypeError(f"{op}: at least one argument must be a tensor, got {', '.join(type(x).__name__ for x in xs)}")
    values = [_operand(x, like) for x in xs]
    strong = [v.dtype for v in values if not v.weak] or [v.dtype for v in values]
    dtype = strong[0]
    for d in strong[1:]:
        dtype = dt.promote(dtype, d)
    for v in values:
        if v.weak:
            dtype = number_dtype(0.0 if v.dtype.is_float else 0, dtype)
            if v.dtype.is_integer and dtype.is_integer and dtype is not dt.int64:
                v.look()  # it must fit
    shape = values[0].shape
    if any(v.shape != shape for v in values):
        shape = sh.broadcast(op, *(v.shape for v in values))
    return tuple([v if v.dtype is dtype and v.shape == shape else broadcast_to(astype(v, dtype), shape) for v in values])


@method()
def astype(x: Any, dtype: Any) -> Any:
    """Convert to another dtype: floats round to nearest even, floats to ints cut towards zero, anything to bool is `!= 0`.

    y = x in the other dtype

    x        any shape
    dtype    a DType, its name, or a NumPy dtype
    returns  shape of x, the given dtype
    raises   DTypeError for an unknown dtype
    source   array API standard, astype
    """
    need_tensor("astype", x)
    wanted = dt.dtype(dtype)
    return x if x.dtype is wanted else apply(CAST, (x,), (wanted,))


# ---- functions ---------------------------------------------------------------------------------------------------------

_API = "array API standard"


def _one(name: str, word: str, sentence: str, formula: str, *operators: str, floats: bool = False,
         source: str = _API) -> Callable[[Any], Any]:
    """The public function of one tensor for a word; with `floats`, other dtypes are cast to float32 first."""

    def function(x: Any) -> Any:
        need_tensor(name, x)
        return apply(OPS[word], (astype(x, dt.float32) if floats and not x.dtype.is_float else x,))

    function.__doc__ = f"""{sentence}

    {formula}

    x        any shape
    returns  the shape of x, {"float32 or the float dtype of x" if floats else "the dtype of x"}
    raises   DTypeError for what is no tensor, and for other dtypes than {_kinds(WORDS[word])}
    source   {source}
    """
    return _published(function, name, operators)


def _two(name: str, word: str, sentence: str, formula: str, *operators: str) -> Callable[[Any, Any], Any]:
    """The public function of two operands for a word."""

    def function(x: Any, y: Any) -> Any:
        return apply(OPS[word], operands(name, x, y))

    function.__doc__ = f"""{sentence}

    {formula}

    x, y     tensors or numbers that broadcast together
    returns  the broadcast shape, {"bool" if WORDS[word].result == "bool" else "the promoted dtype"}
    raises   DTypeError for other dtypes than {_kinds(WORDS[word])}; ShapeError when shapes do not broadcast
    source   {_API}
    """
    return _published(function, name, operators)


def _published(function: Any, name: str, operators: tuple[str, ...]) -> Any:
    """A function under its public name, also as a method of Value and as Python's operators."""
    function.__name__ = function.__qualname__ = name
    return method(name, *operators)(function)


negative = _one("negative", "neg", "Change the sign of each element.", "y = -x", "__neg__")
absolute = _one("abs", "abs", "Drop the sign of each element; the gradient at 0 is 0.", "y = |x|", "__abs__")
sign = _one("sign", "sign", "The sign of each element: -1, 0 or 1; NaN stays NaN.", "y = x / |x|, 0 at 0")
floor = _one("floor", "floor", "Round each element down.", "y = max integer <= x", floats=True)
ceil = _one("ceil", "ceil", "Round each element up.", "y = min integer >= x", floats=True)
trunc = _one("trunc", "trunc", "Cut each element towards zero.", "y = sign(x) floor(|x|)", floats=True)
round_ = _one("round", "round", "Round each element to the nearest integer, halves to even.", "y = rint(x)", floats=True)
sqrt = _one("sqrt", "sqrt", "Square root of each element.", "y = x^(1/2)", floats=True)
exp = _one("exp", "exp", "Exponential of each element.", "y = e^x", floats=True)
expm1 = _one("expm1", "expm1", "Exponential minus one, exact near 0.", "y = e^x - 1", floats=True)
log = _one("log", "log", "Natural logarithm of each element.", "y = ln x", floats=True)
log1p = _one("log1p", "log1p", "Logarithm of one plus x, exact near 0.", "y = ln(1 + x)", floats=True)
sin = _one("sin", "sin", "Sine of each element, in radians.", "y = sin x", floats=True)
cos = _one("cos", "cos", "Cosine of each element, in radians.", "y = cos x", floats=True)
tanh = _one("tanh", "tanh", "Hyperbolic tangent of each element.", "y = (e^2x - 1) / (e^2x + 1)", floats=True)
erf = _one("erf", "erf", "Error function.", "y = 2/sqrt(pi) integral_0^x e^(-t^2) dt", floats=True, source="definition")
atan = _one("atan", "atan", "Inverse tangent of each element, in radians.", "y = arctan x", floats=True)

add = _two("add", "add", "Add two tensors.", "z = x + y", "__add__")
subtract = _two("subtract", "sub", "Subtract the second tensor from the first.", "z = x - y", "__sub__")
multiply = _two("multiply", "mul", "Multiply two tensors element by element.", "z = x y", "__mul__")
floor_divide = _two("floor_divide", "floordiv", "Divide and round down.", "z = floor(x / y)", "__floordiv__")
remainder = _two("remainder", "mod", "What floor division leaves, with the sign of y.", "z = x - y floor(x / y)", "__mod__")
maximum = _two("maximum", "maximum", "The larger of two elements, NaN if either is; ties share the gradient.", "z = max(x, y)")
minimum = _two("minimum", "minimum", "The smaller of two elements, NaN if either is; ties share the gradient.", "z = min(x, y)")
less = _two("less", "lt", "Whether x is smaller than y.", "z = x < y", "__lt__")
less_equal = _two("less_equal", "le", "Whether x is at most y.", "z = x <= y", "__le__")
equal = _two("equal", "eq", "Whether two elements are equal.", "z = (x == y)", "__eq__")
not_equal = _two("not_equal", "ne", "Whether two elements differ.", "z = (x != y)", "__ne__")
bitwise_and = _two("bitwise_and", "and", "And of the bits; of bools the logical and.", "z = x & y", "__and__", "__rand__")
bitwise_or = _two("bitwise_or", "or", "Or of the bits; of bools the logical or.", "z = x | y", "__or__", "__ror__")
bitwise_xor = _two("bitwise_xor", "xor", "Exclusive or of the bits.", "z = x ^ y", "__xor__", "__rxor__")
bitwise_invert = _one("bitwise_invert", "not", "Invert the bits; of bools the logical not.", "y = ~x", "__invert__")
bitwise_left_shift = _two("bitwise_left_shift", "shl", "Shift bits to the left.", "z = x 2^y", "__lshift__")
bitwise_right_shift = _two("bitwise_right_shift", "shr", "Shift bits to the right.", "z = floor(x / 2^y)", "__rshift__")


@method("__gt__", "greater")
def greater(x: Any, y: Any) -> Any:
    """Whether x is larger than y.

    z = x > y

    x, y     tensors or numbers that broadcast together
    returns  the broadcast shape, bool
    raises   ShapeError when shapes do not broadcast
    source   array API standard
    """
    a, b = operands("greater", x, y)
    return apply(OPS["lt"], (b, a))


@method("__ge__", "greater_equal")
def greater_equal(x: Any, y: Any) -> Any:
    """Whether x is at least y.

    z = x >= y

    x, y     tensors or numbers that broadcast together
    returns  the broadcast shape, bool
    raises   ShapeError when shapes do not broadcast
    source   array API standard
    """
    a, b = operands("greater_equal", x, y)
    return apply(OPS["le"], (b, a))


@method("__truediv__", "divide")
def divide(x: Any, y: Any) -> Any:
    """Divide the first tensor by the second; integers are divided as float32.

    z = x / y

    x, y     tensors or numbers that broadcast together
    returns  the broadcast shape, a float dtype
    raises   ShapeError when shapes do not broadcast
    source   array API standard
    """
    a, b = operands("divide", x, y)
    if not a.dtype.is_float:
        wide = dt.float64 if a.weak and b.weak else dt.float32
        a, b = astype(a, wide), astype(b, wide)
    return apply(OPS["div"], (a, b))


_SHORT_POWERS: dict[float, Callable[[Any], Any]] = {
    1.0: lambda x: x,
    2.0: lambda x: multiply(x, x),
    3.0: lambda x: multiply(multiply(x, x), x),
    0.5: sqrt,
    -1.0: lambda x: divide(lit(1, x), x),
}


@method("__pow__", "pow")
def power(x: Any, y: Any) -> Any:
    """Raise the first tensor to the power of the second; the plain exponents 1, 2, 3, 1/2 and -1 of floats are written out.

    z = x^y

    x, y     tensors or numbers that broadcast together
    returns  the broadcast shape, the promoted dtype
    raises   DTypeError for bool; ShapeError when shapes do not broadcast
    source   array API standard
    """
    if isinstance(y, Value):
        if y.weak:
            y.look()
    elif isinstance(x, Value) and x.dtype.is_float and type(y) in (int, float) and y in _SHORT_POWERS:
        return _SHORT_POWERS[y](x)
    return apply(OPS["pow"], operands("pow", x, y))


def _is_weak(x: Any) -> bool:
    """Whether x is a Python number, or stands for one."""
    return x.weak if isinstance(x, Value) else type(x) in (bool, int, float)


def _default_dtype(*numbers: Any) -> DType:
    """The dtype of Python numbers that meet no tensor."""
    kinds = [(x.dtype if isinstance(x, Value) else dt.dtype(type(x))).kind for x in numbers]
    return dt.float32 if "f" in kinds else dt.int64 if "i" in kinds else dt.bool_


def where(condition: Any, x: Any, y: Any) -> Any:
    """Choose between two tensors; the branch not taken sends no gradient, NaN included.

    z = x where condition, else y

    condition  bool
    x, y       tensors or numbers; all broadcast together
    returns    the broadcast shape, the promoted dtype of x and y
    raises     DTypeError unless condition is bool
    source     array API standard, where
    """
    need_tensor("where", condition, "condition")
    if not any(isinstance(v, Value) and not v.weak for v in (x, y)):
        like = Value(const(0, _default_dtype(x, y)))
        x, y = (astype(_operand(v, like), like.dtype) if _is_weak(v) else _operand(v, like) for v in (x, y))
    a, b = operands("where", x, y)
    shape = sh.broadcast("where", condition.shape, a.shape)
    return apply(OPS["where"], (broadcast_to(condition, shape), broadcast_to(a, shape), broadcast_to(b, shape)))


def logical_and(x: Any, y: Any) -> Any:
    """Whether both are true (non-zero).

    z = x and y

    x, y     tensors that broadcast together
    returns  the broadcast shape, bool
    raises   ShapeError when shapes do not broadcast
    source   array API standard
    """
    return bitwise_and(astype(x, dt.bool_), astype(y, dt.bool_))


def logical_or(x: Any, y: Any) -> Any:
    """Whether at least one is true (non-zero).

    z = x or y

    x, y     tensors that broadcast together
    returns  the broadcast shape, bool
    raises   ShapeError when shapes do not broadcast
    source   array API standard
    """
    return bitwise_or(astype(x, dt.bool_), astype(y, dt.bool_))


def logical_not(x: Any) -> Any:
    """Whether an element is false (zero).

    y = not x

    x        a tensor
    returns  shape of x, bool
    raises   nothing
    source   array API standard
    """
    return bitwise_invert(astype(x, dt.bool_))


def isnan(x: Any) -> Any:
    """Whether an element is not a number.

    y = (x != x)

    x        a tensor
    returns  shape of x, bool
    raises   nothing
    source   array API standard
    """
    need_tensor("isnan", x)
    return not_equal(x, x)


def isfinite(x: Any) -> Any:
    """Whether an element is neither NaN nor infinite.

    y = (x - x == 0)

    x        a tensor
    returns  shape of x, bool
    raises   nothing
    source   array API standard
    """
    need_tensor("isfinite", x)
    difference = subtract(x, x)
    return equal(difference, lit(0, difference))


@method()
def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """Keep elements between two bounds; at a bound given as a number the gradient is 0.

    y = min if x <= min, max if x >= max, else x;   NaN stays NaN

    x         any shape
    min, max  numbers, or tensors that broadcast with x; None: no bound
    returns   the broadcast shape, dtype of x
    raises    ArgumentError when a number bound min is above max
    source    array API standard, clip
    """
    need_tensor("clip", x)
    if is_number(min) and is_number(max) and min > max:
        raise ArgumentError(f"clip: min {min} is above max {max}")
    if min is not None:
        x = where(less_equal(x, min), min, x) if is_number(min) or _is_weak(min) else maximum(x, min)
    if max is not None:
        x = where(greater_equal(x, max), max, x) if is_number(max) or _is_weak(max) else minimum(x, max)
    return x


def _reflected(function: Any):
    def reflected(x: Any, y: Any) -> Any:
        return function(_operand(y, x), x)

    return reflected


for _name, _target in (("__radd__", add), ("__rsub__", subtract), ("__rmul__", multiply), ("__rtruediv__", divide),
                       ("__rpow__", power), ("__rfloordiv__", floor_divide), ("__rmod__", remainder),
                       ("__rlshift__", bitwise_left_shift), ("__rrshift__", bitwise_right_shift)):
    method(_name)(_reflected(_target))
# `==` compares elements, so identity has to stand in for hashing.
method("__hash__")(object.__hash__)
