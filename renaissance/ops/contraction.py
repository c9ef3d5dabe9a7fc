"""Contractions: products summed over a shared axis, one multiply-add chain per output in order of that axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from renaissance.errors import DTypeError, ShapeError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Op, Shape
from renaissance.ops.composed import composed
from renaissance.ops.elementwise import add, astype
from renaissance.ops.movement import broadcast_to, matrix_transpose, reshape
from renaissance.ops.precision import narrow_dtype
from renaissance.ops.value import Value, apply, method, need_tensor


def _infer(inputs: tuple[Node, ...], out_dtype: DType) -> tuple[Shape, DType]:
    a, b = inputs
    if len(a.shape) != 3 or len(b.shape) != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise ShapeError(f"dot: takes (B, M, K) and (B, K, N), got {a.shape} and {b.shape}")
    if a.dtype is not b.dtype or not a.dtype.is_float:
        raise DTypeError(f"dot: takes two floats of one dtype, got {a.dtype.name} and {b.dtype.name}")
    return (a.shape[0], a.shape[1], b.shape[2]), out_dtype


def _reference(arrays: Any, out_dtype: DType, out: Any) -> Any:
    a, b = (x.astype(np.float64) for x in arrays)
    with np.errstate(all="ignore"):
        return np.matmul(a, b).astype(out_dtype.numpy)


def _vjp(ct: Value, out: Value, inputs: tuple[Value, ...], out_dtype: DType) -> tuple[Value, ...]:
    """dA = C' B^T, dB = A^T C'; the cotangent is rounded once to the operands' dtype, the results are not."""
    a, b = inputs
    ct = astype(ct, a.dtype)
    return (apply(DOT, (ct, matrix_transpose(b)), (out_dtype,)), apply(DOT, (matrix_transpose(a), ct), (out_dtype,)))


DOT = Op("dot", "contraction", _infer, _reference, _vjp, ("out_dtype",))

def operand_dtype(op: str, a: Any, b: Any) -> DType:
    """What both operands of a contraction are rounded to."""
    if not (isinstance(a, Value) and isinstance(b, Value)):
        raise DTypeError(f"{op}: takes two tensors, got {type(a).__name__} and {type(b).__name__}")
    common = dt.promote(a.dtype, b.dtype)
    if not common.is_float:
        raise DTypeError(f"{op}: takes floats, got {a.dtype.name} and {b.dtype.name}; cast them with astype")
    chosen = narrow_dtype() or common if common is dt.float32 else common
    if chosen is dt.float16:
        raise DTypeError(f"{op}: float16 operands are not supported; cast to bfloat16 or float32")
    return chosen


def _dot(a: Any, b: Any) -> Any:
    return apply(DOT, (a, b), (dt.accumulator(a.dtype),))


@method("__matmul__", "matmul")
def matmul(a: Any, b: Any) -> Any:
    """Matrix product; leading axes broadcast, a 1-d operand is a row on the left, a column on the right.

    c[..., m, n] = sum_k a[..., m, k] b[..., k, n]

    a        (..., M, K) or (K,) float
    b        (..., K, N) or (K,) float
    returns  (..., M, N), without the axes of 1-d operands; the promoted dtype (bfloat16 under that precision)
    raises   ShapeError when inner sizes differ or leading axes do not broadcast; DTypeError for integers
    source   array API standard, matmul
    """
    chosen = operand_dtype("matmul", a, b)
    a, b = astype(a, chosen), astype(b, chosen)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul: operands must have at least 1 axis, got {a.shape} and {b.shape}")
    left, right = a.ndim == 1, b.ndim == 1
    a = reshape(a, (1, *a.shape)) if left else a
    b = reshape(b, (*b.shape, 1)) if right else b
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"matmul: the last axis of a must equal the second-last of b, got {a.shape} and {b.shape}")
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    lead = sh.broadcast("matmul", a.shape[:-2], b.shape[:-2])
    if b.ndim == 2:  # leading axes of a are more rows of one product
        c = _dot(reshape(a, (1, sh.size(a.shape[:-1]), k)), reshape(b, (1, k, n)))
    else:
        batch = sh.size(lead)
        c = _dot(reshape(broadcast_to(a, (*lead, m, k)), (batch, m, k)), reshape(broadcast_to(b, (*lead, k, n)), (batch, k, n)))
    shape = (*lead, *(() if left else (m,)), *(() if right else (n,)))
    return reshape(astype(c, chosen), shape)


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """Apply an affine map to the last axis; the bias is added before the result is rounded to a narrow precision.

    y = x W^T + b

    x        (..., K) float
    weight   (N, K) float
    bias     (N,) or None
    returns  (..., N); the promoted dtype (bfloat16 under that precision)
    raises   ShapeError when sizes differ; DTypeError for integers
    source   PyTorch, torch.nn.functional.linear
    """
    need_tensor("linear", x)
    need_tensor("linear", weight, "weight")
    if weight.ndim != 2:
        raise ShapeError(f"linear: weight must be (N, K), got {weight.shape}")
    n, k = weight.shape
    if x.ndim == 0 or x.shape[-1] != k:
        raise ShapeError(f"linear: x must be (..., K) = (..., {k}), got {x.shape}")
    if bias is not None and bias.shape != (n,):
        raise ShapeError(f"linear: bias must be (N,) = ({n},), got {bias.shape}")
    return _affine(x, weight, bias, operand_dtype("linear", x, weight))


@composed
def _affine(x: Any, weight: Any, bias: Any, chosen: DType) -> Any:
    """x W^T + b with operands rounded to `chosen`."""
    n, k = weight.shape
    lead = x.shape[:-1]
    a, w = astype(x, chosen), astype(weight, chosen)
    y = _dot(reshape(a, (1, sh.size(lead), k)), reshape(matrix_transpose(w), (1, k, n)))
    if bias is not None:
        y = add(y, astype(bias, y.dtype))
    return reshape(astype(y, chosen), (*lead, n))
