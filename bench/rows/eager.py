"""Row `eager`: what code costs that is not compiled.

mlp         the uncompiled training loop of the `mlp` network, against our own compiled one: the ratio is below 1
op_first    one new small operation at the prompt, first use, empty cache
op_again    the same operation ever after
"""

from __future__ import annotations

from bench.measure import Bar, Case
from bench.program import Program

QUICK = ("--steps", "5")


def cases() -> list[Case]:
    """The loop in both precisions, the small operation in fp32."""
    loops = []
    for precision in ("fp32", "bf16"):
        arguments = ("mlp", "--precision", precision)
        loops.append(Case(
            "eager", "mlp", precision, Program("renaissance, uncompiled", "bench.ours.step", (*arguments, "--uncompiled"), QUICK),
            (Program("renaissance, compiled", "bench.ours.step", arguments, QUICK),), bars=(Bar("ratio", 1 / 1.3),)))
    return [
        *loops,
        Case("eager", "op_first", "fp32", Program("renaissance", "bench.ours.small_op", empty_cache=True),
             (Program("torch eager", "bench.rivals.small_op"),), bars=(Bar("ours_s", 0.03, at_most=True),)),
        Case("eager", "op_again", "fp32", Program("renaissance", "bench.ours.small_op", ("--again",)),
             (Program("torch eager", "bench.rivals.small_op", ("--again",)),), bars=(Bar("ours_s", 30e-6, at_most=True),)),
    ]
