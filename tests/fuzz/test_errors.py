"""Bad input: an error at the call that names op and argument, and says what was received and what is expected."""

from __future__ import annotations

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn, optim

F = nn.functional
E = rn.errors
ARRAY = np.ones((2, 3), np.float32)


def x():
    return rn.ones((2, 3))


def index():
    return rn.tensor([1, 2])


# What is done, the error, and what its message must hold.
TABLE = [
    # dtypes
    (lambda: x() + [1, 2, 3], E.DTypeError, "list [1, 2, 3] is neither a number nor a tensor"),
    (lambda: x() + ARRAY, E.DTypeError, "ndarray"),
    (lambda: ARRAY + x(), E.DTypeError, "ndarray"),
    (lambda: index() + 10**30, E.DTypeError, "does not fit int64"),
    (lambda: rn.tensor(np.array([1], np.uint8)) - 1 + -1, E.DTypeError, "-1 does not fit uint8 (0 to 255)"),
    (lambda: rn.tensor(np.array([1], np.int8)) * 300, E.DTypeError, "300 does not fit int8 (-128 to 127)"),
    (lambda: rn.tensor(np.ones(3, complex)), E.DTypeError, "complex128"),
    (lambda: rn.tensor("abc"), E.DTypeError, "is not supported"),
    (lambda: rn.tensor([1], dtype="float8"), E.DTypeError, "'float8'"),
    (lambda: index() @ index(), E.DTypeError, "matmul: takes floats, got int64 and int64"),
    (lambda: x() @ ARRAY.T, E.DTypeError, "matmul: takes two tensors, got Tensor and ndarray"),
    (lambda: nn.Linear(3, 2)(ARRAY), E.DTypeError, "linear: x must be a tensor, got ndarray"),
    (lambda: F.relu(ARRAY), E.DTypeError, "relu: takes a tensor, got ndarray"),
    (lambda: F.mse_loss(x(), 1.0), E.DTypeError, "mse_loss: target must be a tensor, got float"),
    (lambda: F.cross_entropy(x(), [0, 1]), E.DTypeError, "target must be integer classes, got list"),
    (lambda: rn.sum(ARRAY), E.DTypeError, "sum: x must be a tensor, got ndarray"),
    (lambda: rn.argmax([1, 2]), E.DTypeError, "argmax: x must be a tensor, got list"),
    (lambda: rn.concat([x(), 1.0]), E.DTypeError, "concat: input 1 must be a tensor, got float"),
    (lambda: rn.take(x(), [0, 1], axis=0), E.DTypeError, "take: indices must be a tensor, got list"),
    (lambda: rn.take(x(), x(), axis=0), E.DTypeError, "take: index must be integers, got float32"),
    (lambda: rn.where(True, x(), x()), E.DTypeError, "where: condition must be a tensor, got bool"),
    (lambda: rn.where(x(), x(), x()), E.DTypeError, "where: condition must be bool, got float32"),
    (lambda: rn.tensor(np.array([1], np.uint64)) + rn.tensor([1]), E.DTypeError, "uint64 and int64 have no common dtype"),
    (lambda: rn.tensor([1, 2], requires_grad=True), E.DTypeError, "only floats have gradients"),
    (lambda: rn.Parameter(index()), E.DTypeError, "must be float, got int64"),
    # shapes
    (lambda: x() + rn.ones((4,)), E.ShapeError, "add: shapes (2, 3) and (4,)"),
    (lambda: rn.tensor([[1, 2], [3]]), E.ShapeError, "ragged"),
    (lambda: x() @ rn.ones((2, 2)), E.ShapeError, "matmul"),
    (lambda: F.linear(x(), rn.ones((2, 4))), E.ShapeError, "linear: x must be (..., K) = (..., 4), got (2, 3)"),
    (lambda: F.cross_entropy(x(), rn.tensor([0, 1, 2])), E.ShapeError, "target must have shape (2,)"),
    (lambda: x().reshape(4, 2), E.ShapeError, "reshape: cannot make (4, 2) (8 elements) of (2, 3) (6 elements)"),
    (lambda: rn.stack([]), E.ArgumentError, "stack: needs at least one tensor"),
    (lambda: rn.stack([x(), rn.ones((3,))]), E.ShapeError, "stack: shapes must agree: input 0 has (2, 3), input 1 has (3,)"),
    (lambda: rn.pad(x(), (1, 1)), E.ShapeError, "pad: widths must be 2 pairs"),
    (lambda: rn.pad(x(), [(1, -1), (0, 0)]), E.ShapeError, "non-negative"),
    (lambda: rn.full((-1,), 1.0), E.ShapeError, "full: a shape is an int or a tuple of ints"),
    (lambda: rn.full((2.5,), 1.0), E.ShapeError, "got (2.5,)"),
    (lambda: rn.zeros((2, "a")), E.ShapeError, "got (2, 'a')"),
    (lambda: rn.uniform(0, 1, (-1,)), E.ShapeError, "uniform: a shape"),
    (lambda: x().item(), E.ShapeError, "exactly one element, got shape (2, 3)"),
    (lambda: bool(x()), E.ShapeError, "ambiguous"),
    (lambda: len(rn.tensor(1.0)), E.ShapeError, "0-d"),
    (lambda: rn.ones((3,)).copy_(x()), E.ShapeError, "(2, 3) does not broadcast to (3,)"),
    (lambda: (rn.tensor([1.0, 2.0], requires_grad=True) * 2).backward(np.ones(3)), E.ShapeError, "gradient must have shape (2,), got (3,)"),
    # other arguments
    (lambda: x().sum(5), E.ArgumentError, "sum: axis must be an int from -2 to 1, got 5"),
    (lambda: x().sum(1.0), E.ArgumentError, "got 1.0"),
    (lambda: x().sum((0, 0)), E.ArgumentError, "twice"),
    (lambda: rn.permute_dims(x(), (0, 0)), E.ArgumentError, "each of the 2 axes once"),
    (lambda: rn.permute_dims(x(), 0), E.ArgumentError, "each of the 2 axes once"),
    (lambda: x().reshape("a"), E.ArgumentError, "reshape: shape must be ints, got 'a'"),
    (lambda: x()[1.0], E.ArgumentError, "indexing takes ints"),
    (lambda: x()[0.5:], E.ArgumentError, "indexing"),
    (lambda: x()[::0], E.ArgumentError, "slice step cannot be zero"),
    (lambda: x()[index()], E.ArgumentError, "use take for tensors"),
    (lambda: x().max(0) if rn.zeros((0, 3)).max(0) else None, E.ArgumentError, "there is no largest"),
    (lambda: rn.clip(x(), 2, 1), E.ArgumentError, "min 2 is above max 1"),
    (lambda: F.one_hot(index(), -1), E.ArgumentError, "num_classes"),
    (lambda: F.dropout(x(), 1.5), E.ArgumentError, "from 0 to 1, got 1.5"),
    (lambda: F.cross_entropy(x(), rn.tensor([0, 1]), reduction="avg"), E.ArgumentError, "'avg'"),
    (lambda: nn.Linear("a", 3), E.ArgumentError, "Linear: sizes must be ints, got 'a' and 3"),
    (lambda: optim.SGD([rn.Parameter(x())], lr="a"), E.ArgumentError, "lr must be a number, got 'a'"),
    (lambda: optim.SGD([x()]), E.ArgumentError, "takes Parameters"),
    (lambda: rn.seed(1.5), E.ArgumentError, "seed must be an int, got 1.5"),
    (lambda: rn.executor("gpu").__enter__(), E.ArgumentError, "'gpu'"),
    (lambda: rn.from_numpy(ARRAY.T), E.ArgumentError, "C-contiguous"),
    # indices and labels: found when the program runs, or at once where the index is a number
    (lambda: x()[5], E.RangeError, "5 is out of range for axis 0 of size 2"),
    (lambda: rn.take(x(), rn.tensor([5]), axis=1).numpy(), E.RangeError, "take: index must be from -3 to 2"),
    (lambda: rn.take_along_axis(x(), rn.tensor([[0], [-4]]), 1).numpy(), E.RangeError, "from -3 to 2"),
    (lambda: F.cross_entropy(x(), rn.tensor([0, 7])).item(), E.RangeError, "target must be a class from 0 to 2"),
    (lambda: F.nll_loss(x(), rn.tensor([0, -1])).item(), E.RangeError, "target must be a class from 0 to 2"),
    (lambda: rn.scatter_rows(x(), rn.tensor([0, 9]), x()).numpy(), E.RangeError, "scatter_rows: index must be from -2 to 1"),
    (lambda: rn.scatter_rows(x(), rn.tensor([0, 1]), x().astype(rn.float64)), E.DTypeError, "value must have the dtype of init"),
    # gradients
    (lambda: x().sum().backward(), E.GradientError, "asks for a gradient"),
    (lambda: (rn.tensor([1.0, 2.0], requires_grad=True) * 2).backward(), E.ShapeError, "gradient must be given"),
    (lambda: rn.grad(lambda v: v.sum())(index()), E.GradientError, "float tensor, got int64"),
    (lambda: rn.grad(lambda v: v)(x()), E.ShapeError, "must return one number"),
    # memory
    (lambda: rn.zeros((10**7, 10**7)), E.DeviceError, "MiB of memory needed"),
    (lambda: (rn.ones((10**6, 1)) * rn.ones((1, 10**6))).numpy(), E.DeviceError, "MiB of memory needed"),
    # what cannot be in a compiled function
    (lambda: rn.compile(lambda v: v.sum().item())(x()), E.TraceError, "item() inside a compiled function at "),
    (lambda: rn.compile(lambda v: v if v.sum() > 0 else -v)(x()), E.TraceError, "using a tensor as a condition inside a compiled function at "),
    (lambda: rn.compile(lambda v: np.exp(v))(x()), E.TraceError, "numpy() inside a compiled function at "),
    (lambda: rn.compile(lambda v: v.realize())(x()), E.TraceError, "inside a compiled function at "),
    (lambda: rn.compile(lambda v, s: v)(x(), {1}), E.TraceError, "an argument of type set"),
    (lambda: rn.compile(3), E.TraceError, "takes a function, got int"),
]


@pytest.mark.parametrize(("use", "error", "message"), TABLE, ids=[message for *_, message in TABLE])
def test_bad_input(use, error, message):
    with pytest.raises(error) as caught:
        use()
    assert message in str(caught.value)


def test_the_line_of_what_cannot_be_compiled_is_named():
    def reads(v):
        total = v.sum()
        return float(total)

    with pytest.raises(E.TraceError, match=rf"{__file__}:{reads.__code__.co_firstlineno + 2}"):
        rn.compile(reads)(x())


def test_a_failed_draw_takes_no_ticket():
    rn.seed(3)
    expected = rn.uniform(0, 1, (4,)).numpy().copy()
    rn.seed(3)
    with pytest.raises(E.ShapeError):
        rn.uniform(0, 1, (-1,))
    np.testing.assert_array_equal(rn.uniform(0, 1, (4,)).numpy(), expected)


def test_numbers_of_numpy_beside_tensors_keep_the_gradient():
    v = rn.tensor([1.0, 2.0], requires_grad=True)
    for product in (np.float32(3) * v, v * np.float32(3), np.float32(3) / (3 / v / v * v)):
        assert isinstance(product, rn.Tensor)
        v.grad = None
        product.sum().backward()
        assert v.grad.shape == (2,)


def test_one_number_is_formatted_like_a_number():
    assert f"{rn.tensor(1.5):.3f} {rn.tensor([2]):d} {rn.tensor([1, 2])}" == f"1.500 2 {rn.tensor([1, 2])!r}"


def test_sizes_and_axes_may_be_numbers_of_numpy():
    size = np.int64(3)
    assert rn.ones((2, 3)).reshape(size, 2).shape == (3, 2)
    assert rn.zeros(size).shape == rn.uniform(0, 1, (size,)).shape == (3,)
    assert rn.ones((2, 3)).sum(np.int32(1)).shape == (2,)
    assert rn.ones((2, 3))[np.int64(1)].shape == (3,)
