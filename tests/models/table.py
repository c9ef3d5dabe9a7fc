"""The models: all of them by name, and small ones of each family, made alike by this package and by torchvision."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

WITHOUT_VALUES = {"init_weights": False}  # first values of VGG and Inception take time, and nothing here depends on them


@dataclass(frozen=True)
class ModelCase:
    """A model under test.

    make   the model, of a library's `models`
    shape  of its input
    """

    name: str
    make: Callable[[Any], Any]
    shape: tuple[int, ...]


def whole(name: str, size: int, *, batch: int = 2, channels: int = 3, **settings: Any) -> ModelCase:
    return ModelCase(name, lambda models: getattr(models, name)(**settings), (batch, channels, size, size))


def _mobile_rows(models: Any) -> Any:
    row = models.mobilenetv3.InvertedResidualConfig
    return [row(16, 3, 16, 16, True, "RE", 2, 1, 1.0), row(16, 3, 40, 24, False, "RE", 1, 1, 1.0),
            row(24, 5, 48, 24, True, "HS", 1, 1, 1.0), row(24, 5, 48, 32, True, "HS", 2, 2, 1.0)]


def _efficient_rows(models: Any) -> Any:
    row = models.efficientnet.MBConvConfig
    return [row(1, 3, 1, 16, 8, 1, 1.0, 1.0), row(6, 3, 2, 8, 16, 2, 1.0, 1.1), row(4, 5, 2, 16, 24, 1, 1.0, 1.0)]


def _convnext_rows(models: Any) -> Any:
    row = models.convnext.CNBlockConfig
    return [row(8, 16, 1), row(16, 24, 2), row(24, None, 1)]


def _resnet(models: Any, block: str, depths: list[int], **settings: Any) -> Any:
    return models.resnet.ResNet(getattr(models.resnet, block), depths, 10, **settings)


def _vgg(models: Any, batch_norm: bool) -> Any:
    return models.vgg.VGG(models.vgg.stages((8, 16), (1, 2), batch_norm), 10, dropout=0.0, channels=16, grid=3, hidden=12)


SMALL = (
    whole("lenet", 28, channels=1),
    ModelCase("vgg", lambda m: _vgg(m, False), (2, 3, 17, 14)),
    ModelCase("vgg_bn", lambda m: _vgg(m, True), (2, 3, 16, 16)),
    ModelCase("resnet", lambda m: _resnet(m, "BasicBlock", [1, 2, 1, 1]), (2, 3, 64, 64)),
    ModelCase("resnet of bottlenecks", lambda m: _resnet(m, "Bottleneck", [1, 1, 2, 1], groups=4, width_per_group=8, zero_init_residual=True,
                                                         replace_stride_with_dilation=[False, True, True]), (2, 3, 48, 40)),
    ModelCase("resnet of small images", lambda m: m.resnet_cifar.CifarResNet(2), (2, 3, 16, 16)),
    ModelCase("mobilenetv2", lambda m: m.mobilenetv2.MobileNetV2(10, 0.25, [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 2, 2]], 8, dropout=0.0),
              (2, 3, 33, 32)),
    ModelCase("mobilenetv3", lambda m: m.mobilenetv3.MobileNetV3(_mobile_rows(m), 24, 10, dropout=0.0), (2, 3, 32, 32)),
    ModelCase("efficientnet", lambda m: m.efficientnet.EfficientNet(_efficient_rows(m), 0.0, 0.0, 10, last_channel=40), (2, 3, 32, 32)),
    ModelCase("densenet", lambda m: m.densenet.DenseNet(4, (2, 3, 1), 8, 2, 0.0, 10), (2, 3, 64, 48)),
    ModelCase("squeezenet 1.0", lambda m: m.squeezenet.SqueezeNet("1_0", 10, 0.0), (2, 3, 40, 40)),
    ModelCase("squeezenet 1.1", lambda m: m.squeezenet.SqueezeNet("1_1", 10, 0.0), (2, 3, 40, 33)),
    ModelCase("shufflenetv2", lambda m: m.shufflenetv2.ShuffleNetV2([1, 2, 2], [8, 16, 24, 32, 40], 10), (2, 3, 64, 64)),
    ModelCase("inception a", lambda m: m.inception.InceptionA(12, 8), (2, 12, 5, 6)),
    ModelCase("inception b", lambda m: m.inception.InceptionB(12), (2, 12, 7, 7)),
    ModelCase("inception c", lambda m: m.inception.InceptionC(12, 8), (2, 12, 5, 6)),
    ModelCase("inception d", lambda m: m.inception.InceptionD(12), (2, 12, 7, 8)),
    ModelCase("inception e", lambda m: m.inception.InceptionE(12), (2, 12, 4, 3)),
    ModelCase("inception, guesses", lambda m: m.inception.InceptionAux(12, 10), (2, 12, 20, 17)),
    ModelCase("convnext", lambda m: m.convnext.ConvNeXt(_convnext_rows(m), 0.0, 0.5, 10), (2, 3, 32, 40)),
    ModelCase("small unet", lambda m: m.unet(num_classes=3, width=4, depth=2), (2, 3, 12, 8)),
)

_VGG = [f"vgg{depth}{norm}" for depth in (11, 13, 16, 19) for norm in ("", "_bn")]
WHOLE = (
    *(whole(name, 32, dropout=0.0, **WITHOUT_VALUES) for name in _VGG),
    *(whole(name, 64) for name in ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")),
    *(whole(name, 32) for name in ("resnet20", "resnet32", "resnet44", "resnet56")),
    *(whole(name, 64, dropout=0.0) for name in ("mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "squeezenet1_0", "squeezenet1_1")),
    whole("efficientnet_b0", 64, dropout=0.0, stochastic_depth_prob=0.0),
    whole("densenet121", 64), whole("shufflenet_v2_x0_5", 64), whole("shufflenet_v2_x1_0", 64),
    whole("inception_v3", 299, dropout=0.0, transform_input=True, **WITHOUT_VALUES),
    whole("convnext_tiny", 64, stochastic_depth_prob=0.0, layer_scale=0.5), whole("unet", 64),
)


def state_digest(state: Mapping[str, Any]) -> str:
    """Stands for the names, order and shapes of a state_dict."""
    text = "\n".join(f"{name} {tuple(value.shape)}" for name, value in state.items())
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def drawn(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers that depend on a name only."""
    return np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)


def state_values(state: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Values for a state that keep signals neither vanishing nor growing."""
    values = {}
    for name, value in state.items():
        shape = tuple(value.shape)
        z = drawn(name, shape)
        if name.endswith("num_batches_tracked"):
            values[name] = np.zeros(shape, np.int64)
        elif len(shape) in (2, 4):
            values[name] = z * np.sqrt(2 / np.prod(shape[1:]))
        elif name.endswith(("running_var", "weight", "layer_scale")):
            values[name] = np.exp(0.2 * z)
        else:
            values[name] = 0.1 * z
    return values


def part_of(name: str) -> str:
    """The part of a model whose gradients are taken together."""
    return ".".join(name.split(".")[:2])
