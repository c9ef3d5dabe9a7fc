"""One epoch of the MNIST recipe in PyTorch with validation: all data in one tensor, augmentation as batched tensor operations.

--augment grid    each batch through one `grid_sample` warp
--augment gather  five batches at a time through a compiled gather, the quickest found
--augment none    images normalised beforehand, no augmentation at all
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator

import torch

from bench import digits, probe
from bench.rivals import augment, perceptron
from bench.rivals.training import MODES, training_step
from bench.shapes import PERCEPTRONS

VALIDATION_BATCH = 1000


def normalised(images: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """(N, 1, 28, 28) uint8 to `dtype` with the mean and deviation of MNIST taken out, a thousand at a time."""
    out = torch.empty(images.shape, dtype=dtype)
    for target, source in zip(out.split(1000), images.split(1000)):
        target.copy_(source.float().mul_(1 / (255 * digits.STD)).sub_(digits.MEAN / digits.STD))
    return out


class Epochs:
    """The training images in a new order, and newly augmented, at each iteration."""

    def __init__(self, how: str, batch: int, count: int, dtype: torch.dtype) -> None:
        self.images = torch.from_numpy(digits.images(count, 1)).unsqueeze(1)
        self.labels = torch.from_numpy(digits.labels(count, 2))
        if how == "none":
            self.images = normalised(self.images, dtype)
        self.batch = batch
        self.at_once = 5 * batch if how == "gather" else batch
        # Compiled only if used: loading the compiler alone takes a fifth more memory.
        if how == "gather":
            self.augment = torch.compile(augment.by_gather)
        else:
            self.augment = augment.by_grid if how == "grid" else None

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        order = torch.randperm(len(self.images))
        for chosen in order.split(self.at_once):
            images = self.images[chosen]
            if self.augment is not None:
                images = self.augment(images, *augment.draw(len(chosen)))
            yield from zip(images.split(self.batch), self.labels[chosen].split(self.batch))


def main() -> None:
    """Time the epochs the command line describes, after one that is not counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--mode", choices=MODES, default="eager")
    parser.add_argument("--augment", choices=("grid", "gather", "none"), default="grid")
    parser.add_argument("--steps", type=int, default=300, help="training steps in an epoch: fewer for a quick check")
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    shape = PERCEPTRONS["mlp"]
    bf16 = options.precision == "bf16"
    dtype = torch.bfloat16 if bf16 else torch.float32

    torch.set_num_threads(probe.cores())
    torch.manual_seed(0)
    training = Epochs(options.augment, shape.batch, options.steps * shape.batch, dtype)
    held_out = normalised(torch.from_numpy(digits.images(digits.VALIDATION, 3)).unsqueeze(1), dtype).split(VALIDATION_BATCH)
    answers = torch.from_numpy(digits.labels(digits.VALIDATION, 4)).split(VALIDATION_BATCH)
    net = perceptron.model(shape)
    step = training_step(net, perceptron.optimizer(shape, net, fused=True), mode=options.mode, bf16=bf16,
                                    smoothing=shape.smoothing)

    def epoch() -> tuple[float, int]:
        loss = torch.zeros(())
        for x, y in training:
            loss += step(x, y)
        correct = torch.zeros((), dtype=torch.int64)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            for x, y in zip(held_out, answers):
                correct += (net(x).argmax(1) == y).sum()
        return float(loss), int(correct)

    epoch()
    faults = probe.minor_faults()
    seconds = [probe.time_once(epoch) for _ in range(options.epochs)]
    probe.report(seconds=statistics.median(seconds),
                 faults_per_step=(probe.minor_faults() - faults) / (options.epochs * options.steps))


if __name__ == "__main__":
    main()
