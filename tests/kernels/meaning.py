"""What a Nest means, in NumPy: bodies over the whole index space at once, reductions in the stated order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from renaissance.ir.dtype import DType, bfloat16, bool_, float16
from renaissance.ir.plan import Access, Instr, Item, Nest, Stage
from renaissance.kernels.run_python import multiply_add
from renaissance.ops.scalar import WORDS

Values = list[np.ndarray]


def perform(item: Item, arrays: Sequence[np.ndarray], scalars: Sequence = ()) -> list[np.ndarray]:
    """The arrays after a Nest has run."""
    nest = item.spec
    assert isinstance(nest, Nest)
    flat = [a.copy().reshape(-1) for a in arrays]
    carries: dict[tuple[int, int], np.ndarray] = {}
    axis = len(nest.extents) - (1 if nest.layout == "row" else 2)
    with np.errstate(all="ignore"):
        for number, stage in enumerate(nest.stages):
            extents = tuple(1 if stage.kind == "point" and d == axis else n for d, n in enumerate(nest.extents))
            index = np.indices(extents, np.int64)
            values = body(stage.body, index, extents, flat, carries, scalars)
            for s in stage.stores:
                flat[s.access.operand][position(s.access, index)] = values[s.value]
            if stage.kind == "reduce":
                carries[number, 0] = reduce(stage, values[-1], axis, nest.layout)
            carries.update({(number, n): v for n, v in enumerate(values)} if stage.kind == "point" else {})
    return [f.reshape(a.shape) for f, a in zip(flat, arrays)]


def position(access: Access, index: np.ndarray) -> np.ndarray:
    return access.offset + sum((s * i for s, i in zip(access.strides, index)), np.zeros(index.shape[1:], np.int64))


def body(instrs: Sequence[Instr], index: np.ndarray, extents: tuple[int, ...], flat: Values, carries: dict,
         scalars: Sequence) -> Values:
    values: Values = []
    for i in instrs:
        args = [values[a] for a in i.args]
        if i.op in ("load", "load_at"):
            where = position(i.attr, index if i.op == "load" else args.pop(0)[None])  # type: ignore[arg-type]
            mask = args[0] if args else np.ones(extents, bool)
            value = np.zeros(extents, i.dtype.numpy)
            value[mask] = flat[i.attr.operand][where[mask]]  # type: ignore[index]
        elif i.op == "const":
            value = np.full(extents, np.frombuffer(i.attr, i.dtype.numpy)[0])  # type: ignore[call-overload]
        elif i.op == "scalar":
            value = np.full(extents, np.asarray(scalars[i.attr], i.dtype.numpy))  # type: ignore[call-overload]
        elif i.op == "coord":
            value = index[i.attr]  # type: ignore[call-overload]
        elif i.op == "carry":
            value = np.broadcast_to(carries[i.attr], extents)
        elif i.op == "cast":
            value = args[0].astype(i.dtype.numpy)
        else:
            value = word(i.op, args, i.dtype)
        values.append(np.asarray(value))
    return values


def word(name: str, args: Values, dtype: DType) -> np.ndarray:
    """A word; 16-bit floats in float32, then rounded."""
    if args[-1].dtype in (bfloat16.numpy, float16.numpy):
        args = [a.astype(np.float32) if a.dtype != np.bool_ else a for a in args]
    if name == "fma":
        return multiply_add(*(a.reshape(-1) for a in args)).reshape(args[0].shape).astype(dtype.numpy)
    return np.asarray(WORDS[name].numpy(*args)).astype(dtype.numpy)


_COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or", "all": "and"}


def reduce(stage: Stage, values: np.ndarray, axis: int, layout: str) -> np.ndarray:
    """Along an axis, which stays with extent 1: a row by 64 accumulators and halves, a column as one chain."""
    dtype = stage.body[-1].dtype
    if stage.combine in ("argmax", "argmin"):
        values = values.astype(np.float64) if dtype.is_float else values
        return np.expand_dims(getattr(np, stage.combine)(values, axis=axis), axis)
    assert stage.combine is not None
    name = _COMBINE[stage.combine]

    def merge(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return word(name, [x, y], dtype)

    rows = np.moveaxis(values, axis, 0)
    if len(rows) == 0:
        empty = {"sum": 0, "prod": 1, "any": 0, "all": 1}[stage.combine]
        return np.expand_dims(np.full(rows.shape[1:], empty, dtype.numpy), axis)
    if layout == "column":
        total = rows[0]
        for row in rows[1:]:
            total = merge(total, row)
        return np.expand_dims(total, axis)
    parts: list[np.ndarray | None] = [None] * 64
    for i, element in enumerate(rows):
        old = parts[i % 64]
        parts[i % 64] = element if old is None else merge(old, element)
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [x if y is None else merge(x, y) for x, y in zip(parts[:half], parts[half:])]  # type: ignore[arg-type]
    assert parts[0] is not None
    return np.expand_dims(parts[0], axis)


def same(got: np.ndarray, wanted: np.ndarray) -> bool:
    """Equal bytes, any NaN being equal to any."""
    if got.dtype.kind not in "fV" and got.dtype != bfloat16.numpy:
        return np.array_equal(got, wanted)
    bits = f"u{got.itemsize}"
    nan = np.isnan(got.astype(np.float64)) & np.isnan(wanted.astype(np.float64))
    return bool(np.all(nan | (np.ascontiguousarray(got).view(bits) == np.ascontiguousarray(wanted).view(bits))))


def samples(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Numbers of a dtype with its extremes among them."""
    rng = np.random.default_rng(seed)
    if dtype is bool_:
        return rng.random(shape) < 0.5
    if dtype.is_float:
        x = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)
        odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.5])
    else:
        info = np.iinfo(dtype.numpy)
        x = rng.integers(info.min, info.max, shape, dtype.numpy, endpoint=True)
        small = rng.integers(0, 9, shape).astype(dtype.numpy)
        x = np.where(rng.random(shape) < 0.5, small, x)
        odd = np.array([0, 1, info.min, info.max, info.max // 2], dtype.numpy)
    if x.size:
        where = rng.random(shape) < 0.2
        x = np.where(where, rng.choice(odd, shape), x)
    with np.errstate(all="ignore"):
        return x.astype(dtype.numpy)
