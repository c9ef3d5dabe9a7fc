"""One row for each layer and loss: what the generic checks need to know."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import renaissance as rn
from renaissance import nn
from tests.ops.table import np_max, np_mean, np_pool

from .numpy_layers import np_conv, np_conv_transpose, np_layer_norm


@dataclass(frozen=True)
class LayerCase:
    """A layer under test.

    make      the layer, of a library's `nn` and tensors of `arrays`
    ref       its meaning in NumPy, of the state (by name) and the inputs
    inputs    shapes of its float inputs
    text      its repr
    state     names and shapes in its state_dict
    domain    range the inputs are drawn from
    targets   further inputs, which are not floats
    arrays    buffers the layer is made with
    loose     factor on the tolerance
    why       the reason for a factor other than 1
    """

    name: str
    make: Callable[..., Any]
    ref: Callable[..., Any]
    inputs: tuple[tuple[int, ...], ...]
    text: str
    state: dict[str, tuple[int, ...]] = field(default_factory=dict)
    domain: tuple[float, float] = (-3.0, 3.0)
    targets: tuple[Any, ...] = ()
    arrays: tuple[Any, ...] = ()
    loose: float = 1.0
    why: str = ""

    def layer(self, dtype: str = "float32") -> Any:
        """The layer with all of its state in one dtype."""
        rn.seed(5)
        made = self.make(nn, *(rn.tensor(a, dtype=dtype) for a in self.arrays))
        for module in made.modules():
            for name, p in module.named_parameters(recurse=False):
                setattr(module, name, nn.Parameter(p.detach().astype(dtype)))
        return made

    def draw(self, seed: int = 0) -> list[np.ndarray]:
        """Inputs; floats in float64, away from the kinks of the activations."""
        rng = np.random.default_rng([seed, len(self.name)])
        return [*(np.round(rng.uniform(*self.domain, shape), 3) + 0.00037 for shape in self.inputs), *self.targets]


def row(name: str, make: Any, ref: Any, *inputs: tuple[int, ...], text: str, **more: Any) -> LayerCase:
    return LayerCase(name, make, ref, inputs, text, **more)


def activation(name: str, make: Any, ref: Any, text: str, **more: Any) -> LayerCase:
    return row(name, make, lambda state, x: ref(x), (3, 7), text=text, **more)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


def log_softmax(x: Any, axis: int) -> Any:
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def affine(prefix: str) -> Callable[..., Any]:
    return lambda state, x: x @ state[prefix + "weight"].T + state.get(prefix + "bias", 0)


def two_layers(state: dict[str, Any], x: Any) -> Any:
    h = np.maximum(affine("0.")(state, x.reshape(x.shape[0], -1)), 0)
    return np.tanh(affine("3.0.")(state, h))


_ERF = np.vectorize(math.erf, otypes=[np.float64])


def leaky(slope: float) -> Callable[..., Any]:
    return lambda x: np.where(x > 0, x, slope * x)


def elu(alpha: float) -> Callable[..., Any]:
    return lambda x: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def gelu(x: Any) -> Any:
    return x * (1 + _ERF(x / math.sqrt(2))) / 2


def gelu_tanh(x: Any) -> Any:
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


LAYERS = (
    row("linear", lambda nn: nn.Linear(5, 3), affine(""), (4, 5), state={"weight": (3, 5), "bias": (3,)},
        text="Linear(in_features=5, out_features=3, bias=True)"),
    row("linear without bias", lambda nn: nn.Linear(5, 3, bias=False), affine(""), (2, 2, 5), state={"weight": (3, 5)},
        text="Linear(in_features=5, out_features=3, bias=False)"),
    row("linear of one vector", lambda nn: nn.Linear(5, 3), affine(""), (5,), state={"weight": (3, 5), "bias": (3,)},
        text="Linear(in_features=5, out_features=3, bias=True)"),
    row("linear of nothing", lambda nn: nn.Linear(5, 3), affine(""), (0, 5), state={"weight": (3, 5), "bias": (3,)},
        text="Linear(in_features=5, out_features=3, bias=True)"),
    row("identity", lambda nn: nn.Identity(), lambda state, x: x, (2, 3), text="Identity()"),
    row("flatten", lambda nn: nn.Flatten(), lambda state, x: x.reshape(2, 12), (2, 3, 4),
        text="Flatten(start_dim=1, end_dim=-1)"),
    row("flatten middle axes", lambda nn: nn.Flatten(1, 2), lambda state, x: x.reshape(2, 12, 5), (2, 3, 4, 5),
        text="Flatten(start_dim=1, end_dim=2)"),
    row("sequential",
        lambda nn: nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Flatten(), nn.Sequential(nn.Linear(4, 2), nn.Tanh())), two_layers,
        (3, 6), state={"0.weight": (4, 6), "0.bias": (4,), "3.0.weight": (2, 4), "3.0.bias": (2,)},
        text="Sequential(\n  (0): Linear(in_features=6, out_features=4, bias=True)\n  (1): ReLU()\n"
             "  (2): Flatten(start_dim=1, end_dim=-1)\n  (3): Sequential(\n"
             "    (0): Linear(in_features=4, out_features=2, bias=True)\n    (1): Tanh()\n  )\n)"),
)

ACTIVATIONS = (
    activation("relu", lambda nn: nn.ReLU(), lambda x: np.maximum(x, 0), "ReLU()"),
    activation("relu6", lambda nn: nn.ReLU6(), lambda x: np.clip(x, 0, 6), "ReLU6()", domain=(-3, 9)),
    activation("leaky relu", lambda nn: nn.LeakyReLU(), leaky(0.01), "LeakyReLU(negative_slope=0.01)"),
    activation("leaky relu, slope", lambda nn: nn.LeakyReLU(0.3), leaky(0.3), "LeakyReLU(negative_slope=0.3)"),
    activation("elu", lambda nn: nn.ELU(), elu(1.0), "ELU(alpha=1.0)"),
    activation("elu, alpha", lambda nn: nn.ELU(0.5), elu(0.5), "ELU(alpha=0.5)"),
    activation("gelu", lambda nn: nn.GELU(), gelu, "GELU(approximate='none')", loose=4, why="1 + erf loses digits below zero"),
    activation("gelu, tanh", lambda nn: nn.GELU("tanh"), gelu_tanh, "GELU(approximate='tanh')", loose=4,
               why="1 + tanh loses digits below zero"),
    activation("silu", lambda nn: nn.SiLU(), lambda x: x * sigmoid(x), "SiLU()"),
    activation("sigmoid", lambda nn: nn.Sigmoid(), sigmoid, "Sigmoid()"),
    activation("tanh", lambda nn: nn.Tanh(), np.tanh, "Tanh()"),
    activation("softplus", lambda nn: nn.Softplus(), softplus, "Softplus(beta=1.0)"),
    activation("softplus, beta", lambda nn: nn.Softplus(2.0), lambda x: softplus(2 * x) / 2, "Softplus(beta=2.0)"),
    activation("hardswish", lambda nn: nn.Hardswish(), lambda x: x * np.clip(x + 3, 0, 6) / 6, "Hardswish()", domain=(-5, 5)),
    activation("hardtanh", lambda nn: nn.Hardtanh(-0.5, 2.0), lambda x: np.clip(x, -0.5, 2),
               "Hardtanh(min_val=-0.5, max_val=2.0)"),
    activation("mish", lambda nn: nn.Mish(), lambda x: x * np.tanh(softplus(x)), "Mish()"),
    activation("softmax", lambda nn: nn.Softmax(dim=1), lambda x: np.exp(log_softmax(x, 1)), "Softmax(dim=1)"),
    activation("softmax, first axis", lambda nn: nn.Softmax(0), lambda x: np.exp(log_softmax(x, 0)), "Softmax(dim=0)"),
    activation("log softmax", lambda nn: nn.LogSoftmax(dim=-1), lambda x: log_softmax(x, -1), "LogSoftmax(dim=-1)"),
    activation("hardsigmoid", lambda nn: nn.Hardsigmoid(), lambda x: np.clip(x + 3, 0, 6) / 6, "Hardsigmoid()", domain=(-5, 5)),
    row("dropout of no channels", lambda nn: nn.Dropout2d(0.0), lambda state, x: x, (2, 3, 2, 2), text="Dropout2d(p=0.0)"),
    activation("dropout of nothing", lambda nn: nn.Dropout(0.0), lambda x: x, "Dropout(p=0.0)"),
)

CLASSES, ONES_IGNORED = np.array([2, 0, -100, 1, 2]), np.array([2, 0, 1, 1, 2])
PIXELS = np.array([[[0, 2], [1, -100]], [[2, 2], [-100, 1]]])
WEIGHT, FOUR = np.array([0.5, 1.0, 2.0]), np.array([0.5, 1.0, 2.0, 1.5])


def class_losses(x: Any, classes: Any = CLASSES, *, weight: Any = None, ignored: int = -100,
                 smoothing: float = 0.0) -> tuple[Any, Any]:
    """Single losses over the last axis of log-probabilities, and the weights of their targets."""
    weight = np.ones(x.shape[-1]) if weight is None else weight
    kept = classes != ignored
    t = np.where(kept, classes, 0)
    w = weight[t] * kept
    own = -x[np.arange(len(t)), t] * w
    spread = -(x * weight).sum(-1) * kept
    return (1 - smoothing) * own + smoothing / x.shape[-1] * spread, w


def mean_of_classes(x: Any, **more: Any) -> Any:
    losses, w = class_losses(x, **more)
    return losses.sum() / w.sum()


def pixel_loss(x: Any) -> Any:
    rows = np.moveaxis(log_softmax(x, 1), 1, -1).reshape(-1, 3)
    return mean_of_classes(rows, classes=PIXELS.reshape(-1))


def bce(x: Any, t: Any, weight: Any = 1.0, pos_weight: Any = 1.0) -> Any:
    return weight * ((1 - t) * x + (1 + (pos_weight - 1) * t) * softplus(-x))


def loss(name: str, make: Any, ref: Any, *inputs: tuple[int, ...], text: str, **more: Any) -> LayerCase:
    return row(name, make, lambda state, *xs: ref(*xs[:len(inputs)]), *inputs, text=text, **more)


def over_classes(name: str, make: Any, ref: Any, text: str, classes: Any = CLASSES, **more: Any) -> LayerCase:
    return loss(name, make, ref, (5, 3), text=text, targets=(classes,), **more)


SAME = (3, 4), (3, 4)
LOSSES = (
    loss("mse", lambda nn: nn.MSELoss(), lambda x, t: ((x - t) ** 2).mean(), *SAME, text="MSELoss(reduction='mean')"),
    loss("mse, sum", lambda nn: nn.MSELoss(reduction="sum"), lambda x, t: ((x - t) ** 2).sum(), *SAME,
         text="MSELoss(reduction='sum')"),
    loss("mse, none", lambda nn: nn.MSELoss(reduction="none"), lambda x, t: (x - t) ** 2, *SAME,
         text="MSELoss(reduction='none')"),
    loss("l1", lambda nn: nn.L1Loss(), lambda x, t: np.abs(x - t).mean(), *SAME, text="L1Loss(reduction='mean')"),
    loss("l1, sum", lambda nn: nn.L1Loss(reduction="sum"), lambda x, t: np.abs(x - t).sum(), *SAME,
         text="L1Loss(reduction='sum')"),
    loss("bce", lambda nn: nn.BCEWithLogitsLoss(), lambda x, t: bce(x, t).mean(), *SAME,
         text="BCEWithLogitsLoss(reduction='mean')"),
    loss("bce, none", lambda nn: nn.BCEWithLogitsLoss(reduction="none"), bce, *SAME,
         text="BCEWithLogitsLoss(reduction='none')"),
    loss("bce, weights", lambda nn, w, p: nn.BCEWithLogitsLoss(w, pos_weight=p),
         lambda x, t: bce(x, t, FOUR, FOUR + 1).mean(), *SAME, text="BCEWithLogitsLoss(reduction='mean')",
         state={"weight": (4,), "pos_weight": (4,)}, arrays=(FOUR, FOUR + 1)),
    over_classes("nll", lambda nn: nn.NLLLoss(), mean_of_classes, "NLLLoss(reduction='mean', ignore_index=-100)"),
    over_classes("nll, weights", lambda nn, w: nn.NLLLoss(w), lambda x: mean_of_classes(x, weight=WEIGHT),
                 "NLLLoss(reduction='mean', ignore_index=-100)", state={"weight": (3,)}, arrays=(WEIGHT,)),
    over_classes("cross entropy", lambda nn: nn.CrossEntropyLoss(), lambda x: mean_of_classes(log_softmax(x, -1)),
                 "CrossEntropyLoss(reduction='mean', ignore_index=-100, label_smoothing=0.0)"),
    over_classes("cross entropy, weights and smoothing", lambda nn, w: nn.CrossEntropyLoss(w, label_smoothing=0.2),
                 lambda x: mean_of_classes(log_softmax(x, -1), weight=WEIGHT, smoothing=0.2),
                 "CrossEntropyLoss(reduction='mean', ignore_index=-100, label_smoothing=0.2)", state={"weight": (3,)},
                 arrays=(WEIGHT,)),
    over_classes("cross entropy, sum", lambda nn: nn.CrossEntropyLoss(reduction="sum"),
                 lambda x: class_losses(log_softmax(x, -1))[0].sum(),
                 "CrossEntropyLoss(reduction='sum', ignore_index=-100, label_smoothing=0.0)"),
    over_classes("cross entropy, none", lambda nn: nn.CrossEntropyLoss(ignore_index=1, reduction="none", label_smoothing=0.1),
                 lambda x: class_losses(log_softmax(x, -1), ONES_IGNORED, ignored=1, smoothing=0.1)[0],
                 "CrossEntropyLoss(reduction='none', ignore_index=1, label_smoothing=0.1)", classes=ONES_IGNORED),
    loss("cross entropy of probabilities", lambda nn, w: nn.CrossEntropyLoss(w, label_smoothing=0.2),
         lambda x, q: -((0.8 * q + 0.2 / 3) * WEIGHT * log_softmax(x, -1)).sum(-1).mean(), (5, 3), (5, 3),
         text="CrossEntropyLoss(reduction='mean', ignore_index=-100, label_smoothing=0.2)", state={"weight": (3,)},
         arrays=(WEIGHT,)),
    loss("cross entropy of images", lambda nn: nn.CrossEntropyLoss(), pixel_loss, (2, 3, 2, 2),
         text="CrossEntropyLoss(reduction='mean', ignore_index=-100, label_smoothing=0.0)", targets=(PIXELS,)),
)

POOLS = (
    row("max pool 1d", lambda nn: nn.MaxPool1d(3, 2), lambda state, x: np_pool(x, 3, 2, 0, 1, False, 1, np_max), (2, 3, 9),
        text="MaxPool1d(kernel_size=3, stride=2, padding=0, dilation=1, ceil_mode=False)"),
    row("max pool 2d", lambda nn: nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
        lambda state, x: np_pool(x, 3, 2, 1, 1, True, 2, np_max), (2, 3, 8, 7),
        text="MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=True)"),
    row("max pool 3d, dilated", lambda nn: nn.MaxPool3d(2, 1, dilation=2),
        lambda state, x: np_pool(x, 2, 1, 0, 2, False, 3, np_max), (2, 1, 3, 4, 5),
        text="MaxPool3d(kernel_size=2, stride=1, padding=0, dilation=2, ceil_mode=False)"),
    row("mean pool 1d", lambda nn: nn.AvgPool1d(4, 3, 2, True), lambda state, x: np_pool(x, 4, 3, 2, 1, True, 1, np_mean), (2, 3, 9),
        text="AvgPool1d(kernel_size=4, stride=3, padding=2, ceil_mode=True, count_include_pad=True)"),
    row("mean pool 2d", lambda nn: nn.AvgPool2d(2), lambda state, x: np_pool(x, 2, 2, 0, 1, False, 2, np_mean), (2, 3, 8, 7),
        text="AvgPool2d(kernel_size=2, stride=2, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None)"),
    row("mean pool 2d of elements", lambda nn: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        lambda state, x: np_pool(x, 3, 2, 1, 1, False, 2, lambda e, room: e.mean(-1)), (3, 8, 7),
        text="AvgPool2d(kernel_size=3, stride=2, padding=1, ceil_mode=False, count_include_pad=False, divisor_override=None)"),
    row("mean pool 3d", lambda nn: nn.AvgPool3d(2, 1, divisor_override=5),
        lambda state, x: np_pool(x, 2, 1, 0, 1, False, 3, lambda e, room: e.sum(-1) / 5), (1, 2, 3, 4, 3),
        text="AvgPool3d(kernel_size=2, stride=1, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=5)"),
)

def conv(name: str, make: Any, x: tuple[int, ...], text: str, weight: tuple[int, ...], bias: int | None = None, **settings: Any) -> LayerCase:
    def ref(state: dict[str, Any], x: Any) -> Any:
        return np_conv(x, state["weight"], state.get("bias"), **settings)

    return row(name, make, ref, x, text=text, state={"weight": weight} if bias is None else {"weight": weight, "bias": (bias,)})


def conv_transpose(name: str, make: Any, x: tuple[int, ...], text: str, weight: tuple[int, ...], bias: int | None = None, **settings: Any) -> LayerCase:
    def ref(state: dict[str, Any], x: Any) -> Any:
        return np_conv_transpose(x, state["weight"], state.get("bias"), **settings)

    return row(name, make, ref, x, text=text, state={"weight": weight} if bias is None else {"weight": weight, "bias": (bias,)})


CONVOLUTIONS = (
    conv("conv 1d", lambda nn: nn.Conv1d(3, 4, 3, 2, 1), (2, 3, 9), "Conv1d(3, 4, kernel_size=(3,), stride=(2,), padding=(1,))",
         (4, 3, 3), 4, stride=2, low=1),
    conv("conv 2d", lambda nn: nn.Conv2d(3, 4, 3), (2, 3, 6, 5), "Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1))", (4, 3, 3, 3), 4),
    conv("conv 2d, strided and dilated", lambda nn: nn.Conv2d(4, 6, (3, 2), stride=3, padding=2, dilation=2, groups=2), (2, 4, 8, 7),
         "Conv2d(4, 6, kernel_size=(3, 2), stride=(3, 3), padding=(2, 2), dilation=(2, 2), groups=2)", (6, 2, 3, 2), 6,
         stride=3, low=2, dilation=2, groups=2),
    conv("conv 2d, depthwise", lambda nn: nn.Conv2d(4, 8, 3, padding="same", groups=4, bias=False), (2, 4, 5, 6),
         "Conv2d(4, 8, kernel_size=(3, 3), stride=(1, 1), padding=same, groups=4, bias=False)", (8, 1, 3, 3), low=1, groups=4),
    conv("conv 2d, even kernel, same sizes", lambda nn: nn.Conv2d(2, 3, 4, padding="same"), (1, 2, 5, 4),
         "Conv2d(2, 3, kernel_size=(4, 4), stride=(1, 1), padding=same)", (3, 2, 4, 4), 3, low=1, high=2),
    conv("conv 2d of pixels", lambda nn: nn.Conv2d(5, 3, 1, stride=2, padding="valid"), (2, 5, 4, 3),
         "Conv2d(5, 3, kernel_size=(1, 1), stride=(2, 2), padding=valid)", (3, 5, 1, 1), 3, stride=2),
    conv("conv 3d", lambda nn: nn.Conv3d(2, 3, 2, padding=1), (2, 2, 3, 2, 4),
         "Conv3d(2, 3, kernel_size=(2, 2, 2), stride=(1, 1, 1), padding=(1, 1, 1))", (3, 2, 2, 2, 2), 3, low=1),
    conv_transpose("conv transpose 1d", lambda nn: nn.ConvTranspose1d(3, 4, 3, 2, 1, 1), (2, 3, 5),
                   "ConvTranspose1d(3, 4, kernel_size=(3,), stride=(2,), padding=(1,), output_padding=(1,))", (3, 4, 3), 4,
                   stride=2, padding=1, extra=1),
    conv_transpose("conv transpose 2d", lambda nn: nn.ConvTranspose2d(3, 2, 2, stride=2), (2, 3, 3, 4),
                   "ConvTranspose2d(3, 2, kernel_size=(2, 2), stride=(2, 2))", (3, 2, 2, 2), 2, stride=2),
    conv_transpose("conv transpose 2d, dilated groups",
                   lambda nn: nn.ConvTranspose2d(4, 6, 3, 2, 2, 1, groups=2, bias=False, dilation=3), (2, 4, 4, 3),
                   "ConvTranspose2d(4, 6, kernel_size=(3, 3), stride=(2, 2), padding=(2, 2), output_padding=(1, 1), dilation=(3, 3), "
                   "groups=2, bias=False)", (4, 3, 3, 3), stride=2, padding=2, extra=1, dilation=3, groups=2),
    conv_transpose("conv transpose 3d", lambda nn: nn.ConvTranspose3d(2, 3, 2, 3), (1, 2, 2, 1, 3),
                   "ConvTranspose3d(2, 3, kernel_size=(2, 2, 2), stride=(3, 3, 3))", (2, 3, 2, 2, 2), 3, stride=3),
)


def by_batch(state: dict[str, Any], x: Any) -> Any:
    """Batch norm by the statistics of the batch."""
    axes, each = (0, *range(2, x.ndim)), (-1, *(1,) * (x.ndim - 2))
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    return y * state["weight"].reshape(each) + state["bias"].reshape(each) if state else y


# Layers that keep statistics are tested in test_batch_norm.py: here a call must not change what the next one gives.
NORMS = (
    row("layer norm", lambda nn: nn.LayerNorm(5), lambda state, x: np_layer_norm(x, 1, 1e-5, state["weight"], state["bias"]), (3, 4, 5),
        text="LayerNorm((5,), eps=1e-05, elementwise_affine=True)", state={"weight": (5,), "bias": (5,)}),
    row("layer norm of two axes", lambda nn: nn.LayerNorm((3, 5), eps=0.1, bias=False),
        lambda state, x: np_layer_norm(x, 2, 0.1, state["weight"]), (2, 3, 5),
        text="LayerNorm((3, 5), eps=0.1, elementwise_affine=True)", state={"weight": (3, 5)}),
    row("layer norm, plain", lambda nn: nn.LayerNorm([4], elementwise_affine=False), lambda state, x: np_layer_norm(x, 1, 1e-5), (4,),
        text="LayerNorm((4,), eps=1e-05, elementwise_affine=False)"),
    row("layer norm far from 0", lambda nn: nn.LayerNorm(6), lambda state, x: np_layer_norm(x, 1, 1e-5, state["weight"], state["bias"]),
        (2, 6), text="LayerNorm((6,), eps=1e-05, elementwise_affine=True)", state={"weight": (6,), "bias": (6,)}, domain=(98, 102)),
    row("batch norm of vectors", lambda nn: nn.BatchNorm1d(3, track_running_stats=False), by_batch, (5, 3),
        state={"weight": (3,), "bias": (3,)}, loose=4, why="a quotient of differences",
        text="BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, track_running_stats=False)"),
    row("batch norm 1d", lambda nn: nn.BatchNorm1d(3, affine=False, track_running_stats=False), by_batch, (4, 3, 7),
        loose=4, why="a quotient of differences",
        text="BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False)"),
    row("batch norm 2d", lambda nn: nn.BatchNorm2d(3, track_running_stats=False), by_batch, (2, 3, 24, 16),
        state={"weight": (3,), "bias": (3,)}, loose=4, why="a quotient of differences",
        text="BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, track_running_stats=False)"),
    row("batch norm 3d", lambda nn: nn.BatchNorm3d(2, track_running_stats=False), by_batch, (2, 2, 2, 3, 4),
        state={"weight": (2,), "bias": (2,)}, loose=4, why="a quotient of differences",
        text="BatchNorm3d(2, eps=1e-05, momentum=0.1, affine=True, track_running_stats=False)"),
)


def adaptive(x: Any, counts: tuple[int, ...], reduce: Any) -> Any:
    """Adaptive pooling, window by window."""
    sizes = x.shape[-len(counts):]
    y = np.empty((*x.shape[:-len(counts)], *counts))
    for p in np.ndindex(counts):
        window = tuple(slice(i * n // c, -(-(i + 1) * n // c)) for i, n, c in zip(p, sizes, counts))
        y[(..., *p)] = reduce(x[(..., *window)], tuple(range(-len(counts), 0)))
    return y


ADAPTIVE = (
    row("adaptive mean pool 1d", lambda nn: nn.AdaptiveAvgPool1d(4), lambda state, x: adaptive(x, (4,), np.mean), (2, 3, 9),
        text="AdaptiveAvgPool1d(output_size=4)"),
    row("adaptive mean pool 2d", lambda nn: nn.AdaptiveAvgPool2d(1), lambda state, x: adaptive(x, (1, 1), np.mean), (2, 3, 8, 7),
        text="AdaptiveAvgPool2d(output_size=1)"),
    row("adaptive mean pool 2d, one axis", lambda nn: nn.AdaptiveAvgPool2d((None, 3)), lambda state, x: adaptive(x, (4, 3), np.mean),
        (3, 4, 7), text="AdaptiveAvgPool2d(output_size=(None, 3))"),
    row("adaptive mean pool 3d", lambda nn: nn.AdaptiveAvgPool3d((2, 2, 5)), lambda state, x: adaptive(x, (2, 2, 5), np.mean),
        (1, 2, 3, 4, 3), text="AdaptiveAvgPool3d(output_size=(2, 2, 5))"),
    row("adaptive max pool 1d", lambda nn: nn.AdaptiveMaxPool1d(3), lambda state, x: adaptive(x, (3,), np.max), (3, 9),
        text="AdaptiveMaxPool1d(output_size=3)"),
    row("adaptive max pool 2d", lambda nn: nn.AdaptiveMaxPool2d((4, 2)), lambda state, x: adaptive(x, (4, 2), np.max), (2, 3, 8, 7),
        text="AdaptiveMaxPool2d(output_size=(4, 2))"),
    row("adaptive max pool 3d", lambda nn: nn.AdaptiveMaxPool3d(1), lambda state, x: adaptive(x, (1, 1, 1), np.max), (2, 2, 2, 4, 3),
        text="AdaptiveMaxPool3d(output_size=1)"),
)

TABLE = (*LAYERS, *NORMS, *ADAPTIVE, *ACTIVATIONS, *POOLS, *CONVOLUTIONS, *LOSSES)
