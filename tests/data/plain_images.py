"""Augmentation in plain NumPy, float64, one sample at a time: what the transforms must do, given the numbers drawn for them."""

from __future__ import annotations

import math

import numpy as np

from renaissance import data
from renaissance.ir.philox import philox_uint32

TICKETS = 1 << 62  # of the first draw of epoch 0
PER_EPOCH = 1 << 10


class PlainDraws:
    """The numbers that chains draw, worked out in float32 as they do."""

    def __init__(self, seed, epoch=0):
        self.seed, self.ticket = seed, TICKETS + epoch * PER_EPOCH

    def uniform(self, samples, low=0.0, high=1.0):
        words = philox_uint32(self.seed, self.ticket, np.asarray(samples, np.uint64))
        self.ticket += 1
        u = (words >> 8).astype(np.float32) * np.float32(2**-24)
        return u * np.float32(high - low) + np.float32(low)


class GivenDraws:
    """Draws whose values a test chooses, the same for each sample."""

    def __init__(self, tensor, *values):
        self.tensor, self.values = tensor, list(values)

    def start(self):
        self.left = list(self.values)

    def uniform(self, samples, low=0.0, high=1.0):
        return self.tensor(np.full(len(samples.numpy()), self.left.pop(0), np.float32))


def augment(stored, samples, chain, draws):
    """The batch of `samples` after the chain, (B, C, H, W) float64."""
    images = stored[samples].astype(np.float64) / (255 if stored.dtype == np.uint8 else 1)
    images = images[..., None] if images.ndim == 3 else images
    # For each sample a function from output coordinates to stored ones, and the size of the output.
    where = [lambda i, j: (i, j)] * len(samples)
    size, pixels = images.shape[1:3], None
    for transform in chain:
        if isinstance(transform, (data.RandomErasing, data.Normalize)):
            pixels = _read(images, where, size) if pixels is None else pixels
            erasing = isinstance(transform, data.RandomErasing)
            pixels = _erase(pixels, samples, transform, draws) if erasing else _normal(pixels, transform)
        else:
            moves, size = _moves(transform, samples, size, draws)
            where = [_after(old, new) for old, new in zip(where, moves)]
    return _read(images, where, size) if pixels is None else pixels


def _after(old, new):
    return lambda i, j: old(*new(i, j))


def _moves(transform, samples, size, draws):
    """For each sample where an output pixel of one transform lies in its input; and the size of the output."""
    (h, w), count = size, len(samples)
    cy, cx = (h - 1) / 2, (w - 1) / 2
    if isinstance(transform, data.Pad):
        n = transform.padding
        return [lambda i, j: (i - n, j - n)] * count, (h + 2 * n, w + 2 * n)
    if isinstance(transform, data.RandomCrop):
        th, tw = transform.size
        ys, xs = (np.floor(draws.uniform(samples, 0, n + 1)) for n in (h - th, w - tw))
        return [lambda i, j, y=y, x=x: (i + y, j + x) for y, x in zip(ys, xs)], (th, tw)
    if isinstance(transform, data.RandomHorizontalFlip):
        chosen = draws.uniform(samples) < np.float32(transform.p)
        return [(lambda i, j: (i, w - 1 - j)) if c else (lambda i, j: (i, j)) for c in chosen], size
    if isinstance(transform, data.RandomRotation):
        degrees = draws.uniform(samples, -transform.degrees, transform.degrees).astype(np.float64)
        turns = [complex(math.cos(a), math.sin(a)) for a in np.deg2rad(degrees)]

        def turned(i, j, turn):
            """The point to read lies clockwise of the one to write, which is the positive sense where y points down."""
            z = ((j - cx) + 1j * (i - cy)) * turn
            return z.imag + cy, z.real + cx

        return [lambda i, j, t=t: turned(i, j, t) for t in turns], size
    factors = [draws.uniform(samples, transform.low, transform.high).astype(np.float64) for _ in range(2)]
    return [lambda i, j, a=a, b=b: (cy + (i - cy) / a, cx + (j - cx) / b) for a, b in zip(*factors)], size


def _read(images, where, size):
    i, j = np.meshgrid(np.arange(size[0], dtype=np.float64), np.arange(size[1], dtype=np.float64), indexing="ij")
    return np.stack([_bilinear(image, *move(i, j)) for image, move in zip(images, where)]).transpose(0, 3, 1, 2)


def _bilinear(image, y, x):
    h, w = image.shape[:2]
    top, left = np.floor(y).astype(int), np.floor(x).astype(int)
    result = np.zeros((*y.shape, image.shape[2]))
    for r, c in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        weight = (1 - np.abs(y - r)) * (1 - np.abs(x - c))
        inside = (r >= 0) & (r < h) & (c >= 0) & (c < w)
        result += np.where(inside, weight, 0)[..., None] * image[r.clip(0, h - 1), c.clip(0, w - 1)]
    return result


def _erase(pixels, samples, t, draws):
    pixels = pixels.copy()
    h, w = pixels.shape[2:]
    area = draws.uniform(samples, *t.scale) * np.float32(h * w)
    r = np.exp(draws.uniform(samples, math.log(t.ratio[0]), math.log(t.ratio[1])))
    eh, ew = np.rint(np.sqrt(area * r)).clip(1, h), np.rint(np.sqrt(area / r)).clip(1, w)
    y, x = np.floor(draws.uniform(samples) * (h + 1 - eh)), np.floor(draws.uniform(samples) * (w + 1 - ew))
    chosen = draws.uniform(samples) < np.float32(t.p)
    for b in np.flatnonzero(chosen):
        pixels[b, :, int(y[b]):int(y[b] + eh[b]), int(x[b]):int(x[b] + ew[b])] = t.value
    return pixels


def _normal(pixels, t):
    mean, std = (np.reshape(v, (1, -1, 1, 1)) for v in (t.mean, t.std))
    return (pixels - mean) / std
