"""In-memory data sets: arrays of samples and targets, a training and a validation part, checked when they are made."""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from renaissance.data.order import permutation
from renaissance.errors import ArgumentError, DTypeError, RangeError, ShapeError
from renaissance.ir.dtype import dtype as lookup_dtype

_BLOCK_ELEMENTS = 1 << 20


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples x (N, ...) and their targets y (N, ...), dense and in native byte order; `samples[i]` is the pair of sample i."""

    x: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Any) -> tuple[np.ndarray, np.ndarray]:
        return self.x[index], self.y[index]


class Dataset(Protocol):
    """What a Task asks of an in-memory data set.

    train, validation   Samples; validation None if there is no such part
    num_classes         int if the targets are class numbers 0 ... num_classes - 1, else None
    augment             transforms applied to training samples, in order
    normalize           (mean, std) of a sample's values, uint8 pixels counted as value / 255; None: samples are used as they are
    raises              nothing
    source              definition
    """

    train: Samples
    validation: Samples | None
    num_classes: int | None
    augment: tuple[Any, ...]
    normalize: tuple[Any, Any] | None


class ArrayDataset:
    """A data set of the user's own arrays.

    x, y          (N, ...) arrays or lists. Dense arrays are used where they lie, not copied: do not write to them afterwards.
                  Integer y are class numbers and become int64; bool and float y are kept as they are.
    validation    (x, y) of the validation part; None: there is none, see `split`
    num_classes   number of classes; None: the largest label + 1 if y holds integers
    ignore_index  a label that stands for "no target", allowed besides 0 ... num_classes - 1
    augment       transforms applied to training samples, in order
    normalize     (mean, std), as in `Dataset`
    raises        ShapeError for lengths or sample shapes that differ; DTypeError for a dtype no tensor can hold, or num_classes
                  with y that are not integers; RangeError for a label outside the classes; ArgumentError for no samples
    source        definition

    NaN and infinite values are allowed, as a model may expect them, but a warning says how many there are and where the first is.
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        *,
        validation: tuple[Any, Any] | None = None,
        num_classes: int | None = None,
        ignore_index: int | None = None,
        augment: Sequence[Any] = (),
        normalize: tuple[Any, Any] | None = None,
    ) -> None:
        if validation is not None and len(validation) != 2:
            raise ArgumentError(f"ArrayDataset: validation must be a pair (x, y), got {len(validation)} items")
        self.train = _samples("", x, y)
        self.validation = None if validation is None else _samples("validation ", *validation)
        if self.validation is not None:
            _check_alike(self.train, self.validation)
        self.num_classes = _check_labels(self.train, self.validation, num_classes, ignore_index)
        self.ignore_index = ignore_index
        self.augment = tuple(augment)
        self.normalize = normalize

    def __len__(self) -> int:
        """The number of training samples."""
        return len(self.train)

    def __getitem__(self, index: Any) -> tuple[np.ndarray, np.ndarray]:
        """The pair (x, y) of one training sample, or of several by a slice or an index array."""
        return self.train[index]

    def __repr__(self) -> str:
        x, y = self.train.x, self.train.y
        held = 0 if self.validation is None else len(self.validation)
        classes = "" if self.num_classes is None else f", {self.num_classes} classes"
        counts = f"{len(self):,} training and {held:,} validation samples"
        return f"{type(self).__name__}({counts}, x {x.shape[1:]} {x.dtype}, y {y.shape[1:]} {y.dtype}{classes})"

    def split(self, validation: float | int, *, seed: int = 0, stratified: bool = False) -> ArrayDataset:
        """Hold out part of the training samples for validation: a random choice that depends on seed and labels alone.

        validation   a fraction of the samples (0 < validation < 1) or their number (1 ... N - 1)
        stratified   hold out the same share of every class (to within one sample), instead of any samples
        returns      a new data set, alike but for its parts; both keep the order the samples had, and are copies
        raises       ArgumentError for a part without samples, for a second validation part, or for stratified without classes
        source       definition
        """
        if self.validation is not None:
            raise ArgumentError("split: this data set already has a validation part; make it without one first")
        held = _held_out(len(self), validation)
        order = permutation(len(self), seed=seed, epoch=0)
        if stratified:
            if self.num_classes is None or self.train.y.ndim != 1:
                raise ArgumentError("split: stratified needs one integer class number per sample")
            # Sorted by class, in random order within it: every (N / held)-th sample then gives each class its share.
            order = order[np.argsort(self.train.y[order], kind="stable")]
            chosen = order[np.arange(held) * len(self) // held]
        else:
            chosen = order[:held]
        mask = np.zeros(len(self), bool)
        mask[chosen] = True
        parted = copy.copy(self)
        parted.train, parted.validation = Samples(*self[~mask]), Samples(*self[mask])
        return parted


def _samples(part: str, x: Any, y: Any) -> Samples:
    x, y = _dense(f"{part}x", x), _dense(f"{part}y", y)
    if len(x) != len(y):
        raise ShapeError(f"ArrayDataset: {part}x and {part}y must have equal lengths, got shapes {x.shape} and {y.shape}")
    if len(x) == 0:
        remedy = "; pass validation=None for no validation part" if part else ""
        raise ArgumentError(f"ArrayDataset: {part}x must hold at least one sample, got shape {x.shape}{remedy}")
    if y.dtype.kind in "iu":
        if y.dtype == np.uint64 and y.max() > np.iinfo(np.int64).max:
            raise RangeError(f"ArrayDataset: {part}y holds the label {y.max()}, which int64 cannot hold")
        y = y.astype(np.int64, copy=False)
    for name, array in ((f"{part}x", x), (f"{part}y", y)):
        _warn_if_not_finite(name, array)
    return Samples(x, y)


def _dense(name: str, value: Any) -> np.ndarray:
    """The array in C order and native byte order; no copy if it is already so."""
    try:
        array = np.asarray(value)
    except ValueError as fault:
        raise ShapeError(f"ArrayDataset: {name} cannot be made an array: {fault}") from None
    if array.ndim == 0:
        raise ShapeError(f"ArrayDataset: {name} must have a first axis that counts samples, got a single {array.dtype} value")
    native = array.dtype.newbyteorder("=")
    try:
        lookup_dtype(native)
    except DTypeError as fault:
        raise DTypeError(f"ArrayDataset: {name}: {fault}") from None
    return np.ascontiguousarray(array, dtype=native)


def _warn_if_not_finite(name: str, array: np.ndarray) -> None:
    if not lookup_dtype(array.dtype).is_float:
        return
    rows = array.reshape(len(array), -1)
    step = max(1, _BLOCK_ELEMENTS // max(rows.shape[1], 1))
    count, samples, first = 0, 0, None
    for start in range(0, len(rows), step):
        bad = ~np.isfinite(rows[start : start + step])
        if bad.any():
            which = bad.any(axis=1)
            count += int(bad.sum())
            samples += int(which.sum())
            first = start + int(which.argmax()) if first is None else first
    if count:
        where = f"in {samples:,} of {len(rows):,} samples, the first is sample {first}"
        warnings.warn(f"ArrayDataset: {name} holds {count:,} NaN or infinite values ({where})", stacklevel=4)


def _check_alike(train: Samples, validation: Samples) -> None:
    for name in ("x", "y"):
        ours, theirs = getattr(train, name), getattr(validation, name)
        if ours.shape[1:] != theirs.shape[1:]:
            expected = "(N" + "".join(f", {extent}" for extent in ours.shape[1:]) + ")"
            raise ShapeError(f"ArrayDataset: validation {name} must be {expected} as in training, got {theirs.shape}")
        if ours.dtype != theirs.dtype:
            raise DTypeError(f"ArrayDataset: validation {name} must be {ours.dtype} as in training, got {theirs.dtype}")


def _check_labels(train: Samples, validation: Samples | None, num_classes: int | None, ignore_index: int | None) -> int | None:
    """The number of classes, given or counted over both parts, once every label is known to lie below it."""
    if num_classes is not None:
        num_classes = _whole("ArrayDataset: num_classes", num_classes)
        if num_classes < 1:
            raise ArgumentError(f"ArrayDataset: num_classes must be at least 1, got {num_classes}")
    if train.y.dtype != np.int64:
        if num_classes is not None:
            raise DTypeError(f"ArrayDataset: num_classes needs integer y, got {train.y.dtype}; cast y, or leave num_classes out")
        return None
    parts = [("y", train.y)] + ([] if validation is None else [("validation y", validation.y)])
    if num_classes is None:
        num_classes = 1 + max(int(y.max(initial=0, where=_is_target(y, ignore_index))) for _, y in parts)
    for name, y in parts:
        wrong = _is_target(y, ignore_index) & ((y < 0) | (y >= num_classes))
        if wrong.any():
            where = tuple(np.argwhere(wrong)[0])
            besides = "" if ignore_index is None else f" or ignore_index {ignore_index}"
            raise RangeError(
                f"ArrayDataset: {name} must hold labels 0 ... {num_classes - 1}{besides}, got {y[where]} for sample {where[0]}; "
                f"{int(wrong.sum()):,} of {y.size:,} labels are out of range"
            )
    return num_classes


def _is_target(y: np.ndarray, ignore_index: int | None) -> np.ndarray:
    return np.ones(y.shape, bool) if ignore_index is None else y != ignore_index


def _held_out(total: int, validation: float | int) -> int:
    """The number of samples a fraction or a count stands for."""
    if isinstance(validation, float):
        held = round(total * validation) if 0 < validation < 1 else 0
    else:
        held = _whole("split: validation", validation)
    if not 1 <= held < total:
        expected = f"a fraction of {total} samples or a number, with at least one sample in both parts"
        raise ArgumentError(f"split: validation must be {expected}; got {validation}")
    return held


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentError(f"{name} must be a whole number, got {value!r}") from None
