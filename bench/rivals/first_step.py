"""Seconds until a PyTorch model has done two training steps under `torch.compile`: what compiling makes a user wait."""

from __future__ import annotations

import torch

from bench import probe
from bench.rivals import perceptron
from bench.shapes import PERCEPTRONS


def main() -> None:
    """Time the first two steps, the import of PyTorch left out."""
    shape = PERCEPTRONS["mlp"]
    torch.set_num_threads(probe.cores())
    torch.manual_seed(0)
    net = perceptron.model(shape)
    updater = perceptron.optimizer(shape, net, fused=True)
    x = torch.randn(shape.batch, shape.widths[0])
    y = torch.randint(0, shape.widths[-1], (shape.batch,))

    def first_steps() -> None:
        step = perceptron.training_step(net, updater, mode="compile", bf16=False, smoothing=shape.smoothing)
        step(x, y)
        step(x, y)

    probe.report(seconds=probe.time_once(first_steps))


if __name__ == "__main__":
    main()
