"""Task: a run against plain NumPy, and what it does with data of every kind."""

from __future__ import annotations

import time

import numpy as np
import pytest

import renaissance as rn
from renaissance import data, nn, optim
from renaissance.data.order import batches
from renaissance.engine import host_target
from renaissance.errors import ArgumentError, RangeError, ShapeError
from renaissance.ir.dtype import dtype as dtype_of
from renaissance.optim.clip import clip_grad_norm_
from renaissance.tensor import Tensor
from renaissance.trace import CompiledFunction
from renaissance.train.batch import TrainingBatches

from ..programs.plain import PlainAdamW, PlainMLP, cross_entropy
from .runs import augmented_digits, digest, digits, python, small_model, small_task, weights


def run_on(dataset, model, loss, lr=0.05, batch_size=8):
    optimizer = optim.SGD(model.parameters(), lr=lr)
    return rn.Task(model, dataset, loss=loss, optimizer=optimizer, epochs=2, batch_size=batch_size, show=False).run()


def weights_of(model):
    return [p.numpy().copy() for p in model.parameters()]


# ---- against plain NumPy ---------------------------------------------------------------------------------------------------


def features(count=50, held=23, seed=3):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((count + held, 12)).astype(np.float32), rng.integers(0, 7, count + held)
    return data.ArrayDataset(x[:count], y[:count], validation=(x[count:], y[count:]))


def plain_scores(model, part, loss_of, size):
    """Mean loss, top-1 and top-5 of a part, in batches."""
    scores = model.forward(part.x)
    losses = [loss_of(scores[i:i + size], part.y[i:i + size])[0] * len(part.y[i:i + size]) for i in range(0, len(part.y), size)]
    place = (scores > scores[np.arange(len(part.y)), part.y][:, None]).sum(1)
    return np.sum(losses) / len(part.y), (place < 1).mean(), (place < 5).mean()


def test_a_run_equals_a_plain_numpy_loop():
    dataset = features()
    rn.seed(4)
    model = rn.models.mlp([12, 16, 7])
    plain, updater = PlainMLP(weights_of(model)), PlainAdamW(0.01)
    updates = optim.AdamW(model.parameters(), lr=0.01)
    loss_of = nn.CrossEntropyLoss()
    result = rn.Task(model, dataset, loss=loss_of, optimizer=updates, epochs=3, batch_size=16, seed=9, show=False).run()
    for epoch, record in enumerate(result.history):
        total = 0.0
        for samples in batches(50, 16, seed=9, epoch=epoch):  # three batches of 16 and one of 2
            loss, d = cross_entropy(plain.forward(dataset.train.x[samples]), dataset.train.y[samples])
            updater.step(plain.p, plain.backward(d)[0])
            total += loss * len(samples)
        expected = total / 50, *plain_scores(plain, dataset.validation, cross_entropy, 16)
        np.testing.assert_allclose((record.train_loss, record.validation_loss, record.top1, record.top5), expected, rtol=2e-5)
    for ours, theirs in zip(weights_of(model), plain.p):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)
    best = max(result.history, key=lambda r: r.top1)
    assert (result.best_top1, result.best_top5, result.best_epoch) == (best.top1, best.top5, best.epoch)
    assert [r.epoch for r in result.history] == [1, 2, 3] and result.stopped == ""


def test_losses_are_weighted_by_samples():
    dataset = data.ArrayDataset(np.zeros((3, 2), np.float32), np.array([10.0, 10.0, 9.0], np.float32),
                                validation=(np.zeros((3, 2), np.float32), np.array([10.0, 10.0, 9.0], np.float32)))
    record = run_on(dataset, nn.Linear(2, 1), lambda out, y: rn.mean(y) + 0.0 * rn.sum(out), batch_size=2).history[0]
    assert record.train_loss == pytest.approx(29 / 3, rel=1e-6) and record.validation_loss == pytest.approx(29 / 3, rel=1e-6)


def test_ignored_targets_count_nowhere():
    x, y = np.eye(6, 4, dtype=np.float32), np.array([0, -100, 2, -100, 1, 3])
    dataset = data.ArrayDataset(x, y, validation=(x, y), num_classes=4, ignore_index=-100)
    model = nn.Linear(4, 4)
    record = run_on(dataset, model, nn.CrossEntropyLoss(), lr=0.0, batch_size=4).history[0]
    scores, kept = x.astype(np.float64) @ weights_of(model)[0].T + weights_of(model)[1], y >= 0
    assert record.validation_loss == pytest.approx(cross_entropy(scores[kept], y[kept])[0], rel=1e-5)
    assert record.train_loss == pytest.approx(record.validation_loss, rel=1e-6)
    assert record.top1 == pytest.approx((scores[kept].argmax(1) == y[kept]).mean()) and record.top5 == 1.0


# ---- the same bits in every way of running ---------------------------------------------------------------------------------


def by_hand(wrap, precision):
    """What small_task does, as a user's own loop."""
    model, dataset = small_model(), augmented_digits()
    optimizer = optim.AdamW(model.parameters(), lr=optim.Cosine(0.02, warmup_epochs=1).bind(6, 3))
    loss_of, prepare = nn.CrossEntropyLoss(label_smoothing=0.1), TrainingBatches(dataset, 5)

    @wrap
    def step(samples):
        x, y = prepare(samples)
        with rn.precision(precision):
            loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    rn.seed(5)
    for epoch in range(3):
        prepare.draws.epoch = epoch
        for samples in batches(88, 16, seed=5, epoch=epoch):
            step(rn.tensor(samples))
    return weights_of(model)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_loop_by_hand_gives_the_same_bits_compiled_and_not(precision):
    task = small_task(precision=precision)
    task.run()
    for wrap in (rn.compile, lambda f: f):
        for ours, theirs in zip(weights(task), by_hand(wrap, precision), strict=True):
            np.testing.assert_array_equal(ours, theirs)


RUN = """
import sys
import renaissance as rn
from tests.train.runs import augmented_digits, digest, small_task
rn.seed(1)
task = small_task(augmented_digits(count=170), rn.models.mlp([100, 384, 300, 10]), batch_size=64, epochs=2, precision=sys.argv[1])
task.run()
print(digest(task), task.result.history[-1].validation_loss.hex())
"""


def same_everywhere(precision, environments):
    running = [python(RUN, precision, **environment) for environment in environments]
    told = [process.communicate(timeout=200)[0] for process in running]
    assert len(set(told)) == 1 and len(told[0].split()) == 2, told


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_same_bits_for_every_number_of_threads(precision):
    same_everywhere(precision, [{"RENAISSANCE_THREADS": n} for n in "123"])


def test_the_same_bits_for_every_width_of_vectors():
    isas = ["sse", "avx2", "avx512"]
    same_everywhere("fp32", [{"RENAISSANCE_TARGET": isa} for isa in isas[:isas.index(host_target().isa) + 1]])


def test_another_seed_gives_another_run():
    runs = [small_task(seed=seed) for seed in (5, 6, 5)]
    for task in runs:
        task.run()
    first, second, third = (digest(task) for task in runs)
    assert first == third != second


# ---- data of every kind ----------------------------------------------------------------------------------------------------


def linear(inputs, outputs):
    rn.seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, outputs))


def test_regression_has_no_top1_and_its_best_epoch_has_the_lowest_loss():
    x = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    y = x @ np.array([[1.0], [2.0], [-1.0]], np.float32)
    result = run_on(data.ArrayDataset(x, y, validation=(x[:9], y[:9])), nn.Linear(3, 1), nn.MSELoss())
    assert [(r.top1, r.top5) for r in result.history] == [(None, None)] * 2 and result.best_top1 is None
    assert result.history[1].validation_loss < result.history[0].validation_loss and result.best_epoch == 2


def test_without_a_validation_part():
    result = run_on(digits(held=0), linear(100, 10), nn.CrossEntropyLoss())
    assert [(r.validation_loss, r.top1) for r in result.history] == [(None, None)] * 2
    assert result.best is None and result.best_epoch is None
    assert small_task(digits(held=0)).validate() is None


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "float64", "float16", "bfloat16", "bool"])
def test_user_arrays_without_normalize_are_used_by_value(dtype):
    values = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 9, (20, 4))
    x, y = values.astype(dtype_of(dtype).numpy), np.arange(20) % 3
    x.flags.writeable = False
    rn.seed(2)
    result = run_on(data.ArrayDataset(x, y, validation=(x, y)), nn.Linear(4, 3), nn.CrossEntropyLoss())
    rn.seed(2)
    same = values.astype(np.float32)
    expected = run_on(data.ArrayDataset(same, y, validation=(same, y)), nn.Linear(4, 3), nn.CrossEntropyLoss())
    if dtype in ("float16", "bfloat16"):  # the model's arithmetic then begins in that dtype
        assert result.history[1].train_loss == pytest.approx(expected.history[1].train_loss, rel=0.05)
    else:
        assert [r.train_loss for r in result.history] == [r.train_loss for r in expected.history]
        assert [r.validation_loss for r in result.history] == [r.validation_loss for r in expected.history]


@pytest.mark.parametrize("normalize", [(0.5, 2.0), ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 1.0, 0.5])], ids=["numbers", "by feature"])
def test_features_are_normalised_along_their_last_axis(normalize):
    x, y = np.random.default_rng(1).standard_normal((20, 4)), np.arange(20) % 3
    rn.seed(2)
    result = run_on(data.ArrayDataset(x, y, validation=(x, y), normalize=normalize), nn.Linear(4, 3), nn.CrossEntropyLoss())
    rn.seed(2)
    ready = (x.astype(np.float32) - np.float32(normalize[0])) / np.float32(normalize[1])
    expected = run_on(data.ArrayDataset(ready, y, validation=(ready, y)), nn.Linear(4, 3), nn.CrossEntropyLoss())
    assert result.history[1].validation_loss == pytest.approx(expected.history[1].validation_loss, rel=1e-6)
    with pytest.raises(ShapeError, match="one for each of .4,. features"):
        run_on(data.ArrayDataset(x, y, normalize=([1.0, 2.0], [1.0, 1.0])), nn.Linear(4, 3), nn.CrossEntropyLoss())


@pytest.mark.parametrize("channels", [(), (3,)], ids=["grey", "color"])
@pytest.mark.parametrize("normalize", [None, (0.5, 0.25)], ids=["as it is", "normalised"])
def test_both_parts_of_an_augmented_set_are_prepared_alike(channels, normalize):
    x, y = np.random.default_rng(1).integers(0, 256, (24, 6, 5, *channels), np.uint8), np.arange(24) % 4
    dataset = data.ArrayDataset(x, y, validation=(x, y), augment=[data.Pad(0)], normalize=normalize)
    record = run_on(dataset, linear(30 * max(1, sum(channels)), 4), nn.CrossEntropyLoss(), lr=0.0, batch_size=7).history[0]
    assert record.train_loss == pytest.approx(record.validation_loss, rel=1e-5)  # lr 0, and a chain that changes nothing


@pytest.mark.parametrize("size, batch", [(1, 4), (5, 8), (9, 4)], ids=["one sample", "less than a batch", "a last batch of one"])
def test_small_sets_and_short_batches(size, batch):
    x, y = np.random.default_rng(0).standard_normal((size, 3)).astype(np.float32), np.arange(size) % 2
    dataset, model = data.ArrayDataset(x, y, validation=(x, y), num_classes=2), linear(3, 2)
    task = small_task(dataset, model, optimizer=optim.Adam(model.parameters(), lr=0.01), epochs=2, batch_size=batch)
    assert len(task.run().history) == 2 and task.optimizer.steps == 2 * -(-size // batch)


def test_integer_targets_of_another_shape_have_no_top1():
    x, y = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32), np.arange(40).reshape(20, 2) % 5
    dataset = data.ArrayDataset(x, y, validation=(x, y))
    result = run_on(dataset, nn.Linear(3, 2), lambda out, t: nn.functional.mse_loss(out, t.float()))
    assert result.history[1].top1 is None and result.history[1].validation_loss > 0


# ---- how a run ends, and what it leaves alone ------------------------------------------------------------------------------


def test_a_run_stops_at_its_target():
    result = small_task(digits(normalize=(0.4, 0.25)), model=small_model(dropout=0.0), epochs=50, target_top1=0.5).run()
    assert result.stopped == "target" and len(result.history) < 50
    assert result.history[-1].top1 >= 0.5 and all(r.top1 < 0.5 for r in result.history[:-1])


def test_frozen_parts_and_modes_are_left_as_they_are():
    model = small_model()
    model[1].freeze()
    before = weights_of(model)
    small_task(model=model, optimizer=optim.SGD(model.parameters(), lr=0.1)).run()
    after = weights_of(model)
    np.testing.assert_array_equal(before[0], after[0])
    assert (before[2] != after[2]).any()
    assert model.training and model[3].training and not model[1].training


def test_validation_is_in_evaluation_mode_whatever_the_mode_of_the_model():
    task = small_task(model=small_model(dropout=0.9))
    scores = [task.validate(), task.validate()]
    task.model.eval()
    scores.append(task.validate())
    assert scores[0] == scores[1] == scores[2] and not task.model.training


def test_later_epochs_trace_nothing_and_steps_read_nothing(monkeypatch):
    task = small_task(epochs=5)
    events = []
    trace, numpy, step = CompiledFunction._trace, Tensor.numpy, task._display.step
    monkeypatch.setattr(CompiledFunction, "_trace", lambda self, *rest: events.append("trace") or trace(self, *rest))
    monkeypatch.setattr(Tensor, "numpy", lambda self: events.append("read") or numpy(self))
    monkeypatch.setattr(task._display, "step", lambda epoch, done: events.append((epoch, done)) or step(epoch, done))
    task.run()
    steps = [event for event in events if isinstance(event, tuple)]
    assert steps == [(epoch, done) for epoch in range(1, 6) for done in range(1, 7)]
    later = events[events.index((3, 1)):]
    assert "trace" not in later
    assert later.count("read") <= 2 * 3  # the totals of both parts, once an epoch
    within = events[events.index((3, 1)):events.index((3, 6))]
    assert within == [(3, done) for done in range(1, 6)]


def test_random_numbers_of_others_and_of_a_run_leave_each_other_alone():
    rn.seed(8)
    expected = rn.uniform(shape=4).numpy(), rn.uniform(shape=4).numpy()
    alone = small_task()
    alone.run()
    rn.seed(8)
    first = rn.uniform(shape=4).numpy()
    task = small_task(model=small_model())
    rn.seed(8)
    rn.uniform(shape=4)
    task.run()
    np.testing.assert_array_equal([first, rn.uniform(shape=4).numpy()], expected)
    assert digest(task) == digest(alone)


def test_the_loop_costs_next_to_nothing(monkeypatch):
    task = small_task(digits(count=8000, held=0), batch_size=16)
    monkeypatch.setattr(task, "train_step", lambda samples: None)
    monkeypatch.setattr(task, "_end_epoch", lambda record: None)

    def seconds(run):
        began = time.perf_counter()
        run()
        return time.perf_counter() - began

    loop = min(seconds(task._run_epoch) for _ in range(5))
    order = min(seconds(lambda: list(batches(8000, 16, seed=5, epoch=0))) for _ in range(5))
    assert (loop - order) / 500 < 50e-6  # 1 % of a step of the MNIST recipe


def test_a_second_run_has_nothing_left_to_do():
    task = small_task()
    task.run()
    before = digest(task)
    assert len(task.run().history) == 3 and digest(task) == before


def test_the_null_device_plans_and_runs_nothing(monkeypatch):
    def refuse(*_):
        raise AssertionError("kernels were compiled")

    monkeypatch.setattr("renaissance.runtime.link.link", refuse)
    task = small_task()
    before = weights(task)
    report = task.dry_run()
    assert report.items > 5 and report.total_bytes > 0 and report.predicted_s > 0
    assert all((a == b).all() for a, b in zip(before, weights(task)))


# ---- mistakes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes, words", [
    ({"epochs": 0}, "epochs must be a whole number, at least 1, got 0"),
    ({"batch_size": 2.5}, "batch_size must be a whole number, at least 1, got 2.5"),
    ({"seed": "x"}, "seed must be a whole number, got 'x'"),
    ({"precision": "fp8"}, "'fp8' is not supported; choose from 'fp32', 'bf16'"),
    ({"target_top1": 1.5}, "target_top1 is a share above 0, at most 1, got 1.5"),
    ({"clip_norm": 0}, "clip_norm must be positive, got 0"),
])
def test_settings_out_of_range(changes, words):
    with pytest.raises(ArgumentError) as caught:
        small_task(**changes)
    assert words in str(caught.value)


def test_an_optimizer_of_another_model_is_refused():
    with pytest.raises(ArgumentError, match="holds none of the model's parameters"):
        small_task(optimizer=optim.SGD(small_model().parameters(), lr=0.1))


def test_a_loss_that_is_no_number_is_refused():
    with pytest.raises(ShapeError, match=r"the loss must be one number for the batch, got shape \(16,\); use its mean"):
        small_task(loss=nn.CrossEntropyLoss(reduction="none")).run()


@pytest.mark.parametrize("samples", [[0, 88], [-89, 3]])
def test_a_sample_that_does_not_exist_is_refused_before_anything_changes(samples):
    task = small_task()
    before = digest(task)
    with pytest.raises(RangeError, match="batch: sample number must be from -88 to 87"):
        task.train_step(rn.tensor(samples))
    assert digest(task) == before


def test_a_label_the_model_does_not_know_is_refused_before_anything_changes():
    model = linear(100, 4)
    before = weights_of(model)
    with pytest.raises(RangeError):
        small_task(model=model, optimizer=optim.SGD(model.parameters(), lr=0.1)).run()
    assert all((a == b).all() for a, b in zip(before, weights_of(model)))
