"""The convolutions of a network in PyTorch, each alone: output, input gradient and weight gradient, channels last."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch.nn import functional as F

from bench import probe
from bench.layers import LAYERS, Convolution, part


def directions(layer: Convolution, batch: int, precision: str) -> dict[str, Callable[[], object]]:
    """What computes each direction of a layer once, by its name."""
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]

    def values(*shape: int) -> torch.Tensor:
        return torch.randn(shape).to(dtype).to(memory_format=torch.channels_last)

    x = values(batch, layer.channels, layer.size, layer.size)
    weight = values(layer.filters, layer.channels // layer.groups, layer.kernel, layer.kernel)
    cotangent = values(batch, layer.filters, layer.out_size, layer.out_size)
    stride, padding = [layer.stride] * 2, [layer.padding] * 2

    def gradient(*wanted: bool) -> object:
        return torch.ops.aten.convolution_backward(
            cotangent, x, weight, None, stride, padding, [1, 1], False, [0, 0], layer.groups, wanted)

    return {"forward": lambda: F.conv2d(x, weight, None, stride, padding, 1, layer.groups),
            "input gradient": lambda: gradient(True, False, False), "weight gradient": lambda: gradient(False, True, False)}


def main() -> None:
    """Time the layers the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=LAYERS)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--layers", type=int, help="only the first so many")
    parser.add_argument("--seconds", type=float, default=0.05, help="for each direction of each layer, at least")
    options = parser.parse_args()
    torch.set_num_threads(probe.cores())
    torch.manual_seed(0)
    with torch.inference_mode():
        taken = {part(layer, direction): probe.time_often(action, seconds=options.seconds, least=3)
                 for layer in LAYERS[options.network][:options.layers]
                 for direction, action in directions(layer, options.batch, options.precision).items()}
    probe.report(seconds=sum(taken.values()), parts=taken)


if __name__ == "__main__":
    main()
