"""One small operation at PyTorch's prompt: its first use, or its use ever after."""

from __future__ import annotations

import argparse

import torch

from bench import probe


def main() -> None:
    """Time tanh of eight numbers, read back, after another operation has started everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="the median of later uses instead of the first")
    options = parser.parse_args()
    x = torch.arange(8, dtype=torch.float32)
    (x + 1).numpy()
    first = probe.time_once(lambda: torch.tanh(x).numpy())
    if options.again:
        probe.report(**probe.time_steps(lambda: torch.tanh(x).numpy(), warmup=100, steps=2000))
    else:
        probe.report(seconds=first)


if __name__ == "__main__":
    main()
