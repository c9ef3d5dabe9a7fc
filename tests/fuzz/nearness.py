"""How near one op's result must come to its NumPy reference on the same operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from renaissance.ir.node import Node

# Units in the last place of the result that each word may be off; words that are not named are exact.
ULPS = {"exp": 4, "expm1": 4, "log": 4, "log1p": 4, "sin": 4, "cos": 4, "tanh": 4, "erf": 8, "atan": 4, "pow": 8, "fma": 1}
_WORD_IN_FLOAT64: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "atan": np.arctan,
    "pow": np.power,
}
_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-8, "float16": 2.0**-10}
_SMALLEST = {"float64": 5e-324, "float32": 1.5e-45, "bfloat16": 1e-40, "float16": 6e-8}


def same(a: Any, b: Any) -> np.ndarray:
    """Where two arrays hold the same bits; any NaN is as good as any other."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind not in "biu":
        a, b = a.astype(np.float64), b.astype(np.float64)
        return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    return a == b


def assert_same(got: Any, expected: Any, what: str) -> None:
    """Equal bits, -0.0 and 0.0 apart, NaN and NaN not."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype), what
    wrong = np.argwhere(~same(got, expected))
    if len(wrong):
        at = tuple(wrong[0])
        raise AssertionError(f"{what}: {len(wrong)} of {got.size} elements differ, first at {at}: {got[at]!r} instead of {expected[at]!r}")


def assert_near_reference(n: Node, arrays: Sequence[np.ndarray], got: np.ndarray) -> None:
    """One node's result against its op's reference."""
    with np.errstate(all="ignore"):
        reference = np.asarray(n.op.reference(list(arrays), *n.attrs, out=(n.shape, n.dtype)))
        expected = reference.astype(n.dtype.numpy).reshape(n.shape)
        if got.dtype.kind in "biu":
            near = _same_integers(n, arrays, got, expected)
        else:
            near = same(got, expected) | _allowed(n, arrays, got, expected)
    wrong = np.argwhere(~near)
    if len(wrong):
        at = tuple(wrong[0])
        operands = ", ".join(repr(a[at]) for a in arrays if a.shape == got.shape)
        raise AssertionError(f"{n!r} of {[i.dtype.name + str(list(i.shape)) for i in n.inputs]} {n.attrs}: {len(wrong)} of {got.size} elements "
                             f"are off, first at {at}: {got[at]!r} instead of {expected[at]!r}; operands there: {operands}")


def _same_integers(n: Node, arrays: Sequence[np.ndarray], got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    near = got == expected
    if n.op.name == "cast" and arrays[0].dtype.kind not in "biu" and got.dtype.kind != "b":
        info = np.iinfo(got.dtype)
        x = arrays[0].astype(np.float64)
        near |= ~((x > float(info.min) - 1) & (x < float(info.max) + 1))  # outside the range NumPy promises nothing
    return near


def _allowed(n: Node, arrays: Sequence[np.ndarray], got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where a float result that is not the reference's is near enough."""
    wide, aim = got.astype(np.float64), expected.astype(np.float64)
    eps, smallest = _EPS[n.dtype.name], _SMALLEST[n.dtype.name]
    name = n.op.name
    if name in ("maximum", "minimum", "reduce_max", "reduce_min"):
        return wide == aim  # which of 0.0 and -0.0 is the larger is open
    if name in ULPS:
        exact = _WORD_IN_FLOAT64[name](*(a.astype(np.float64) for a in arrays)) if name in _WORD_IN_FLOAT64 else aim
        return _within(wide, exact, ULPS[name] * eps * np.abs(exact) + 2 * smallest, n.dtype.numpy)
    if name in ("floordiv", "mod"):
        return _near_quotient(name, arrays, wide, eps)
    if name == "reduce_sum":
        x, axes = arrays[0].astype(np.float64), n.attrs[0]
        size = _finite(x).sum(axes)
        length = x.size // max(1, got.size)
        chain = 8 + (length // 64 if axes[-1] == x.ndim - 1 else length)  # additions one after another
        return _within(wide, x.sum(axes), chain * eps * size + smallest, n.dtype.numpy) | _overflowing(size, n)
    if name == "reduce_prod":
        x = arrays[0].astype(np.float64)
        count = x.size / max(1, got.size)
        high, low = np.maximum(np.abs(x), 1).prod(n.attrs[0]), np.minimum(np.abs(x), 1).prod(n.attrs[0])
        inside = (high < _largest(n)) & (low > np.finfo(np.float32).tiny)
        return _within(wide, x.prod(n.attrs[0]), 2 * count * eps * np.abs(aim) + smallest, n.dtype.numpy) | ~inside
    if name == "dot":
        a, b = (x.astype(np.float64) for x in arrays)
        size = np.matmul(_finite(a), _finite(b))
        return _within(wide, np.matmul(a, b), 2 * eps * a.shape[2] * size + smallest, n.dtype.numpy) | _overflowing(size, n)
    return np.zeros(got.shape, bool)


def _within(got: np.ndarray, exact: np.ndarray, error: np.ndarray, numpy: np.dtype) -> np.ndarray:
    rounded = exact.astype(numpy).astype(np.float64)
    return same(got, rounded) | (np.abs(got - exact) <= error) | (np.isinf(got) & (np.abs(exact) > 0.999 * _max(numpy)) & (got * exact > 0))


def _max(numpy: np.dtype) -> float:
    return 3.4e38 if numpy.itemsize == 2 and numpy.name == "bfloat16" else float(np.finfo(numpy).max)


def _largest(n: Node) -> float:
    return 0.9 * _max(n.dtype.numpy)


def _finite(x: np.ndarray) -> np.ndarray:
    """Absolute values, those that are no numbers left out: their effect on a sum does not depend on its order."""
    return np.where(np.isfinite(x), np.abs(x), 0.0)


def _overflowing(size: np.ndarray, n: Node) -> np.ndarray:
    """Where a sum in another order may overflow: the order is ours, not NumPy's."""
    return ~(size < _largest(n))


def _near_quotient(name: str, arrays: Sequence[np.ndarray], got: np.ndarray, eps: float) -> np.ndarray:
    """x // y and x % y: a quotient next to a whole number may fall to either side."""
    x, y = (a.astype(np.float64) for a in arrays)
    q = x / y
    if name == "floordiv":
        return (np.abs(got - np.floor(q)) <= 1) & (np.abs(q - np.rint(q)) <= 4 * eps * np.maximum(np.abs(q), 1)) | ~(np.abs(q) < 1 / eps)
    return (np.abs(got - np.mod(x, y)) <= 4 * eps * np.maximum(np.abs(x), np.abs(y))) | ~(np.abs(q) < 1 / eps) | (
        np.abs(q - np.rint(q)) <= 4 * eps * np.maximum(np.abs(q), 1)) | (np.abs(q) < eps)
