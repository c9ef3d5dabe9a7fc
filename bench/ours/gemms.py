"""The matrix products of one training step of a multilayer perceptron: their speed alone, packing and fused work included."""

from __future__ import annotations

import argparse

import renaissance as rn
from bench import probe
from bench.ours import perceptron
from bench.shapes import PERCEPTRONS

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
    step = rn.compile(perceptron.training_step(net, perceptron.optimizer(shape, net), precision=options.precision,
                                               smoothing=shape.smoothing))
    x, y = perceptron.batch(shape)
    for _ in range(20):
        step(x, y)
    with rn.profile() as taken:
        for _ in range(options.steps):
            step(x, y)
    rss_mib = probe.peak_rss_mib()
    products = [row for row in taken.rows() if row.name.startswith(PRODUCT)]
    seconds = sum(row.time_s for row in products) / options.steps
    probe.report(seconds=seconds, flops_per_second=shape.step_flops / seconds, rss_mib=rss_mib,
                 note=f"{len(products)} products")


if __name__ == "__main__":
    main()
