"""Row `eager`: what code costs that is not compiled.

mlp            the uncompiled training loop of the `mlp` network, against our own compiled one: the ratio is below 1
vgg16bn_cifar  the same of VGG
op_first       one new small operation at the prompt, first use, empty cache
op_again       the same operation ever after
"""

from __future__ import annotations

from bench.measure import Bar, Case
from bench.program import Program
from bench.rows import networks

QUICK = ("--steps", "5")


def loop(network: str, precision: str, arguments: tuple[str, ...], quick: tuple[str, ...], longer: float) -> Case:
    """A training loop that may take `longer` times as long uncompiled as compiled."""
    return Case("eager", network, precision,
                Program("renaissance, uncompiled", "bench.ours.step", (*arguments, "--uncompiled"), quick),
                (Program("renaissance, compiled", "bench.ours.step", arguments, quick),), bars=(Bar("ratio", 1 / longer),))


def cases() -> list[Case]:
    """The loops in both precisions, the small operation in fp32."""
    precisions = ("fp32", "bf16")
    return [
        *(loop("mlp", precision, ("mlp", "--precision", precision), QUICK, 1.3) for precision in precisions),
        *(loop("vgg16bn_cifar", precision, networks.step_arguments("vgg16bn_cifar", precision), networks.QUICK, 1.02)
          for precision in precisions),
        Case("eager", "op_first", "fp32", Program("renaissance", "bench.ours.small_op", empty_cache=True),
             (Program("torch eager", "bench.rivals.small_op"),), bars=(Bar("ours_s", 0.03, at_most=True),)),
        Case("eager", "op_again", "fp32", Program("renaissance", "bench.ours.small_op", ("--again",)),
             (Program("torch eager", "bench.rivals.small_op", ("--again",)),), bars=(Bar("ours_s", 30e-6, at_most=True),)),
    ]
