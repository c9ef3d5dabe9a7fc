"""The training recipes the command line knows by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from renaissance import random
from renaissance.data import (
    CIFAR10,
    MNIST,
    Pad,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomRotation,
    RandomScale,
)
from renaissance.errors import ArgumentError
from renaissance.models import lenet, mlp, resnet20
from renaissance.nn import CrossEntropyLoss, Module
from renaissance.ops.precision import precision
from renaissance.optim import SGD, AdamW, Cosine, decay_groups
from renaissance.train import Task


@dataclass(frozen=True)
class Usual:
    """What a recipe is made with where the user says nothing."""

    epochs: int
    batch_size: int
    lr: float


@dataclass(frozen=True)
class Options:
    """What a user may change of a recipe; None: as the recipe has it."""

    epochs: int | None
    batch_size: int | None
    lr: float | None
    precision: str
    seed: int
    data: Path | None
    out: Path | None
    target: float | None

    def over(self, usual: Usual) -> Usual:
        """The numbers to use: those the user gave, else the usual ones."""
        given = {name: getattr(self, name) for name in vars(usual)}
        return replace(usual, **{name: value for name, value in given.items() if value is not None})


def mnist(options: Options) -> Task:
    """A four-layer MLP on MNIST with five augmentations, label smoothing, AdamW, and a cosine with warm-up."""
    return _digits(options, lambda: mlp([784, 1024, 512, 256, 10]))


def lenet_mnist(options: Options) -> Task:
    """LeNet-5 on MNIST, trained as the MLP is."""
    return _digits(options, lenet)


def _digits(options: Options, make: Callable[[], Module]) -> Task:
    chosen = options.over(Usual(epochs=100, batch_size=200, lr=1e-3))
    chain = [Pad(2), RandomCrop(28), RandomRotation(20), RandomScale(0.8, 1.2), RandomErasing(p=0.5)]
    digits = MNIST(options.data, augment=chain)
    random.seed(options.seed)
    model = make()
    warmup = min(5, chosen.epochs - 1)
    optimizer = AdamW(model.parameters(), lr=Cosine(chosen.lr, warmup_epochs=warmup), weight_decay=1e-4)
    return Task(model, digits, loss=CrossEntropyLoss(label_smoothing=0.1), optimizer=optimizer, epochs=chosen.epochs,
                batch_size=chosen.batch_size, precision=options.precision, seed=options.seed, target_top1=options.target,
                out=options.out)


def cifar10(options: Options) -> Task:
    """ResNet-20 on CIFAR-10 with shifted and flipped images, Nesterov momentum, and a cosine with warm-up."""
    chosen = options.over(Usual(epochs=30, batch_size=128, lr=0.1))
    photos = CIFAR10(options.data, augment=[Pad(4), RandomCrop(32), RandomHorizontalFlip()])
    random.seed(options.seed)
    model = resnet20()
    warmup = min(2, chosen.epochs - 1)
    optimizer = SGD(decay_groups(model, 5e-4), lr=Cosine(chosen.lr, warmup_epochs=warmup), momentum=0.9, nesterov=True)
    return Task(model, photos, loss=CrossEntropyLoss(), optimizer=optimizer, epochs=chosen.epochs, batch_size=chosen.batch_size,
                precision=options.precision, seed=options.seed, target_top1=options.target, out=options.out)


RECIPES: dict[str, Callable[[Options], Task]] = {"mnist": mnist, "lenet": lenet_mnist, "cifar10": cifar10}


def recipe(name: str, options: Options) -> Task:
    """The Task of a recipe.

    raises  ArgumentError for an unknown name or precision, before any data is read
    """
    if name not in RECIPES:
        raise ArgumentError(f"no recipe {name!r}; known are {', '.join(RECIPES)}")
    with precision(options.precision):
        pass
    return RECIPES[name](options)
