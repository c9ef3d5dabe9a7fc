"""From sample numbers to a batch: the head of the step's plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from renaissance.data.dataset import Dataset, Samples
from renaissance.data.draws import SampleDraws
from renaissance.data.rows import rows
from renaissance.data.transforms import Normalize, Transform, augmented
from renaissance.errors import ShapeError
from renaissance.ir import dtype as dt
from renaissance.ops.elementwise import astype
from renaissance.ops.index import checked_index
from renaissance.tensor import Tensor, from_numpy, realize, tensor


def single(x: Any) -> Any:
    """Numbers as models take them: float64, NumPy's default, becomes float32."""
    return astype(x, dt.float32) if x.dtype is dt.float64 else x


def inputs(stored: Tensor, samples: Tensor, dataset: Dataset, augment: Sequence[Transform], draws: SampleDraws) -> Any:
    """The model's inputs for the samples with the given numbers.

    Samples of a data set with `augment`, and (N, H, W) or (N, H, W, C) of one with `normalize`, are images: they become
    (B, C, H, W) float32, uint8 counted as value / 255. Other samples keep their shape, become float32 by value unless they are
    float, and are normalised along their last axis.

    stored   the part's samples
    augment  transforms to apply: none for validation
    """
    normalize = dataset.normalize
    if dataset.augment or (normalize is not None and stored.ndim in (3, 4)):
        return augmented(stored, samples, augment, draws, None if normalize is None else Normalize(*normalize))
    x = single(rows(stored, samples))
    x = x if x.dtype.is_float else astype(x, dt.float32)
    if normalize is None:
        return x
    mean, std = (tensor(np.asarray(v, np.float32)) for v in normalize)
    if stored.ndim < 2 or any(v.shape not in ((), (1,), x.shape[-1:]) for v in (mean, std)):
        raise ShapeError(f"normalize: mean and std must be numbers, or one for each of {x.shape[-1:]} features, got shapes "
                         f"{mean.shape} and {std.shape}")
    return (x - mean) / std


class TrainingBatches:
    """The training part of a data set: gathered, augmented and normalised inside the step.

    dataset  an in-memory data set
    seed     of the augmentation
    """

    def __init__(self, dataset: Dataset, seed: int):
        self.draws = SampleDraws(seed)
        self._dataset = dataset
        self._stored, self._targets = from_numpy(dataset.train.x), from_numpy(dataset.train.y)

    def __call__(self, samples: Tensor) -> tuple[Any, Any]:
        """Inputs and targets of the samples with the given numbers.

        raises  RangeError at run time for a number outside the data set
        """
        samples = checked_index("batch", samples, self._stored.shape[0], "sample number")
        x = inputs(self._stored, samples, self._dataset, self._dataset.augment, self.draws)
        return x, single(rows(self._targets, samples))


def validation_batches(dataset: Dataset, part: Samples, batch_size: int) -> list[tuple[Tensor, Tensor]]:
    """Inputs and targets of a part in order, prepared once: each batch is memory of its own, ready to be read."""
    everything = from_numpy(np.arange(len(part)))
    x = inputs(from_numpy(part.x), everything, dataset, (), SampleDraws(0))
    y = single(from_numpy(part.y))
    realize(x, y)
    starts = range(0, len(part), batch_size)
    cut_x, cut_y = ([from_numpy(whole[start:start + batch_size]) for start in starts] for whole in (x.numpy(), y.numpy()))
    return list(zip(cut_x, cut_y))
