"""The networks that are measured, as plain numbers both sides build from."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from bench.layers import Convolution, mobilenetv2, resnet50, vgg16


@dataclass(frozen=True)
class Perceptron:
    """Fully connected layers with ReLU between them, cross entropy at the end, one batch size.

    weight_decay  0 means Adam, otherwise AdamW with that decay
    """

    widths: tuple[int, ...]
    batch: int
    weight_decay: float
    smoothing: float

    @property
    def forward_flops(self) -> int:
        """Floating-point operations of the products of one forward pass over one batch."""
        return 2 * self.batch * sum(a * b for a, b in pairwise(self.widths))

    @property
    def step_flops(self) -> int:
        """The same of one training step: output, weight gradient and input gradient, the last not for the first layer."""
        return 3 * self.forward_flops - 2 * self.batch * self.widths[0] * self.widths[1]


@dataclass(frozen=True)
class Network:
    """Convolutions, then fully connected layers, and cross entropy with label smoothing 0.1; trained by SGD with momentum.

    size    pixels along each side of an image
    batch   images of one training step
    widths  of the fully connected layers: the last is the number of classes
    """

    size: int
    batch: int
    convolutions: tuple[Convolution, ...]
    widths: tuple[int, ...]
    smoothing: float = 0.1

    @property
    def image_flops(self) -> int:
        """Floating-point operations of the convolutions and products of one forward pass over one image."""
        return sum(layer.flops for layer in self.convolutions) + 2 * sum(a * b for a, b in pairwise(self.widths))

    @property
    def step_flops(self) -> int:
        """The same of one training step: output, weight gradient and input gradient, the last not for the first layer."""
        return self.batch * (3 * self.image_flops - self.convolutions[0].flops)


PERCEPTRONS = {
    "mlp": Perceptron((784, 1024, 512, 256, 10), batch=200, weight_decay=1e-4, smoothing=0.1),
    "tinymlp": Perceptron((10, 45, 45, 10), batch=128, weight_decay=0.0, smoothing=0.0),
}
NETWORKS = {
    "vgg16bn_cifar": Network(32, 128, tuple(vgg16(32)), (512, 512, 512, 10)),
    "vgg16bn_224": Network(224, 16, tuple(vgg16(224)), (512 * 7 * 7, 4096, 4096, 1000)),
    "resnet50": Network(224, 16, tuple(resnet50(224)), (2048, 1000)),
    "mobilenetv2": Network(224, 16, tuple(mobilenetv2(224)), (1280, 1000)),
}
