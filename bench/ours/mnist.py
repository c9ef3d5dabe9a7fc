"""The MNIST recipe: seconds of an epoch with validation, all of `Task.run` counted, compiling beforehand."""

from __future__ import annotations

import argparse

import renaissance as rn
from bench import digits, probe
from bench.ours import perceptron
from bench.shapes import PERCEPTRONS
from renaissance import data, nn, optim


def main() -> None:
    """Time the run the command line describes, after a short one that fills the caches."""
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

    def task(epochs: int) -> rn.Task:
        net = perceptron.model(shape)
        updater = optim.AdamW(net.parameters(), lr=optim.Cosine(1e-3, warmup_epochs=5), weight_decay=shape.weight_decay)
        return rn.Task(net, images, loss=nn.CrossEntropyLoss(label_smoothing=shape.smoothing), optimizer=updater, epochs=epochs,
                       batch_size=shape.batch, precision=options.precision, seed=123, show=False)

    task(1).run()
    timed = task(options.epochs)
    timed.compile()
    probe.report(seconds=probe.time_once(timed.run) / options.epochs)


if __name__ == "__main__":
    main()
