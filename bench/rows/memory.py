"""Row `memory`: peak resident memory of a whole run; the rival is the candidate that needs the least, and the ratio is of memory.

mnist  the MNIST recipe, against PyTorch with all data in one tensor
mlp    training steps of the `mlp` network on one batch
"""

from __future__ import annotations

from bench.measure import Bar, Case
from bench.program import Program
from bench.rows.candidates import torch_programs

BARS = (Bar("ratio", 1 / 0.65),)
QUICK_RUN = ("--steps", "5", "--epochs", "1")
QUICK_STEPS = ("--steps", "5")


def cases() -> list[Case]:
    """Both variants in both precisions."""
    found = []
    for precision in ("fp32", "bf16"):
        run, steps = ("--precision", precision, "--epochs", "1"), ("mlp", "--precision", precision)
        found += [
            Case("memory", "mnist", precision, Program("renaissance", "bench.ours.mnist", run, QUICK_RUN),
                 torch_programs("bench.rivals.mnist_batched", run, QUICK_RUN, modes=("eager",)), compared="rss_mib", bars=BARS),
            Case("memory", "mlp", precision, Program("renaissance", "bench.ours.step", steps, QUICK_STEPS),
                 torch_programs("bench.rivals.step", steps, QUICK_STEPS, modes=("eager",)), compared="rss_mib", bars=BARS)]
    return found
