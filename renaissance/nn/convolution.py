"""Convolution layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from renaissance.errors import ArgumentError
from renaissance.ir import shape as sh
from renaissance.nn import functional as F
from renaissance.nn.init import linear_default
from renaissance.nn.module import Module
from renaissance.ops.convolution import each
from renaissance.parameter import Parameter

Sizes = int | Sequence[int]


class _Conv(Module):
    """What convolutions and their transposes share: checked settings, and weights cut into groups."""

    dims: ClassVar[int]
    function: ClassVar[Any]
    transposed: ClassVar[bool] = False

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes, padding: Sizes | str,
                 output_padding: Sizes, dilation: Sizes, groups: int, bias: bool, padding_mode: str):
        super().__init__()
        name = type(self).__name__
        for what, n, least in (("in_channels", in_channels, 0), ("out_channels", out_channels, 0), ("groups", groups, 1)):
            if not (sh.is_index(n) and n >= least):
                raise ArgumentError(f"{name}: {what} must be an int, at least {least}, got {n!r}")
        if in_channels % groups or out_channels % groups:
            raise ArgumentError(f"{name}: groups={groups} must divide in_channels {in_channels} and out_channels {out_channels}")
        if padding_mode != "zeros":
            raise ArgumentError(f"{name}: padding_mode must be 'zeros', got {padding_mode!r}; for other modes pad x first")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = in_channels, out_channels, groups, padding_mode
        self.kernel_size = each(name, "kernel_size", kernel_size, self.dims, 1)
        self.stride = each(name, "stride", stride, self.dims, 1)
        self.padding = self._checked_padding(padding)
        self.output_padding = each(name, "output_padding", output_padding, self.dims, 0)
        self.dilation = each(name, "dilation", dilation, self.dims, 1)
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        fan_in = second // groups * math.prod(self.kernel_size)
        self.weight = Parameter(linear_default((first, second // groups, *self.kernel_size), fan_in))
        self.register_parameter("bias", Parameter(linear_default((out_channels,), fan_in)) if bias else None)

    def _checked_padding(self, padding: Sizes | str) -> tuple[int, ...] | str:
        name = type(self).__name__
        if not isinstance(padding, str):
            return each(name, "padding", padding, self.dims, 0)
        if self.transposed or padding not in ("valid", "same"):
            allowed = "sizes" if self.transposed else "sizes, 'valid' or 'same'"
            raise ArgumentError(f"{name}: padding must be {allowed}, got {padding!r}")
        if padding == "same" and any(s != 1 for s in self.stride):
            raise ArgumentError(f"{name}: padding='same' needs stride 1, got {self.stride}")
        return padding

    def extra_repr(self) -> str:
        zeros, ones = (0,) * self.dims, (1,) * self.dims
        shown = [("padding", self.padding, zeros), ("output_padding", self.output_padding, zeros),
                 ("dilation", self.dilation, ones), ("groups", self.groups, 1), ("bias", self.bias is not None, True)]
        return ", ".join([f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}",
                          *(f"{name}={value}" for name, value, default in shown if value != default)])


class Conv1d(_Conv):
    """Multiplies every window along the last axis with kernels; see nn.functional.conv1d.

    y[n, k, p] = sum_c,r x[n, c, p stride + r dilation - padding] weight[k, c, r] + bias[k], x 0 outside

    in_channels, out_channels       C and K
    kernel_size                     R, as stride and dilation an int or a tuple of one
    stride, padding, dilation       as in conv1d
    groups                          C and K are cut into so many groups
    bias                            whether there is a bias; as an attribute the bias itself, (K,)
    padding_mode                    'zeros'
    weight                          attribute, (K, C/groups, R), at first uniform within 1 / sqrt(C/groups R), as bias
    x                               (N, C, L) or (C, L);  returns (N, K, P) or (K, P)
    raises                          ArgumentError for sizes out of range, groups that do not divide, and other padding modes; at
                                    the call what conv1d raises
    source                          PyTorch, Conv1d
    """

    dims = 1
    function = staticmethod(F.conv1d)

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes | str = 0,
                 dilation: Sizes = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros"):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, 0, dilation, groups, bias, padding_mode)

    def forward(self, x: Any) -> Any:
        return type(self).function(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(Conv1d):
    """Multiplies every window over the last two axes with kernels; see nn.functional.conv2d.

    y[n, k, p, q] = sum_c,r,s x[n, c, p stride + r dilation - padding, ...] weight[k, c, r, s] + bias[k], x 0 outside

    in_channels, out_channels       C and K
    kernel_size                     (R, S), as stride and dilation an int or a pair
    stride, padding, dilation       as in conv2d
    groups                          C and K are cut into so many groups
    bias                            whether there is a bias; as an attribute the bias itself, (K,)
    padding_mode                    'zeros'
    weight                          attribute, (K, C/groups, R, S), at first uniform within 1 / sqrt(C/groups R S), as bias
    x                               (N, C, H, W) or (C, H, W);  returns (N, K, P, Q) or (K, P, Q)
    raises                          ArgumentError for sizes out of range, groups that do not divide, and other padding modes; at
                                    the call what conv2d raises
    source                          PyTorch, Conv2d
    """

    dims = 2
    function = staticmethod(F.conv2d)


class Conv3d(Conv1d):
    """Multiplies every window over the last three axes with kernels; see nn.functional.conv3d.

    y[n, k, o, p, q] = sum_c,t,r,s x[n, c, o stride + t dilation - padding, ...] weight[k, c, t, r, s] + bias[k]

    in_channels, out_channels       C and K
    kernel_size                     (T, R, S), as stride and dilation an int or a triple
    stride, padding, dilation       as in conv3d
    groups                          C and K are cut into so many groups
    bias                            whether there is a bias; as an attribute the bias itself, (K,)
    padding_mode                    'zeros'
    weight                          attribute, (K, C/groups, T, R, S), at first uniform within 1 / sqrt(C/groups T R S), as bias
    x                               (N, C, D, H, W) or (C, D, H, W);  returns (N, K, O, P, Q) or (K, O, P, Q)
    raises                          ArgumentError for sizes out of range, groups that do not divide, and other padding modes; at
                                    the call what conv3d raises
    source                          PyTorch, Conv3d
    """

    dims = 3
    function = staticmethod(F.conv3d)


class ConvTranspose1d(_Conv):
    """Adds to every window along the last axis a kernel times one element; see nn.functional.conv_transpose1d.

    y[n, k, h] = sum_c,p,r x[n, c, p] weight[c, k, r] over p stride + r dilation - padding = h, + bias[k]

    in_channels, out_channels                  C and K
    kernel_size                                R, as the following an int or a tuple of one
    stride, padding, output_padding, dilation  as in conv_transpose1d
    groups                                     C and K are cut into so many groups
    bias                                       whether there is a bias; as an attribute the bias itself, (K,)
    padding_mode                               'zeros'
    weight                                     attribute, (C, K/groups, R), at first uniform within 1 / sqrt(K/groups R), as bias
    x                                          (N, C, L) or (C, L);  returns (N, K, P) or (K, P)
    raises                                     ArgumentError for sizes out of range, groups that do not divide, and other padding
                                               modes; at the call what conv_transpose1d raises
    source                                     PyTorch, ConvTranspose1d
    """

    dims = 1
    function = staticmethod(F.conv_transpose1d)
    transposed = True

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0,
                 output_padding: Sizes = 0, groups: int = 1, bias: bool = True, dilation: Sizes = 1, padding_mode: str = "zeros"):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups, bias,
                         padding_mode)

    def forward(self, x: Any) -> Any:
        return type(self).function(x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups,
                                   self.dilation)


class ConvTranspose2d(ConvTranspose1d):
    """Adds to every window over the last two axes a kernel times one element; see nn.functional.conv_transpose2d.

    y[n, k, h, w] = sum_c,p,q,r,s x[n, c, p, q] weight[c, k, r, s] over p stride + r dilation - padding = h, w likewise, + bias[k]

    in_channels, out_channels                  C and K
    kernel_size                                (R, S), as the following an int or a pair
    stride, padding, output_padding, dilation  as in conv_transpose2d
    groups                                     C and K are cut into so many groups
    bias                                       whether there is a bias; as an attribute the bias itself, (K,)
    padding_mode                               'zeros'
    weight                                     attribute, (C, K/groups, R, S), at first uniform within 1 / sqrt(K/groups R S)
    x                                          (N, C, H, W) or (C, H, W);  returns (N, K, P, Q) or (K, P, Q)
    raises                                     ArgumentError for sizes out of range, groups that do not divide, and other padding
                                               modes; at the call what conv_transpose2d raises
    source                                     PyTorch, ConvTranspose2d
    """

    dims = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(ConvTranspose1d):
    """Adds to every window over the last three axes a kernel times one element; see nn.functional.conv_transpose3d.

    y[n, k, e, h, w] = sum x[n, c, o, p, q] weight[c, k, t, r, s] over o stride + t dilation - padding = e, ..., + bias[k]

    in_channels, out_channels                  C and K
    kernel_size                                (T, R, S), as the following an int or a triple
    stride, padding, output_padding, dilation  as in conv_transpose3d
    groups                                     C and K are cut into so many groups
    bias                                       whether there is a bias; as an attribute the bias itself, (K,)
    padding_mode                               'zeros'
    weight                                     attribute, (C, K/groups, T, R, S), at first uniform within 1 / sqrt(K/groups T R S)
    x                                          (N, C, D, H, W) or (C, D, H, W);  returns (N, K, O, P, Q) or (K, O, P, Q)
    raises                                     ArgumentError for sizes out of range, groups that do not divide, and other padding
                                               modes; at the call what conv_transpose3d raises
    source                                     PyTorch, ConvTranspose3d
    """

    dims = 3
    function = staticmethod(F.conv_transpose3d)
