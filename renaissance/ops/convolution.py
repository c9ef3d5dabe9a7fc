"""Convolutions, channels last and with three spatial axes: products of every window of an image with a kernel.

Two primitives, `conv` and `conv_weight`; the gradient of the image is a `conv` again, of the spread cotangent. The public
functions take PyTorch's layouts (channels first, one to three spatial axes).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from renaissance.errors import ArgumentError, DTypeError, ShapeError
from renaissance.ir import dtype as dt
from renaissance.ir import shape as sh
from renaissance.ir.dtype import DType
from renaissance.ir.node import Node, Op, Shape
from renaissance.ops.composed import composed
from renaissance.ops.contraction import operand_dtype
from renaissance.ops.elementwise import add, astype
from renaissance.ops.movement import broadcast_to, flip, permute_dims, reshape
from renaissance.ops.value import Value, apply, need_tensor

Three = tuple[int, int, int]
Sizes = int | Sequence[int]


class Geometry(NamedTuple):
    """How windows lie on an image: window p along an axis holds the places p stride + r dilation - low, r < kernel.

    padding  (low, high) for each axis: places before and after the image that read as 0; negative: so many are cut off
    spread   element i of the image is at place i spread, with zeros between: more than 1 in the gradient of a strided convolution
    """

    kernel: Three
    strides: Three
    padding: tuple[tuple[int, int], ...]
    dilations: Three
    groups: int
    spread: Three = (1, 1, 1)

    def windows(self, image: Sequence[int]) -> tuple[int, ...]:
        """How many windows fit along each axis of an image; 0 or less where none does."""
        return tuple(((n - 1) * e + low + high - d * (r - 1)) // s + 1 for n, r, s, (low, high), d, e in
                     zip(image, self.kernel, self.strides, self.padding, self.dilations, self.spread))

    def transposed(self, image: Sequence[int], windows: Sequence[int]) -> Geometry:
        """The geometry that leads back from what the windows of an image gave to the image, with the taps in reverse."""
        padding = []
        lows = (low for low, _ in self.padding)
        for n, p, r, s, low, d, e in zip(image, windows, self.kernel, self.strides, lows, self.dilations, self.spread):
            padding.append((d * (r - 1) - low, (n - 1) * e + low - (p - 1) * s))
        return Geometry(self.kernel, self.spread, tuple(padding), self.dilations, self.groups, self.strides)


# ---- records -----------------------------------------------------------------------------------------------------------


def _infer(inputs: tuple[Node, ...], geometry: Geometry, out_dtype: DType) -> tuple[Shape, DType]:
    x, w = inputs
    if len(x.shape) != 5 or len(w.shape) != 5 or w.shape[2:] != geometry.kernel:
        raise ShapeError(f"conv: takes (N, D, H, W, C) and (K, C/groups, {geometry.kernel}), got {x.shape} and {w.shape}")
    _check_channels(x.shape[4], w.shape[0], w.shape[1], geometry.groups)
    _check_dtypes("conv", x, w)
    return (x.shape[0], *_counted(geometry, x.shape), w.shape[0]), out_dtype


def _infer_weight(inputs: tuple[Node, ...], geometry: Geometry, out_dtype: DType) -> tuple[Shape, DType]:
    x, y = inputs
    if len(x.shape) != 5 or len(y.shape) != 5 or y.shape[:4] != (x.shape[0], *_counted(geometry, x.shape)):
        raise ShapeError(f"conv_weight: takes an image and one value for each of its windows, got {x.shape} and {y.shape}")
    _check_dtypes("conv_weight", x, y)
    if x.shape[4] % geometry.groups or y.shape[4] % geometry.groups:
        raise ShapeError(f"conv_weight: channels {x.shape[4]} and {y.shape[4]} must be multiples of groups {geometry.groups}")
    return (y.shape[4], x.shape[4] // geometry.groups, *geometry.kernel), out_dtype


def _counted(geometry: Geometry, image: Shape) -> tuple[int, ...]:
    counts = geometry.windows(image[1:4])
    if min(counts) < 1:
        raise ShapeError(f"conv: a kernel of {geometry.kernel} does not fit into {image[1:4]} with padding {geometry.padding}")
    return counts


def _check_channels(image: int, made: int, seen: int, groups: int) -> None:
    if image != seen * groups or made % groups:
        raise ShapeError(f"conv: {groups} groups of {seen} channels do not make the image's {image}, or do not divide the {made} "
                         "channels made")


def _check_dtypes(op: str, a: Node, b: Node) -> None:
    if a.dtype is not b.dtype or not a.dtype.is_float:
        raise DTypeError(f"{op}: takes two floats of one dtype, got {a.dtype.name} and {b.dtype.name}")


def taps(x: Any, geometry: Geometry, counts: Sequence[int]) -> Any:
    """For each tap of the kernel: its index, and what the windows of a NumPy array see through it."""
    if geometry.spread != (1, 1, 1):
        wide = np.zeros((x.shape[0], *((n - 1) * e + 1 for n, e in zip(x.shape[1:4], geometry.spread)), x.shape[4]), x.dtype)
        wide[(slice(None), *(slice(None, None, e) for e in geometry.spread))] = x
        x = wide
    padded = np.pad(x, ((0, 0), *((max(low, 0), max(high, 0)) for low, high in geometry.padding), (0, 0)))
    starts = [max(-low, 0) for low, _ in geometry.padding]
    for tap in itertools.product(*map(range, geometry.kernel)):
        places = [slice(a + r * d, a + r * d + (n - 1) * s + 1, s)
                  for a, r, d, n, s in zip(starts, tap, geometry.dilations, counts, geometry.strides)]
        yield tap, padded[(slice(None), *places)]


def _grouped(x: Any, groups: int) -> Any:
    return x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)


def _reference(arrays: Any, geometry: Geometry, out_dtype: DType, out: tuple[Shape, DType]) -> Any:
    x, w = (a.astype(np.float64) for a in arrays)
    g = geometry.groups
    w = w.reshape(g, w.shape[0] // g, *w.shape[1:])
    y = np.zeros((*out[0][:4], g, w.shape[1]))
    with np.errstate(all="ignore"):
        for tap, seen in taps(x, geometry, out[0][1:4]):
            y += np.einsum("ndhwgc,gkc->ndhwgk", _grouped(seen, g), w[(slice(None), slice(None), slice(None), *tap)])
    return y.reshape(out[0]).astype(out_dtype.numpy)


def _reference_weight(arrays: Any, geometry: Geometry, out_dtype: DType, out: tuple[Shape, DType]) -> Any:
    x, y = (a.astype(np.float64) for a in arrays)
    g = geometry.groups
    dw = np.zeros((g, out[0][0] // g, *out[0][1:]))
    with np.errstate(all="ignore"):
        for tap, seen in taps(x, geometry, y.shape[1:4]):
            dw[(slice(None), slice(None), slice(None), *tap)] = np.einsum("ndhwgc,ndhwgk->gkc", _grouped(seen, g), _grouped(y, g))
    return dw.reshape(out[0]).astype(out_dtype.numpy)


def _vjp(ct: Value, out: Value, inputs: tuple[Value, ...], geometry: Geometry, out_dtype: DType) -> tuple[Value, ...]:
    """The cotangent is rounded once to the operands' dtype, the results are not."""
    x, w = inputs
    ct = astype(ct, x.dtype)
    return input_gradient(ct, w, geometry, x.shape, out_dtype), weight_gradient(x, ct, geometry, out_dtype)


def _vjp_weight(ct: Value, out: Value, inputs: tuple[Value, ...], geometry: Geometry, out_dtype: DType) -> tuple[Value, ...]:
    x, y = inputs
    ct = astype(ct, x.dtype)
    return input_gradient(y, ct, geometry, x.shape, out_dtype), convolved(x, ct, geometry, out_dtype)


# y[n, p, k] = sum over r and c of x[n, p stride + r dilation - low, c] w[k, c, r]: one multiply-add chain over (r, c)
CONV = Op("conv", "contraction", _infer, _reference, _vjp, ("geometry", "out_dtype"))
# dw[k, c, r] = sum over n and p of x[n, p stride + r dilation - low, c] y[n, p, k]
CONV_WEIGHT = Op("conv_weight", "contraction", _infer_weight, _reference_weight, _vjp_weight, ("geometry", "out_dtype"))


# ---- products ----------------------------------------------------------------------------------------------------------


def nothing(like: Value, shape: Shape, dtype: DType) -> Any:
    """Zeros, in the class of `like`."""
    return broadcast_to(reshape(type(like)(like.number(0.0, dtype)), (1,) * len(shape)), shape)


def convolved(x: Any, w: Any, geometry: Geometry, out_dtype: DType) -> Any:
    """`conv`, or zeros where it sums nothing."""
    if 0 in w.shape or 0 in x.shape:
        return nothing(x, (x.shape[0], *geometry.windows(x.shape[1:4]), w.shape[0]), out_dtype)
    return apply(CONV, (x, w), (geometry, out_dtype))


def weight_gradient(x: Any, y: Any, geometry: Geometry, out_dtype: DType) -> Any:
    """`conv_weight`, or zeros where it sums nothing."""
    if 0 in x.shape or 0 in y.shape:
        return nothing(x, (y.shape[4], x.shape[4] // geometry.groups, *geometry.kernel), out_dtype)
    return apply(CONV_WEIGHT, (x, y), (geometry, out_dtype))


def input_gradient(y: Any, w: Any, geometry: Geometry, image: Shape, out_dtype: DType) -> Any:
    """What `conv` sends back to its image: a convolution of y, spread by the strides, with the taps in reverse.

    x[n, h, c] = sum over k and all p, r with p stride + r dilation - low = h spread of y[n, p, k] w[k, c, r]
    """
    g, k = geometry.groups, w.shape[0] // geometry.groups
    turned = reshape(w, (g, k, *w.shape[1:]))
    turned = reshape(permute_dims(turned, (0, 2, 1, 3, 4, 5)), (image[4], k, *geometry.kernel))
    return convolved(y, flip(turned, axis=(2, 3, 4)), geometry.transposed(image[1:4], y.shape[1:4]), out_dtype)


# ---- layouts -----------------------------------------------------------------------------------------------------------


def channels_last(x: Any) -> Any:
    """(N, C, ...) as (N, ..., C)."""
    return permute_dims(x, (0, *range(2, x.ndim), 1))


def channels_first(x: Any) -> Any:
    """(N, ..., C) as (N, C, ...)."""
    return permute_dims(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


def three(shape: Sequence[int]) -> tuple[int, ...]:
    """Spatial sizes as three: axes of one element come first."""
    return (*(1,) * (3 - len(shape)), *shape)


# ---- functions ---------------------------------------------------------------------------------------------------------


@composed
def _convolution(x: Any, weight: Any, bias: Any, geometry: Geometry, chosen: DType) -> Any:
    """The convolution of (N, C, ...) with operands rounded to `chosen`; the bias is added before the result is rounded."""
    last = channels_last(astype(x, chosen))
    image = reshape(last, (x.shape[0], *three(x.shape[2:]), x.shape[1]))
    w = reshape(astype(weight, chosen), (*weight.shape[:2], *three(weight.shape[2:])))
    y = convolved(image, w, geometry, dt.accumulator(chosen))
    if bias is not None:
        y = add(y, astype(bias, y.dtype))
    y = astype(y, chosen)
    return channels_first(reshape(y, (y.shape[0], *y.shape[1:4][3 - (x.ndim - 2):], y.shape[4])))


def each(op: str, name: str, value: Any, dims: int, least: int) -> tuple[int, ...]:
    """An argument of a function over `dims` axes, an int or one for each, as one for each."""
    values = (value,) * dims if sh.is_index(value) else tuple(value) if isinstance(value, (tuple, list)) else ()
    if len(values) != dims or not all(sh.is_index(v) and v >= least for v in values):
        raise ArgumentError(f"{op}: {name} must be an int, or {dims} of them, at least {least}, got {value!r}")
    return tuple(int(v) for v in values)


def _paddings(op: str, padding: Any, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
              dims: int) -> tuple[tuple[int, int], ...]:
    if not isinstance(padding, str):
        return tuple((p, p) for p in each(op, "padding", padding, dims, 0))
    if padding == "valid":
        return ((0, 0),) * dims
    if padding != "same":
        raise ArgumentError(f"{op}: padding must be sizes, 'valid' or 'same', got {padding!r}")
    if any(s != 1 for s in strides):
        raise ArgumentError(f"{op}: padding='same' needs stride 1, got {tuple(strides)}")
    return tuple((d * (r - 1) // 2, d * (r - 1) - d * (r - 1) // 2) for r, d in zip(kernel, dilations))


def _conv(dims: int, x: Any, weight: Any, bias: Any, stride: Sizes, padding: Sizes | str, dilation: Sizes, groups: int) -> Any:
    op = f"conv{dims}d"
    need_tensor(op, x)
    need_tensor(op, weight, "weight")
    if weight.ndim != dims + 2:
        raise ShapeError(f"{op}: weight must have {dims + 2} axes, (K, C/groups, kernel), got shape {weight.shape}")
    if x.ndim == dims + 1:
        y = _conv(dims, reshape(x, (1, *x.shape)), weight, bias, stride, padding, dilation, groups)
        return reshape(y, y.shape[1:])
    if x.ndim != dims + 2:
        raise ShapeError(f"{op}: x must have {dims + 2} axes, (N, C, sizes), or the same without N, got shape {x.shape}")
    if not (sh.is_index(groups) and groups >= 1):
        raise ArgumentError(f"{op}: groups must be an int, at least 1, got {groups!r}")
    kernel, made, taken = weight.shape[2:], weight.shape[0], weight.shape[1] * groups
    if x.shape[1] != taken or made % groups:
        raise ShapeError(f"{op}: weight of shape {weight.shape} with groups={groups} takes {taken} channels and must make "
                         f"a multiple of {groups}; x has shape {x.shape}")
    if bias is not None and bias.shape != (made,):
        raise ShapeError(f"{op}: bias must be (K,) = ({made},), got {bias.shape}")
    strides, dilations = each(op, "stride", stride, dims, 1), each(op, "dilation", dilation, dims, 1)
    paddings = _paddings(op, padding, kernel, strides, dilations, dims)
    counts = Geometry(kernel, strides, paddings, dilations, groups).windows(x.shape[2:])  # type: ignore[arg-type]
    if min((1, *kernel)) < 1 or min(counts) < 1:
        raise ShapeError(f"{op}: a kernel of {kernel} with dilation {dilations} does not fit into x of shape {x.shape} with "
                         f"padding {paddings}")
    full: Any = Geometry(three(kernel), three(strides), (*((0, 0),) * (3 - dims), *paddings),  # type: ignore[arg-type]
                         three(dilations), groups)  # type: ignore[arg-type]
    return _convolution(x, weight, bias, full, operand_dtype(op, x, weight))


def _doc(dims: int) -> str:
    shape, kernel, out = _SHAPES[dims]
    return f"""Multiply every window over the last {_NUMBERS[dims]} with kernels, group of channels by group.

    y[n, k, p] = sum_c,r x[n, c, p stride + r dilation - padding] weight[k, c, r] + bias[k], x 0 outside

    x         {shape} float, or without N
    weight    {kernel}; the K / groups kernels of a group see its C / groups channels
    bias      (K,) or None
    stride    from one window to the next: an int, or {dims} of them, as all that follow
    padding   places before and after the elements; 'valid': none; 'same': as many as keep the sizes, at stride 1
    dilation  between neighbours in a window
    groups    C and K are cut into so many groups
    returns   {out}, P = floor((L + 2 padding - dilation (R - 1) - 1) / stride) + 1; the promoted dtype (bfloat16 under
              that precision)
    raises    ShapeError when channels do not fit, or a kernel is larger than the padded x; ArgumentError for sizes out of range;
              DTypeError for integers
    source    PyTorch, conv{dims}d
    """


_SHAPES = {1: ("(N, C, W)", "(K, C/groups, R)", "(N, K, P)"), 2: ("(N, C, H, W)", "(K, C/groups, R, S)", "(N, K, P, Q)"),
           3: ("(N, C, D, H, W)", "(K, C/groups, T, R, S)", "(N, K, O, P, Q)")}
_NUMBERS = {1: "axis", 2: "two axes", 3: "three axes"}


def conv1d(x: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Sizes | str = 0, dilation: Sizes = 1,
           groups: int = 1) -> Any:
    return _conv(1, x, weight, bias, stride, padding, dilation, groups)


def conv2d(x: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Sizes | str = 0, dilation: Sizes = 1,
           groups: int = 1) -> Any:
    return _conv(2, x, weight, bias, stride, padding, dilation, groups)


def conv3d(x: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Sizes | str = 0, dilation: Sizes = 1,
           groups: int = 1) -> Any:
    return _conv(3, x, weight, bias, stride, padding, dilation, groups)


for _dims, _function in ((1, conv1d), (2, conv2d), (3, conv3d)):
    _function.__doc__ = _doc(_dims)
