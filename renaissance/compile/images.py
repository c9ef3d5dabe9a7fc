"""Images as factors of products: how a node states one, and whether a body can be one."""

from __future__ import annotations

from collections.abc import Sequence

from renaissance.compile.groups import IMAGE_INPUTS
from renaissance.ir.node import Node
from renaissance.ir.plan import Access, Depthwise, Image, Instr, Store
from renaissance.ops.convolution import Geometry
from renaissance.ops.depthwise import leaf_count, leaf_rows

DEPTHWISE_OPS = ("depthwise", "depthwise_sums")


def image_of(n: Node) -> Image | None:
    """The image of a product of windows; None for one of matrices."""
    number = IMAGE_INPUTS.get(n.op.name)
    if number is None:
        return None
    geometry: Geometry = n.attr("geometry")
    shape = n.inputs[number].shape
    lows = tuple(low for low, _ in geometry.padding)
    leaves = n.attr("leaves") if number else 1
    return Image(shape, geometry.windows(shape[1:4]), geometry.kernel, geometry.strides, lows, geometry.dilations,
                 geometry.groups, number == 1, leaves)


def is_image(body: Sequence[Instr], image: Image) -> bool:
    """Whether a body only loads, with channels side by side."""
    if len(body) != 1 or body[0].op != "load" or body[0].args:
        return False
    access: Access = body[0].attr  # type: ignore[assignment]
    return access.strides[4] == 1 or image.extents[4] == 1


def depthwise_of(n: Node, bodies: Sequence[tuple[Instr, ...]], epilogue: tuple[Instr, ...],
                 stores: tuple[Store, ...]) -> Depthwise:
    """The spec of a depthwise node, given the bodies of its inputs."""
    geometry: Geometry = n.attr("geometry")
    x = n.inputs[0]
    windows = geometry.windows(x.shape[1:4])
    lows = tuple(low for low, _ in geometry.padding)
    return Depthwise(x.shape, windows, geometry.kernel, geometry.strides, lows, geometry.dilations, geometry.spread, x.dtype,
                     n.op.name == "depthwise_sums", leaf_rows(windows), leaf_count(x.shape[0], windows), bodies[0], bodies[1],
                     epilogue, stores)
