"""The five transforms of Winograd's F(2x2, 3x3) and F(4x4, 3x3) as straight-line code.

    data      V = B^T d B    a tile's window of the image
    weights   U = G g G^T    a 3x3 kernel
    places    Y = A^T M A    what the products make of a tile
    spread    Z = A y A^T    the gradient of a tile's places
    kernel    g = G^T M G    the gradient of a 3x3 kernel

Each is one line of numbers turned into another along columns, then along rows. The interpolation points are 0, 1, -1 (and 2, -2)
and infinity; source: Lavin and Gray 2015, "Fast algorithms for convolutional neural networks", arXiv:1509.09308.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from renaissance.kernels.loops import Builder, Value

Line = Callable[[Builder, Sequence[Value]], list[Value]]


def square(b: Builder, line: Line, block: Sequence[Sequence[Value]]) -> list[list[Value]]:
    """`line` along each column of a block, then along each row of what that gives."""
    columns = [line(b, column) for column in zip(*block)]
    return [line(b, row) for row in zip(*columns)]


def _data2(b: Builder, d: Sequence[Value]) -> list[Value]:
    return [b.sub(d[0], d[2]), b.add(d[1], d[2]), b.sub(d[2], d[1]), b.sub(d[1], d[3])]


def _data4(b: Builder, d: Sequence[Value]) -> list[Value]:
    even, odd = b.fma(d[2], -4.0, d[4]), b.fma(d[1], -4.0, d[3])
    wide, skew = b.sub(d[4], d[2]), b.sub(d[3], d[1])
    return [b.fma(d[0], 4.0, b.fma(d[2], -5.0, d[4])), b.add(even, odd), b.sub(even, odd), b.fma(skew, 2.0, wide),
            b.fma(skew, -2.0, wide), b.fma(d[1], 4.0, b.fma(d[3], -5.0, d[5]))]


def _weights2(b: Builder, g: Sequence[Value]) -> list[Value]:
    ends = b.add(g[0], g[2])
    return [g[0], b.mul(b.add(ends, g[1]), 0.5), b.mul(b.sub(ends, g[1]), 0.5), g[2]]


def _weights4(b: Builder, g: Sequence[Value]) -> list[Value]:
    ends, middle = b.mul(b.add(g[0], g[2]), -1 / 6), b.mul(g[1], 1 / 6)
    far, half = b.fma(g[0], 1 / 24, b.mul(g[2], 1 / 6)), b.mul(g[1], 1 / 12)
    return [b.mul(g[0], 0.25), b.sub(ends, middle), b.add(ends, middle), b.add(far, half), b.sub(far, half), g[2]]


def _places2(b: Builder, m: Sequence[Value]) -> list[Value]:
    return [b.add(m[0], b.add(m[1], m[2])), b.sub(b.sub(m[1], m[2]), m[3])]


def _places4(b: Builder, m: Sequence[Value]) -> list[Value]:
    one, minus, two, minus_two = b.add(m[1], m[2]), b.sub(m[1], m[2]), b.add(m[3], m[4]), b.sub(m[3], m[4])
    return [b.add(b.add(m[0], one), two), b.fma(minus_two, 2.0, minus), b.fma(two, 4.0, one),
            b.add(b.fma(minus_two, 8.0, minus), m[5])]


def _spread2(b: Builder, y: Sequence[Value]) -> list[Value]:
    return [y[0], b.add(y[0], y[1]), b.sub(y[0], y[1]), b.neg(y[1])]


def _spread4(b: Builder, y: Sequence[Value]) -> list[Value]:
    even, odd = b.add(y[0], y[2]), b.add(y[1], y[3])
    far, skew = b.fma(y[2], 4.0, y[0]), b.mul(b.fma(y[3], 4.0, y[1]), 2.0)
    return [y[0], b.add(even, odd), b.sub(even, odd), b.add(far, skew), b.sub(far, skew), y[3]]


def _kernel2(b: Builder, m: Sequence[Value]) -> list[Value]:
    even, odd = b.mul(b.add(m[1], m[2]), 0.5), b.mul(b.sub(m[1], m[2]), 0.5)
    return [b.add(m[0], even), odd, b.add(even, m[3])]


def _kernel4(b: Builder, m: Sequence[Value]) -> list[Value]:
    one, two = b.mul(b.add(m[1], m[2]), -1 / 6), b.add(m[3], m[4])
    minus, minus_two = b.sub(m[2], m[1]), b.sub(m[3], m[4])
    return [b.fma(two, 1 / 24, b.fma(m[0], 0.25, one)), b.fma(minus_two, 1 / 12, b.mul(minus, 1 / 6)),
            b.add(b.fma(two, 1 / 6, one), m[5])]


DATA: dict[int, Line] = {2: _data2, 4: _data4}
WEIGHTS: dict[int, Line] = {2: _weights2, 4: _weights4}
PLACES: dict[int, Line] = {2: _places2, 4: _places4}
SPREAD: dict[int, Line] = {2: _spread2, 4: _spread4}
KERNEL: dict[int, Line] = {2: _kernel2, 4: _kernel4}
