"""Images as first factors of products: how a node states one, and whether a body can be one."""

from __future__ import annotations

from collections.abc import Sequence

from renaissance.compile.groups import IMAGE_OPS
from renaissance.ir.node import Node
from renaissance.ir.plan import Access, Image, Instr
from renaissance.ops.convolution import Geometry


def image_of(n: Node) -> Image | None:
    """The image of a product of windows; None for one of matrices."""
    if n.op.name not in IMAGE_OPS:
        return None
    geometry: Geometry = n.attr("geometry")
    shape = n.inputs[0].shape
    lows = tuple(low for low, _ in geometry.padding)
    turned = n.op.name == "image_sums"
    return Image(shape, geometry.windows(shape[1:4]), geometry.kernel, geometry.strides, lows, geometry.dilations, geometry.groups,
                 turned, n.attr("leaves") if turned else 1)


def is_image(body: Sequence[Instr], image: Image) -> bool:
    """Whether a body only loads, with channels side by side."""
    if len(body) != 1 or body[0].op != "load" or body[0].args:
        return False
    access: Access = body[0].attr  # type: ignore[assignment]
    return access.strides[4] == 1 or image.extents[4] == 1
