"""One training step of a multilayer perceptron on data made beforehand, no value read back."""

from __future__ import annotations

import argparse

import renaissance as rn
from bench import probe
from bench.ours import perceptron
from bench.shapes import PERCEPTRONS


def main() -> None:
    """Time the step the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=PERCEPTRONS)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--uncompiled", action="store_true", help="the same loop without @rn.compile")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    shape = PERCEPTRONS[options.shape]

    rn.seed(0)
    net = perceptron.model(shape)
    step = perceptron.training_step(net, perceptron.optimizer(shape, net), precision=options.precision, smoothing=shape.smoothing)
    if not options.uncompiled:
        step = rn.compile(step)
    x, y = perceptron.batch(shape)
    probe.report(**probe.time_steps(lambda: step(x, y), warmup=20, steps=options.steps))


if __name__ == "__main__":
    main()
