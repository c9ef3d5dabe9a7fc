"""MobileNetV3: inverted residuals with gates, found by search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from renaissance import nn
from renaissance.errors import ArgumentError
from renaissance.models import initial
from renaissance.models.blocks import ConvNorm, Layer, SqueezeExcitation, batch_norm, divisible


class InvertedResidualConfig(NamedTuple):
    """A row of tables 1 and 2 of the paper.

    input_channels, expanded_channels, out_channels  seen, between and made, before width_mult
    kernel                                           size of the depthwise convolution
    use_se                                           whether there is a gate for each channel
    activation                                       'RE' (ReLU) or 'HS' (hard swish)
    stride, dilation                                 of the depthwise convolution; a dilated one has stride 1
    width_mult                                       factor on all channels
    """

    input_channels: int
    kernel: int
    expanded_channels: int
    out_channels: int
    use_se: bool
    activation: str
    stride: int
    dilation: int
    width_mult: float = 1.0

    def channels(self) -> tuple[int, int, int]:
        """Channels seen, between and made: multiples of 8."""
        widths = (self.input_channels, self.expanded_channels, self.out_channels)
        seen, between, made = (divisible(n * self.width_mult) for n in widths)
        return seen, between, made


class InvertedResidual(nn.Module):
    """A 1x1 convolution that widens, a depthwise one, a gate, and a 1x1 convolution that narrows; added to x where shapes agree.

    y = f(x), or x + f(x) at stride 1 with as many channels made as seen

    cnf         InvertedResidualConfig
    norm_layer  normalisation, made for a number of channels
    x           (N, C, H, W);  returns (N, K, H / stride, W / stride)
    raises      ArgumentError for another activation than 'RE' and 'HS'; what Conv2d raises
    source      Howard et al. 2019, arXiv:1905.02244, section 5
    """

    def __init__(self, cnf: InvertedResidualConfig, norm_layer: Layer):
        super().__init__()
        if cnf.activation not in ("RE", "HS"):
            raise ArgumentError(f"InvertedResidual: activation must be 'RE' or 'HS', got {cnf.activation!r}")
        seen, between, made = cnf.channels()
        self.adds = cnf.stride == 1 and seen == made
        shared: dict[str, Any] = {"norm": norm_layer, "activation": nn.Hardswish if cnf.activation == "HS" else nn.ReLU}
        stride = 1 if cnf.dilation > 1 else cnf.stride
        layers: list[nn.Module] = [] if between == seen else [ConvNorm(seen, between, 1, **shared)]
        layers.append(ConvNorm(between, between, cnf.kernel, stride, groups=between, dilation=cnf.dilation, **shared))
        if cnf.use_se:
            layers.append(SqueezeExcitation(between, divisible(between // 4), gate=nn.Hardsigmoid))
        layers.append(ConvNorm(between, made, 1, norm=norm_layer, activation=None))
        self.block = nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        return x + self.block(x) if self.adds else self.block(x)


class MobileNetV3(nn.Module):
    """A strided convolution, inverted residuals, a 1x1 convolution, the mean over all places, and two affine maps.

    y = W_2 dropout(hardswish(W_1 mean(conv(blocks(x)))))

    inverted_residual_setting  an InvertedResidualConfig for each block
    last_channel               features between the affine maps
    num_classes                features of the output
    norm_layer                 normalisation, made for a number of channels; None: BatchNorm2d, eps 0.001, momentum 0.01
    dropout                    probability, before the last affine map
    x                          (N, 3, H, W);  returns (N, num_classes)
    raises                     ArgumentError without blocks; what the layers raise
    source                     Howard et al. 2019, arXiv:1905.02244; torchvision, mobilenetv3
    """

    def __init__(self, inverted_residual_setting: Sequence[InvertedResidualConfig], last_channel: int, num_classes: int = 1000,
                 norm_layer: Layer | None = None, dropout: float = 0.2):
        super().__init__()
        if not inverted_residual_setting:
            raise ArgumentError("MobileNetV3: inverted_residual_setting must hold at least one block")
        norm = norm_layer or batch_norm(eps=0.001, momentum=0.01)
        first, made = inverted_residual_setting[0].channels()[0], inverted_residual_setting[-1].channels()[2]
        ends: dict[str, Any] = {"norm": norm, "activation": nn.Hardswish}
        blocks = [InvertedResidual(cnf, norm) for cnf in inverted_residual_setting]
        self.features = nn.Sequential(ConvNorm(3, first, 3, 2, **ends), *blocks, ConvNorm(made, 6 * made, 1, **ends))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Linear(6 * made, last_channel), nn.Hardswish(), nn.Dropout(dropout),
                                        nn.Linear(last_channel, num_classes))
        initial.rectified(self)
        initial.narrow(self)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def mobilenet_v3_large(*, width_mult: float = 1.0, reduced_tail: bool = False, dilated: bool = False,
                       **settings: Any) -> MobileNetV3:
    """MobileNetV3 large; further settings are those of MobileNetV3.

    5,483,032 parameters, images of 224 x 224

    width_mult    factor on all channels
    reduced_tail  half the channels in the last blocks
    dilated       the last blocks dilate and keep sizes
    returns       MobileNetV3
    raises        as MobileNetV3
    source        Howard et al. 2019, arXiv:1905.02244, table 1
    """
    row = partial(InvertedResidualConfig, width_mult=width_mult)
    half, dilation = 2 if reduced_tail else 1, 2 if dilated else 1
    rows = [
        row(16, 3, 16, 16, False, "RE", 1, 1),
        row(16, 3, 64, 24, False, "RE", 2, 1), row(24, 3, 72, 24, False, "RE", 1, 1),
        row(24, 5, 72, 40, True, "RE", 2, 1), row(40, 5, 120, 40, True, "RE", 1, 1), row(40, 5, 120, 40, True, "RE", 1, 1),
        row(40, 3, 240, 80, False, "HS", 2, 1), row(80, 3, 200, 80, False, "HS", 1, 1),
        row(80, 3, 184, 80, False, "HS", 1, 1), row(80, 3, 184, 80, False, "HS", 1, 1),
        row(80, 3, 480, 112, True, "HS", 1, 1), row(112, 3, 672, 112, True, "HS", 1, 1),
        row(112, 5, 672, 160 // half, True, "HS", 2, dilation),
        row(160 // half, 5, 960 // half, 160 // half, True, "HS", 1, dilation),
        row(160 // half, 5, 960 // half, 160 // half, True, "HS", 1, dilation),
    ]
    return MobileNetV3(rows, divisible(1280 // half * width_mult), **settings)


def mobilenet_v3_small(*, width_mult: float = 1.0, reduced_tail: bool = False, dilated: bool = False,
                       **settings: Any) -> MobileNetV3:
    """MobileNetV3 small; further settings are those of MobileNetV3.

    2,542,856 parameters, images of 224 x 224

    width_mult    factor on all channels
    reduced_tail  half the channels in the last blocks
    dilated       the last blocks dilate and keep sizes
    returns       MobileNetV3
    raises        as MobileNetV3
    source        Howard et al. 2019, arXiv:1905.02244, table 2
    """
    row = partial(InvertedResidualConfig, width_mult=width_mult)
    half, dilation = 2 if reduced_tail else 1, 2 if dilated else 1
    rows = [
        row(16, 3, 16, 16, True, "RE", 2, 1),
        row(16, 3, 72, 24, False, "RE", 2, 1), row(24, 3, 88, 24, False, "RE", 1, 1),
        row(24, 5, 96, 40, True, "HS", 2, 1), row(40, 5, 240, 40, True, "HS", 1, 1), row(40, 5, 240, 40, True, "HS", 1, 1),
        row(40, 5, 120, 48, True, "HS", 1, 1), row(48, 5, 144, 48, True, "HS", 1, 1),
        row(48, 5, 288, 96 // half, True, "HS", 2, dilation),
        row(96 // half, 5, 576 // half, 96 // half, True, "HS", 1, dilation),
        row(96 // half, 5, 576 // half, 96 // half, True, "HS", 1, dilation),
    ]
    return MobileNetV3(rows, divisible(1024 // half * width_mult), **settings)
