"""One forward pass of a network that is no longer trained, on images made beforehand, no value read back."""

from __future__ import annotations

import argparse

import renaissance as rn
from bench import probe
from bench.ours import network
from bench.shapes import NETWORKS


def main() -> None:
    """Time the pass the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()

    rn.seed(0)
    net = network.model(options.network).eval()
    x = network.images(NETWORKS[options.network], options.batch)

    @rn.compile
    def forward(x: rn.Tensor) -> rn.Tensor:
        with rn.precision(options.precision):
            return net(x)

    with rn.no_grad():
        probe.report(**probe.time_steps(lambda: forward(x), warmup=3, steps=options.steps))


if __name__ == "__main__":
    main()
