"""Augmentation of image batches as tensor operations: they become kernels at the head of the training step's own plan.

A chain of geometric transforms is one warp from the stored image: their affine maps are composed, and every output pixel is read
once, between four stored pixels. What an intermediate crop cuts off can therefore come back into view behind a later rotation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from renaissance.data.draws import SampleDraws
from renaissance.data.rows import rows
from renaissance.errors import ArgumentError, DTypeError, ShapeError
from renaissance.ir import dtype as dt
from renaissance.ops.elementwise import (
    astype,
    clip,
    cos,
    exp,
    floor,
    greater,
    greater_equal,
    less,
    logical_and,
    maximum,
    minimum,
    round_,
    sin,
    sqrt,
    where,
)
from renaissance.ops.index import arange_like, gather_inside
from renaissance.ops.movement import concat
from renaissance.tensor import Tensor, tensor

_EXACT = 1 << 24  # whole numbers up to here are exact in float32
_SHORT_ROW = 128  # pixels
_MOST_CHANNELS = 4  # of images whose layout is guessed at, to tell that channels stand first

Row = tuple[Any, Any, Any]
Shape = tuple[int, ...]


@dataclass
class Images:
    """A batch on its way through a chain: not yet read pixels of stored images, or pixels.

    stored    (N, H, W) or (N, H, W, C) uint8 or float: the whole set
    samples   (B,) int64: which of them
    size      height and width as the next transform sees them, in pixels
    rows      stored row    = rows[0] i + rows[1] j + rows[2] of output pixel (i, j); numbers or (B,) tensors
    columns   stored column = columns[0] i + columns[1] j + columns[2]
    whole     all coordinates are whole numbers: no interpolation is needed
    normalize  what is done to the pixels as soon as they are read
    pixels    (B, C, H, W) float32, once something needed them
    """

    stored: Tensor
    samples: Tensor
    draws: SampleDraws
    size: tuple[int, int]
    rows: Row = (1.0, 0.0, 0.0)
    columns: Row = (0.0, 1.0, 0.0)
    whole: bool = True
    normalize: Transform | None = None
    pixels: Any = field(default=None)

    def warp(self, rows: Row, columns: Row, size: tuple[int, int], whole: bool) -> None:
        """Put an affine map from new output pixels to present ones before what is there."""
        if self.pixels is not None:
            raise ArgumentError("geometric transforms must come before those that change pixels (RandomErasing, Normalize)")
        self.rows, self.columns = _after(self.rows, rows, columns), _after(self.columns, rows, columns)
        self.size = size
        self.whole = self.whole and whole

    def read(self) -> Any:
        """The pixels, warped and normalised on first use; uint8 counts as value / 255."""
        if self.pixels is None:
            self.pixels = _sample(self)
            if self.normalize is not None:
                self.normalize(self)
        return self.pixels

    @property
    def batch(self) -> int:
        return self.samples.shape[0]


def _mul(a: Any, b: Any) -> Any:
    """a b, with plain 0 and 1 kept plain."""
    if isinstance(a, float) and isinstance(b, float):
        return a * b
    for x, y in ((a, b), (b, a)):
        if isinstance(x, float) and x in (0.0, 1.0):
            return y if x else 0.0
    return a * b


def _plus(a: Any, b: Any) -> Any:
    if isinstance(a, float) and a == 0.0:
        return b
    return a if isinstance(b, float) and b == 0.0 else a + b


def _after(outer: Row, rows: Row, columns: Row) -> Row:
    """outer applied to the point (rows, columns)."""
    a, b, c = outer
    return (_plus(_mul(a, rows[0]), _mul(b, columns[0])), _plus(_mul(a, rows[1]), _mul(b, columns[1])),
            _plus(_plus(_mul(a, rows[2]), _mul(b, columns[2])), c))


def _grid(images: Images) -> tuple[Shape, Any, Any]:
    """The shape (B, H, W) of the output, and the row and column of each pixel; (B, H W) for images of short rows.

    Short rows would leave vectors partly empty. The row is then worked out from the pixel's number n: (n + 1/2) / W is at least
    1 / 2W away from a whole number, which is more than float32 loses of numbers below 2^21.
    """
    batch, (height, width) = images.batch, images.size
    if width > _SHORT_ROW or 8 * height * width > _EXACT:
        shape: Shape = (batch, height, width)
        i = arange_like(height, dt.float32, Tensor).reshape(1, height, 1).broadcast_to(shape)
        j = arange_like(width, dt.float32, Tensor).reshape(1, 1, width).broadcast_to(shape)
        return shape, i, j
    shape = (batch, height * width)
    n = arange_like(height * width, dt.float32, Tensor).reshape(1, height * width).broadcast_to(shape)
    i = floor((n + 0.5) * (1 / width))
    return shape, i, n - i * float(width)


def _spread(value: Any, shape: Shape) -> Any:
    """A number, or one for each sample, at every pixel."""
    return value if isinstance(value, float) else value.reshape(shape[0], *[1] * (len(shape) - 1)).broadcast_to(shape)


def _sample(images: Images) -> Any:
    """Read every output pixel: the stored neighbours, weighted by nearness; outside the stored image is 0."""
    stored = images.stored
    shape, i, j = _grid(images)

    def coordinate(row: Row) -> Any:
        a, b, c = (_spread(v, shape) for v in row)
        return _plus(_plus(_mul(a, i), _mul(b, j)), c)

    down = _near(coordinate(images.rows), stored.shape[1], images.whole)
    across = _near(coordinate(images.columns), stored.shape[2], images.whole)
    # Whole images are copied first, which asks memory for many at a time; picked apart where they lie, each would be waited for.
    picked = rows(stored, images.samples)
    flat = picked.reshape(picked.size)
    planes = [_blend(images, flat, shape, down, across, channel) for channel in range(_channels(stored))]
    return planes[0] if len(planes) == 1 else concat(planes, 1)


def _channels(stored: Tensor) -> int:
    return stored.shape[3] if stored.ndim == 4 else 1


def _near(at: Any, n: int, whole: bool) -> tuple[Any, list[Any]]:
    """The first of the neighbours of a coordinate among 0 ... n - 1, and the weight of it and of those after it.

    The weight of neighbour k is max(0, 1 - |at - k|), which is 0 for both if the coordinate is outside.
    """
    count = 1 if whole else min(2, n)
    first = minimum(maximum(floor(at), 0.0), float(n - count))
    return first, [maximum(1.0 - abs(at - (first + float(k))), 0.0) for k in range(count)]


def _blend(images: Images, flat: Tensor, shape: Shape, rows: tuple[Any, list[Any]],
           columns: tuple[Any, list[Any]], channel: int) -> Any:
    """A channel (B, 1, H, W) of the pixels; `flat` has the batch's stored images, one after the other."""
    stored, channels = images.stored, _channels(images.stored)
    height, width = stored.shape[1:3]
    (top, down), (left, across) = rows, columns
    at = _spread(arange_like(shape[0], dt.int64, Tensor) * (height * width), shape)
    if height * width <= _EXACT:
        at = at + astype(top * float(width) + left, dt.int64)
    else:
        at = at + astype(top, dt.int64) * width + astype(left, dt.int64)
    at = at * channels if channels > 1 else at
    # Of the neighbours' elements, which lie at fixed distances, the same number is picked from shifted views.
    length = flat.size - ((len(down) - 1) * width + len(across) - 1) * channels

    def neighbour(row: int, column: int) -> Any:
        shift = (row * width + column) * channels
        value = astype(gather_inside(flat[shift + channel:shift + channel + length - channel], at), dt.float32)
        # A float pixel can be infinite: it must not spoil those it does not reach.
        return value if not stored.dtype.is_float else where(greater(down[row] * across[column], 0.0), value, 0.0)

    lines = [_weighted([neighbour(r, c) for c in range(len(across))], across) for r in range(len(down))]
    value = _weighted(lines, down)
    return (value * (1 / 255) if stored.dtype is dt.uint8 else value).reshape(shape[0], 1, *images.size)


def _weighted(values: list[Any], weights: list[Any]) -> Any:
    total = values[0] * weights[0]
    for value, weight in zip(values[1:], weights[1:]):
        total = total + value * weight
    return total


class Transform:
    """One step of an augmentation chain: changes a batch of Images.

    images  what the call is given: a batch whose values and map of coordinates are changed in place
    raises  ArgumentError at the call unless a subclass says what it does
    source  definition
    """

    def __call__(self, images: Images) -> None:
        raise ArgumentError(f"{type(self).__name__} does not say what it does to images")

    def __repr__(self) -> str:
        settings = ", ".join(f"{k}={v}" for k, v in vars(self).items())
        return f"{type(self).__name__}({settings})"


class Pad(Transform):
    """Zeros around the image.

    out[i, j] = in[i - padding, j - padding], 0 outside

    padding  pixels on each side
    raises   ArgumentError unless padding is a whole number, at least 0
    source   torchvision, Pad
    """

    def __init__(self, padding: int):
        if not isinstance(padding, int) or padding < 0:
            raise ArgumentError(f"Pad: padding must be a whole number, at least 0, got {padding!r}")
        self.padding = padding

    def __call__(self, images: Images) -> None:
        h, w = images.size
        shift = -float(self.padding)
        images.warp((1.0, 0.0, shift), (0.0, 1.0, shift), (h + 2 * self.padding, w + 2 * self.padding), True)


class RandomCrop(Transform):
    """A window of a given size at a place drawn for each sample.

    out[i, j] = in[i + y, j + x],  y and x equally likely from 0 to what fits

    size     height and width in pixels, or one int
    raises   ArgumentError unless sizes are whole numbers, at least 1; ShapeError when the image is smaller than the window
    source   torchvision, RandomCrop
    """

    def __init__(self, size: int | Sequence[int]):
        sides = (size, size) if isinstance(size, int) else tuple(size)
        if len(sides) != 2 or not all(isinstance(n, int) and n >= 1 for n in sides):
            raise ArgumentError(f"RandomCrop: size must be one or two whole numbers, at least 1, got {size!r}")
        self.size = (sides[0], sides[1])

    def __call__(self, images: Images) -> None:
        (h, w), (th, tw) = images.size, self.size
        if th > h or tw > w:
            raise ShapeError(f"RandomCrop: the window {self.size} is larger than the image {images.size}; put Pad before it")
        y = floor(images.draws.uniform(images.samples, 0.0, h - th + 1.0))
        x = floor(images.draws.uniform(images.samples, 0.0, w - tw + 1.0))
        images.warp((1.0, 0.0, y), (0.0, 1.0, x), self.size, True)


class RandomHorizontalFlip(Transform):
    """Left and right exchanged, with probability p.

    out[i, j] = in[i, W - 1 - j] for chosen samples

    p        probability
    raises   ArgumentError unless 0 <= p <= 1
    source   torchvision, RandomHorizontalFlip
    """

    def __init__(self, p: float = 0.5):
        if not 0 <= p <= 1:
            raise ArgumentError(f"RandomHorizontalFlip: needs 0 <= p <= 1, got {p}")
        self.p = p

    def __call__(self, images: Images) -> None:
        chosen = where(less(images.draws.uniform(images.samples), self.p), 1.0, 0.0)
        images.warp((1.0, 0.0, 0.0), (0.0, 1.0 - 2.0 * chosen, chosen * (images.size[1] - 1.0)), images.size, True)


class RandomRotation(Transform):
    """A turn about the centre by an angle drawn for each sample, bilinear, 0 outside.

    angle equally likely from -degrees to degrees; positive turns counter-clockwise

    degrees  largest angle
    raises   ArgumentError for an angle that is negative or not finite
    source   torchvision, RandomRotation (there nearest by default)
    """

    def __init__(self, degrees: float):
        if not 0 <= degrees < math.inf:
            raise ArgumentError(f"RandomRotation: degrees must be finite, at least 0, got {degrees}")
        self.degrees = degrees

    def __call__(self, images: Images) -> None:
        angle = images.draws.uniform(images.samples, -self.degrees, self.degrees) * (math.pi / 180)
        c, s = cos(angle), sin(angle)
        cy, cx = ((n - 1) / 2 for n in images.size)
        rows = (c, s, cy - c * cy - s * cx)
        columns = (-s, c, cx + s * cy - c * cx)
        images.warp(rows, columns, images.size, False)


class RandomScale(Transform):
    """Height and width stretched about the centre, each by a factor drawn for each sample, bilinear, 0 outside.

    in = centre + (out - centre) / factor

    low, high  range of both factors
    raises     ArgumentError unless 0 < low <= high, both finite
    source     definition
    """

    def __init__(self, low: float, high: float):
        if not 0 < low <= high < math.inf:
            raise ArgumentError(f"RandomScale: needs 0 < low <= high, both finite, got {low} and {high}")
        self.low, self.high = low, high

    def __call__(self, images: Images) -> None:
        a = 1.0 / images.draws.uniform(images.samples, self.low, self.high)
        b = 1.0 / images.draws.uniform(images.samples, self.low, self.high)
        cy, cx = ((n - 1) / 2 for n in images.size)
        images.warp((a, 0.0, cy - a * cy), (0.0, b, cx - b * cx), images.size, False)


class RandomErasing(Transform):
    """A rectangle set to a value, with probability p.

    area A = u H W, u from scale;  height sqrt(A r), width sqrt(A / r), ln r from ln ratio;  rounded, cut to the image, anywhere

    p        probability
    scale    smallest and largest share of the area
    ratio    smallest and largest height / width
    value    written to the pixels
    raises   ArgumentError for values out of range
    source   Zhong et al. 2017, arXiv:1708.04896; torchvision, RandomErasing (there drawn anew when it does not fit)
    """

    def __init__(self, p: float = 0.5, scale: Sequence[float] = (0.02, 0.33), ratio: Sequence[float] = (0.3, 3.3),
                 value: float = 0.0):
        pairs = len(scale) == len(ratio) == 2
        if not (pairs and 0 <= p <= 1 and 0 < scale[0] <= scale[1] <= 1 and 0 < ratio[0] <= ratio[1] < math.inf):
            raise ArgumentError("RandomErasing: needs 0 <= p <= 1, and 0 < smallest <= largest for scale (at most 1) and ratio; "
                                f"got p {p}, scale {scale}, ratio {ratio}")
        self.p, self.scale, self.ratio, self.value = p, tuple(scale), tuple(ratio), value

    def __call__(self, images: Images) -> None:
        pixels = images.read()
        h, w = images.size
        draw, samples = images.draws.uniform, images.samples
        area = draw(samples, *self.scale) * float(h * w)
        r = exp(draw(samples, math.log(self.ratio[0]), math.log(self.ratio[1])))
        eh, ew = clip(round_(sqrt(area * r)), 1.0, float(h)), clip(round_(sqrt(area / r)), 1.0, float(w))
        y, x = floor(draw(samples) * (float(h) + 1.0 - eh)), floor(draw(samples) * (float(w) + 1.0 - ew))
        # Not chosen: a rectangle without rows.
        eh = where(less(draw(samples), self.p), eh, 0.0)
        shape, i, j = _grid(images)
        y, x, eh, ew = (_spread(v, shape) for v in (y, x, y + eh, x + ew))
        hit = logical_and(logical_and(greater_equal(i, y), less(i, eh)), logical_and(greater_equal(j, x), less(j, ew)))
        images.pixels = where(hit.reshape(shape[0], 1, h, w), self.value, pixels)


class Normalize(Transform):
    """Shift and scale each channel.

    out = (in - mean) / std

    mean, std  numbers, or one for each channel
    raises     ArgumentError unless mean and std are as many, std positive; ShapeError for another number of channels
    source     torchvision, Normalize
    """

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float]):
        self.mean = (mean,) if isinstance(mean, (int, float)) else tuple(mean)
        self.std = (std,) if isinstance(std, (int, float)) else tuple(std)
        if len(self.mean) != len(self.std) or not all(s > 0 for s in self.std):
            raise ArgumentError(f"Normalize: mean and std must be as many, std positive, got {mean} and {std}")

    def __call__(self, images: Images) -> None:
        pixels = images.read()
        if len(self.mean) == 1:
            images.pixels = (pixels - float(self.mean[0])) / float(self.std[0])
            return
        if len(self.mean) != pixels.shape[1]:
            raise ShapeError(f"Normalize: mean and std must be one number, or one for each of {pixels.shape[1]} channels, "
                             f"got {len(self.mean)}")
        mean, std = (tensor(v).reshape(1, len(v), 1, 1) for v in (self.mean, self.std))
        images.pixels = (pixels - mean) / std


def augmented(stored: Tensor, samples: Tensor, chain: Sequence[Transform], draws: SampleDraws,
              normalize: Normalize | None = None) -> Any:
    """The batch of `samples`, after the chain.

    stored     (N, H, W) or (N, H, W, C): uint8, counted as value / 255, or float
    samples    (B,) int64, each from 0 to N - 1
    normalize  done behind the geometric transforms, before those that change pixels, which write in normalised units
    returns    (B, C, H', W') float32
    raises   ShapeError, DTypeError for stored images of another form; ArgumentError for a link of the chain that is no Transform;
             what the transforms raise
    """
    if stored.ndim not in (3, 4):
        raise ShapeError(f"augmentation takes images (N, H, W) or (N, H, W, C), got {stored.shape}")
    if stored.ndim == 4 and stored.shape[1] <= _MOST_CHANNELS < stored.shape[3]:
        raise ShapeError(f"augmentation takes images (N, H, W, C), channels last, got {stored.shape}: "
                         "if its channels stand first, give x.transpose(0, 2, 3, 1)")
    if stored.dtype is not dt.uint8 and not stored.dtype.is_float:
        raise DTypeError(f"augmentation takes uint8 or float images, got {stored.dtype.name}")
    if wrong := [t for t in chain if not isinstance(t, Transform)]:
        raise ArgumentError(f"augmentation takes Transforms such as Pad(2), got {wrong[0]!r}")
    draws.start()
    images = Images(stored, samples, draws, (stored.shape[1], stored.shape[2]), normalize=normalize)
    for transform in chain:
        transform(images)
    return images.read()
