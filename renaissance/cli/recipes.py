"""The training recipes the command line knows by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from renaissance import random
from renaissance.data import MNIST, Pad, RandomCrop, RandomErasing, RandomRotation, RandomScale
from renaissance.errors import ArgumentError
from renaissance.models import lenet, mlp
from renaissance.nn import CrossEntropyLoss, Module
from renaissance.ops.precision import precision
from renaissance.optim import AdamW, Cosine
from renaissance.train import Task


@dataclass(frozen=True)
class Options:
    """What a user may change of a recipe."""

    epochs: int
    batch_size: int
    lr: float
    precision: str
    seed: int
    data: Path | None
    out: Path | None
    target: float | None


def mnist(options: Options) -> Task:
    """A four-layer MLP on MNIST with five augmentations, label smoothing, AdamW, and a cosine with warm-up."""
    return _digits(options, lambda: mlp([784, 1024, 512, 256, 10]))


def lenet_mnist(options: Options) -> Task:
    """LeNet-5 on MNIST, trained as the MLP is."""
    return _digits(options, lenet)


def _digits(options: Options, make: Callable[[], Module]) -> Task:
    chain = [Pad(2), RandomCrop(28), RandomRotation(20), RandomScale(0.8, 1.2), RandomErasing(p=0.5)]
    digits = MNIST(options.data, augment=chain)
    random.seed(options.seed)
    model = make()
    warmup = min(5, options.epochs - 1)
    optimizer = AdamW(model.parameters(), lr=Cosine(options.lr, warmup_epochs=warmup), weight_decay=1e-4)
    return Task(model, digits, loss=CrossEntropyLoss(label_smoothing=0.1), optimizer=optimizer, epochs=options.epochs,
                batch_size=options.batch_size, precision=options.precision, seed=options.seed, target_top1=options.target,
                out=options.out)


RECIPES: dict[str, Callable[[Options], Task]] = {"mnist": mnist, "lenet": lenet_mnist}


def recipe(name: str, options: Options) -> Task:
    """The Task of a recipe.

    raises  ArgumentError for an unknown name or precision, before any data is read
    """
    if name not in RECIPES:
        raise ArgumentError(f"no recipe {name!r}; known are {', '.join(RECIPES)}")
    with precision(options.precision):
        pass
    return RECIPES[name](options)
