"""One training step of a network in PyTorch on data made beforehand, no value read back."""

from __future__ import annotations

import argparse

import torch

from bench import probe
from bench.rivals import training


def main() -> None:
    """Time the step the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=training.NAMES)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--mode", choices=training.MODES, default="eager")
    parser.add_argument("--unfused", action="store_true", help="the optimizer's default form")
    parser.add_argument("--threads", type=int, default=probe.cores())
    parser.add_argument("--batch", type=int, help="inputs of a step instead of the network's own number")
    parser.add_argument("--warmup", type=int, default=20, help="steps before those that are timed")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    trained = training.training(options.network, options.batch, fused=not options.unfused)
    step = trained.step(mode=options.mode, bf16=options.precision == "bf16")
    x, y = trained.x, trained.y
    probe.report(**probe.time_steps(lambda: step(x, y), warmup=options.warmup, steps=options.steps))


if __name__ == "__main__":
    main()
