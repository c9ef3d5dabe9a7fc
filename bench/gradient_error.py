"""How far the gradient of a whole network is from the same in float64: VGG16-BN on images of 32 x 32, without dropout.

Run as `python -m bench.gradient_error`. Ours with and without minimal filtering, and PyTorch with either layout, all in float32;
the reference is PyTorch in float64. Weights and images are the same everywhere: each program makes them with NumPy. Most of the
error is that of a few ReLUs and maxima that choose the other side; `--smooth` shows the arithmetic's own. This is no row of
`python -m bench`, whose lines are times and memory of runs in turn, with bars: no run changes this number, and it has no bar.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench.program import Program, Runner
from bench.shapes import NETWORKS

NETWORK = NETWORKS["vgg16bn_cifar"]
QUICK = ("--batch", "4")
REFERENCE = Program("torch, float64", "bench.rivals.gradients", ("--dtype", "float64", "--layout", "contiguous_format"), QUICK)
COMPARED = (
    Program("renaissance, Winograd", "bench.ours.gradients", quick=QUICK, environment={"RENAISSANCE_WINOGRAD": "1"}),
    Program("renaissance, direct", "bench.ours.gradients", quick=QUICK, environment={"RENAISSANCE_WINOGRAD": "0"}),
    *(Program(f"torch, {name}", "bench.rivals.gradients", ("--dtype", "float32", "--layout", layout), QUICK)
      for name, layout in (("channels last", "channels_last"), ("channels first", "contiguous_format"))),
)

Layers = dict[str, list[np.ndarray]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of a program that computes a gradient."""
    parser.add_argument("file", type=Path, help="where the gradients go: an .npz of the parameters' in their order")
    parser.add_argument("--batch", type=int, default=NETWORK.batch)
    parser.add_argument("--seed", type=int, default=0, help="of weights, images and labels")
    parser.add_argument("--smooth", action="store_true", help="see `prepare`")


def parameters(seed: int) -> Layers:
    """The network's float32 parameters by layer, in the order both sides have them: variance 2 / inputs, norms near 1 and 0."""
    random = np.random.default_rng((seed, 0))

    def around(middle: float, spread: float, *shape: int) -> np.ndarray:
        return np.float32(middle) + np.float32(spread) * random.standard_normal(shape, np.float32)

    layers: Layers = {}
    for i, conv in enumerate(NETWORK.convolutions, 1):
        inputs = conv.channels * conv.kernel ** 2
        layers[f"conv {i}"] = [around(0, (2 / inputs) ** 0.5, conv.filters, conv.channels, conv.kernel, conv.kernel)]
        layers[f"norm {i}"] = [around(1, 0.1, conv.filters), around(0, 0.1, conv.filters)]
    for i, (inputs, outputs) in enumerate(pairwise(NETWORK.widths), 1):
        layers[f"linear {i}"] = [around(0, (2 / inputs) ** 0.5, outputs, inputs), around(0, 0.1, outputs)]
    return layers


def batch(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (count, 3, size, size) float32 and labels (count,) int64, at random."""
    random = np.random.default_rng((seed, 1))
    images = random.standard_normal((count, 3, NETWORK.size, NETWORK.size), np.float32)
    return images, random.integers(0, NETWORK.widths[-1], count)


def prepare(net: Any, nn: Any, *, smooth: bool) -> None:
    """Switch off a network's dropout; where `smooth`, put SiLU for its ReLUs and means for its maxima: no choice is left.

    net, nn  the network, and the module that has the classes of its layers: ours or PyTorch's
    """
    for module in list(net.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Dropout):
                child.p = 0.0
            elif smooth and isinstance(child, nn.ReLU):
                setattr(module, name, nn.SiLU())
            elif smooth and isinstance(child, nn.MaxPool2d):
                setattr(module, name, nn.AvgPool2d(2, 2))


def errors(gradient: Layers, reference: Layers) -> tuple[float, dict[str, float]]:
    """||g - r|| / ||r|| over all parameters together, and over those of each layer."""
    squares = {layer: (sum(float(((g - r) ** 2).sum()) for g, r in zip(gradient[layer], of, strict=True)),
                       sum(float((r ** 2).sum()) for r in of)) for layer, of in reference.items()}
    off, whole = (sum(column) for column in zip(*squares.values()))
    return (off / whole) ** 0.5, {layer: (a / b) ** 0.5 for layer, (a, b) in squares.items()}


def gradient(program: Program, runner: Runner, seed: int, *, smooth: bool) -> Layers:
    """What a program computes, in float64, by layer."""
    file = runner.cache / "gradients.npz"
    arguments = (str(file), "--seed", str(seed), *(["--smooth"] if smooth else []), *program.arguments)
    runner.answer(dataclasses.replace(program, arguments=arguments), runner.cache)
    with np.load(file) as saved:
        arrays = iter([saved[name].astype(np.float64) for name in saved.files])
    return {layer: [next(arrays) for _ in values] for layer, values in parameters(seed).items()}


def main(arguments: Sequence[str]) -> None:
    """Print the table: a line for each seed and program."""
    parser = argparse.ArgumentParser(prog="python -m bench.gradient_error", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="each for weights, images and labels")
    parser.add_argument("--smooth", action="store_true", help="SiLU for ReLU, means for maxima")
    parser.add_argument("--quick", action="store_true", help="one seed, few images: shows that it works")
    parser.add_argument("--rival-python", default=sys.executable, metavar="PATH",
                        help="interpreter that has PyTorch (default: this one; pip install '.[bench]')")
    options = parser.parse_args(arguments)
    print(f"{'seed':6}{'':24}{'all parameters':18}largest of a layer")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        runner = Runner(Path(folder), quick=options.quick, python=sys.executable, rival_python=options.rival_python)
        for seed in options.seeds[:1] if options.quick else options.seeds:
            reference = gradient(REFERENCE, runner, seed, smooth=options.smooth)
            for program in COMPARED:
                together, each = errors(gradient(program, runner, seed, smooth=options.smooth), reference)
                worst = max(each, key=lambda layer: each[layer])
                print(f"{seed:<6}{program.name:24}{together:<18.2e}{each[worst]:.2e} ({worst})", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
