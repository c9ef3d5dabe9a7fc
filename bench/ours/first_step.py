"""Seconds until a model has done two training steps under `rn.compile`: what compiling makes a user wait.

Two steps, because the second traces the function again to see that it is stable.
"""

from __future__ import annotations

import renaissance as rn
from bench import probe
from bench.ours import perceptron
from bench.shapes import PERCEPTRONS


def main() -> None:
    """Time the first two steps, the import of the package left out."""
    shape = PERCEPTRONS["mlp"]
    rn.seed(0)
    net = perceptron.model(shape)
    updater = perceptron.optimizer(shape, net)
    x, y = perceptron.batch(shape)
    rn.realize(*net.parameters())

    def first_steps() -> None:
        step = rn.compile(perceptron.training_step(net, updater, precision="fp32", smoothing=shape.smoothing))
        step(x, y)
        step(x, y)

    probe.report(seconds=probe.time_once(first_steps))


if __name__ == "__main__":
    main()
