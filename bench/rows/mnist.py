"""Row `mnist`: one epoch of the MNIST recipe with validation, five augmentations on our side.

published  against DataLoader workers and PIL transforms
batched    against all data in one tensor and augmentation as batched tensor operations
fair       against the same without any augmentation on its side
gathered   against a compiled gather over five batches at a time, the quickest augmentation found in PyTorch; it has no bar
"""

from __future__ import annotations

from bench import digits
from bench.measure import Bar, Case
from bench.program import Program
from bench.rows.candidates import torch_programs
from bench.shapes import PERCEPTRONS

QUICK = ("--steps", "5", "--epochs", "1")
AUGMENT = {"batched": "grid", "fair": "none", "gathered": "gather"}
RATIO = {("published", "bf16"): 10, ("batched", "fp32"): 1.8, ("batched", "bf16"): 1.7, ("fair", "bf16"): 1.5}


def cases() -> list[Case]:
    """All variants in both precisions."""
    shape = PERCEPTRONS["mlp"]
    flops = digits.TRAIN / shape.batch * shape.step_flops + digits.VALIDATION / shape.batch * shape.forward_flops
    found = []
    for precision in ("bf16", "fp32"):
        arguments = ("--precision", precision)
        loader = Program("torch eager, DataLoader", "bench.rivals.mnist_published", arguments, ("--part", "0.01"))
        rivals = {"published": (loader,)}
        for variant, augment in AUGMENT.items():
            rivals[variant] = torch_programs("bench.rivals.mnist_batched", (*arguments, "--augment", augment), QUICK)
        found += [
            Case("mnist", variant, precision, Program("renaissance", "bench.ours.mnist", arguments, QUICK), programs, flops=flops,
                 bars=(Bar("ratio", RATIO[variant, precision]),) if (variant, precision) in RATIO else ())
            for variant, programs in rivals.items()]
    return found
