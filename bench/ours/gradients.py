"""The gradient of VGG16-BN for one batch, written to a file."""

from __future__ import annotations

import argparse
import json

import numpy as np

import renaissance as rn
from bench import gradient_error
from bench.ours import network, perceptron
from renaissance import nn


def main() -> None:
    """Compute what the command line describes; the line of JSON is the name of the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    gradient_error.arguments(parser)
    options = parser.parse_args()

    net = network.model("vgg16bn_cifar")
    values = [value for layer in gradient_error.parameters(options.seed).values() for value in layer]
    net.load_state_dict({name: value for (name, _), value in zip(net.named_parameters(), values, strict=True)}, strict=False)
    gradient_error.prepare(net, nn, smooth=options.smooth)
    x, y = map(rn.tensor, gradient_error.batch(options.seed, options.batch))
    step = rn.compile(perceptron.gradients(net, precision="fp32", smoothing=gradient_error.NETWORK.smoothing))
    np.savez(options.file, *(found.numpy() for found in step(x, y)))
    print(json.dumps(str(options.file)))


if __name__ == "__main__":
    main()
