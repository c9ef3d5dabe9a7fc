"""One training step of a multilayer perceptron in PyTorch on data made beforehand, no value read back."""

from __future__ import annotations

import argparse

import torch

from bench import probe
from bench.rivals import perceptron
from bench.shapes import PERCEPTRONS


def main() -> None:
    """Time the step the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=PERCEPTRONS)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--mode", choices=perceptron.MODES, default="eager")
    parser.add_argument("--unfused", action="store_true", help="the optimizer's default form")
    parser.add_argument("--threads", type=int, default=probe.cores())
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    shape = PERCEPTRONS[options.shape]

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    net = perceptron.model(shape)
    step = perceptron.training_step(net, perceptron.optimizer(shape, net, fused=not options.unfused), mode=options.mode,
                                    bf16=options.precision == "bf16", smoothing=shape.smoothing)
    x = torch.randn(shape.batch, shape.widths[0])
    y = torch.randint(0, shape.widths[-1], (shape.batch,))
    probe.report(**probe.time_steps(lambda: step(x, y), warmup=20, steps=options.steps))


if __name__ == "__main__":
    main()
