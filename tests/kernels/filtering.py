"""Convolutions by minimal filtering to test their schedules with: as Items, run chunk by chunk, and what they must give."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from renaissance.ir import dtype as dt
from renaissance.ir.dtype import DType
from renaissance.ir.plan import Instr, Item, Windows, Winograd, WinogradSums, WinogradWeightGradient, WinogradWeights
from renaissance.ir.target import Target
from renaissance.ops.winograd import panels_shape
from tests.kernels.launch import Body, item, launch, store

Both = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Case:
    """A convolution of n images (h, w, c) with k kernels, by tiles."""

    n: int
    h: int
    w: int
    c: int
    k: int
    tile: int = 4
    padding: Both = ((1, 1), (1, 1))
    width: int = 32

    @property
    def windows(self) -> Windows:
        (top, bottom), (left, right) = self.padding
        return Windows(self.tile, self.n, (self.h, self.w), (self.h + top + bottom - 2, self.w + left + right - 2), (top, left))

    @property
    def panels(self) -> tuple[int, ...]:
        return panels_shape(self.tile, self.c, self.k, self.width)

    def image(self, of: DType = dt.float32) -> np.ndarray:
        return np.random.default_rng(1).standard_normal((self.n, self.h, self.w, self.c)).astype(of.numpy)

    def kernels(self) -> np.ndarray:
        return np.random.default_rng(2).standard_normal((self.k, self.c, 3, 3)).astype(np.float32)

    def places(self, of: DType = dt.float32) -> np.ndarray:
        return np.random.default_rng(3).standard_normal((self.n, *self.windows.places, self.k)).astype(of.numpy)

    def taps(self, x: np.ndarray) -> list[np.ndarray]:
        """What the convolution sees of an image through each of its nine taps, in float64."""
        padded = np.pad(x.astype(np.float64), ((0, 0), *self.padding, (0, 0)))
        p, q = self.windows.places
        return [padded[:, r:r + p, s:s + q] for r in range(3) for s in range(3)]


def direct(case: Case, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """(n, p, q, k) in float64."""
    w = w.astype(np.float64).reshape(case.k, case.c, 9)
    return sum(seen @ w[:, :, t].T for t, seen in enumerate(case.taps(x)))  # type: ignore[return-value]


def direct_gradient(case: Case, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(k, c, 3, 3) in float64."""
    y = y.astype(np.float64).reshape(-1, case.k)
    grads = [y.T @ seen.reshape(-1, case.c) for seen in case.taps(x)]
    return np.stack(grads, axis=-1).reshape(case.k, case.c, 3, 3)


def plain(operand: int, extents: tuple[int, ...], of: DType = dt.float32) -> tuple[Instr, ...]:
    """A load of a dense operand."""
    strides = [1]
    for n in reversed(extents[1:]):
        strides.insert(0, strides[0] * n)
    b = Body()
    b.load(operand, tuple(strides), of)
    return b.done


def transformed(case: Case, w: np.ndarray, target: Target | None, threads: int = 1) -> np.ndarray:
    """U of kernels, by the kernel."""
    spec = WinogradWeights(case.tile, case.c, case.k, case.width, plain(0, w.shape), 1)
    out = np.full(case.panels, np.nan, np.float32)
    return launch(item(spec, [dt.float32], [dt.float32]), [w, out], target, threads=threads)[0][1]


def forward(case: Case, of: DType = dt.float32) -> Item:
    """y = conv(x): operands x, U and y."""
    acc = Body()
    acc.add("acc")
    extents = case.windows.seen(case.c)
    spec = Winograd(case.windows, case.c, case.k, case.width, plain(0, extents, of), 1, acc.done, (store(2, (0, case.k, 1), 0),))
    return item(spec, [of, dt.float32], [dt.float32])


def run_forward(case: Case, target: Target | None, *, threads: int = 1, of: DType = dt.float32, seed: int = 0) -> np.ndarray:
    """The convolution of the case's image and kernels, all by kernels."""
    u = transformed(case, case.kernels(), target, threads)
    out = np.full((case.n, *case.windows.places, case.k), np.nan, np.float32)
    return launch(forward(case, of), [case.image(of), u, out], target, threads=threads, seed=seed)[0][2]


def sums(case: Case, blocks: int, groups: int, of: DType = dt.float32) -> Item:
    """M: operands x, y and M."""
    w = case.windows
    spec = WinogradSums(w, case.c, case.k, case.width, blocks, groups, plain(0, w.seen(case.c), of), plain(1, w.made(case.k), of), 2)
    return item(spec, [of, of], [dt.float32])


def run_sums(case: Case, target: Target | None, *, blocks: int, groups: int, threads: int = 1, of: DType = dt.float32,
             seed: int = 0) -> np.ndarray:
    """(groups, panels, terms, c, width) of the case's image and places."""
    out = np.full((groups, *case.panels), np.nan, np.float32)
    return launch(sums(case, blocks, groups, of), [case.image(of), case.places(of), out], target, threads=threads, seed=seed)[0][2]


def run_gradient(case: Case, m: np.ndarray, target: Target | None, threads: int = 1) -> np.ndarray:
    """dw of sums."""
    spec = WinogradWeightGradient(case.tile, case.c, case.k, case.width, m.shape[0], 0, 1)
    out = np.full((case.k, case.c, 3, 3), np.nan, np.float32)
    return launch(item(spec, [dt.float32], [dt.float32]), [m, out], target, threads=threads)[0][1]


def with_bodies(it: Item, ins: list[DType], outs: list[DType], **bodies: object) -> Item:
    """An item with other bodies and operands."""
    return item(replace(it.spec, **bodies), ins, outs)  # type: ignore[arg-type]
