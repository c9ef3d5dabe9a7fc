"""Row `conv`: single convolutions of VGG, ResNet-50 and MobileNetV2 at batch 16, output and both gradients, against oneDNN.

A variant is a network, a layer and a direction. All layers of a network are measured by one program of each side.
"""

from __future__ import annotations

from bench.layers import DIRECTIONS, LAYERS, Convolution, part
from bench.measure import Bar, Case
from bench.program import Program
from bench.rows.candidates import MALLOCS

BATCH = 16
QUICK = ("--batch", "1", "--layers", "2", "--seconds", "0")


def ratio(layer: Convolution, direction: str, precision: str) -> float:
    """The bar: higher for those that need fewer multiplications than the sum of products that defines them."""
    winograd = layer.kernel == 3 and layer.stride == 1 and layer.groups == 1 and min(layer.channels, layer.filters) >= 64
    if not winograd or precision != "fp32":
        return 1.0
    whole_tiles = layer.size % 4 == 0
    if direction == "weight gradient":
        return 2.0 if whole_tiles else 1.6
    return 2.5 if whole_tiles else 2.0


def cases() -> list[Case]:
    """Every layer in every direction, in both precisions."""
    found = []
    for precision in ("fp32", "bf16"):
        for network, layers in LAYERS.items():
            arguments = (network, "--precision", precision, "--batch", str(BATCH))
            ours = Program("renaissance", "bench.ours.convolutions", arguments, QUICK)
            rivals = tuple(Program(f"torch, {malloc} malloc", "bench.rivals.convolutions", arguments, QUICK, environment)
                           for malloc, environment in MALLOCS.items())
            found += [
                Case("conv", f"{network} {part(layer, direction)}", precision, ours, rivals, flops=BATCH * layer.flops,
                     bars=(Bar("ratio", ratio(layer, direction, precision)),), part=part(layer, direction))
                for layer in layers for direction in DIRECTIONS]
    return found
