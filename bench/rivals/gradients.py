"""The gradient of VGG16-BN for one batch in PyTorch, written to a file."""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from bench import gradient_error, probe
from bench.rivals import network


def main() -> None:
    """Compute what the command line describes; the line of JSON is the name of the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    gradient_error.arguments(parser)
    parser.add_argument("--dtype", choices=("float32", "float64"), required=True)
    parser.add_argument("--layout", choices=("channels_last", "contiguous_format"), required=True)
    options = parser.parse_args()

    torch.set_num_threads(probe.cores())
    dtype, layout = getattr(torch, options.dtype), getattr(torch, options.layout)
    net = network.model("vgg16bn_cifar").to(dtype).to(memory_format=layout)
    values = [value for layer in gradient_error.parameters(options.seed).values() for value in layer]
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), values, strict=True):
            parameter.copy_(torch.from_numpy(value))
    gradient_error.prepare(net, nn, smooth=options.smooth)
    images, labels = map(torch.from_numpy, gradient_error.batch(options.seed, options.batch))
    out = net(images.to(dtype, memory_format=layout))
    F.cross_entropy(out, labels, label_smoothing=gradient_error.NETWORK.smoothing).backward()
    np.savez(options.file, *(parameter.grad.numpy() for parameter in net.parameters()))
    print(json.dumps(str(options.file)))


if __name__ == "__main__":
    main()
