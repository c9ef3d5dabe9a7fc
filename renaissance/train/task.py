"""Task: a training run. Data, step, validation, checkpoints and display, each usable by itself as well."""

from __future__ import annotations

import dataclasses
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from renaissance import random
from renaissance.config import settings
from renaissance.data.dataset import Dataset
from renaissance.data.order import batch_count, batches
from renaissance.errors import ArgumentError, CheckpointError, NonFiniteError
from renaissance.nn.module import Module
from renaissance.ops.contraction import precision as precision_of
from renaissance.ops.elementwise import isfinite
from renaissance.ops.index import check
from renaissance.ops.value import no_grad
from renaissance.optim.clip import clip_grad_norm_
from renaissance.optim.optimizer import Optimizer
from renaissance.runtime.null import Report
from renaissance.tensor import Tensor, from_numpy
from renaissance.trace import compile
from renaissance.train import checkpoint
from renaissance.train.batch import TrainingBatches, ValidationBatches
from renaissance.train.display import Display, EpochRecord
from renaissance.train.metrics import Totals
from renaissance.train.plan_text import layer_rows, plan_report, plan_text

_KEEP = 3


@dataclass
class Result:
    """What a run achieved; shares are from 0 to 1.

    history       a record for each epoch
    best_top1     highest validation top-1; best_top5 and best_epoch belong to it
    stopped       '' after all epochs, else 'target', 'interrupted' or 'not finite'
    checkpoint    the last one written
    """

    history: list[EpochRecord] = field(default_factory=list)
    best_top1: float | None = None
    best_top5: float | None = None
    best_epoch: int | None = None
    stopped: str = ""
    checkpoint: Path | None = None


class Task:
    """A training run of a model on an in-memory data set.

    model        a Module
    dataset      data.MNIST(...), data.ArrayDataset(...) or anything with their attributes
    loss         called with the model's output and the targets; returns one number
    optimizer    over the model's parameters
    epochs       how often every training sample is seen
    batch_size   samples in a step; the last one of an epoch may be shorter
    precision    'fp32' or 'bf16'
    seed         of order, augmentation and dropout
    clip_norm    largest common norm of the gradients; None: no limit
    target_top1  stop once validation reaches this share; None: never
    out          folder for checkpoints, one after each epoch; None: none are written
    show         print the epoch table and the progress bar
    raises       ArgumentError for values out of range
    source       definition
    """

    def __init__(self, model: Module, dataset: Dataset, *, loss: Any, optimizer: Optimizer, epochs: int, batch_size: int,
                 precision: str = "fp32", seed: int = 0, clip_norm: float | None = None, target_top1: float | None = None,
                 out: str | Path | None = None, show: bool = True):
        if epochs < 1 or batch_size < 1:
            raise ArgumentError(f"Task: epochs and batch_size must be at least 1, got {epochs} and {batch_size}")
        if target_top1 is not None and not 0 < target_top1 <= 1:
            raise ArgumentError(f"Task: target_top1 is a share from 0 to 1, got {target_top1}")
        with precision_of(precision):
            pass
        self.model, self.dataset, self.loss, self.optimizer = model, dataset, loss, optimizer
        self.epochs, self.batch_size, self.precision, self.seed = epochs, min(batch_size, len(dataset.train)), precision, seed
        self.clip_norm, self.target_top1 = clip_norm, target_top1
        self.out = None if out is None else Path(out)
        self.result = Result()
        self._display = Display(show)
        self._steps = batch_count(len(dataset.train), self.batch_size)
        optimizer.bind(self._steps, epochs)
        self._batches = TrainingBatches(dataset, seed)
        self._validation: ValidationBatches | None = None
        self._totals, self._seen = Totals(), Totals()
        self._epoch, self._position = 0, 0
        self._stop = False
        self.train_step = compile(self._train_step)
        self.validation_step = compile(self._validation_step)
        random.seed(seed)

    # ---- the two steps -------------------------------------------------------------------------------------------------

    def _train_step(self, samples: Tensor) -> None:
        x, y = self._batches(samples)
        with precision_of(self.precision):
            loss = self.loss(self.model(x), y)
        loss = check(loss, isfinite(loss), "NonFiniteError: the loss is not finite")
        self.optimizer.zero_grad()
        loss.backward()
        if self.clip_norm is not None:
            clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimizer.step()
        self._totals.add_loss(loss, samples.shape[0])

    def _validation_step(self, x: Tensor, y: Tensor) -> None:
        with no_grad(), precision_of(self.precision):
            scores = self.model(x)
            loss = self.loss(scores, y)
        self._seen.add_loss(loss, x.shape[0])
        if self.dataset.num_classes is not None:
            self._seen.add_hits(scores, y)

    # ---- planning ------------------------------------------------------------------------------------------------------

    def compile(self) -> str:
        """Plan the training step and print the plan: layers, kernels, memory, predicted time.

        returns  the text
        raises   what tracing the model raises
        source   definition
        """
        samples = from_numpy(np.arange(self.batch_size))
        self.model.train()
        self._batches.draws.epoch = self._epoch
        with no_grad(), precision_of(self.precision):
            layers = layer_rows(self.model, lambda: self.model(self._batches(samples)[0]))
        title = f"{type(self.model).__name__}, batch {self.batch_size}, {self.precision}, {settings().threads} threads"
        text = plan_text(title, layers, self.train_step.plan(samples))
        self._display.say(text)
        return text

    def dry_run(self) -> Report:
        """Plan the training step without running anything.

        returns  kernels, bytes, flops, peak memory and predicted seconds of a step
        raises   what tracing the model raises
        source   definition
        """
        self.model.train()
        return plan_report(self.train_step.plan(from_numpy(np.arange(self.batch_size))))

    # ---- running -----------------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Train until the last epoch, the target, Ctrl-C, or a loss that is not finite.

        returns  the Result
        raises   NonFiniteError when the loss is not finite; the last good checkpoint is kept and named
        source   definition
        """
        kind = type(self.model).__name__
        count = sum(p.size for p in self.model.parameters())
        self._display.start(self.epochs, self._steps, f"{kind}, {count:,} parameters, {self.precision}; {len(self.dataset.train):,} samples, "
                                                      f"{self._steps:,} steps of {self.batch_size} an epoch")
        try:
            with self._listening():
                while self._epoch < self.epochs and not self.result.stopped:
                    self._run_epoch()
        finally:
            self._display.stop()
        return self.result

    def _run_epoch(self) -> None:
        began = time.perf_counter()
        lr = self.optimizer.lr(self.optimizer.param_groups[0])
        if self._position == 0:
            self._totals.reset()
        self._batches.draws.epoch = self._epoch
        self.model.train()
        for samples in batches(len(self.dataset.train), self.batch_size, seed=self.seed, epoch=self._epoch, start=self._position):
            try:
                self.train_step(from_numpy(samples))
            except NonFiniteError as e:
                raise self._explained(e) from e
            self._position += len(samples)
            self._display.step(self._epoch + 1, self._position // self.batch_size)
            if self._stop:
                self._interrupted()
                return
        seen = self.validate()
        self._epoch, self._position = self._epoch + 1, 0
        record = EpochRecord(self._epoch, self._totals.loss, seen.loss if seen else None, seen.top1 if seen and self._classes else None,
                             seen.top5 if seen and self._classes else None, lr, time.perf_counter() - began)
        self._note(record)

    @property
    def _classes(self) -> bool:
        return self.dataset.num_classes is not None

    def _note(self, record: EpochRecord) -> None:
        result = self.result
        result.history.append(record)
        best = record.top1 is not None and (result.best_top1 is None or record.top1 > result.best_top1)
        if best:
            result.best_top1, result.best_top5, result.best_epoch = record.top1, record.top5, record.epoch
        self._display.epoch(record, best)
        if self.target_top1 is not None and record.top1 is not None and record.top1 >= self.target_top1:
            result.stopped = "target"
            self._display.say(f"target reached: top-1 {100 * record.top1:.2f} %")
        if self.out is not None:
            self.save()

    def validate(self) -> Totals | None:
        """Run the validation part through the model.

        returns  its totals: loss, top1, top5; None without a validation part
        raises   nothing of its own
        source   definition
        """
        if self.dataset.validation is None:
            return None
        if self._validation is None:
            self._validation = ValidationBatches(self.dataset, self.dataset.validation)
        held = self._validation
        self._seen.reset()
        self.model.eval()
        for start in range(0, held.size, self.batch_size):
            part = slice(start, start + self.batch_size)
            self.validation_step(held.inputs[part], held.targets[part])
        return self._seen

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Inside, Ctrl-C lets the present step end instead of tearing it apart."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._stop = False

        def on_interrupt(number: int, frame: Any) -> None:
            if self._stop:
                raise KeyboardInterrupt
            self._stop = True

        before = signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupted(self) -> None:
        self.result.stopped = "interrupted"
        where = "nothing was saved (give out=...)" if self.out is None else f"saved in {self.save()}"
        self._display.say(f"interrupted in epoch {self._epoch + 1} after {self._position:,} samples; {where}")

    def _explained(self, error: NonFiniteError) -> NonFiniteError:
        self.result.stopped = "not finite"
        kept = f"the last good checkpoint is {self.result.checkpoint}" if self.result.checkpoint else "no checkpoint was written"
        return NonFiniteError(f"{error}: epoch {self._epoch + 1}, step {self._position // self.batch_size + 1} of {self._steps}, before its update; "
                              f"weights are those of the step before; {kept}. Try a lower learning rate, clip_norm, or fp32")

    # ---- saving --------------------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path | None = None) -> Path:
        """Write a checkpoint from which `resume` goes on bit for bit.

        folder   default: out
        returns  the checkpoint's folder
        raises   CheckpointError when it cannot be written; older ones stay
        source   definition
        """
        place = Path(folder) if folder is not None else self.out
        if place is None:
            raise ArgumentError("save: give a folder, here or as out=... of the Task")
        optimizer = self.optimizer.state_dict()
        tensors = {"model": {n: t.numpy() for n, t in self.model.state_dict().items()}, "optimizer": {}, "totals": {}}
        for i, group in enumerate(optimizer["groups"]):
            tensors["optimizer"].update({f"{i}.{n}": a for n, a in group["state"].items()})
        tensors["totals"] = {"loss_sum": self._totals.loss_sum.numpy(), "samples": self._totals.samples.numpy()}
        state = {"version": 1, "epoch": self._epoch, "position": self._position, "seed": self.seed, "batch_size": self.batch_size,
                 "precision": self.precision, "generator": [random.default.seed, random.default.ticket], "steps": optimizer["steps"],
                 "groups": [{k: v for k, v in g.items() if k != "state"} for g in optimizer["groups"]],
                 "history": [dataclasses.asdict(r) for r in self.result.history]}
        name = f"{self._epoch:05d}-{self._position:09d}"
        self.result.checkpoint = checkpoint.save(place, name, tensors, state)
        checkpoint.keep_last(place, _KEEP)
        return self.result.checkpoint

    def resume(self, folder: str | Path | None = None) -> Path:
        """Take up the newest whole checkpoint: what follows is bit-equal to a run that never stopped.

        folder   where checkpoints lie; default: out
        returns  the checkpoint's folder
        raises   CheckpointError when there is none, or it belongs to another model, optimizer, seed, batch size or precision
        source   definition
        """
        place = Path(folder) if folder is not None else self.out
        if place is None:
            raise ArgumentError("resume: give a folder, here or as out=... of the Task")
        path, tensors, state, faults = checkpoint.newest(place)
        for fault in faults:
            self._display.say(f"passed over: {fault}")
        for name in ("seed", "batch_size", "precision"):
            if state[name] != getattr(self, name):
                raise CheckpointError(f"{path}: was made with {name} {state[name]!r}, this Task has {getattr(self, name)!r}")
        self.model.load_state_dict(tensors["model"])
        groups: list[dict[str, Any]] = [{**g, "state": {}} for g in state["groups"]]
        for name, array in tensors["optimizer"].items():
            i, _, n = name.partition(".")
            groups[int(i)]["state"][n] = array
        self.optimizer.load_state_dict({"steps": state["steps"], "groups": groups})
        self._totals.loss_sum.copy_(tensors["totals"]["loss_sum"])
        self._totals.samples.copy_(tensors["totals"]["samples"])
        random.default.seed, random.default.ticket = state["generator"]
        self._epoch, self._position = state["epoch"], state["position"]
        self.result = Result(checkpoint=path)
        for fields in state["history"]:
            record = EpochRecord(**fields)
            self.result.history.append(record)
            if record.top1 is not None and (self.result.best_top1 is None or record.top1 > self.result.best_top1):
                self.result.best_top1, self.result.best_top5, self.result.best_epoch = record.top1, record.top5, record.epoch
        return path
