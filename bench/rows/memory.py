"""Row `memory`: peak resident memory of a whole run; the rival is the candidate that needs the least, and the ratio is of memory.

mnist               the MNIST recipe, against PyTorch with all data in one tensor
mlp, resnet50, ...  training steps of the network of this name on one batch
"""

from __future__ import annotations

from bench.measure import Bar, Case
from bench.program import Program
from bench.rows import networks
from bench.rows.candidates import torch_programs
from bench.shapes import NETWORKS

BARS = (Bar("ratio", 1 / 0.65),)
QUICK_RUN = ("--steps", "5", "--epochs", "1")
QUICK_STEPS = ("--steps", "5")
# No step after these needs more.
FEW_STEPS = ("--warmup", "3", "--steps", "1")


def cases() -> list[Case]:
    """All variants in both precisions."""
    found = []
    for precision in ("fp32", "bf16"):
        run = ("--precision", precision, "--epochs", "1")
        steps = {"mlp": (("mlp", "--precision", precision), QUICK_STEPS),
                 **{name: ((name, "--precision", precision, *FEW_STEPS), networks.QUICK) for name in NETWORKS}}
        found.append(
            Case("memory", "mnist", precision, Program("renaissance", "bench.ours.mnist", run, QUICK_RUN),
                 torch_programs("bench.rivals.mnist_batched", run, QUICK_RUN, modes=("eager",)), compared="rss_mib", bars=BARS))
        found += [
            Case("memory", name, precision, Program("renaissance", "bench.ours.step", arguments, quick),
                 torch_programs("bench.rivals.step", arguments, quick, modes=("eager",)), compared="rss_mib", bars=BARS)
            for name, (arguments, quick) in steps.items()]
    return found
