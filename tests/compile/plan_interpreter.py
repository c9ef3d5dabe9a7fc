"""An interpreter of plans on NumPy arrays: slow, simple, and independent of kernels. It defines what a plan means in tests."""

from __future__ import annotations

import numpy as np

from renaissance.ir.philox import philox_uint32
from renaissance.ir.plan import (
    Access,
    Contraction,
    Depthwise,
    Host,
    Image,
    Instr,
    Item,
    Nest,
    Plan,
    Scatter,
    Windows,
    Winograd,
    WinogradSums,
    WinogradWeightGradient,
    WinogradWeights,
)
from renaissance.ops.scalar import WORDS
from renaissance.ops.winograd import WINOGRAD, WINOGRAD_SUMS, WINOGRAD_WEIGHT_GRADIENT, WINOGRAD_WEIGHTS, panels_shape

COMBINE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or, "all": np.logical_and}


class CheckFailed(Exception):
    """A check instruction met a false condition; carries the message."""


def run_plan(plan: Plan, inputs: list[np.ndarray], scalars=(), hosts=None, order=None) -> list[np.ndarray]:
    """Run a plan; `inputs` are updated in place where the plan writes state. Returns the outputs."""
    memory = Memory(plan, inputs)
    checked: list[int] = []
    for number in order or range(len(plan.items)):
        item = plan.items[number]
        if number == plan.commit and checked:
            break
        Run(plan, item, memory, scalars=scalars, checked=checked, hosts=hosts or {}).run()
    if checked:
        raise CheckFailed(plan.messages[checked[0]])
    for source, target in plan.copies:
        memory.arrays[target][...] = memory.arrays[source]
    return [memory.arrays[b].reshape(plan.buffers[b].shape).copy() for b in plan.outputs]


class Memory:
    """Flat arrays by buffer number: views of the inputs, of the arena (filled with NaN bits first), or of new outputs."""

    def __init__(self, plan: Plan, inputs: list[np.ndarray]):
        arena = np.full(plan.arena_bytes + 64, 0xFF, np.uint8)
        self.arrays: list[np.ndarray] = []
        for buffer in plan.buffers:
            if buffer.place == "input":
                flat = inputs[buffer.index].reshape(-1)
                assert np.shares_memory(flat, inputs[buffer.index]) or not flat.size
                assert flat.dtype == buffer.dtype.numpy and inputs[buffer.index].shape == buffer.shape
            elif buffer.place == "output":
                flat = np.full(buffer.size_bytes, 0xFF, np.uint8).view(buffer.dtype.numpy)
            else:
                flat = arena[buffer.offset:buffer.offset + buffer.size_bytes].view(buffer.dtype.numpy)
            self.arrays.append(flat)


class Run:
    """One item."""

    def __init__(self, plan: Plan, item: Item, memory: Memory, *, scalars, checked: list[int], hosts):
        self.plan, self.item, self.scalars, self.checked, self.hosts = plan, item, scalars, checked, hosts
        self.operands = [memory.arrays[o.buffer] for o in item.operands]

    def run(self) -> None:
        spec = self.item.spec
        with np.errstate(all="ignore"):
            {Nest: self.nest, Contraction: self.contraction, Depthwise: self.depthwise, Scatter: self.scatter, Host: self.host,
             Winograd: self.winograd, WinogradWeights: self.winograd_weights, WinogradSums: self.winograd_sums,
             WinogradWeightGradient: self.winograd_weight_gradient}[type(spec)](spec)

    def at(self, access: Access, extents, mask=None) -> np.ndarray:
        index = np.full(extents, access.offset, np.int64)
        for d, (s, e) in enumerate(zip(access.strides, extents)):
            index = index + s * np.arange(e).reshape((e,) + (1,) * (len(extents) - d - 1))
        return index if mask is None else np.where(mask, index, 0)

    def body(self, body: tuple[Instr, ...], extents, carried=None, acc=None) -> list[np.ndarray]:
        """The values of all instructions over the whole space."""
        values: list[np.ndarray] = []
        for i in body:
            args = [values[a] for a in i.args]
            values.append(np.broadcast_to(self.instr(i, args, extents, carried, acc), extents))
        return values

    def instr(self, i: Instr, args, extents, carried, acc) -> np.ndarray:
        numpy = i.dtype.numpy
        if i.op == "load":
            mask = args[0] if args else None
            values = self.operands[i.attr.operand][self.at(i.attr, extents, mask)]
            return values if mask is None else np.where(mask, values, np.zeros((), numpy))
        if i.op == "load_at":
            index = args[0] if len(args) == 1 else np.where(args[1], args[0], 0)
            values = self.operands[i.attr.operand][i.attr.offset + index]
            return values if len(args) == 1 else np.where(args[1], values, np.zeros((), numpy))
        if i.op == "const":
            return np.frombuffer(i.attr, numpy)[0]
        if i.op == "scalar":
            return np.asarray(self.scalars[i.attr]).astype(numpy)
        if i.op == "coord":
            d = i.attr
            return np.arange(extents[d]).reshape((extents[d],) + (1,) * (len(extents) - d - 1))
        if i.op == "cast":
            return np.ascontiguousarray(args[0]).astype(numpy)
        if i.op == "carry":
            return carried[i.attr]
        if i.op == "acc":
            return acc
        if i.op == "check":
            if not args[0].all():
                self.checked.append(i.attr)
            return args[0]
        if i.op == "philox":
            return philox_uint32(int(self.scalars[i.attr[0]]), int(self.scalars[i.attr[1]]), args[0].astype(np.uint64))
        narrow = [a.dtype.itemsize == 2 and a.dtype.kind in "fV" for a in args]
        wide = [np.ascontiguousarray(a, np.float32 if n else None) for a, n in zip(args, narrow)]
        result = np.asarray(WORDS[i.op].numpy(*wide))
        assert result.dtype == numpy or any(narrow), (i, result.dtype)
        return result.astype(numpy)

    def store(self, stores, values, extents) -> None:
        for s in stores:
            value = values[s.value]
            keep = tuple(0 if not stride else slice(None) for stride in s.access.strides)
            strides = tuple(stride for stride in s.access.strides if stride)
            shape = tuple(e for e, stride in zip(extents, s.access.strides) if stride)
            for d, (e, stride) in enumerate(zip(extents, s.access.strides)):
                assert stride or e == 1 or (value == np.take(value, [0], d)).all() or value.dtype.kind in "fV"
            self.operands[s.access.operand][self.at(Access(0, strides, s.access.offset), shape)] = value[keep]

    def nest(self, nest: Nest) -> None:
        carried: dict = {}
        axis = -1 if nest.layout == "row" else -2
        for number, stage in enumerate(nest.stages):
            if stage.kind == "point":
                extents = list(nest.extents)
                extents[axis] = 1
                values = self.body(stage.body, tuple(extents), carried)
                carried.update({(number, k): v for k, v in enumerate(values)})
                self.store(stage.stores, values, tuple(extents))
                continue
            full = {k: np.broadcast_to(v, nest.extents) for k, v in carried.items()}
            values = self.body(stage.body, nest.extents, full)
            if stage.kind == "map":
                self.store(stage.stores, values, nest.extents)
            else:
                carried[number, 0] = combine(stage.combine, values[-1], axis, nest.layout)

    def contraction(self, c: Contraction) -> None:
        a, b = (self.body(body, extents)[-1].astype(np.float64) for body, extents in ((c.a, c.a_extents), (c.b, c.b_extents)))
        if c.image is not None:
            seen = windows(b if c.image.right else a, c.image)
            seen = np.moveaxis(seen.reshape(*seen.shape[:5], c.image.groups, -1), 5, 0)
            seen = seen.reshape(c.image.groups * c.image.leaves, c.image.places // c.image.leaves, -1)
            a, b = (a, seen) if c.image.right else (seen, b)
        acc = np.matmul(a, b).astype(np.float64 if c.dtype.size == 8 else np.float32)
        extents = (c.batch, c.m, c.n)
        self.store(c.stores, self.body(c.epilogue, extents, acc=acc), extents)

    def depthwise(self, d: Depthwise) -> None:
        seen = windows(self.body(d.image, d.extents)[-1].astype(np.float64), d)
        right = self.body(d.right, d.right_extents)[-1].astype(np.float64)
        if d.sums:
            products = (seen * right[..., None, :]).sum(axis=3)
            leaves = [products[:, :, at:at + d.leaf_rows].sum(axis=2) for at in range(0, d.windows[1], d.leaf_rows)]
            acc = np.stack(leaves, axis=2)
        else:
            acc = (seen * right).sum(axis=4)
        acc = acc.reshape(d.results).astype(np.float64 if d.dtype.size == 8 else np.float32)
        self.store(d.stores, self.body(d.epilogue, d.results, acc=acc), d.results)

    def filtered(self, body, extents, axis: int = 1) -> np.ndarray:
        """A body's values with the axis of one element that their node has."""
        return np.expand_dims(self.body(body, extents)[-1], axis)

    def winograd(self, s: Winograd) -> None:
        w = s.windows
        x, u = self.filtered(s.x, w.seen(s.c)), self.operands[s.u].reshape(panels_shape(w.tile, s.c, s.k, s.width))
        acc = WINOGRAD.reference([x, u], w.tile, s.k, paddings(w), ((w.n, 1, *w.places, s.k), None))
        self.store(s.stores, self.body(s.epilogue, s.results, acc=acc.reshape(s.results)), s.results)

    def winograd_weights(self, s: WinogradWeights) -> None:
        w = self.filtered(s.w, (s.k, s.c, 3, 3), 2)
        self.operands[s.out][...] = WINOGRAD_WEIGHTS.reference([w], s.tile, s.width, None).reshape(-1)

    def winograd_sums(self, s: WinogradSums) -> None:
        w = s.windows
        x, y = self.filtered(s.x, w.seen(s.c)), self.filtered(s.y, w.made(s.k))
        sums = WINOGRAD_SUMS.reference([x, y], w.tile, paddings(w), s.width, s.blocks, s.groups, None)
        self.operands[s.out][...] = sums.reshape(-1)

    def winograd_weight_gradient(self, s: WinogradWeightGradient) -> None:
        sums = self.operands[s.sums].reshape(s.groups, *panels_shape(s.tile, s.c, s.k, s.width))
        dw = WINOGRAD_WEIGHT_GRADIENT.reference([sums], s.tile, s.k, ((s.k, s.c, 1, 3, 3), None))
        self.operands[s.out][...] = dw.reshape(-1)

    def scatter(self, s: Scatter) -> None:
        out = self.operands[s.out]
        rows = np.zeros((s.rows, s.n), out.dtype)
        if s.init is not None:
            rows = self.operands[s.init.operand][self.at(s.init, (s.rows, s.n))].copy()
        index = self.body(s.index, (s.m, s.n))[-1][:, 0] if s.m and s.n else []
        values = self.body(s.value, (s.m, s.n))[-1]
        for i, row in zip(index, values):
            rows[i] = rows[i] + row if s.combine == "sum" else row
        out[...] = rows.reshape(-1)

    def host(self, h: Host) -> None:
        shaped = [self.operands[i].reshape(self.plan.buffers[self.item.operands[i].buffer].shape) for i in h.inputs]
        self.operands[h.outputs[0]][...] = self.hosts[h.op](shaped, *h.attrs).reshape(-1)


def paddings(w: Windows) -> tuple:
    """((top, bottom), (left, right)) of a convolution by tiles."""
    return tuple((low, p + 2 - n - low) for n, p, low in zip(w.image, w.places, w.lows))


def windows(x: np.ndarray, of: Image | Depthwise) -> np.ndarray:
    """What the windows of an image (n, d, h, w, c) see: (n, p0, p1, p2, tap, c)."""
    spread = getattr(of, "spread", (1, 1, 1))
    seen = np.zeros((x.shape[0], *of.windows, np.prod(of.kernel), x.shape[4]))
    for place in np.ndindex(*of.windows):
        for number, tap in enumerate(np.ndindex(*of.kernel)):
            at = [p * s + r * d - low for p, s, r, d, low in zip(place, of.strides, tap, of.dilations, of.lows)]
            if all(a % e == 0 and 0 <= a // e < n for a, e, n in zip(at, spread, x.shape[1:4])):
                seen[(slice(None), *place, number)] = x[(slice(None), *(a // e for a, e in zip(at, spread)))]
    return seen


def combine(how: str, x: np.ndarray, axis: int, layout: str) -> np.ndarray:
    """Combine along an axis in the fixed order of the layout; the axis stays with extent 1."""
    x = np.moveaxis(x, axis, 0)
    if how in ("argmax", "argmin"):
        result = getattr(np, how)(x, 0).astype(np.int64)
    elif layout == "column" or how not in ("sum", "prod"):
        result = x[0]
        for row in x[1:]:
            result = COMBINE[how](result, row)
    else:
        result = interleaved(how, x)
    return np.expand_dims(result, axis)


def interleaved(how: str, x: np.ndarray) -> np.ndarray:
    """64 accumulators, element i to accumulator i % 64, folded by halves."""
    lanes: list = [None] * 64
    for i, row in enumerate(x):
        lanes[i % 64] = row if lanes[i % 64] is None else COMBINE[how](lanes[i % 64], row)
    width = 64
    while width > 1:
        width //= 2
        for j in range(width):
            if lanes[j + width] is not None:
                lanes[j] = lanes[j + width] if lanes[j] is None else COMBINE[how](lanes[j], lanes[j + width])
    return lanes[0]
