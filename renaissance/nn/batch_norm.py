"""Batch norm: the function that keeps running statistics, and its layers."""

from __future__ import annotations

from typing import Any, ClassVar

from renaissance.errors import ArgumentError, ShapeError
from renaissance.nn.module import Module
from renaissance.ops.batch_norm import batch_norm_by, batch_norm_in_training, check_batch_norm, moved_towards
from renaissance.parameter import Parameter
from renaissance.tensor import accompany, ones, tensor, tracing, zeros

_SHAPES = {1: "(N, C) or (N, C, L)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}


def batch_norm(x: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False,
               momentum: Any = 0.1, eps: float = 1e-5) -> Any:
    """Bring every channel to mean 0 and variance 1 over the batch and all places, or in evaluation by running statistics.

    y = (x - mean_c) / sqrt(var_c + eps) weight_c + bias_c
    in training:  running = (1 - momentum) running + momentum of the batch, whose variance is over the count - 1 there

    x                          (N, C, ...) float; an empty one leaves the statistics as they are
    running_mean, running_var  (C,), which training changes; None: not kept
    weight, bias               (C,) or None: 1 and 0
    training                   whether the batch's own statistics count
    momentum                   weight of the new statistics, a number or a tensor
    eps                        keeps the root away from 0
    returns                    shape and dtype of x; computed in float32 or wider
    raises                     ArgumentError for one value per channel in training, or no statistics in evaluation; ShapeError;
                               DTypeError for integers
    source                     Ioffe, Szegedy 2015, arXiv:1502.03167; PyTorch, batch_norm
    """
    check_batch_norm(x, running_mean, running_var, weight, bias)
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentError("batch_norm: evaluation needs running_mean and running_var; without them pass training=True")
        return batch_norm_by(x, running_mean.detach(), running_var.detach(), weight, bias, eps)
    if x.size == 0:
        return batch_norm_by(x, zeros((x.shape[1],)), ones((x.shape[1],)), weight, bias, eps)
    y, mean, var = batch_norm_in_training(x, weight, bias, eps)
    for running, new in ((running_mean, mean), (running_var, var)):
        if running is not None:
            _set(running, moved_towards(running.detach(), new.detach(), momentum))
    return y


def _set(state: Any, value: Any) -> None:
    """Give a statistic its new value; outside of a compiled function a promise, kept with whatever is looked at next."""
    state.refill(value.node)
    if tracing.recorder is None:
        accompany(state)


class _BatchNorm(Module):
    """The layer for x of some numbers of axes, of these shapes."""

    axes: ClassVar[tuple[int, ...]]
    shapes: ClassVar[str]

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True):
        super().__init__()
        if not isinstance(num_features, int) or num_features < 0:
            raise ArgumentError(f"{type(self).__name__}: num_features must be an int, not negative, got {num_features!r}")
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        shape = (num_features,)
        self.register_parameter("weight", Parameter(ones(shape)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(shape)) if affine else None)
        self.register_buffer("running_mean", zeros(shape) if track_running_stats else None)
        self.register_buffer("running_var", ones(shape) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", tensor(0, "int64") if track_running_stats else None)

    def forward(self, x: Any) -> Any:
        if x.ndim not in self.axes:
            raise ShapeError(f"{type(self).__name__}: takes {self.shapes}, got shape {x.shape}")
        tracked = self.num_batches_tracked if self.training and x.size else None
        counted = None if tracked is None else tracked + 1
        momentum: Any = self.momentum
        if momentum is None and counted is not None:
            momentum = 1.0 / counted.astype("float32")
        y = batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
                       self.training or self.running_mean is None, momentum, self.eps)
        if tracked is not None and counted is not None:  # last: an error above must leave all statistics as they were
            _set(tracked, counted)
        return y

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"track_running_stats={self.track_running_stats}")


def _doc(dims: int) -> str:
    return f"""Batch norm of {_SHAPES[dims]}; see nn.functional.batch_norm.

    y = (x - mean_c) / sqrt(var_c + eps) weight_c + bias_c

    num_features         C
    eps                  keeps the root away from 0
    momentum             weight of a batch in the running statistics; None: all batches weigh the same
    affine               whether there are a weight and a bias, at first 1 and 0
    track_running_stats  whether running statistics are kept, for evaluation; without them the batch's own count there too
    x        {_SHAPES[dims]} float;  returns the same shape
    raises   ShapeError at the call for another shape, and what batch_norm raises
    source   Ioffe, Szegedy 2015, arXiv:1502.03167; PyTorch, BatchNorm{dims}d
    """


class BatchNorm1d(_BatchNorm):
    axes, shapes = (2, 3), _SHAPES[1]


class BatchNorm2d(_BatchNorm):
    axes, shapes = (4,), _SHAPES[2]


class BatchNorm3d(_BatchNorm):
    axes, shapes = (5,), _SHAPES[3]


for _dims, _layer in ((1, BatchNorm1d), (2, BatchNorm2d), (3, BatchNorm3d)):
    _layer.__doc__ = _doc(_dims)
