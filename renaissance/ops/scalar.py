"""The closed vocabulary of scalar words: what a pointwise body may say, and all a kernel printer must know.

Each word: its number of arguments, its result ('same' dtype as its arguments, 'bool', or 'args[1]' for select), and its meaning
in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Word:
    """A scalar function: arity, result ('same', 'bool'), kinds of dtype it takes, NumPy meaning."""

    name: str
    arity: int
    result: str
    kinds: str
    numpy: Callable[..., Any]


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _fma(a: Any, b: Any, c: Any) -> Any:
    """One rounding, through float64: exact for float32 products, so only the last addition rounds (twice, harmlessly rare)."""
    wide = np.asarray(a, np.float64) * np.asarray(b, np.float64) + np.asarray(c, np.float64)
    return wide.astype(np.result_type(a))


_F, _N, _I, _ANY = "f", "fiu", "iu", "fiub"
_LIST = (
    Word("neg", 1, "same", "fi", np.negative),
    Word("abs", 1, "same", "fi", np.abs),
    Word("sign", 1, "same", "fi", np.sign),
    Word("floor", 1, "same", _F, np.floor),
    Word("ceil", 1, "same", _F, np.ceil),
    Word("trunc", 1, "same", _F, np.trunc),
    Word("round", 1, "same", _F, np.rint),
    Word("sqrt", 1, "same", _F, np.sqrt),
    Word("exp", 1, "same", _F, np.exp),
    Word("expm1", 1, "same", _F, np.expm1),
    Word("log", 1, "same", _F, np.log),
    Word("log1p", 1, "same", _F, np.log1p),
    Word("sin", 1, "same", _F, np.sin),
    Word("cos", 1, "same", _F, np.cos),
    Word("tanh", 1, "same", _F, np.tanh),
    Word("erf", 1, "same", _F, _erf),
    Word("atan", 1, "same", _F, np.arctan),
    Word("not", 1, "same", "biu", np.invert),
    Word("add", 2, "same", _N, np.add),
    Word("sub", 2, "same", _N, np.subtract),
    Word("mul", 2, "same", _N, np.multiply),
    Word("div", 2, "same", _F, np.true_divide),
    Word("floordiv", 2, "same", _N, np.floor_divide),
    Word("mod", 2, "same", _N, np.mod),
    Word("pow", 2, "same", _N, np.power),
    Word("maximum", 2, "same", _ANY, np.maximum),
    Word("minimum", 2, "same", _ANY, np.minimum),
    Word("and", 2, "same", "biu", np.bitwise_and),
    Word("or", 2, "same", "biu", np.bitwise_or),
    Word("xor", 2, "same", "biu", np.bitwise_xor),
    Word("shl", 2, "same", _I, np.left_shift),
    Word("shr", 2, "same", _I, np.right_shift),
    Word("lt", 2, "bool", _ANY, np.less),
    Word("le", 2, "bool", _ANY, np.less_equal),
    Word("eq", 2, "bool", _ANY, np.equal),
    Word("ne", 2, "bool", _ANY, np.not_equal),
    Word("where", 3, "same", _ANY, np.where),  # (condition bool, x, y): result has the dtype of x and y
    Word("fma", 3, "same", _F, _fma),
)
WORDS: dict[str, Word] = {w.name: w for w in _LIST}
