"""Steps of random programs that combine elements: reductions, products, indexing, losses."""

from __future__ import annotations

import numpy as np

from . import operations as ops
from .growing import MOST_ELEMENTS, Growing, Kind


class Combining(Growing):
    """Reductions, products, indexing, losses."""

    def step_reduction(self) -> None:
        x = self.pick(lambda k: k.size > 0)
        if x is None:
            return
        k = self.at(x)
        axes = tuple(a for a in range(len(k.shape)) if self.yes())
        chosen = self.one_of((axes, None))
        gone = tuple(range(len(k.shape))) if chosen is None else axes
        names = [n for n in ops.REDUCTIONS if k.kind == "f" or n not in ("var", "std", "logsumexp")]
        name, keepdims = self.one_of(names), self.yes()
        shape = tuple(1 if a in gone else n for a, n in enumerate(k.shape) if keepdims or a not in gone)
        dtype = k.dtype
        if name in ("any", "all"):
            dtype = "bool"
        elif k.kind != "f" and name in ("sum", "prod"):
            dtype = "uint64" if k.kind == "u" else "int64"
        elif k.kind != "f" and name == "mean":
            dtype = "float32"
        self.add(name, (x,), (chosen, keepdims), Kind(shape, dtype))

    step_reduction_again = step_reduction

    def step_along_axis(self) -> None:
        x = self.pick(lambda k: k.size > 0 and len(k.shape) > 0)
        if x is None:
            return
        k = self.at(x)
        name, axis = self.one_of(sorted(ops.ALONG_AXIS) if k.kind == "f" else ["argmax", "argmin"]), self.number(-len(k.shape), len(k.shape) - 1)
        if name.startswith("arg"):
            a = axis % len(k.shape)
            self.add(name, (x,), (axis,), Kind(k.shape[:a] + k.shape[a + 1:], "int64", (0, k.shape[a])))
        else:
            self.add(name, (x,), (axis,), k)

    def step_matmul(self) -> None:
        a = self.pick(lambda k: k.kind == "f" and 0 < len(k.shape) < 4 and k.dtype != "float16")
        if a is None:
            return
        k = self.at(a)
        inner, columns = k.shape[-1], self.one_of((1, 3, 8, 17, 33))
        if self.yes():
            w = self.fitting_input((columns, inner), k.dtype)
            name, inputs = "linear without bias", (a, w)
            if self.yes():
                name, inputs = "linear", (a, w, self.fitting_input((columns,), k.dtype))
            self.add(name, inputs, (), Kind((*k.shape[:-1], columns), self._product_dtype(k.dtype)))
            return
        lead = k.shape[:-2] if self.yes() else ()
        b = self.fitting_input((*lead, inner, columns) if self.number(0, 4) else (inner,), k.dtype)
        shape = np.matmul(np.empty(k.shape, bool), np.empty(self.at(b).shape, bool)).shape
        self.add("matmul", (a, b), (), Kind(shape, self._product_dtype(k.dtype)))

    def step_large_product(self) -> None:
        """Of new matrices: long inner axes, many tiles, operands turned."""
        m, k, n = self.one_of((1, 7, 33, 130, 300)), self.one_of((1, 40, 257, 600, 2100)), self.one_of((1, 6, 48, 65, 200))
        if max(m * k, k * n, m * n) > MOST_ELEMENTS:
            return
        dtype = self.one_of(("float32", "float32", "bfloat16", "float64"))
        turned = [self.yes(), self.yes()]
        operands = []
        for (rows, columns), turn in zip(((m, k), (k, n)), turned):
            x = self.input((columns, rows) if turn else (rows, columns), dtype, values="normal")
            operands.append(self.add("permute_dims", (x,), ((1, 0),), Kind((rows, columns), dtype)) if turn else x)
        self.add("matmul", tuple(operands), (), Kind((m, n), self._product_dtype(dtype)))

    step_matmul_again = step_matmul

    def _product_dtype(self, dtype: str) -> str:
        return "bfloat16" if dtype == "float32" and self.precision == "bf16" else dtype

    def step_take(self) -> None:
        x = self.pick(lambda k: len(k.shape) > 0 and k.size > 0)
        if x is None:
            return
        k, axis = self.at(x), self.number(0, len(self.at(x).shape) - 1)
        if self.yes():
            shape = self.one_of(((), (1,), (5,), (2, 3), (0,), (33,)))
            i = self.indices(shape, k.shape[axis])
            self.add("take", (x, i), (axis,), Kind((*k.shape[:axis], *shape, *k.shape[axis + 1:]), k.dtype))
        else:
            shape = (*k.shape[:axis], self.one_of((1, 2, 7, 0)), *k.shape[axis + 1:])
            self.add("take_along_axis", (x, self.indices(shape, k.shape[axis])), (axis,), Kind(shape, k.dtype))

    def step_scatter(self) -> None:
        x = self.pick(lambda k: k.kind == "f" and len(k.shape) == 2 and k.shape[0] > 0)
        if x is not None:
            k, rows = self.at(x), self.one_of((1, 4, 9, 0))
            value = self.fitting_input((rows, k.shape[1]), k.dtype)
            how = "sum" if self.gradient != "none" else self.one_of(("sum", "last"))
            self.add("scatter_rows", (x, self.indices((rows,), k.shape[0]), value), (how,), k)

    def step_one_hot(self) -> None:
        x = self.pick(lambda k: k.kind in "iu")
        if x is not None:
            classes = self.one_of((1, 3, 10, 17))
            self.add("one_hot", (x,), (classes,), Kind((*self.at(x).shape, classes), "bool"))

    def step_loss(self) -> None:
        x = self.pick(lambda k: k.dtype in ("float32", "float64"))
        if x is None:
            return
        k, how = self.at(x), self.one_of(("mean", "sum", "none"))
        if len(k.shape) == 2 and k.shape[1] and self.yes():
            target = self.input((k.shape[0],), self.one_of(("int64", "int32", "uint8")), values=(0, k.shape[1])) if k.shape[1] <= 100 else None
            if target is None:
                return
            shape = (k.shape[0],) if how == "none" else ()
            if self.yes():
                self.add("cross_entropy", (x, target), (self.one_of((0.0, 0.1)), how), Kind(shape, k.dtype))
            else:
                self.add("nll_loss", (x, target), (how,), Kind(shape, k.dtype))
            return
        t = self.fitting_input(k.shape, k.dtype)
        self.add(self.one_of(sorted(ops.LOSSES)), (x, t), (how,), Kind(k.shape if how == "none" else (), k.dtype))
