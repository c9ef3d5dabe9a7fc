"""Module: attributes, the tree, modes, saved state."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn, optim
from renaissance.errors import ArgumentError, CheckpointError, ShapeError

EITHER = pytest.mark.parametrize("compiled", [False, True])


class Block(nn.Module):
    """A module with one of everything."""

    def __init__(self, width=3):
        super().__init__()
        self.width = width
        self.scale = nn.Parameter(rn.ones(width))
        self.first = nn.Linear(width, width)
        self.register_buffer("count", rn.zeros(()))
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return self.second(self.drop(self.first(x * self.scale)))


def names(module, **how):
    return [n for n, _ in module.named_parameters(**how)]


# ---- attributes ------------------------------------------------------------------------------------------------------------


def test_names_come_in_the_order_of_setting_parents_first():
    m = nn.Sequential(Block(), nn.Linear(3, 1))
    assert names(m) == ["0.scale", "0.first.weight", "0.first.bias", "0.second.weight", "1.weight", "1.bias"]
    assert [n for n, _ in m.named_buffers()] == ["0.count"]
    assert [n for n, _ in m.named_modules()] == ["", "0", "0.first", "0.drop", "0.second", "1"]
    assert [n for n, _ in m.named_children()] == ["0", "1"]
    assert list(m.state_dict()) == ["0.scale", "0.count", *names(m)[1:]]  # module by module, as in PyTorch
    assert names(m[0], prefix="block", recurse=False) == ["block.scale"]
    assert len(list(m.parameters(recurse=False))) == 0 and len(list(m.buffers())) == 1


def test_a_replaced_parameter_keeps_its_place():
    m = nn.Linear(2, 2)
    m.weight = nn.Parameter(rn.zeros((2, 2)))
    assert names(m) == ["weight", "bias"]
    m.bias = None
    assert names(m) == ["weight"] and m.bias is None and repr(m).endswith("bias=False)")
    m.bias = nn.Parameter(rn.ones(2))
    assert names(m) == ["weight", "bias"]
    np.testing.assert_array_equal(m(rn.ones((1, 2))).numpy(), [[1, 1]])


def test_an_attribute_changes_its_kind():
    m = Block()
    m.first = nn.Parameter(rn.ones(2))
    assert names(m) == ["scale", "first", "second.weight"]
    m.width = nn.Linear(1, 1)
    assert [n for n, _ in m.named_children()] == ["drop", "second", "width"]
    del m.width, m.first
    assert not hasattr(m, "width") and names(m) == ["scale", "second.weight"]
    m.note = "text"
    del m.note
    with pytest.raises(AttributeError, match="Block has no attribute 'note'"):
        _ = m.note


def test_mistakes_with_attributes():
    m = Block()
    for name, value, message in (("scale", 3.0, "must be a Parameter or None"), ("first", 3.0, "must be a Module or None"),
                                 ("count", 3.0, "must be a Tensor or None"),
                                 ("scale", rn.ones(3), "must be a Parameter or None")):
        with pytest.raises(ArgumentError, match=f"Block.{name} {message}"):
            setattr(m, name, value)
    with pytest.raises(ArgumentError, match=r"call super\(\).__init__\(\) before"):
        type("Bad", (nn.Module,), {"__init__": lambda self: setattr(self, "x", 1)})()
    with pytest.raises(ArgumentError, match="cannot contain itself"):
        m.first.above = m
    with pytest.raises(ArgumentError, match="cannot contain itself"):
        m.me = m
    with pytest.raises(ArgumentError, match="hold a dot"):
        setattr(m, "a.b", nn.Linear(1, 1))
    with pytest.raises(ArgumentError, match="has an attribute 'width' already"):
        m.register_buffer("width", rn.ones(2))
    with pytest.raises(ArgumentError, match="must be a Tensor or None"):
        m.register_buffer("other", np.ones(2))
    with pytest.raises(ArgumentError, match="must be a Parameter or None"):
        m.register_parameter("other", rn.ones(2))
    with pytest.raises(ArgumentError, match="does not define forward"):
        nn.Module()(1)
    with pytest.raises(AttributeError) as caught:
        _ = m.secnod
    assert caught.value.name == "secnod" and caught.value.obj is m and {"second", "scale", "count"} <= set(dir(m))


def test_buffers():
    m = Block()
    m.count = m.count + 1.0
    assert m.state_dict()["count"].item() == 1.0 and [n for n, _ in m.named_buffers()] == ["count"]
    m.register_buffer("later", None)
    assert "later" not in m.state_dict() and m.later is None
    m.later = rn.ones(2)
    assert list(m.state_dict())[:3] == ["scale", "count", "later"]
    assert all(not b.requires_grad for b in m.buffers())


# ---- shared parts ----------------------------------------------------------------------------------------------------------


def test_shared_parameters_and_modules_count_once_and_are_saved_under_each_name():
    inner = nn.Linear(2, 2)
    tied = nn.Linear(2, 2, bias=False)
    tied.weight = inner.weight
    m = nn.Sequential(inner, inner, tied)
    assert names(m) == ["0.weight", "0.bias"]
    assert names(m, remove_duplicate=False) == ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight"]
    assert list(m.state_dict()) == names(m, remove_duplicate=False)
    assert [n for n, _ in m.named_modules()] == ["", "0", "2"]
    assert [n for n, _ in m.named_modules(remove_duplicate=False)] == ["", "0", "1", "2"]
    assert len(m) == 3
    x = rn.ones((1, 2))
    np.testing.assert_array_equal(m(x).numpy(), tied(inner(inner(x))).numpy())
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert other[0] is other[1] and other[2].weight is other[0].weight and other[0] is not m[0]
    m.load_state_dict({n: rn.full(t.shape, 2.0) for n, t in m.state_dict().items()})
    assert m[2].weight is m[0].weight and (m[2].weight.numpy() == 2).all()


# ---- modes -----------------------------------------------------------------------------------------------------------------


def test_train_and_eval_reach_everything_below():
    m = nn.Sequential(Block(), nn.Dropout(0.5))
    assert all(x.training for x in m.modules())
    assert m.eval() is m and not any(x.training for x in m.modules())
    x = rn.ones((4, 3))
    np.testing.assert_array_equal(m(x).numpy(), m(x).numpy())
    assert m.train() is m and all(x.training for x in m.modules())
    assert not np.array_equal(m[1](x).numpy(), m[1](x).numpy())
    m[0].eval()
    assert not m[0].drop.training and m[1].training


@EITHER
def test_a_frozen_part_stands_still_when_the_whole_model_trains(compiled):
    rn.seed(0)
    m = nn.Sequential(Block(), nn.Linear(3, 2))
    assert m[0].freeze() is m[0]
    m.train()
    assert not m[0].training and not m[0].drop.training and m[1].training
    o = optim.AdamW(m.parameters(), lr=0.1, weight_decay=0.5)
    before = {n: t.numpy().copy() for n, t in m.state_dict().items()}

    def step(x):
        loss = m(x).sum()
        o.zero_grad()
        loss.backward()
        o.step()

    run = rn.compile(step) if compiled else step
    run(rn.ones((2, 3)))
    after = m.state_dict()
    assert {n for n in before if not np.array_equal(before[n], after[n].numpy())} == {"1.weight", "1.bias"}
    m[0].freeze(False)
    assert all(p.requires_grad for p in m.parameters()) and not m[0].training
    m.train()
    assert m[0].drop.training
    run(rn.ones((2, 3)))
    assert not np.array_equal(before["0.first.weight"], m[0].first.weight.numpy())


def test_apply_visits_children_first():
    m, seen = nn.Sequential(Block(), nn.Linear(3, 1)), []
    assert m.apply(lambda x: seen.append(type(x).__name__)) is m
    assert seen == ["Linear", "Dropout", "Linear", "Block", "Linear", "Sequential"]


def test_zero_grad_and_requires_grad():
    m = nn.Linear(2, 1)
    m(rn.ones((1, 2))).sum().backward()
    assert m.weight.grad is not None
    m.zero_grad(set_to_none=False)
    assert (m.weight.grad.numpy() == 0).all()
    m.zero_grad()
    assert m.weight.grad is None
    assert m.requires_grad_(False) is m and not m(rn.ones((1, 2))).requires_grad
    assert m.requires_grad_() is m and m(rn.ones((1, 2))).requires_grad


def test_sequential():
    a, b, c = nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)
    m = nn.Sequential(a, b, c)
    assert m[0] is a and m[-1] is c and list(m) == [a, b, c] and len(m) == 3
    part = m[1:]
    assert isinstance(part, nn.Sequential) and names(part) == ["2.weight", "2.bias"]
    named = nn.Sequential({"in": a, "out": c})
    assert names(named) == ["in.weight", "in.bias", "out.weight", "out.bias"]
    x = rn.ones((1, 2))
    np.testing.assert_array_equal(nn.Sequential()(x).numpy(), x.numpy())
    np.testing.assert_array_equal(named(x).numpy(), c(a(x)).numpy())
    with pytest.raises(ArgumentError, match="Sequential: 1 must be a Module, got function"):
        nn.Sequential(a, lambda x: x)


# ---- saved state -------------------------------------------------------------------------------------------------------------


def test_a_state_is_a_copy_and_loading_copies():
    m = nn.Linear(2, 2)
    state = m.state_dict()
    before = state["weight"].numpy().copy()
    m.weight.copy_(rn.zeros((2, 2)))
    np.testing.assert_array_equal(state["weight"].numpy(), before)
    m.load_state_dict(state)
    np.testing.assert_array_equal(m.weight.numpy(), before)
    m.weight.copy_(rn.zeros((2, 2)))
    np.testing.assert_array_equal(state["weight"].numpy(), before)
    assert not state["weight"].requires_grad and m.weight.requires_grad


@pytest.mark.parametrize(("change", "message"), [
    (lambda s: s.pop("0.bias"), "missing: 0.bias"),
    (lambda s: s.update({"0.wieght": s.pop("0.weight")}), r"missing: 0.weight; unexpected: 0.wieght \(nearest known: 0.weight\)"),
    (lambda s: s.update({"zzz": rn.ones(1)}), "unexpected: zzz; use strict=False"),
    (lambda s: s.update({"1.weight": rn.ones((3, 3))}), r"1.weight has shape \(3, 3\), the model's has \(1, 4\)"),
    (lambda s: s.update({f"layer{i:02}.zzz": rn.ones(1) for i in range(20)}), "layer07.zzz and 12 more; use"),
])
def test_a_state_that_does_not_fit_changes_nothing(change, message):
    m = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1))
    before = {n: t.numpy().copy() for n, t in m.state_dict().items()}
    state = {n: rn.zeros(t.shape) for n, t in m.state_dict().items()}
    change(state)
    with pytest.raises(CheckpointError, match=message):
        m.load_state_dict(state)
    for n, t in m.state_dict().items():
        np.testing.assert_array_equal(t.numpy(), before[n])


def test_loading_what_fits():
    m = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1))
    kept = m[1].weight.numpy().copy()
    found = m.load_state_dict({"0.weight": np.ones((4, 2)), "0.bias": rn.ones(4, "float64"), "head": np.ones(3)}, strict=False)
    assert found.missing_keys == ["1.weight", "1.bias"] and found.unexpected_keys == ["head"]
    np.testing.assert_array_equal(m[0].weight.numpy(), 1.0)
    assert m[0].weight.dtype is m[0].bias.dtype is rn.float32
    np.testing.assert_array_equal(m[1].weight.numpy(), kept)


# ---- tensors and parameters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int8", "uint16", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_copied_and_unpickled_tensors(dtype, shape):
    t = rn.tensor(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2, dtype=dtype)
    promised = t if t.dtype.is_float is False else t * 1.0
    for other in (copy.copy(promised), copy.deepcopy(promised), pickle.loads(pickle.dumps(promised))):
        assert type(other) is rn.Tensor and other is not promised and other.dtype is t.dtype and other.shape == t.shape
        np.testing.assert_array_equal(other.numpy(), t.numpy())


def test_copied_and_unpickled_parameters():
    p, frozen = nn.Parameter(rn.ones((2, 3))), nn.Parameter(rn.ones(2), requires_grad=False)
    optim.SGD([p, frozen], lr=0.1)  # they are parts of one run now
    for other in (copy.deepcopy((p, frozen, p)), pickle.loads(pickle.dumps((p, frozen, p)))):
        assert other[0] is other[2] and isinstance(other[0], nn.Parameter)
        assert other[0].requires_grad and not other[1].requires_grad
        other[0].copy_(rn.zeros((2, 3)))
        np.testing.assert_array_equal(p.numpy(), 1.0)
        np.testing.assert_array_equal(other[0].numpy(), 0.0)
    wanted = rn.tensor([1.0], requires_grad=True)
    assert pickle.loads(pickle.dumps(wanted)).requires_grad
    assert repr(p).startswith("Parameter containing:\nTensor([[1., 1., 1.],")


def test_parameters_are_floats():
    with pytest.raises(rn.errors.DTypeError, match="elements must be float, got int64"):
        nn.Parameter(rn.tensor([1, 2]))


# ---- mistakes in layers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("made", "message"), [
    (lambda: nn.Linear(-1, 2), "sizes must not be negative, got -1 and 2"),
    (lambda: nn.Dropout(1.5), "p must be from 0 to 1, got 1.5"),
    (lambda: nn.MSELoss("avg"), "MSELoss: reduction must be 'mean', 'sum' or 'none', got 'avg'"),
    (lambda: nn.CrossEntropyLoss(label_smoothing=1.1), "label_smoothing must be from 0 to 1"),
    (lambda: nn.Flatten(2, 1)(rn.ones((1, 2, 3))), "start_dim 2 comes after end_dim 1"),
    (lambda: nn.GELU("erf")(rn.ones(1)), "approximate must be 'none' or 'tanh'"),
    (lambda: nn.Softmax(3)(rn.ones((2, 2))), "softmax: axis must be an int from -2 to 1, got 3"),
    (lambda: nn.Hardtanh(2.0, 1.0)(rn.ones(1)), "min_val 2.0 is above max_val 1.0"),
    (lambda: nn.Softplus(0.0)(rn.ones(1)), "beta must be positive"),
])
def test_settings_out_of_range(made, message):
    with pytest.raises(ArgumentError, match=message):
        made()


@pytest.mark.parametrize(("made", "message"), [
    (lambda: nn.Linear(3, 2)(rn.ones((4, 5))), r"x must be \(..., K\) = \(..., 3\), got \(4, 5\)"),
    (lambda: nn.MSELoss()(rn.ones((3, 1)), rn.ones((3,))), r"one shape, got \(3, 1\) and \(3,\)"),
    (lambda: nn.CrossEntropyLoss()(rn.ones((3, 2)), rn.tensor([0, 1])), r"shape \(3,\) for input \(3, 2\), got \(2,\)"),
    (lambda: nn.CrossEntropyLoss(np.ones(3))(rn.ones((1, 2)), rn.tensor([0])), r"weight must be \(C,\) = \(2,\), got \(3,\)"),
    (lambda: nn.BCEWithLogitsLoss()(rn.ones(3), rn.ones((3, 1))), "one shape"),
])
def test_shapes_that_do_not_fit(made, message):
    with pytest.raises(ShapeError, match=message):
        made()


def test_the_functional_softmax_takes_the_names_of_either_library():
    x = rn.tensor([[1.0, 2.0], [3.0, 5.0]])
    for f in (nn.functional.softmax, nn.functional.log_softmax):
        np.testing.assert_array_equal(f(x, dim=0).numpy(), f(x, axis=0).numpy())
        np.testing.assert_array_equal(f(input=x, dim=1).numpy(), f(x).numpy())
