"""One training step of a network on data made beforehand, no value read back."""

from __future__ import annotations

import argparse

import renaissance as rn
from bench import probe
from bench.ours import training


def main() -> None:
    """Time the step the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=training.NAMES)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--uncompiled", action="store_true", help="the same loop without @rn.compile")
    parser.add_argument("--batch", type=int, help="inputs of a step instead of the network's own number")
    parser.add_argument("--warmup", type=int, default=20, help="steps before those that are timed")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()

    rn.seed(0)
    trained = training.training(options.network, options.batch)
    step = trained.step(options.precision)
    if not options.uncompiled:
        step = rn.compile(step)
    x, y = trained.x, trained.y
    probe.report(**probe.time_steps(lambda: step(x, y), warmup=options.warmup, steps=options.steps))


if __name__ == "__main__":
    main()
