"""Pooling layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from renaissance.nn import functional as F
from renaissance.nn.module import Module

Sizes = int | Sequence[int]


class _Pool(Module):
    """A pooling function with its settings, which are attributes of the same names."""

    function: ClassVar[Any]

    def __init__(self, **settings: Any):
        super().__init__()
        self._names = tuple(settings)
        for name, value in settings.items():
            setattr(self, name, value)

    def forward(self, x: Any) -> Any:
        return type(self).function(x, **{name: getattr(self, name) for name in self._names})

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._names)


class MaxPool1d(_Pool):
    """The largest element of every window; see nn.functional.max_pool1d.

    y[n, c, p] = max_r x[n, c, p stride + r dilation - padding]

    kernel_size, stride, padding, dilation, ceil_mode  as in max_pool1d; stride None: kernel_size
    x        (N, C, L) or (C, L);  returns (N, C, P) or (C, P)
    raises   at the call what max_pool1d raises
    source   PyTorch, MaxPool1d
    """

    function = staticmethod(F.max_pool1d)

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, *,
                 ceil_mode: bool = False):  # by name: PyTorch has return_indices before it
        super().__init__(kernel_size=kernel_size, stride=kernel_size if stride is None else stride, padding=padding,
                         dilation=dilation, ceil_mode=ceil_mode)


class MaxPool2d(MaxPool1d):
    """The largest element of every window; see nn.functional.max_pool2d.

    y[n, c, p, q] = max_rs x[n, c, p stride + r dilation - padding, q stride + s dilation - padding]

    kernel_size, stride, padding, dilation, ceil_mode  ints or pairs, as in max_pool2d; stride None: kernel_size
    x        (N, C, H, W) or (C, H, W);  returns (N, C, P, Q) or (C, P, Q)
    raises   at the call what max_pool2d raises
    source   PyTorch, MaxPool2d
    """

    function = staticmethod(F.max_pool2d)


class MaxPool3d(MaxPool1d):
    """The largest element of every window; see nn.functional.max_pool3d.

    y[n, c, o, p, q] = max_trs x[n, c, o stride + t dilation - padding, ...]

    kernel_size, stride, padding, dilation, ceil_mode  ints or triples, as in max_pool3d; stride None: kernel_size
    x        (N, C, D, H, W) or (C, D, H, W);  returns (N, C, O, P, Q) or (C, O, P, Q)
    raises   at the call what max_pool3d raises
    source   PyTorch, MaxPool3d
    """

    function = staticmethod(F.max_pool3d)


class AvgPool1d(_Pool):
    """The mean of every window; see nn.functional.avg_pool1d.

    y[n, c, p] = mean_r x[n, c, p stride + r - padding]

    kernel_size, stride, padding, ceil_mode, count_include_pad  as in avg_pool1d; stride None: kernel_size
    x        (N, C, L) or (C, L);  returns (N, C, P) or (C, P)
    raises   at the call what avg_pool1d raises
    source   PyTorch, AvgPool1d
    """

    function = staticmethod(F.avg_pool1d)

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True):
        super().__init__(kernel_size=kernel_size, stride=kernel_size if stride is None else stride, padding=padding,
                         ceil_mode=ceil_mode, count_include_pad=count_include_pad)


class AvgPool2d(_Pool):
    """The mean of every window; see nn.functional.avg_pool2d.

    y[n, c, p, q] = mean_rs x[n, c, p stride + r - padding, q stride + s - padding]

    kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override  as in avg_pool2d; stride None: kernel_size
    x        (N, C, H, W) or (C, H, W);  returns (N, C, P, Q) or (C, P, Q)
    raises   at the call what avg_pool2d raises
    source   PyTorch, AvgPool2d
    """

    function = staticmethod(F.avg_pool2d)

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None):
        super().__init__(kernel_size=kernel_size, stride=kernel_size if stride is None else stride, padding=padding,
                         ceil_mode=ceil_mode, count_include_pad=count_include_pad, divisor_override=divisor_override)


class AvgPool3d(AvgPool2d):
    """The mean of every window; see nn.functional.avg_pool3d.

    y[n, c, o, p, q] = mean_trs x[n, c, o stride + t - padding, ...]

    kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override  as in avg_pool3d; stride None: kernel_size
    x        (N, C, D, H, W) or (C, D, H, W);  returns (N, C, O, P, Q) or (C, O, P, Q)
    raises   at the call what avg_pool3d raises
    source   PyTorch, AvgPool3d
    """

    function = staticmethod(F.avg_pool3d)
