"""Row `mlp`: one training step of 784-1024-512-256-10 with AdamW, batch 200.

fastest  against the quickest PyTorch found
as_used  against what a user gets by default: eager, the optimizer's default form, malloc as it is
gemms    the matrix products alone, by the profiler: no rival, but a share of the machine's peak to reach
"""

from __future__ import annotations

from bench.measure import Bar, Case
from bench.program import Program
from bench.rows.candidates import torch_programs
from bench.shapes import PERCEPTRONS

QUICK = ("--steps", "5")
SHARE = {"fp32": 0.85, "bf16": 0.75}
RATIO = {("fastest", "fp32"): 1.25, ("fastest", "bf16"): 1.3, ("as_used", "fp32"): 1.5, ("as_used", "bf16"): 1.7}


def cases() -> list[Case]:
    """All variants in both precisions."""
    found = []
    for precision in ("fp32", "bf16"):
        arguments = ("mlp", "--precision", precision)
        rivals = {
            "fastest": torch_programs("bench.rivals.step", arguments, QUICK),
            "as_used": (Program("torch eager, unfused, default malloc", "bench.rivals.step", (*arguments, "--unfused"), QUICK),),
        }
        found += [
            Case("mlp", variant, precision, Program("renaissance", "bench.ours.step", arguments, QUICK), programs,
                 flops=PERCEPTRONS["mlp"].step_flops,
                 bars=(Bar("ratio", RATIO[variant, precision]), Bar("faults_per_step", 0, at_most=True)))
            for variant, programs in rivals.items()]
        found.append(Case("mlp", "gemms", precision, Program("renaissance", "bench.ours.gemms", arguments, QUICK),
                          bars=(Bar("share_of_peak", SHARE[precision]),)))
    return found
