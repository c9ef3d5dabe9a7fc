"""The matrix products of a training step of a multilayer perceptron: their speed alone, packing and fused work included.

The gradients are results here: in a whole step the update of the weights is done inside the products that compute them.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import renaissance as rn
from bench import probe
from bench.ours import perceptron
from bench.shapes import PERCEPTRONS

ROUNDS = 10
# What the names of kernels that hold a matrix product begin with.
PRODUCT = "dot_"


def main() -> None:
    """Profile the step the command line describes; `seconds` are those its products take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=PERCEPTRONS)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    shape = PERCEPTRONS[options.shape]

    rn.seed(0)
    net = perceptron.model(shape)
    step = rn.compile(perceptron.gradients(net, precision=options.precision, smoothing=shape.smoothing))
    x, y = perceptron.batch(shape)
    for _ in range(20):
        step(x, y)
    rounds = [_products_s(step, x, y, options.steps // ROUNDS or 1) for _ in range(ROUNDS)]
    seconds = statistics.median(rounds)
    rss_mib = probe.peak_rss_mib()
    probe.report(seconds=seconds, flops_per_second=shape.step_flops / seconds, rss_mib=rss_mib)


def _products_s(step: Callable, x: rn.Tensor, y: rn.Tensor, steps: int) -> float:
    """Seconds the products of one step take."""
    with rn.profile() as taken:
        for _ in range(steps):
            step(x, y)
    return sum(row.time_s for row in taken.rows() if row.name.startswith(PRODUCT)) / steps


if __name__ == "__main__":
    main()
