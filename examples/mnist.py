"""Trains a four-layer perceptron on MNIST: five augmentations, label smoothing, AdamW, cosine with warm-up, bfloat16.

Usage: python examples/mnist.py [--epochs N] [--data DIR] [--out DIR]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import renaissance as rn
from renaissance import data, nn, optim


def main(arguments: Sequence[str] | None = None) -> rn.Result:
    """Train, print the plan and a line for each epoch, and tell the best accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--data", metavar="DIR", help="folder of the four idx files; default: downloaded, else a bundled sample")
    parser.add_argument("--out", metavar="DIR", help="folder for a checkpoint after each epoch; default: none are written")
    options = parser.parse_args(arguments)

    rn.seed(123)  # of the initial weights; the Task has a seed of its own for order, augmentation and dropout
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 1024), nn.ReLU(),
        nn.Linear(1024, 512), nn.ReLU(),
        nn.Linear(512, 256), nn.ReLU(),
        nn.Linear(256, 10),
    )
    digits = data.MNIST(options.data, augment=[
        data.Pad(2), data.RandomCrop(28), data.RandomRotation(20), data.RandomScale(0.8, 1.2), data.RandomErasing(p=0.5),
    ])
    warmup_epochs = min(5, options.epochs - 1)
    optimizer = optim.AdamW(model.parameters(), lr=optim.Cosine(1e-3, warmup_epochs=warmup_epochs), weight_decay=1e-4)
    task = rn.Task(model, digits, loss=nn.CrossEntropyLoss(label_smoothing=0.1), optimizer=optimizer,
                   epochs=options.epochs, batch_size=200, precision="bf16", seed=123, out=options.out)
    task.compile()
    result = task.run()
    print(f"best top-1: {100 * result.best_top1:.2f} % in epoch {result.best_epoch}")
    return result


if __name__ == "__main__":
    main()
