"""Models with state besides parameters: training steps change it, nothing else does, and checkpoints hold it."""

from __future__ import annotations

import numpy as np
import pytest

import renaissance as rn
from renaissance import nn
from renaissance.errors import CheckpointError, NonFiniteError
from renaissance.train.batch import validation_batches

from .runs import augmented_digits, digest, small_task


class Counter(nn.Module):
    """Adds to a buffer in training, reads it in evaluation."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", rn.zeros((1,)))

    def forward(self, x):
        if self.training:
            self.seen.copy_(self.seen + x.detach().mean())
            return x
        return x + 0.0 * self.seen


def normed(extra=None, seed=1):
    """Convolution and batch norm, dropout, an affine map."""
    rn.seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        extra or nn.Identity(), nn.Dropout(0.2), nn.Linear(200, 10))


def task(dataset=None, extra=None, **changes):
    return small_task(augmented_digits() if dataset is None else dataset, normed(extra), **changes)


def buffers(run):
    return {name: b.numpy().copy() for name, b in run.model.named_buffers()}


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def whole():
    """A run of three epochs of six steps that nothing disturbed."""
    run = task()
    run.run()
    return run


def test_every_training_step_counts_and_nothing_else(whole):
    held = buffers(whole)
    assert held["1.num_batches_tracked"] == 18 and (held["1.running_var"] != 1).all()
    whole.validate()
    assert same(buffers(whole), held)


@pytest.mark.parametrize("extra", [None, Counter], ids=["batch norm", "own"])
def test_plans_change_nothing(extra):
    run = task(extra=extra and extra())
    before, ticket = buffers(run), rn.random.default.ticket
    run.compile()
    run.dry_run()
    with rn.executor("null"):
        run.compile()
    assert same(buffers(run), before) and rn.random.default.ticket == ticket


def test_a_run_after_its_plan_is_the_same_run(whole):
    run = task()
    run.compile()
    run.run()
    assert digest(run) == digest(whole) and same(buffers(run), buffers(whole))


def test_validation_goes_by_running_statistics(whole):
    model = normed()
    model.load_state_dict(whole.model.state_dict())
    model.eval()
    part = whole.dataset.validation
    hits = [(model(x).numpy().argmax(1) == y.numpy()) for x, y in validation_batches(whole.dataset, part, 7)]
    assert whole.validate().top1 == pytest.approx(np.concatenate(hits).mean())
    assert model.training is False and whole.model.training


@pytest.mark.parametrize("position", [0, 48], ids=["after an epoch", "within an epoch"])
def test_a_resumed_run_ends_with_the_same_state(whole, tmp_path, position):
    cut = task(out=tmp_path)
    if position == 0:
        cut.epochs = 1
        cut.run()
        cut.epochs = 3
    else:
        step, count = cut.train_step, [0]

        def counted(samples):
            count[0] += 1
            step(samples)
            cut._interrupt.asked = count[0] == 3

        cut.train_step = counted
        assert cut.run().stopped == "interrupted"
    again = task(out=tmp_path)
    again.resume()
    assert again._position == position and same(buffers(again), buffers(cut))
    again.run()
    assert digest(again) == digest(whole) and same(buffers(again), buffers(whole))


def test_weights_alone_bring_their_statistics(whole, tmp_path):
    place = whole.save(tmp_path)
    fresh = task()
    fresh.load(place)
    assert same(buffers(fresh), buffers(whole)) and fresh.validate() == whole.validate()


def test_a_checkpoint_without_the_statistics_is_of_another_model(whole, tmp_path):
    place = whole.save(tmp_path)
    other = small_task(augmented_digits(), normed(Counter()))
    with pytest.raises(CheckpointError, match="5.seen is only in the model"):
        other.load(place)


def test_a_step_whose_loss_is_not_finite_leaves_the_statistics_as_they_were():
    images = augmented_digits(count=32)
    images.train.x[:] = 90
    run = task(images, batch_size=16, clip_norm=None, epochs=40, optimizer=None)
    run.optimizer.param_groups[0]["lr"] = 1e20
    states = []
    step = run.train_step

    def watched(samples):
        states.append(buffers(run))
        step(samples)

    run.train_step = watched
    with pytest.raises(NonFiniteError, match="Weights are those of the step before"):
        run.run()
    assert same(buffers(run), states[-1]) and states[-1]["1.num_batches_tracked"] == len(states) - 1
