"""The MNIST recipe: median seconds of an epoch with validation, after a first epoch that compiles and is not counted."""

from __future__ import annotations

import argparse
import statistics

import renaissance as rn
from bench import digits, probe
from bench.ours import perceptron
from bench.shapes import PERCEPTRONS
from renaissance import data, nn, optim


def main() -> None:
    """Time the run the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--steps", type=int, default=300, help="training steps in an epoch: fewer for a quick check")
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    shape = PERCEPTRONS["mlp"]
    count = options.steps * shape.batch
    augment = [data.Pad(2), data.RandomCrop(28), data.RandomRotation(20), data.RandomScale(0.8, 1.2), data.RandomErasing(p=0.5)]
    held_out = digits.images(digits.VALIDATION, 3), digits.labels(digits.VALIDATION, 4)
    images = data.ArrayDataset(digits.images(count, 1), digits.labels(count, 2), validation=held_out, augment=augment,
                               normalize=(digits.MEAN, digits.STD))

    net = perceptron.model(shape)
    updater = optim.AdamW(net.parameters(), lr=optim.Cosine(1e-3, warmup_epochs=5), weight_decay=shape.weight_decay)
    task = rn.Task(net, images, loss=nn.CrossEntropyLoss(label_smoothing=shape.smoothing), optimizer=updater,
                   epochs=1 + options.epochs, batch_size=shape.batch, precision=options.precision, seed=123, show=False)
    history = task.run().history
    probe.report(seconds=statistics.median(epoch.seconds for epoch in history[1:]))


if __name__ == "__main__":
    main()
