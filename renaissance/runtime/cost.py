"""How long a plan should take: the larger of its arithmetic and its memory traffic, item by item, against a machine's peaks."""

from __future__ import annotations

from dataclasses import dataclass

from renaissance.ir.plan import Contraction, Item, Plan
from renaissance.ir.target import Target

# Assumed where nothing was measured: only an order of magnitude is asked of these.
_CLOCK_HZ = 2.0e9
_FMA_UNITS = 2
_THREAD_BYTES_PER_S = 18e9
_BUS_THREADS = 8
_ITEM_S = 1e-6


@dataclass(frozen=True)
class Peaks:
    """What the threads together can do at best: multiply-adds (2 flops each) in float32 and bfloat16, and memory traffic."""

    f32_flops_per_s: float
    bf16_flops_per_s: float
    bytes_per_s: float


def nominal(target: Target, threads: int) -> Peaks:
    """Peaks guessed from the Target alone."""
    f32 = threads * target.lanes * 2.0 * _FMA_UNITS * _CLOCK_HZ
    return Peaks(f32, f32 * (2 if target.bf16_dot else 1), _THREAD_BYTES_PER_S * min(threads, _BUS_THREADS))


def flop_peak(item: Item, peaks: Peaks) -> float:
    """The arithmetic peak, in flops per second, that an item is measured against."""
    if isinstance(item.spec, Contraction):
        if item.spec.dtype.name == "bfloat16":
            return peaks.bf16_flops_per_s
        if item.spec.dtype.name == "float64":
            return peaks.f32_flops_per_s / 2
    return peaks.f32_flops_per_s


def floor_s(item: Item, peaks: Peaks) -> float:
    """The least time of an item in seconds: its flops or its bytes at peak, whichever takes longer."""
    return max(item.flops / flop_peak(item, peaks), item.bytes / peaks.bytes_per_s)


def predicted_s(plan: Plan, peaks: Peaks) -> float:
    """The time of a plan in seconds: the floors of its items, and a little for each."""
    return sum(floor_s(item, peaks) + _ITEM_S for item in plan.items)
