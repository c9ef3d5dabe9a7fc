"""The convolutions of a network, each alone: output, input gradient and weight gradient.

Images and cotangents lie channels last in memory, as they do within a network, so that no change of layout is counted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

import renaissance as rn
from bench import probe
from bench.layers import LAYERS, Convolution, part
from renaissance.nn import functional as F


def directions(layer: Convolution, batch: int, precision: str) -> dict[str, Callable[[], object]]:
    """What computes each direction of a layer once, by its name."""
    generator = np.random.default_rng(0)
    dtype = {"fp32": rn.float32, "bf16": rn.bfloat16}[precision]

    def values(*shape: int) -> rn.Tensor:
        return rn.tensor(generator.standard_normal(shape, np.float32)).astype(dtype)

    def forward(x: rn.Tensor, weight: rn.Tensor) -> rn.Tensor:
        out = F.conv2d(x.permute_dims((0, 3, 1, 2)), weight, None, layer.stride, layer.padding, 1, layer.groups)
        return out.permute_dims((0, 2, 3, 1))

    def gradients(x: rn.Tensor, weight: rn.Tensor, cotangent: rn.Tensor) -> tuple[rn.Tensor, rn.Tensor]:
        _, pull = rn.vjp(forward, x, weight)
        return pull(cotangent)

    x = values(batch, layer.size, layer.size, layer.channels)
    weight = values(layer.filters, layer.channels // layer.groups, layer.kernel, layer.kernel)
    cotangent = values(batch, layer.out_size, layer.out_size, layer.filters)
    rn.realize(x, weight, cotangent)
    output = rn.compile(forward)
    input_gradient = rn.compile(lambda *operands: gradients(*operands)[0])
    weight_gradient = rn.compile(lambda *operands: gradients(*operands)[1])
    return {"forward": lambda: output(x, weight), "input gradient": lambda: input_gradient(x, weight, cotangent),
            "weight gradient": lambda: weight_gradient(x, weight, cotangent)}


def main() -> None:
    """Time the layers the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=LAYERS)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--layers", type=int, help="only the first so many")
    parser.add_argument("--seconds", type=float, default=0.05, help="for each direction of each layer, at least")
    options = parser.parse_args()
    taken = {part(layer, direction): probe.time_often(action, seconds=options.seconds, least=3)
             for layer in LAYERS[options.network][:options.layers]
             for direction, action in directions(layer, options.batch, options.precision).items()}
    probe.report(seconds=sum(taken.values()), parts=taken)


if __name__ == "__main__":
    main()
