"""The layers of the networks that are measured, as plain numbers: images are square, convolutions have no bias."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# Channels of each convolution of VGG with 16 layers, stage by stage; each stage ends with pooling by two.
VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
# Of each stage of ResNet with 50 layers: channels within a block (four times as many leave it), blocks, stride of the first.
RESNET50 = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
# Of each stage of MobileNetV2: factor of widening, channels, blocks, stride of the first.
MOBILENETV2 = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

DIRECTIONS = ("forward", "input gradient", "weight gradient")


@dataclass(frozen=True)
class Convolution:
    """One convolution of square images, padded with half a kernel on each side.

    channels, filters  of its input and of its output
    size               pixels along each side of its input
    """

    channels: int
    filters: int
    size: int
    kernel: int
    stride: int = 1
    groups: int = 1

    @property
    def padding(self) -> int:
        return self.kernel // 2

    @property
    def out_size(self) -> int:
        """Pixels along each side of its output."""
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def flops(self) -> int:
        """Floating-point operations for one image, written out as a sum of products; each gradient has as many."""
        return 2 * self.out_size ** 2 * self.filters * self.channels // self.groups * self.kernel ** 2

    def __str__(self) -> str:
        kind = " depthwise" if self.groups == self.channels else ""
        stride = f" stride {self.stride}" if self.stride > 1 else ""
        return f"{self.kernel}x{self.kernel}{kind} {self.channels}->{self.filters} at {self.size}{stride}"


def vgg16(size: int) -> Iterator[Convolution]:
    """The convolutions of VGG with 16 layers, in order."""
    channels = 3
    for stage in VGG16:
        for filters in stage:
            yield Convolution(channels, filters, size, 3)
            channels = filters
        size //= 2


def resnet50(size: int) -> Iterator[Convolution]:
    """The convolutions of ResNet with 50 layers, in order; the one beside a block comes after it."""
    yield Convolution(3, 64, size, 7, 2)
    size, channels = size // 4, 64
    for inner, blocks, first_stride in RESNET50:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            yield Convolution(channels, inner, size, 1)
            yield Convolution(inner, inner, size, 3, stride)
            yield Convolution(inner, 4 * inner, size // stride, 1)
            if block == 0:
                yield Convolution(channels, 4 * inner, size, 1, stride)
            size, channels = size // stride, 4 * inner


def mobilenetv2(size: int) -> Iterator[Convolution]:
    """The convolutions of MobileNetV2, in order."""
    yield Convolution(3, 32, size, 3, 2)
    size, channels = size // 2, 32
    for widening, filters, blocks, first_stride in MOBILENETV2:
        for block in range(blocks):
            stride, wide = first_stride if block == 0 else 1, channels * widening
            if widening > 1:
                yield Convolution(channels, wide, size, 1)
            yield Convolution(wide, wide, size, 3, stride, groups=wide)
            yield Convolution(wide, filters, size // stride, 1)
            size, channels = size // stride, filters
    yield Convolution(channels, 1280, size, 1)


LAYERS = {name: tuple(dict.fromkeys(layers)) for name, layers in (
    ("vgg16", vgg16(224)), ("resnet50", resnet50(224)), ("mobilenetv2", mobilenetv2(224)))}
"""Of each network, every convolution of another shape, for images of 224 x 224."""


def part(layer: Convolution, direction: str) -> str:
    """The name under which a program reports one direction of a layer."""
    return f"{layer} {direction}"
