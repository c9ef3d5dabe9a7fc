"""Task: a training run. Data, step, validation, checkpoints and display, each usable by itself as well."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from renaissance.config import settings
from renaissance.data.dataset import Dataset
from renaissance.data.order import batch_count, batches
from renaissance.engine import executor, host_target
from renaissance.errors import ArgumentError, CheckpointError, NonFiniteError, ShapeError
from renaissance.ir.plan import Plan
from renaissance.nn.module import Module
from renaissance.ops.elementwise import isfinite, not_equal
from renaissance.ops.index import check
from renaissance.ops.precision import precision as precision_of
from renaissance.ops.reduce import sum
from renaissance.ops.value import no_grad
from renaissance.optim.clip import clip_grad_norm_
from renaissance.optim.optimizer import Optimizer
from renaissance.optim.schedule import Schedule
from renaissance.runtime.cost import nominal
from renaissance.runtime.null import Report, report
from renaissance.tensor import Tensor, from_numpy
from renaissance.trace import compile
from renaissance.train import checkpoint
from renaissance.train.batch import TrainingBatches, validation_batches
from renaissance.train.checkpoint import Checkpoint
from renaissance.train.display import Display
from renaissance.train.generator import RunGenerator
from renaissance.train.interrupt import Interrupt
from renaissance.train.metrics import Scores, Totals
from renaissance.train.mode import evaluating, rehearsing
from renaissance.train.nonfinite import first_non_finite
from renaissance.train.plan_text import layers_of, plan_text
from renaissance.train.result import EpochRecord, Result
from renaissance.train.snapshot import Snapshot, check_model, model_arrays

_KEEP = 3
_REMEDY = "Try a lower learning rate, clip_norm, or fp32"


class Task:
    """A training run of a model on an in-memory data set.

    model        a Module; what is frozen in it stays as it is
    dataset      data.MNIST(...), data.ArrayDataset(...) or anything with their attributes
    loss         called with the model's output and the targets; returns one number, a mean over the batch
    optimizer    over the model's parameters
    epochs       how often every training sample is seen
    batch_size   samples in a step; the last one of an epoch may be shorter
    precision    'fp32' or 'bf16'
    seed         of order, augmentation and dropout; the default generator serves the run and is then as it was before
    clip_norm    largest common norm of the gradients; None: no limit
    target_top1  stop once validation reaches this share; None: never
    memory_budget  the most memory a step may need in all, as bytes or as text such as '1.5 GiB' (see rn.compile); None: no bound
    out          folder for checkpoints, one after each epoch: the last three and the best are kept; None: none are written
    show         print the epoch table and the progress bar
    raises       ArgumentError for values out of range
    source       definition

    `result` is the Result so far. `train_step(samples)` and `validation_step(x, y)` are the compiled steps.
    """

    def __init__(self, model: Module, dataset: Dataset, *, loss: Any, optimizer: Optimizer, epochs: int, batch_size: int,
                 precision: str = "fp32", seed: int = 0, clip_norm: float | None = None, target_top1: float | None = None,
                 memory_budget: int | str | None = None, out: str | Path | None = None, show: bool = True):
        _check_numbers(epochs=epochs, batch_size=batch_size, seed=seed, clip_norm=clip_norm, target_top1=target_top1)
        _check_optimizer(model, optimizer)
        with precision_of(precision):
            pass
        self.model, self.dataset, self.loss, self.optimizer = model, dataset, loss, optimizer
        self.epochs, self.batch_size, self.precision, self.seed = epochs, min(batch_size, len(dataset.train)), precision, seed
        self.clip_norm, self.target_top1 = clip_norm, target_top1
        self.out = None if out is None else Path(out)
        self.result = Result()
        self._display, self._interrupt, self._generator = Display(show), Interrupt(), RunGenerator(seed)
        self._steps = batch_count(len(dataset.train), self.batch_size)
        optimizer.bind(self._steps, epochs)
        self._batches = TrainingBatches(dataset, seed)
        self._validation: list[tuple[Tensor, Tensor]] | None = None
        self._totals, self._seen = Totals(), Totals()
        self._epoch, self._position = 0, 0
        self._number_arrays: dict[int, tuple[np.ndarray, Tensor]] = {}
        self._own_folders: set[Path] = set()
        self.train_step = compile(self._train_step, memory_budget=memory_budget)
        self.validation_step = compile(self._validation_step, memory_budget=memory_budget)

    # ---- the two steps -------------------------------------------------------------------------------------------------

    def _train_step(self, samples: Tensor) -> None:
        x, y = self._batches(samples)
        loss = self._loss_of(x, y)
        loss = check(loss, isfinite(loss), "NonFiniteError: the loss is not finite")
        self.optimizer.zero_grad()
        loss.backward()
        if self.clip_norm is not None:
            clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimizer.step()
        self._totals.add(loss, self._weight(y))

    def _validation_step(self, x: Tensor, y: Tensor) -> None:
        with no_grad(), evaluating(self.model), precision_of(self.precision):
            scores = self.model(x)
            loss = self.loss(scores, y)
        judged = self.dataset.num_classes is not None and scores.ndim == 2 and y.ndim == 1
        self._seen.add(loss, self._weight(y), *((scores, y) if judged else ()))

    def _loss_of(self, x: Any, y: Any) -> Any:
        with precision_of(self.precision):
            loss = self.loss(self.model(x), y)
        if loss.shape != ():
            raise ShapeError(f"Task: the loss must be one number for the batch, got shape {loss.shape}; use its mean")
        return loss

    def _weight(self, y: Any) -> Any:
        """How many targets a batch's mean loss stands for: its samples, those with an ignored target aside."""
        ignored = getattr(self.dataset, "ignore_index", None)
        return y.shape[0] if ignored is None else sum(not_equal(y, ignored))

    # ---- planning ------------------------------------------------------------------------------------------------------

    def compile(self) -> str:
        """Make the training step ready and print its plan: layers, kernels, memory, predicted time.

        returns  the text
        raises   what tracing the model raises; DeviceError when the machine has not enough memory
        source   definition
        """
        plan = self._plan()
        samples = from_numpy(np.arange(self.batch_size))
        with no_grad(), rehearsing(self.model), precision_of(self.precision):
            layers = layers_of(self.model, lambda: self.model(self._batches(samples)[0]))
        target, threads = host_target(), settings().threads
        title = (f"{type(self.model).__name__}: training step of {self.batch_size} samples, {self.precision}, "
                 f"{threads} thread{'s' if threads > 1 else ''}, {target.isa}")
        text = plan_text(title, layers, plan, nominal(target, threads))
        self._display.say(text)
        return text

    def dry_run(self) -> Report:
        """Plan the training step on the null device: no kernel is compiled, nothing runs.

        returns  kernels, bytes, flops, peak memory and predicted seconds of a step
        raises   what tracing the model raises
        source   definition
        """
        with executor("null"):
            return report(self._plan(), nominal(host_target(), settings().threads))

    def _plan(self) -> Plan:
        self.model.train()
        return self.train_step.plan(from_numpy(np.arange(self.batch_size)))

    # ---- running -----------------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Train until the last epoch, the target, Ctrl-C, or a loss that is not finite.

        returns  the Result
        raises   NonFiniteError when the loss is not finite: the last good checkpoint is kept and named; CheckpointError when
                 `out` holds checkpoints of another run, or one cannot be written
        source   definition
        """
        self._check_out()
        self.model.train()
        self.result.stopped = ""
        self._display.start(self._steps, self._about())
        try:
            with self._interrupt.listening(), self._generator.in_use():
                while self._epoch < self.epochs and not self.result.stopped:
                    self._run_epoch()
        finally:
            self._display.stop()
        return self.result

    def _about(self) -> str:
        parameters = int(np.sum([p.size for p in self.model.parameters()]))
        tuned = len(host_target().overrides)
        return (f"{type(self.model).__name__}, {parameters:,} parameters, {self.precision}; {len(self.dataset.train):,} samples, "
                f"{self._steps:,} steps of {self.batch_size} an epoch{f'; {tuned} engines as measured' if tuned else ''}")

    def _check_out(self) -> None:
        """Never mix two runs in one folder: the checkpoints of one would push out those of the other."""
        if self.out is None or self.out.resolve() in self._own_folders:
            return
        if held := checkpoint.numbered(self.out):
            raise CheckpointError(f"{self.out}: holds checkpoints of an earlier run, the newest is {held[-1].name}; go on from "
                                  "it (resume), or give another folder")

    def _run_epoch(self) -> None:
        began = time.perf_counter()
        if self._position == 0:
            self._totals.reset()
        self._batches.draws.epoch = self._epoch
        done = self._position // self.batch_size
        lr = self._lr(self.optimizer.steps - done)
        for samples in batches(len(self.dataset.train), self.batch_size, seed=self.seed, epoch=self._epoch, start=self._position):
            self._run_step(samples)
            done += 1
            self._display.step(self._epoch + 1, done)
            if self._interrupt.asked and done < self._steps:
                self._stop_interrupted()
                return
        seen = self.validate()
        validation = (None, None, None) if seen is None else (seen.loss, seen.top1, seen.top5)
        loss = self._totals.read().loss
        self._epoch, self._position = self._epoch + 1, 0
        self._end_epoch(EpochRecord(self._epoch, loss, *validation, lr, time.perf_counter() - began))

    def _lr(self, step: int) -> float:
        rate = self.optimizer.param_groups[0]["lr"]
        return rate(step) if isinstance(rate, Schedule) else float(rate)

    def _run_step(self, samples: np.ndarray) -> None:
        array, numbers = self._numbers(len(samples))
        array[:] = samples
        try:
            self.train_step(numbers)
        except NonFiniteError as e:
            self.result.stopped = "not finite"
            raise self._explained(e, samples) from e
        self._position += len(samples)

    def _numbers(self, count: int) -> tuple[np.ndarray, Tensor]:
        """Where the sample numbers of a step are written, and the tensor on it: the same for all steps of a size."""
        if count not in self._number_arrays:
            array = np.empty(count, np.int64)
            self._number_arrays[count] = array, from_numpy(array)
        return self._number_arrays[count]

    def _end_epoch(self, record: EpochRecord) -> None:
        result = self.result
        best = result.note(record)
        self._display.epoch(record, best)
        if self.out is not None:
            if best:
                result.best_checkpoint = None  # it is the one about to be written
            self.save()
            checkpoint.remove([p for p in checkpoint.numbered(self.out)[:-_KEEP] if p != result.best_checkpoint])
        if self.target_top1 is not None and record.top1 is not None and record.top1 >= self.target_top1:
            result.stopped = "target"
            self._display.say(f"target reached: top-1 {100 * record.top1:.2f} %")
        elif self._interrupt.asked and self._epoch < self.epochs:
            result.stopped = "interrupted"
            self._display.say(f"interrupted after epoch {self._epoch}; {self._saved()}")

    def validate(self) -> Scores | None:
        """Run the validation part through the model.

        returns  its scores; None without a validation part
        raises   what the steps raise
        source   definition
        """
        if self.dataset.validation is None:
            return None
        if self._validation is None:
            self._validation = validation_batches(self.dataset, self.dataset.validation, self.batch_size)
        self._seen.reset()
        for x, y in self._validation:
            self.validation_step(x, y)
        return self._seen.read()

    def _stop_interrupted(self) -> None:
        if self.out is not None:
            self.save()
        self.result.stopped = "interrupted"
        self._display.say(f"interrupted in epoch {self._epoch + 1} after {self._position:,} of its samples; {self._saved()}")

    def _saved(self) -> str:
        return "nothing was saved (give out=...)" if self.out is None else f"saved in {self.result.checkpoint}"

    def _explained(self, error: NonFiniteError, samples: np.ndarray) -> NonFiniteError:
        """The error of a step that changed nothing, with all a user needs to look into it."""
        with rehearsing(self.model):  # the step took no ticket: the forward part draws the same numbers again
            x, y = self._batches(from_numpy(samples))
            cause = first_non_finite(self.model, x, lambda inputs: self._loss_of(inputs, y))
        kept = f"the last good checkpoint is {self.result.checkpoint}" if self.result.checkpoint else "no checkpoint was written"
        step = f"step {self._position // self.batch_size + 1} of {self._steps}"
        told = f"{error}: epoch {self._epoch + 1}, {step}, before its update{'; ' if cause else ''}{cause}"
        return NonFiniteError(f"{told}. Weights are those of the step before; {kept}. {_REMEDY}")

    # ---- saving --------------------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path | None = None) -> Path:
        """Write a checkpoint from which `resume` goes on bit for bit.

        folder   where checkpoints lie; default: out
        returns  the checkpoint's folder
        raises   CheckpointError when it cannot be written; NonFiniteError when a parameter is not finite. Older ones stay
        source   definition
        """
        result = self.result
        try:
            model = model_arrays(self.model)
        except NonFiniteError as e:
            raise NonFiniteError(f"{e} after epoch {self._epoch}: nothing was saved, the last checkpoint is "
                                 f"{result.checkpoint or 'none'}. {_REMEDY}") from None
        best = result.best_checkpoint
        snapshot = Snapshot(
            run=self._run(), epoch=self._epoch, position=self._position,
            generator=self._generator.state,
            model=model, optimizer=self.optimizer.state_dict(), totals=self._totals.sums.numpy(), history=tuple(result.history),
            best_checkpoint=None if best is None else best.name)
        result.checkpoint = snapshot.write(self._place("save", folder))
        self._own_folders.add(result.checkpoint.parent.resolve())
        self._note_best(result.checkpoint)
        return result.checkpoint

    def load(self, folder: str | Path | None = None) -> Path:
        """Take the weights of a checkpoint, and nothing else of it.

        folder   one checkpoint, or where several lie: then the newest whole one; default: out
        returns  the checkpoint's folder
        raises   CheckpointError when there is none, or it is of another model: nothing is changed then
        source   definition
        """
        found = self._found("load", folder)
        arrays = found.tensors.get("model", {})
        check_model(self.model, arrays, found.path)
        self.model.load_state_dict(arrays, strict=False)  # strict would miss the second names of shared parameters
        return found.path

    def resume(self, folder: str | Path | None = None) -> Path:
        """Take up a checkpoint: what follows is bit-equal to a run that never stopped.

        folder   one checkpoint, or where several lie: then the newest whole one; default: out
        returns  the checkpoint's folder
        raises   CheckpointError when there is none, or it belongs to another model, optimizer, data set, seed, batch size,
                 precision or other measured engines (RENAISSANCE_TUNED): nothing is changed then
        source   definition
        """
        found = self._found("resume", folder)
        snapshot = Snapshot.read(found)
        snapshot.check_run(self._run(), found.path)
        check_model(self.model, snapshot.model, found.path)
        if snapshot.totals.shape != self._totals.sums.shape or not 0 <= snapshot.position < len(self.dataset.train):
            raise CheckpointError(f"{found.path}: totals or position are none of this run")
        try:
            self.optimizer.load_state_dict(dict(snapshot.optimizer))
        except CheckpointError as e:
            raise CheckpointError(f"{found.path}: {e}") from None
        self.model.load_state_dict(snapshot.model, strict=False)
        self._totals.sums.copy_(snapshot.totals)
        self._generator.state = snapshot.generator
        self._own_folders.add(found.path.parent.resolve())
        self._epoch, self._position = snapshot.epoch, snapshot.position
        self.result = Result(checkpoint=found.path)
        for record in snapshot.history:
            self.result.note(record)
        if snapshot.best_checkpoint is not None:
            self.result.best_checkpoint = found.path.with_name(snapshot.best_checkpoint)
        self._note_best(found.path)
        return found.path

    def _run(self) -> Mapping[str, Any]:
        """What tells this run from others: one of them cannot go on where another stopped."""
        return {"seed": self.seed, "batch_size": self.batch_size, "precision": self.precision, "samples": len(self.dataset.train),
                "optimizer": type(self.optimizer).__name__, "clip_norm": self.clip_norm,
                "engines": dict(host_target().overrides) or None}

    def _note_best(self, path: Path) -> None:
        if self._position == 0 and self.result.best_epoch == self._epoch:
            self.result.best_checkpoint = path

    def _place(self, caller: str, folder: str | Path | None) -> Path:
        place = self.out if folder is None else Path(folder)
        if place is None:
            raise ArgumentError(f"{caller}: give a folder, here or as out=... of the Task")
        return place

    def _found(self, caller: str, folder: str | Path | None) -> Checkpoint:
        place = self._place(caller, folder)
        if checkpoint.is_checkpoint(place):
            return checkpoint.load(place)
        found, faults = checkpoint.newest(place)
        for fault in faults:
            self._display.say(f"passed over: {fault}")
        return found


def _check_numbers(*, epochs: int, batch_size: int, seed: int, clip_norm: float | None, target_top1: float | None) -> None:
    for name, value in (("epochs", epochs), ("batch_size", batch_size), ("seed", seed)):
        if not isinstance(value, int) or isinstance(value, bool) or (name != "seed" and value < 1):
            raise ArgumentError(f"Task: {name} must be a whole number{'' if name == 'seed' else ', at least 1'}, got {value!r}")
    if target_top1 is not None and not 0 < target_top1 <= 1:
        raise ArgumentError(f"Task: target_top1 is a share above 0, at most 1, got {target_top1}")
    if clip_norm is not None and not clip_norm > 0:
        raise ArgumentError(f"Task: clip_norm must be positive, got {clip_norm}")


def _check_optimizer(model: Module, optimizer: Optimizer) -> None:
    own = {id(p) for p in model.parameters()}
    if not any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
        raise ArgumentError("Task: the optimizer holds none of the model's parameters; make it from model.parameters()")
