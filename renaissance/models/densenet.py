"""DenseNet: every layer sees the outputs of all before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renaissance import nn
from renaissance.errors import ArgumentError
from renaissance.models import initial
from renaissance.nn import functional as F
from renaissance.ops.movement import concat


class DenseLayer(nn.Module):
    """A 1x1 and a 3x3 convolution, each after normalisation and ReLU, of all that was made before.

    y = dropout(conv_3(relu(norm(conv_1(relu(norm(x)))))))

    seen         channels of x
    growth_rate  channels made
    bn_size      channels between, in multiples of growth_rate
    drop_rate    probability of dropout
    x            (N, seen, H, W);  returns (N, growth_rate, H, W)
    raises       what the layers raise
    source       Huang et al. 2016, arXiv:1608.06993, section 3
    """

    def __init__(self, seen: int, growth_rate: int, bn_size: int, drop_rate: float):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(seen)
        self.relu1 = nn.ReLU()
        self.conv1 = nn.Conv2d(seen, bn_size * growth_rate, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(bn_size * growth_rate)
        self.relu2 = nn.ReLU()
        self.conv2 = nn.Conv2d(bn_size * growth_rate, growth_rate, 3, padding=1, bias=False)
        self.drop_rate = drop_rate

    def forward(self, x: Any) -> Any:
        y = self.conv1(self.relu1(self.norm1(x)))
        return F.dropout(self.conv2(self.relu2(self.norm2(y))), self.drop_rate, self.training)


class DenseBlock(nn.Module):
    """Dense layers one after the other, each on all channels so far.

    y = [x, f_1(x), f_2([x, f_1(x)]), ...]

    depth                            layers
    seen                             channels of x
    growth_rate, bn_size, drop_rate  of each layer
    x                                (N, seen, H, W);  returns (N, seen + depth growth_rate, H, W)
    raises                           what the layers raise
    source                           Huang et al. 2016, arXiv:1608.06993, equation 2
    """

    def __init__(self, depth: int, seen: int, growth_rate: int, bn_size: int, drop_rate: float):
        super().__init__()
        for i in range(depth):
            setattr(self, f"denselayer{i + 1}", DenseLayer(seen + i * growth_rate, growth_rate, bn_size, drop_rate))

    def forward(self, x: Any) -> Any:
        parts = [x]
        for layer in self.children():
            parts.append(layer(concat(parts, axis=1)))
        return concat(parts, axis=1)


class DenseNet(nn.Module):
    """A 7x7 convolution, pooling, dense blocks with halving of channels and sizes between, the mean, and an affine map.

    y = W mean(relu(norm(blocks(pool(conv(x))))))

    growth_rate        channels each layer makes
    block_config       layers of each block
    num_init_features  channels of the first convolution
    bn_size            channels between the convolutions of a layer, in multiples of growth_rate
    drop_rate          probability of dropout after each layer
    num_classes        features of the output
    x                  (N, 3, H, W), sizes at least 29;  returns (N, num_classes)
    raises             ArgumentError without blocks; what the layers raise
    source             Huang et al. 2016, arXiv:1608.06993; torchvision, densenet
    """

    def __init__(self, growth_rate: int = 32, block_config: Sequence[int] = (6, 12, 24, 16), num_init_features: int = 64,
                 bn_size: int = 4, drop_rate: float = 0.0, num_classes: int = 1000):
        super().__init__()
        if not block_config:
            raise ArgumentError("DenseNet: block_config must name at least one block")
        layers: dict[str, nn.Module] = {
            "conv0": nn.Conv2d(3, num_init_features, 7, 2, 3, bias=False), "norm0": nn.BatchNorm2d(num_init_features),
            "relu0": nn.ReLU(), "pool0": nn.MaxPool2d(3, 2, 1),
        }
        channels = num_init_features
        for i, depth in enumerate(block_config, 1):
            layers[f"denseblock{i}"] = DenseBlock(depth, channels, growth_rate, bn_size, drop_rate)
            channels += depth * growth_rate
            if i < len(block_config):
                layers[f"transition{i}"] = nn.Sequential({
                    "norm": nn.BatchNorm2d(channels), "relu": nn.ReLU(),
                    "conv": nn.Conv2d(channels, channels // 2, 1, bias=False), "pool": nn.AvgPool2d(2, 2),
                })
                channels //= 2
        layers["norm5"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(layers)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.classifier = nn.Linear(channels, num_classes)
        initial.rectified(self, "fan_in")
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.avgpool(F.relu(self.features(x))).flatten(1))


def densenet121(**settings: Any) -> DenseNet:
    """DenseNet with 121 layers; settings are those of DenseNet.

    7,978,856 parameters, images of 224 x 224

    returns  DenseNet
    raises   as DenseNet
    source   Huang et al. 2016, arXiv:1608.06993, table 1
    """
    return DenseNet(32, (6, 12, 24, 16), 64, **settings)
