"""Data sets of the user's own arrays: what is kept, what is refused, and how a validation part is held out."""

import ml_dtypes
import numpy as np
import pytest

from renaissance.data.dataset import ArrayDataset
from renaissance.errors import ArgumentError, DTypeError, RangeError, ShapeError
from renaissance.ir.dtype import ALL

X = np.arange(60, dtype=np.float32).reshape(10, 2, 3)
Y = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])


@pytest.mark.parametrize("dtype", ALL, ids=lambda dtype: dtype.name)
def test_every_dtype_of_x_is_kept(dtype):
    x = np.ones((4, 5)).astype(dtype.numpy)
    dataset = ArrayDataset(x, [0, 1, 2, 3])
    assert np.shares_memory(dataset.train.x, x) and dataset.train.x.dtype == x.dtype  # dense arrays are used where they lie
    assert dataset.train.y.dtype == np.int64 and dataset.num_classes == 4 and len(dataset) == 4


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int8", "int32", "int64"])
def test_integer_labels_become_int64(dtype):
    dataset = ArrayDataset(X, Y.astype(dtype), num_classes=5)
    assert dataset.train.y.dtype == np.int64 and np.array_equal(dataset.train.y, Y) and dataset.num_classes == 5


@pytest.mark.parametrize("dtype", [np.float64, np.float32, ml_dtypes.bfloat16, bool])
def test_targets_that_are_no_class_numbers_are_kept(dtype):
    y = np.ones((10, 3), dtype)
    dataset = ArrayDataset(X, y)
    assert np.shares_memory(dataset.train.y, y) and dataset.train.y.dtype == y.dtype and dataset.num_classes is None
    with pytest.raises(DTypeError, match="num_classes needs integer y"):
        ArrayDataset(X, y, num_classes=3)


def test_strides_and_byte_order_are_made_plain():
    dataset = ArrayDataset(X.astype(">f4")[::2].transpose(0, 2, 1), Y[::2].astype(">i2"))
    assert dataset.train.x.dtype.isnative and dataset.train.x.flags.c_contiguous
    assert np.array_equal(dataset.train.x, X[::2].transpose(0, 2, 1)) and np.array_equal(dataset.train.y, Y[::2])


def test_samples_are_reached_by_index():
    dataset = ArrayDataset(X, Y, validation=(X[:3], Y[:3]))
    x, y = dataset[4]
    assert np.array_equal(x, X[4]) and y == 1
    assert np.array_equal(dataset[2:4][0], X[2:4]) and np.array_equal(dataset[[5, 1]][1], Y[[5, 1]])
    assert len(dataset.validation) == 3 and np.array_equal(dataset.validation[1][0], X[1])
    assert repr(dataset) == "ArrayDataset(10 training and 3 validation samples, x (2, 3) float32, y () int64, 3 classes)"


@pytest.mark.parametrize(
    "arguments, keywords, error, words",
    [
        ((X, Y[:9]), {}, ShapeError, "equal lengths, got shapes (10, 2, 3) and (9,)"),
        ((3.0, Y), {}, ShapeError, "x must have a first axis"),
        (([[1, 2], [3]], [0, 1]), {}, ShapeError, "x cannot be made an array"),
        ((X[:0], Y[:0]), {}, ArgumentError, "at least one sample"),
        ((np.array(["a", "b"]), [0, 1]), {}, DTypeError, "x: dtype"),
        ((X.astype(complex), Y), {}, DTypeError, "complex128"),
        ((X, np.array([None] * 10)), {}, DTypeError, "y: dtype"),
        ((X, Y), {"num_classes": 2}, RangeError, "y must hold labels 0 ... 1, got 2 for sample 2; 3 of 10 labels"),
        ((X, Y - 1), {}, RangeError, "got -1 for sample 0"),
        ((X, Y - 100), {"ignore_index": -100}, RangeError, "or ignore_index -100, got -99 for sample 1"),
        ((X, np.full(10, 2**64 - 1, np.uint64)), {}, RangeError, "18446744073709551615"),
        ((X, Y), {"num_classes": 0}, ArgumentError, "at least 1, got 0"),
        ((X, Y), {"num_classes": 2.5}, ArgumentError, "whole number, got 2.5"),
        ((X, Y), {"validation": (X[:, :1], Y)}, ShapeError, "validation x must be (N, 2, 3) as in training, got (10, 1, 3)"),
        ((X, Y), {"validation": (X.astype(float), Y)}, DTypeError, "validation x must be float32 as in training, got float64"),
        ((X, Y), {"validation": (X, Y.astype(float))}, DTypeError, "validation y must be int64"),
        ((X, Y), {"validation": (X[:0], Y[:0])}, ArgumentError, "validation x must hold at least one sample"),
        ((X, Y), {"validation": (X, Y[1:])}, ShapeError, "validation x and validation y"),
        ((X, Y), {"validation": (X,)}, ArgumentError, "pair (x, y), got 1"),
        ((X, Y), {"validation": (X, Y + 1), "num_classes": 3}, RangeError, "validation y must hold labels 0 ... 2, got 3"),
    ],
)
def test_mistakes_are_named(arguments, keywords, error, words):
    with pytest.raises(error) as caught:
        ArrayDataset(*arguments, **keywords)
    assert words in str(caught.value)


def test_classes_are_counted_over_both_parts_and_without_ignored_labels():
    assert ArrayDataset(X, Y, validation=(X, Y + 4)).num_classes == 7
    masks = np.where(X > 50, 255, 1).astype(np.uint8)
    assert ArrayDataset(X, masks, ignore_index=255).num_classes == 2
    assert ArrayDataset(X, np.full(10, -100), ignore_index=-100).num_classes == 1


def test_values_that_are_not_finite_are_allowed_and_told():
    x = X.copy()
    x[3, 1, 2] = np.nan
    x[7] = np.inf
    with pytest.warns(UserWarning, match="x holds 7 NaN or infinite values .in 2 of 10 samples, the first is sample 3") as told:
        dataset = ArrayDataset(x, Y)
    assert told[0].filename == __file__
    assert np.array_equal(dataset.train.x, x, equal_nan=True)
    dataset.split(0.5)  # tells it no second time: warnings are errors here
    with pytest.warns(UserWarning, match="validation y holds 1 NaN"):
        ArrayDataset(X, Y * 1.0, validation=(X[:1], [np.nan]))


def test_values_that_are_not_finite_are_found_in_large_arrays():
    x = np.zeros((3000, 1000), np.float32)
    x[2900, 5] = -np.inf
    with pytest.warns(UserWarning, match="first is sample 2900"):
        ArrayDataset(x, np.zeros(3000, int))


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("validation, held", [(0.2, 20), (1, 1), (99, 99), (0.004, None), (np.int64(30), 30)])
def test_split_holds_out_each_sample_once(validation, held, stratified):
    x, y = np.arange(100), np.arange(100) % 7
    whole = ArrayDataset(x, y, num_classes=9, augment=["a transform"], normalize=(1, 2))
    if held is None:
        with pytest.raises(ArgumentError, match="at least one sample in both parts; got 0.004"):
            whole.split(validation, stratified=stratified)
        return
    parts = whole.split(validation, seed=5, stratified=stratified)
    assert len(parts.validation) == held and len(whole) == 100 and whole.validation is None
    assert sorted([*parts.train.x, *parts.validation.x]) == list(x)
    for part in (parts.train, parts.validation):
        assert np.array_equal(part.y, part.x % 7) and (np.diff(part.x) > 0).all()
    assert (parts.num_classes, parts.augment, parts.normalize) == (9, ("a transform",), (1, 2))


def test_split_depends_on_the_seed_alone():
    dataset = ArrayDataset(np.arange(100), np.zeros(100, int))
    held = [list(dataset.split(10, seed=seed).validation.x) for seed in (1, 1, 2)]
    assert held[0] == held[1] != held[2]


def test_a_stratified_split_gives_each_class_its_share():
    y = np.repeat([0, 1, 2], [700, 250, 50])
    parts = ArrayDataset(np.arange(1000), y).split(0.1, seed=3, stratified=True)
    assert np.abs(np.bincount(parts.validation.y) - [70, 25, 5]).max() <= 1


@pytest.mark.parametrize("validation", [0, 10, -1, 0.0, 1.0, float("nan"), "half"])
def test_split_refuses_parts_without_samples(validation):
    with pytest.raises(ArgumentError, match=f"got '?{validation}"):
        ArrayDataset(X, Y).split(validation)


def test_split_refuses_what_it_cannot_do():
    with pytest.raises(ArgumentError, match="already has a validation part"):
        ArrayDataset(X, Y, validation=(X, Y)).split(0.5)
    with pytest.raises(ArgumentError, match="stratified"):
        ArrayDataset(X, Y * 1.0).split(0.5, stratified=True)
