"""Transposed convolutions: what a convolution of the same settings sends back to its image, as a layer of its own."""

from __future__ import annotations

from typing import Any

from renaissance.errors import ArgumentError, ShapeError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ir.dtype import DType
from renaissance.ir.node import Shape
from renaissance.ops.composed import composed
from renaissance.ops.contraction import operand_dtype
from renaissance.ops.convolution import Geometry, Sizes, channels_first, channels_last, each, input_gradient, three
from renaissance.ops.elementwise import add, astype
from renaissance.ops.movement import reshape
from renaissance.ops.value import need_tensor


@composed
def _spread(x: Any, weight: Any, bias: Any, geometry: Geometry, image: Shape, chosen: DType) -> Any:
    """The image (N, K, ...) that x (N, C, ...) is spread over, made of operands rounded to `chosen`."""
    last = channels_last(astype(x, chosen))
    y = reshape(last, (x.shape[0], *three(x.shape[2:]), x.shape[1]))
    w = reshape(astype(weight, chosen), (*weight.shape[:2], *three(weight.shape[2:])))
    made = weight.shape[1] * geometry.groups
    out = input_gradient(y, w, geometry, (x.shape[0], *three(image), made), dt.accumulator(chosen))
    if bias is not None:
        out = add(out, astype(bias, out.dtype))
    return channels_first(reshape(astype(out, chosen), (x.shape[0], *image, made)))


def _conv_transpose(dims: int, x: Any, weight: Any, bias: Any, stride: Sizes, padding: Sizes, output_padding: Sizes, groups: int,
                    dilation: Sizes) -> Any:
    op = f"conv_transpose{dims}d"
    need_tensor(op, x)
    need_tensor(op, weight, "weight")
    if weight.ndim != dims + 2:
        raise ShapeError(f"{op}: weight must have {dims + 2} axes, (C, K/groups, kernel), got shape {weight.shape}")
    if x.ndim == dims + 1:
        y = _conv_transpose(dims, reshape(x, (1, *x.shape)), weight, bias, stride, padding, output_padding, groups, dilation)
        return reshape(y, y.shape[1:])
    if x.ndim != dims + 2:
        raise ShapeError(f"{op}: x must have {dims + 2} axes, (N, C, sizes), or the same without N, got shape {x.shape}")
    if not (sh.is_index(groups) and groups >= 1):
        raise ArgumentError(f"{op}: groups must be an int, at least 1, got {groups!r}")
    if x.shape[1] != weight.shape[0] or x.shape[1] % groups:
        raise ShapeError(f"{op}: weight of shape {weight.shape} takes {weight.shape[0]} channels, a multiple of "
                         f"groups={groups}; x has shape {x.shape}")
    made = weight.shape[1] * groups
    if bias is not None and bias.shape != (made,):
        raise ShapeError(f"{op}: bias must be (K,) = ({made},), got {bias.shape}")
    strides, dilations = each(op, "stride", stride, dims, 1), each(op, "dilation", dilation, dims, 1)
    paddings, extra = each(op, "padding", padding, dims, 0), each(op, "output_padding", output_padding, dims, 0)
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations)):
        raise ArgumentError(f"{op}: output_padding must be below stride or dilation, got {extra} with {strides} and {dilations}")
    image = tuple((n - 1) * s - 2 * p + d * (r - 1) + e + 1 for n, r, s, p, e, d in
                  zip(x.shape[2:], weight.shape[2:], strides, paddings, extra, dilations))
    if min((1, *weight.shape[2:])) < 1 or min(image) < 1:
        raise ShapeError(f"{op}: x of shape {x.shape} with kernels {weight.shape[2:]} and padding {paddings} leaves "
                         f"sizes {image}")
    lows: Any = (*((0, 0),) * (3 - dims), *((p, p) for p in paddings))
    full = Geometry(three(weight.shape[2:]), three(strides), lows, three(dilations), groups)  # type: ignore[arg-type]
    return _spread(x, weight, bias, full, image, operand_dtype(op, x, weight))


def _doc(dims: int) -> str:
    shape, kernel, out = _SHAPES[dims]
    return f"""Add to the places of every window a kernel times one element: the transpose of conv{dims}d with the same settings.

    y[n, k, h] = sum_c,p,r x[n, c, p] weight[c, k, r] over p stride + r dilation - padding = h, + bias[k]

    x               {shape} float, or without N
    weight          {kernel}; the C / groups kernels of a group make its K / groups channels
    bias            (K,) or None
    stride          from one window to the next: an int, or {dims} of them, as all that follow
    padding         places cut off at both ends
    output_padding  places added at the far end, below stride or dilation
    groups          C and K are cut into so many groups
    dilation        between neighbours in a window
    returns         {out}, P = (W - 1) stride - 2 padding + dilation (R - 1) + output_padding + 1; the promoted dtype
                    (bfloat16 under that precision)
    raises          ShapeError when channels do not fit, or nothing is left; ArgumentError for sizes out of range; DTypeError for
                    integers
    source          PyTorch, conv_transpose{dims}d
    """


_SHAPES = {1: ("(N, C, W)", "(C, K/groups, R)", "(N, K, P)"), 2: ("(N, C, H, W)", "(C, K/groups, R, S)", "(N, K, P, Q)"),
           3: ("(N, C, D, H, W)", "(C, K/groups, T, R, S)", "(N, K, O, P, Q)")}


def conv_transpose1d(x: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
                     groups: int = 1, dilation: Sizes = 1) -> Any:
    return _conv_transpose(1, x, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(x: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
                     groups: int = 1, dilation: Sizes = 1) -> Any:
    return _conv_transpose(2, x, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(x: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
                     groups: int = 1, dilation: Sizes = 1) -> Any:
    return _conv_transpose(3, x, weight, bias, stride, padding, output_padding, groups, dilation)


for _dims, _function in ((1, conv_transpose1d), (2, conv_transpose2d), (3, conv_transpose3d)):
    _function.__doc__ = _doc(_dims)
