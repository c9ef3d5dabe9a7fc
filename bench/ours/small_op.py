"""One small operation at the prompt: its first use, or its use ever after."""

from __future__ import annotations

import argparse

import renaissance as rn
from bench import probe


def main() -> None:
    """Time tanh of eight numbers, read back, after another operation has started everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="the median of later uses instead of the first")
    options = parser.parse_args()
    x = rn.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    (x + 1).numpy()
    first = probe.time_once(lambda: rn.tanh(x).numpy())
    if options.again:
        probe.report(**probe.time_steps(lambda: rn.tanh(x).numpy(), warmup=100, steps=2000))
    else:
        probe.report(seconds=first)


if __name__ == "__main__":
    main()
