"""Steps of random programs that move elements."""

from __future__ import annotations

import numpy as np

from .growing import SIZES, Growing, Kind


class Movement(Growing):
    """Movements."""

    def step_reshape(self) -> None:
        x = self.pick()
        if x is None:
            return
        k, left, shape = self.at(x), self.at(x).size, []
        if left:
            for f in (2, 3, 7, 16, 5):
                if left % f == 0 and self.yes():
                    shape.append(f)
                    left //= f
        shape.insert(self.number(0, len(shape)), left)
        self.add("reshape", (x,), (tuple(shape),), Kind(tuple(shape), k.dtype))

    def step_permute(self) -> None:
        x = self.pick(lambda k: len(k.shape) > 1)
        if x is not None:
            k = self.at(x)
            axes = tuple(self.order(len(k.shape)))
            self.add("permute_dims", (x,), (axes,), Kind(tuple(k.shape[a] for a in axes), k.dtype))

    def step_index(self) -> None:
        x = self.pick(lambda k: len(k.shape) > 0)
        if x is None:
            return
        k, key = self.at(x), []
        for n in k.shape:
            how = self.number(0, 5)
            if how == 0 and n:
                key.append(self.number(-n, n - 1))
            elif how < 3:
                key.append((None, None, self.one_of((1, -1, 2, -2, 3))))
            elif how < 5:
                key.append((self.number(-n, n), self.number(-n, n + 1), self.one_of((1, 1, 2, -1, -3))))
            else:
                key.append((None, None, None))
        if self.number(0, 4) == 0:
            key.insert(self.number(0, len(key)), None)
        shape = np.empty(k.shape, np.int8)[tuple(slice(*i) if isinstance(i, tuple) else i for i in key)].shape
        self.add("index", (x,), (tuple(key),), Kind(shape, k.dtype))

    def step_pad(self) -> None:
        x = self.pick(lambda k: len(k.shape) > 0)
        if x is not None:
            k = self.at(x)
            widths = tuple((self.number(0, 2), self.number(0, 3)) for _ in k.shape)
            value = self.one_of((0, 0, 1, *((-0.0, float("inf"), float("nan")) if k.kind == "f" and self.special else ())))
            self.add("pad", (x,), (widths, value), Kind(tuple(n + a + b for n, (a, b) in zip(k.shape, widths)), k.dtype))

    def step_flip(self) -> None:
        x = self.pick()
        if x is not None:
            self.add("flip", (x,), (tuple(a for a in range(len(self.at(x).shape)) if self.yes()),), self.at(x))

    def step_windows(self) -> None:
        x = self.pick(lambda k: 0 < len(k.shape) < 4 and 0 < k.size < 500)
        if x is None:
            return
        k = self.at(x)
        count = self.number(1, min(2, len(k.shape)))
        sizes, strides, dilations, places = [], [], [], []
        for n in k.shape[-count:]:
            dilations.append(self.one_of((1, 1, 2)))
            sizes.append(self.number(1, min(3, (n - 1) // dilations[-1] + 1)))
            strides.append(self.one_of((1, 1, 2, 3)))
            places.append((n - dilations[-1] * (sizes[-1] - 1) - 1) // strides[-1] + 1)
        shape = (*k.shape[:-count], *places, *sizes)
        self.add("windows", (x,), (tuple(sizes), tuple(strides), tuple(dilations)), Kind(shape, k.dtype))

    def step_join(self) -> None:
        x = self.pick(lambda k: len(k.shape) > 0)
        if x is None:
            return
        k = self.at(x)
        if self.yes():
            axis = self.number(0, len(k.shape) - 1)
            fits = lambda o: (o.dtype == k.dtype and len(o.shape) == len(k.shape)  # noqa: E731
                              and o.shape[:axis] + o.shape[axis + 1:] == k.shape[:axis] + k.shape[axis + 1:])
            parts = tuple(self.pick(fits) for _ in range(self.number(1, 3)))
            size = sum(self.at(p).shape[axis] for p in parts)
            self.add("concat", parts, (axis,), Kind((*k.shape[:axis], size, *k.shape[axis + 1:]), k.dtype))
        else:
            axis = self.number(0, len(k.shape))
            parts = tuple(self.pick(lambda o: o.dtype == k.dtype and o.shape == k.shape) for _ in range(self.number(1, 3)))
            self.add("stack", parts, (axis,), Kind((*k.shape[:axis], len(parts), *k.shape[axis:]), k.dtype))

    def step_broadcast(self) -> None:
        x = self.pick()
        if x is None:
            return
        k = self.at(x)
        if self.yes():
            axis = self.number(0, len(k.shape))
            self.add("expand_dims", (x,), (axis,), Kind((*k.shape[:axis], 1, *k.shape[axis:]), k.dtype))
            return
        shape = tuple(self.one_of(SIZES[:10]) if n == 1 else n for n in k.shape)
        if self.yes():
            shape = (self.one_of(SIZES[:6]), *shape)
        self.add("broadcast_to", (x,), (shape,), Kind(shape, k.dtype))
