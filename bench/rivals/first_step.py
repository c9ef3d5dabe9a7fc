"""Seconds until a PyTorch network has done two training steps under `torch.compile`: what compiling makes a user wait."""

from __future__ import annotations

import argparse

import torch

from bench import probe
from bench.rivals import training


def main() -> None:
    """Time the first two steps, the import of PyTorch left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=training.NAMES)
    parser.add_argument("--batch", type=int, help="inputs of a step instead of the network's own number")
    parser.add_argument("--steps", type=int, default=0, help="later steps: what two of them take is not counted")
    options = parser.parse_args()

    torch.set_num_threads(probe.cores())
    torch.manual_seed(0)
    trained = training.training(options.network, options.batch)
    seconds = probe.time_first(lambda: trained.step(mode="compile", bf16=False), (trained.x, trained.y), later=options.steps)
    probe.report(seconds=seconds)


if __name__ == "__main__":
    main()
