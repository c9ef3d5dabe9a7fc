"""What an item is called and what it costs, read off its spec."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from renaissance.ir.dtype import DType
from renaissance.ir.plan import (
    Access,
    Contraction,
    Depthwise,
    Host,
    Instr,
    Scatter,
    Spec,
    Store,
    Winograd,
    WinogradSums,
    WinogradWeightGradient,
    WinogradWeights,
)

_SILENT = ("load", "const", "scalar", "coord", "carry", "acc", "and", "cast")
_FREE = ("load", "load_at", "const", "scalar", "coord", "carry", "acc")
_LONGEST_NAME = 6
_TRANSFORM = 100  # operations that transform a 3x3 kernel, about


class Description(NamedTuple):
    """An item in words: its kind, what it does (each word once, in order), the dtype of its first store, and its sizes."""

    kind: str
    words: tuple[str, ...]
    dtype: str
    size: str


def describe(spec: Spec, dtypes: Sequence[DType]) -> Description:
    """The description of an item's spec; dtypes are those of its operands."""
    if isinstance(spec, Host):
        return Description("host", (spec.op,), "", "")
    if isinstance(spec, Scatter):
        return Description("scatter", (spec.combine,), dtypes[spec.out].name, f"{spec.rows}x{spec.n}_from_{spec.m}")
    if isinstance(spec, Contraction):
        before = ["cast"] if any(i.op == "cast" for i in (*spec.a, *spec.b)) else []
        batch = f"{spec.batch}x" if spec.batch > 1 else ""
        kind = "dot" if spec.image is None else "sums" if spec.image.right else "conv"
        return Description(kind, (*before, *_words(spec.epilogue)), _short(spec.dtype), f"{batch}{spec.m}x{spec.n}x{spec.k}")
    if isinstance(spec, Depthwise):
        size = "x".join(map(str, (spec.places, spec.extents[4], spec.taps)))
        return Description("depthwise_sums" if spec.sums else "depthwise", tuple(_words(spec.epilogue)), _short(spec.dtype), size)
    if isinstance(spec, (Winograd, WinogradSums, WinogradWeights, WinogradWeightGradient)):
        return _winograd(spec)
    words, stored = [], "nothing"
    for stage in spec.stages:
        found = _words(stage.body)
        words += [w for w in found if w not in words]
        if stage.combine and stage.combine not in words:
            words.append(stage.combine)
        for store in stage.stores:
            stored = _short(stage.body[store.value].dtype)
    kind = "columns" if spec.layout == "column" else "rows" if spec.stages[0].kind == "reduce" or len(spec.stages) > 1 else "map"
    return Description(kind, tuple(words or ["copy"]), stored, "x".join(map(str, spec.extents)))


def _winograd(spec: Winograd | WinogradSums | WinogradWeights | WinogradWeightGradient) -> Description:
    if isinstance(spec, (WinogradWeights, WinogradWeightGradient)):
        kind = "weights" if isinstance(spec, WinogradWeights) else "weight_gradient"
        return Description(f"winograd{spec.tile}_{kind}", (), "f32", f"{spec.k}x{spec.c}")
    windows = spec.windows
    size = "x".join(map(str, (windows.n, *windows.places, spec.k, spec.c)))
    words = _words(spec.epilogue) if isinstance(spec, Winograd) else []
    return Description(f"winograd{windows.tile}" + "_sums" * isinstance(spec, WinogradSums), tuple(words), "f32", size)


def name_of(spec: Spec, dtypes: Sequence[DType]) -> str:
    """A readable name: the description, with the first few of its words."""
    kind, words, dtype, size = describe(spec, dtypes)
    if len(words) > _LONGEST_NAME:
        words = (*words[:_LONGEST_NAME], f"and{len(words) - _LONGEST_NAME}")
    return "_".join(part for part in (kind, *words, dtype, size) if part)


def _words(body: tuple[Instr, ...]) -> list[str]:
    """The words of a body, each once; common pairs by the name of what they are in a network."""
    words: list[str] = []
    for i in body:
        word = i.op
        others = [body[a] for a in i.args]
        if word in _SILENT or (word == "le" and _is_zero(others[1])):
            continue
        if word == "add" and any(_along_row(o) for o in others):
            word = "bias"
        elif word == "where" and others[0].op == "le" and _is_zero(others[1]) and _is_zero(body[others[0].args[1]]):
            word = "relu" if others[0].args[0] == i.args[2] else "relugrad"
        if word not in words:
            words.append(word)
    return words


def _is_zero(i: Instr) -> bool:
    return i.op == "const" and isinstance(i.attr, bytes) and not any(i.attr)


def _along_row(i: Instr) -> bool:
    """Whether an instruction loads one value per column, the same for each row."""
    if i.op != "load" or not isinstance(i.attr, Access) or len(i.attr.strides) < 2:
        return False
    return i.attr.strides[-1] != 0 and not any(i.attr.strides[:-1])


def _short(dtype: DType) -> str:
    return {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}.get(dtype.name, dtype.name)


def cost(spec: Spec, dtypes: list[DType], sizes_bytes: list[int]) -> tuple[int, int]:
    """(floating or integer operations, bytes read and written) of one run, each operand counted once per element it touches."""
    if isinstance(spec, Host):
        return 0, sum(sizes_bytes)
    touched: list[dict[Hashable, int]] = [{} for _ in dtypes]  # by operand: elements reached by each different access

    def visit(body: tuple[Instr, ...], stores: tuple[Store, ...], extents: tuple[int, ...]) -> int:
        for i in body:
            if i.op == "load":
                _touch(touched, i.attr, extents)  # type: ignore[arg-type]
            elif i.op == "load_at":
                touched[i.attr.operand][i.attr, i.args] = math.prod(extents)  # type: ignore[union-attr]
        for store in stores:
            _touch(touched, store.access, extents)
        return sum(i.op not in _FREE for i in body) * math.prod(extents)

    if isinstance(spec, Contraction):
        batch, m, n, k = spec.batch, spec.m, spec.n, spec.k
        flops = 2 * batch * m * n * k + visit(spec.epilogue, spec.stores, (batch, m, n))
        flops += visit(spec.a, (), spec.a_extents) + visit(spec.b, (), spec.b_extents)
    elif isinstance(spec, Depthwise):
        flops = 2 * spec.places * spec.extents[4] * spec.taps + visit(spec.image, (), spec.extents)
        flops += visit(spec.right, (), spec.right_extents) + visit(spec.epilogue, spec.stores, spec.results)
    elif isinstance(spec, (Winograd, WinogradSums)):
        flops = 2 * spec.windows.tiles * spec.windows.terms * spec.c * spec.k + visit(spec.x, (), spec.windows.seen(spec.c))
        if isinstance(spec, Winograd):
            touched[spec.u][None] = sizes_bytes[spec.u] // 4
            flops += visit(spec.epilogue, spec.stores, spec.results)
        else:
            touched[spec.out][None] = sizes_bytes[spec.out] // 4
            flops += visit(spec.y, (), spec.windows.made(spec.k))
    elif isinstance(spec, (WinogradWeights, WinogradWeightGradient)):
        flops = _TRANSFORM * spec.k * spec.c
        touched[spec.out][None] = sizes_bytes[spec.out] // 4
        if isinstance(spec, WinogradWeights):
            flops += visit(spec.w, (), (spec.k, spec.c, 3, 3))
        else:
            touched[spec.sums][None] = sizes_bytes[spec.sums] // 4
    elif isinstance(spec, Scatter):
        flops = visit(spec.index, (), (spec.m, 1)) + visit(spec.value, (), (spec.m, spec.n)) + spec.m * spec.n
        touched[spec.out][None] = 2 * spec.rows * spec.n
    else:
        flops = 0
        for stage in spec.stages:
            if stage.kind == "point":
                drop = -1 if spec.layout == "row" else -2
                extents = list(spec.extents)
                extents[drop] = 1
                flops += visit(stage.body, stage.stores, tuple(extents))
            else:
                flops += visit(stage.body, stage.stores, spec.extents)
                flops += math.prod(spec.extents) if stage.kind == "reduce" else 0
    moved = sum(min(sum(reached.values()) * d.size, most) for reached, d, most in zip(touched, dtypes, sizes_bytes))
    return flops, moved


def _touch(touched: list[dict[Hashable, int]], access: Access, extents: tuple[int, ...]) -> None:
    """Count the elements an access reaches, once for equal accesses."""
    touched[access.operand][access] = math.prod(e for e, s in zip(extents, access.strides) if s)
