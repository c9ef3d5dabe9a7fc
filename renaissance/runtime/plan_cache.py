"""Plans as bytes, and the folder where they are kept from process to process.

The form is JSON: a list of rows, each a tuple, a dataclass of `ir/plan.py`, a dtype, or bytes, that refers to earlier rows by
number. Equal parts are one row, so a plan of many similar items is small and is read in one pass.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any

from renaissance.config import settings
from renaissance.errors import PlanError
from renaissance.ir import plan as ir
from renaissance.ir.dtype import DType, dtype
from renaissance.runtime.disk_cache import DiskCache, sources_digest

_FORMAT = 1
_PARTS = (
    ir.Access, ir.Instr, ir.Store, ir.Stage, ir.Nest, ir.Image, ir.Contraction, ir.Depthwise, ir.Windows, ir.Winograd,
    ir.WinogradWeights, ir.WinogradSums, ir.WinogradWeightGradient, ir.Scatter, ir.Host,
    ir.Operand, ir.Item, ir.Buffer, ir.Plan,
)
_CLASSES = {c.__name__: c for c in _PARTS}
_FIELDS = {c: tuple(f.name for f in dataclasses.fields(c)) for c in _PARTS}


def load_plan(key: str) -> ir.Plan | None:
    """The plan stored under a key by this version of the compiler, or None.

    key      says everything the plan depends on but the compiler's own sources
    """
    content = _cache().get(_full_key(key))
    return None if content is None else decode(content)


def store_plan(key: str, plan: ir.Plan) -> None:
    """Keep a plan for later processes.

    raises   PlanError for a plan that holds something with no written form
    """
    _cache().put(_full_key(key), encode(plan))


def encode(plan: ir.Plan) -> bytes:
    """A plan as bytes; `decode` gives an equal one.

    raises   PlanError for a value that is neither a part of a plan nor a number, text, bytes, dtype or tuple
    """
    writer = _Writer()
    root = writer.value(plan)
    return json.dumps([_FORMAT, root, writer.rows], separators=(",", ":")).encode()


def decode(content: bytes) -> ir.Plan:
    """The plan that `encode` wrote.

    raises   PlanError when the bytes are of another format
    """
    version, root, rows = json.loads(content)
    if version != _FORMAT:
        raise PlanError(f"plan: format {version} is not readable; this version reads format {_FORMAT}")
    made: list[Any] = []

    def value(v: Any) -> Any:
        return made[v[0]] if type(v) is list else v

    for kind, *parts in rows:
        if kind == "t":
            made.append(tuple([value(p) for p in parts]))
        elif kind == "dtype":
            made.append(dtype(parts[0]))
        elif kind == "bytes":
            made.append(bytes.fromhex(parts[0]))
        else:
            made.append(_CLASSES[kind](*[value(p) for p in parts]))
    return value(root)


class _Writer:
    """Rows, and where each distinct row is."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._numbers: dict[str, int] = {}

    def value(self, v: Any) -> Any:
        """A number, text, bool or None as itself; anything else as [row number]."""
        if v is None or type(v) in (bool, int, float, str):
            return v
        if type(v) is tuple:
            return self._row(["t", *map(self.value, v)])
        if isinstance(v, DType):
            return self._row(["dtype", v.name])
        if type(v) is bytes:
            return self._row(["bytes", v.hex()])
        names = _FIELDS.get(type(v))
        if names is None:
            raise PlanError(f"plan: {v!r} of type {type(v).__name__} has no written form")
        return self._row([type(v).__name__, *(self.value(getattr(v, name)) for name in names)])

    def _row(self, row: list[Any]) -> list[int]:
        text = repr(row)  # tells 1, 1.0 and True, 0.0 and -0.0 apart, which are equal
        number = self._numbers.setdefault(text, len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        return [number]


@functools.cache
def _cache() -> DiskCache:
    return DiskCache(settings().cache_dir, ".plan")


def _full_key(key: str) -> str:
    return f"plan {_FORMAT}\n{key}\n{sources_digest('compile', 'ir', 'ops')}"
