"""Seconds until a network has done two training steps under `rn.compile`: what compiling makes a user wait.

Two steps, because the second traces the function again to see that it is stable.
"""

from __future__ import annotations

import argparse

import renaissance as rn
from bench import probe
from bench.ours import training


def main() -> None:
    """Time the first two steps, the import of the package left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=training.NAMES)
    parser.add_argument("--batch", type=int, help="inputs of a step instead of the network's own number")
    parser.add_argument("--steps", type=int, default=0, help="later steps: what two of them take is not counted")
    options = parser.parse_args()

    rn.seed(0)
    trained = training.training(options.network, options.batch)
    rn.realize(*trained.net.parameters(), *trained.net.buffers())
    seconds = probe.time_first(lambda: rn.compile(trained.step("fp32")), (trained.x, trained.y), later=options.steps)
    probe.report(seconds=seconds)


if __name__ == "__main__":
    main()
