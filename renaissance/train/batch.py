"""From sample numbers to a batch: the head of the step's plan."""

from __future__ import annotations

from typing import Any

import numpy as np

from renaissance.data.dataset import Dataset, Samples
from renaissance.data.draws import SampleDraws
from renaissance.data.transforms import Normalize, augmented
from renaissance.ir import dtype as dt
from renaissance.ops.elementwise import astype
from renaissance.ops.index import arange_like, gather_inside
from renaissance.tensor import Tensor, from_numpy, realize


def rows(stored: Tensor, samples: Tensor) -> Any:
    """Whole samples by number, which the caller has made sure lie inside."""
    width = stored.size // max(1, stored.shape[0])
    shape = (samples.shape[0], width)
    column = arange_like(width, dt.int64, Tensor).reshape(1, width).broadcast_to(shape)
    at = (samples * width).reshape(shape[0], 1).broadcast_to(shape) + column
    return gather_inside(stored.reshape(stored.size), at).reshape(shape[0], *stored.shape[1:])


def as_input(x: Any) -> Any:
    """Samples as the model takes them: uint8 and other integers become float32."""
    return x if x.dtype.is_float else astype(x, dt.float32)


class TrainingBatches:
    """The training part of a data set: gathered, augmented and normalised inside the step.

    dataset  an in-memory data set
    seed     of the augmentation
    """

    def __init__(self, dataset: Dataset, seed: int):
        self.stored = from_numpy(dataset.train.x)
        self.targets = from_numpy(dataset.train.y)
        self.draws = SampleDraws(seed)
        self._chain = [*dataset.augment, *([Normalize(*dataset.normalize)] if dataset.normalize else [])]

    def __call__(self, samples: Tensor) -> tuple[Any, Any]:
        """Inputs and targets of the samples with the given numbers."""
        if not self._chain:
            x = as_input(rows(self.stored, samples))
        else:
            x = augmented(self.stored, samples, self._chain, self.draws)
        return x, rows(self.targets, samples)


class ValidationBatches:
    """The validation part of a data set, prepared once: each batch is a slice."""

    def __init__(self, dataset: Dataset, part: Samples):
        stored = from_numpy(part.x)
        if dataset.normalize:
            everything = from_numpy(np.arange(len(part)))
            x = augmented(stored, everything, [Normalize(*dataset.normalize)], SampleDraws(0))
        else:
            x = as_input(stored)
        self.inputs = x
        self.targets = from_numpy(part.y)
        realize(self.inputs, self.targets)
        self.size = len(part)

