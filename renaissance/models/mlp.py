"""Multi-layer perceptrons."""

from __future__ import annotations

from collections.abc import Sequence

from renaissance.errors import ArgumentError
from renaissance.nn.activation import ReLU
from renaissance.nn.container import Sequential
from renaissance.nn.linear import Flatten, Linear
from renaissance.nn.module import Module


def mlp(sizes: Sequence[int]) -> Sequential:
    """Affine maps with ReLU between them, on flattened samples.

    y = W_n relu(... relu(W_1 x + b_1) ...) + b_n

    sizes    features of the input, of each hidden layer, and of the output
    returns  a Sequential: Flatten, Linear, ReLU, ..., Linear
    raises   ArgumentError below two sizes
    source   definition
    """
    if len(sizes) < 2:
        raise ArgumentError(f"mlp: sizes must name at least input and output, got {tuple(sizes)}")
    layers: list[Module] = [Flatten()]
    for i, (n, m) in enumerate(zip(sizes, sizes[1:])):
        layers.append(Linear(n, m))
        if i < len(sizes) - 2:
            layers.append(ReLU())
    return Sequential(*layers)
