"""Adaptive pooling layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from renaissance.nn import functional as F
from renaissance.nn.module import Module

Sizes = int | None | Sequence[int | None]


class _Adaptive(Module):
    """An adaptive pooling function with its sizes."""

    function: ClassVar[Any]

    def __init__(self, output_size: Sizes):
        super().__init__()
        self.output_size = output_size

    def forward(self, x: Any) -> Any:
        return type(self).function(x, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


def _doc(dims: int, what: str, formula: str, name: str) -> str:
    return f"""{what} of each of as many windows as are asked for; see nn.functional.adaptive_{name.lower()}_pool{dims}d.

    y[n, c, p] = {formula}_i x[n, c, i],  floor(p L / P) <= i < ceil((p + 1) L / P)

    output_size  P along each axis: an int, or {dims} of them; None: as many as there are elements
    x        {_SHAPES[dims]} float, or without N;  returns the same with the last sizes P
    raises   at the call what adaptive_{name.lower()}_pool{dims}d raises
    source   PyTorch, Adaptive{name}Pool{dims}d
    """


_SHAPES = {1: "(N, C, W)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}


class AdaptiveAvgPool1d(_Adaptive):
    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_Adaptive):
    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_Adaptive):
    function = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_Adaptive):
    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_Adaptive):
    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_Adaptive):
    function = staticmethod(F.adaptive_max_pool3d)


for _dims, _avg, _max in ((1, AdaptiveAvgPool1d, AdaptiveMaxPool1d), (2, AdaptiveAvgPool2d, AdaptiveMaxPool2d),
                          (3, AdaptiveAvgPool3d, AdaptiveMaxPool3d)):
    _avg.__doc__ = _doc(_dims, "The mean", "mean", "Avg")
    _max.__doc__ = _doc(_dims, "The largest element", "max", "Max")
