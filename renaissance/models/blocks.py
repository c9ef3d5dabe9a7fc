"""Blocks that several families of models share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from renaissance import nn
from renaissance.errors import ArgumentError
from renaissance.nn import functional as F

Layer = Callable[..., nn.Module]


def batch_norm(eps: float = 1e-5, momentum: float = 0.1) -> Layer:
    """BatchNorm2d with settings, to be made for a number of channels."""
    return partial(nn.BatchNorm2d, eps=eps, momentum=momentum)


def divisible(channels: float, divisor: int = 8) -> int:
    """The nearest multiple of `divisor`, at least `divisor`, and never more than a tenth below `channels`.

    source  Howard et al. 2017, arXiv:1704.04861, reference implementation
    """
    nearest = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * channels else nearest


class ConvNorm(nn.Sequential):
    """A convolution that keeps sizes (at stride 1) without bias, its normalisation, and an activation unless None: 0, 1, 2."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int = 3, stride: int = 1, *, groups: int = 1,
                 dilation: int = 1, norm: Layer | None = None, activation: Layer | None = nn.ReLU):
        padding = (kernel_size - 1) // 2 * dilation
        conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias=False)
        layers: list[nn.Module] = [conv, (norm or nn.BatchNorm2d)(out_channels)]
        super().__init__(*layers, *([] if activation is None else [activation()]))


class SqueezeExcitation(nn.Module):
    """Weighs each channel by a gate made from the means of all.

    y = x gate(W_2 activation(W_1 mean(x)))

    input_channels, squeeze_channels  C, and the features between
    activation, gate                  layers
    x                                 (N, C, H, W);  returns the same shape
    raises                            at the call what conv2d raises
    source                            Hu et al. 2017, arXiv:1709.01507
    """

    def __init__(self, input_channels: int, squeeze_channels: int, activation: Layer = nn.ReLU, gate: Layer = nn.Sigmoid):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = gate()

    def forward(self, x: Any) -> Any:
        return x * self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x)))))


class StochasticDepth(nn.Module):
    """In training, sets whole samples to zero with probability p and scales the others; see functional.stochastic_depth."""

    def __init__(self, p: float):
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ArgumentError(f"StochasticDepth: p must be from 0 to 1, got {p}")
        self.p = p

    def forward(self, x: Any) -> Any:
        return F.stochastic_depth(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
