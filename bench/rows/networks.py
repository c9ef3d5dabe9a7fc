"""Rows `vgg16bn_cifar`, `vgg16bn_224`, `resnet50` and `mobilenetv2`: one training step with SGD and Nesterov momentum.

fastest  against the quickest PyTorch found
as_used  against malloc as it is, eager or compiled
"""

from __future__ import annotations

from bench.measure import Bar, Case
from bench.program import Program
from bench.rows.candidates import DEFAULT_MALLOC, torch_programs
from bench.shapes import NETWORKS

# Steps after those that compile and warm up: fewer of those that take longer.
WARMUP = ("--warmup", "3")
STEPS = {"vgg16bn_cifar": 7, "vgg16bn_224": 3, "resnet50": 5, "mobilenetv2": 9}
QUICK = ("--batch", "2", "--warmup", "2", "--steps", "1")
RATIO = {
    ("vgg16bn_cifar", "fastest"): {"fp32": 2.0, "bf16": 1.2}, ("vgg16bn_cifar", "as_used"): {"fp32": 2.2, "bf16": 1.3},
    ("vgg16bn_224", "fastest"): {"fp32": 2.4, "bf16": 1.4}, ("vgg16bn_224", "as_used"): {"fp32": 3.0, "bf16": 1.9},
    ("resnet50", "fastest"): {"fp32": 1.4, "bf16": 1.2}, ("resnet50", "as_used"): {"fp32": 1.6, "bf16": 1.25},
    ("mobilenetv2", "fastest"): {"fp32": 1.3, "bf16": 1.4}, ("mobilenetv2", "as_used"): {"fp32": 1.6, "bf16": 1.5},
}


def step_arguments(network: str, precision: str) -> tuple[str, ...]:
    """The command line of either side's training step."""
    return network, "--precision", precision, *WARMUP, "--steps", str(STEPS[network])


def cases(network: str) -> list[Case]:
    """Both variants in both precisions."""
    found = []
    for precision in ("fp32", "bf16"):
        arguments = step_arguments(network, precision)
        rivals = {
            "fastest": torch_programs("bench.rivals.step", arguments, QUICK),
            "as_used": torch_programs("bench.rivals.step", arguments, QUICK, modes=("eager", "compile"), mallocs=DEFAULT_MALLOC),
        }
        found += [
            Case(network, variant, precision, Program("renaissance", "bench.ours.step", arguments, QUICK), programs,
                 flops=NETWORKS[network].step_flops,
                 bars=(Bar("ratio", RATIO[network, variant][precision]), Bar("faults_per_step", 0, at_most=True)))
            for variant, programs in rivals.items()]
    return found
