"""What a checkpoint holds of a run. Reading one checks everything in it; only what fits is ever put back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from renaissance.errors import CheckpointError, NonFiniteError
from renaissance.nn.module import Module
from renaissance.train import checkpoint
from renaissance.train.checkpoint import Checkpoint
from renaissance.train.result import EpochRecord

_VERSION = 1
_NUMBER, _OPTIONAL = (int, float), (int, float, type(None))
_RECORD = {"epoch": (int,), "train_loss": _NUMBER, "validation_loss": _OPTIONAL, "top1": _OPTIONAL, "top5": _OPTIONAL,
           "lr": _NUMBER, "seconds": _NUMBER}


@dataclass(frozen=True)
class Snapshot:
    """Everything a run needs to go on as if it had never stopped.

    run              what makes it this run: seed, batch size, measured engines and the like; another run's snapshot is refused
    epoch, position  epochs done, and samples used of the next
    generator        seed and next ticket of the default generator
    model            parameters and buffers by path, a shared one once
    optimizer        its state_dict
    totals           sums of the epoch so far
    history          records of the epochs done
    best_checkpoint  name of the best epoch's checkpoint, if it is another one
    """

    run: Mapping[str, Any]
    epoch: int
    position: int
    generator: tuple[int, int]
    model: Mapping[str, np.ndarray]
    optimizer: Mapping[str, Any]
    totals: np.ndarray
    history: tuple[EpochRecord, ...]
    best_checkpoint: str | None

    def write(self, folder: Path) -> Path:
        """Write a checkpoint below `folder`; returns its own folder.

        raises   CheckpointError when it cannot be written; older ones stay
        """
        groups = self.optimizer["groups"]
        state = {
            "version": _VERSION, "run": self.run, "epoch": self.epoch, "position": self.position, "generator": self.generator,
            "optimizer": {"steps": self.optimizer["steps"],
                          "groups": [{k: v for k, v in group.items() if k != "state"} for group in groups]},
            "history": [dataclasses.asdict(record) for record in self.history], "best_checkpoint": self.best_checkpoint,
        }
        arrays = {f"{i}.{name}": array for i, group in enumerate(groups) for name, array in group["state"].items()}
        return checkpoint.save(folder, {"model": self.model, "optimizer": arrays, "totals": {"sums": self.totals}}, state)

    @classmethod
    def read(cls, found: Checkpoint) -> Snapshot:
        """The snapshot a checkpoint holds.

        raises   CheckpointError naming what is missing or of the wrong kind
        """
        state = _Fields(found.path / "state.json", found.state)
        if state.get("version", int) != _VERSION:
            raise CheckpointError(f"{state.path}: version {found.state['version']}; this package reads version {_VERSION}")
        for file in ("model", "optimizer", "totals"):
            if file not in found.tensors:
                raise CheckpointError(f"{found.path / file}.safetensors: not part of this checkpoint")
        generator = state.get("generator", list)
        if [type(n) for n in generator] != [int, int]:
            raise CheckpointError(f"{state.path}: generator must be two whole numbers, got {generator}")
        return cls(
            run=state.get("run", dict), epoch=state.get("epoch", int), position=state.get("position", int),
            generator=(generator[0], generator[1]), model=found.tensors["model"],
            optimizer=_optimizer(state.inside("optimizer"), found.tensors["optimizer"]),
            totals=found.tensors["totals"].get("sums", np.empty(0)),
            history=tuple(_record(entry) for entry in state.each("history")),
            best_checkpoint=state.get("best_checkpoint", str, type(None)))

    def check_run(self, run: Mapping[str, Any], path: Path) -> None:
        """Raise CheckpointError unless the snapshot is of this run."""
        for name, value in run.items():
            theirs = self.run.get(name)
            if theirs == value:
                continue
            if name == "engines":
                raise CheckpointError(f"{path}: {_other_engines(theirs, value)}")
            raise CheckpointError(f"{path}: was made with {name} {theirs!r}, this Task has {value!r}")


def _other_engines(theirs: Any, ours: Mapping[str, str] | None) -> str:
    """How the measured engines of a run differ from those in force, by the first convolution that shows it, and what to do."""
    if theirs is None:
        return "was made without measured engines, here RENAISSANCE_TUNED names some; unset it to go on"
    remedy = "set RENAISSANCE_TUNED to the file that it was made with (its engines stand in state.json) to go on"
    if not isinstance(theirs, dict) or ours is None:
        return f"was made with measured engines, here there are none; {remedy}"
    name = next(name for name in sorted({*theirs, *ours}) if theirs.get(name) != ours.get(name))
    was, now = (engines.get(name, "the cost model's choice") for engines in (theirs, ours))
    return f"was made with other measured engines: {name} by {was}, here by {now}; {remedy}"


class _Fields:
    """A JSON object whose entries are asked for by name and kind."""

    def __init__(self, path: Path, entries: Mapping[str, Any]):
        self.path = path
        self._entries = entries

    def get(self, name: str, *kinds: type) -> Any:
        value = self._entries.get(name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise CheckpointError(f"{self.path}: {name} must be {wanted}, got {value!r}")
        return value

    def inside(self, name: str) -> _Fields:
        return _Fields(self.path, self.get(name, dict))

    def each(self, name: str) -> list[_Fields]:
        entries = self.get(name, list)
        if not all(isinstance(entry, dict) for entry in entries):
            raise CheckpointError(f"{self.path}: {name} must hold objects, got {entries!r}")
        return [_Fields(self.path, entry) for entry in entries]


def _optimizer(state: _Fields, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    groups: list[dict[str, Any]] = [
        {"counts": g.get("counts", list), "shapes": g.get("shapes", list), "hyper": g.get("hyper", dict), "state": {}}
        for g in state.each("groups")]
    for name, array in arrays.items():
        number, _, key = name.partition(".")
        if not number.isdecimal() or int(number) >= len(groups):
            raise CheckpointError(f"{state.path.parent / 'optimizer.safetensors'}: {name} belongs to no group of parameters")
        groups[int(number)]["state"][key] = array
    return {"steps": state.get("steps", int), "groups": groups}


def _record(entry: _Fields) -> EpochRecord:
    return EpochRecord(**{name: entry.get(name, *kinds) for name, kinds in _RECORD.items()})


def model_arrays(model: Module) -> dict[str, np.ndarray]:
    """Parameters and buffers by path, as views; one that is shared once, under its first path.

    raises  NonFiniteError naming a parameter that holds NaN or infinity
    """
    parameters = {name: p.numpy() for name, p in model.named_parameters()}
    for name, array in parameters.items():
        if not np.isfinite(array).all():
            raise NonFiniteError(f"parameter {name} is not finite")
    return {**parameters, **{name: b.numpy() for name, b in model.named_buffers()}}


def check_model(model: Module, arrays: Mapping[str, np.ndarray], path: Path) -> None:
    """Raise CheckpointError unless the arrays are just those of the model, by name, shape and dtype."""
    own = {name: (t.shape, t.dtype.numpy) for name, t in (*model.named_parameters(), *model.named_buffers())}
    for name in sorted(own.keys() ^ arrays.keys()):
        place = "the model" if name in own else "the checkpoint"
        raise CheckpointError(f"{path}: is of another model: {name} is only in {place}")
    for name, (shape, dtype) in own.items():
        given = arrays[name]
        if (given.shape, given.dtype) != (shape, dtype):
            raise CheckpointError(f"{path}: is of another model: {name} is {given.dtype} {given.shape}, not {dtype} {shape}")
