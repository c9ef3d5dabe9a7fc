"""Plan item -> Lowered: which schedule makes the code of an item."""

from __future__ import annotations

from renaissance.errors import KernelError
from renaissance.ir.plan import (
    Contraction,
    Depthwise,
    Item,
    Nest,
    Scatter,
    Winograd,
    WinogradSums,
    WinogradWeightGradient,
    WinogradWeights,
)
from renaissance.ir.target import Target
from renaissance.kernels.lowered import Lowered
from renaissance.kernels.schedules.column import lower_column
from renaissance.kernels.schedules.contraction import lower_contraction
from renaissance.kernels.schedules.depthwise import lower_depthwise
from renaissance.kernels.schedules.depthwise_sums import lower_depthwise_sums
from renaissance.kernels.schedules.nest import lower_row
from renaissance.kernels.schedules.scatter import lower_scatter
from renaissance.kernels.schedules.windows import lower_windows
from renaissance.kernels.schedules.winograd import lower_winograd
from renaissance.kernels.schedules.winograd_sums import lower_sums
from renaissance.kernels.schedules.winograd_weights import lower_weight_gradient, lower_weights

__all__ = ["Lowered", "lower"]


def lower(item: Item, target: Target, threads: int) -> Lowered:
    """Make one item ready for a Target.

    target   what the code is made for; a pure function of the item and the Target, `threads` moves only the cut into chunks
    raises   KernelError naming the item if no schedule takes it
    """
    spec = item.spec
    try:
        if isinstance(spec, Contraction) and spec.image is not None and not spec.image.right:
            return lower_windows(item, spec, target, threads)
        if isinstance(spec, Contraction):
            return lower_contraction(item, target, threads)
        if isinstance(spec, Winograd):
            return lower_winograd(item, spec, target, threads)
        if isinstance(spec, WinogradSums):
            return lower_sums(item, spec, target, threads)
        if isinstance(spec, WinogradWeights):
            return lower_weights(item, spec, target, threads)
        if isinstance(spec, WinogradWeightGradient):
            return lower_weight_gradient(item, spec, target, threads)
        if isinstance(spec, Depthwise):
            lower_one = lower_depthwise_sums if spec.sums else lower_depthwise
            return lower_one(item, spec, target, threads)
        if isinstance(spec, Scatter):
            return lower_scatter(item, spec, threads)
        if isinstance(spec, Nest) and spec.layout == "row":
            return lower_row(item, spec, threads)
        if isinstance(spec, Nest) and spec.layout == "column":
            return lower_column(item, spec, threads)
    except KernelError as error:
        raise KernelError(f"{item.name}: {error}") from error
    raise KernelError(f"{item.name}: no schedule for {type(spec).__name__}; a Python function has no code")
