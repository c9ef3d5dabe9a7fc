"""What all optimizers share: parameter groups, state in flat runs, and one sweep over everything that has a gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from renaissance import changes
from renaissance.engine import scalar
from renaissance.errors import ArgumentError, CheckpointError
from renaissance.ir import dtype as dt
from renaissance.optim.schedule import Schedule
from renaissance.ops.value import no_grad
from renaissance.parameter import Parameter, gather, lay_flat, scatter
from renaissance.tensor import USED, Part, Tensor, as_tensor, join_flat, overwrite, tracing, zeros


class ParamGroup(dict[str, Any]):
    """Parameters and their hyperparameters; changing one is seen by compiled functions."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        changes.note()


class Optimizer:
    """Base of all optimizers. A subclass says which state a parameter has and how one step changes both.

    params      parameters, or dicts with 'params' and hyperparameters of their own
    defaults    hyperparameters of groups that do not state them; lr may be a Schedule
    keep_grads  keep gradients readable after step() (costs their memory)
    raises      ArgumentError for an empty list, a parameter given twice, or an unknown hyperparameter
    source      PyTorch, torch.optim.Optimizer
    """

    state_names: tuple[str, ...] = ()
    per_parameter = False  # True: the update looks at each parameter as a whole (a norm), not only at its elements

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any], *, keep_grads: bool = False):
        self.defaults = defaults
        self.keep_grads = keep_grads
        self.steps = 0
        self.param_groups: list[ParamGroup] = []
        self._state: list[dict[str, Tensor]] = []
        self._counts: list[list[int]] = []
        groups = list(params)
        if not groups:
            raise ArgumentError(f"{type(self).__name__}: got an empty list of parameters")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Add parameters with hyperparameters of their own.

        group    {'params': parameters, hyperparameter: value, ...}
        raises   ArgumentError for a parameter given twice, a tensor that is no Parameter, or an unknown hyperparameter
        source   PyTorch, add_param_group
        """
        name = type(self).__name__
        params = group["params"]
        params = [params] if isinstance(params, Parameter) else list(params)
        unknown = set(group) - set(self.defaults) - {"params"}
        if unknown:
            raise ArgumentError(f"{name}: unknown hyperparameter {sorted(unknown)}; known are {sorted(self.defaults)}")
        if wrong := [type(p).__name__ for p in params if not isinstance(p, Parameter)]:
            raise ArgumentError(f"{name}: takes Parameters (module.parameters()), got {wrong[0]}")
        known = {id(p) for g in self.param_groups for p in g["params"]}
        if len({id(p) for p in params}) < len(params) or any(id(p) in known for p in params):
            raise ArgumentError(f"{name}: a parameter is given twice")
        made = ParamGroup({**self.defaults, **group, "params": params})
        self.check(made)
        lay_flat(params)
        self.param_groups.append(made)
        size = sum(p.size for p in params)
        dtype = params[0].dtype if params else dt.float32
        self._state.append({n: zeros(size, dtype) for n in self.names(made)})
        self._counts.append([0] * len(params))
        changes.note()

    # ---- what a subclass states ------------------------------------------------------------------------------------

    def names(self, group: ParamGroup) -> tuple[str, ...]:
        """Names of the state tensors of a group, each as large as its parameters."""
        return self.state_names

    def check(self, group: ParamGroup) -> None:
        """Raise ArgumentError for hyperparameters out of range."""

    def scalars(self, group: ParamGroup, lr: float, step: int) -> dict[str, float]:
        """Numbers the update needs, worked out in float64; step counts from 1."""
        return {"lr": lr}

    def update(self, p: Any, g: Any, state: dict[str, Any], s: dict[str, Any], group: ParamGroup) -> tuple[Any, dict[str, Any]]:
        """The parameter and state after one step.

        p, g, state  tensors of one shape
        s            the scalars, 0-d tensors
        returns      new p, new state
        """
        raise ArgumentError(f"{type(self).__name__} does not state an update")

    # ---- what users call ---------------------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients.

        set_to_none  False: zeros instead of None
        raises       nothing
        source       PyTorch, zero_grad
        """
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None if set_to_none else zeros(p.shape, p.dtype)

    def step(self) -> None:
        """Change every parameter that has a gradient; one fused sweep, together with what is pending.

        raises   what the program's checks state: then nothing has changed
        source   PyTorch, step
        """
        pairs: list[tuple[Tensor | Part, Tensor]] = []
        advance: list[tuple[list[int], int]] = []
        used: list[Parameter] = []
        with no_grad():
            for i, group in enumerate(self.param_groups):
                for segment in self._segments(i):
                    pairs += self._segment_pairs(i, group, segment)
                    advance += [(self._counts[i], k) for k in segment]
                    used += [group["params"][k] for k in segment]
        if not pairs:
            return
        if not self.keep_grads:
            for p in used:
                p.grad = USED
        overwrite(pairs)

        def count() -> None:
            self.steps += 1
            for counts, k in advance:
                counts[k] += 1

        if tracing.recorder is not None:
            tracing.recorder.effect(count)
        else:
            count()

    def lr(self, group: ParamGroup) -> float:
        """The rate of the coming step."""
        rate = group["lr"]
        return rate(self.steps) if isinstance(rate, Schedule) else float(rate)

    def bind(self, steps_per_epoch: int, epochs: int) -> None:
        """Tell the schedules how long an epoch and the run are."""
        for group in self.param_groups:
            if isinstance(group["lr"], Schedule):
                group["lr"].bind(steps_per_epoch, epochs)

    # ---- one step ------------------------------------------------------------------------------------------------------

    def _segments(self, i: int) -> list[list[int]]:
        """Runs of neighbouring parameters that have gradients and took the same number of steps."""
        segments: list[list[int]] = []
        params, counts = self.param_groups[i]["params"], self._counts[i]
        for k, p in enumerate(params):
            if not p.requires_grad or p.grad is None:
                continue
            last = segments[-1][-1] if segments else -2
            if last == k - 1 and counts[last] == counts[k] and not self.per_parameter:
                segments[-1].append(k)
            else:
                segments.append([k])
        return segments

    def _segment_pairs(self, i: int, group: ParamGroup, segment: list[int]) -> list[tuple[Tensor | Part, Tensor]]:
        params = [group["params"][k] for k in segment]
        sizes = [p.size for p in group["params"]]
        start = sum(sizes[:segment[0]])
        stop = start + sum(p.size for p in params)
        counts, first = self._counts[i], segment[0]
        s = _scalar_tensors(lambda: self.scalars(group, self.lr(group), counts[first] + 1))
        if stop == start:
            return []
        state = {n: t if start == 0 and stop == t.size else t[start:stop] for n, t in self._state[i].items()}  # type: ignore[index]
        g = join_flat([p.grad for p in params])
        new, new_state = self.update(gather(params), g, state, s, group)
        return [*scatter(params, new), *((Part(self._state[i][n], start), t) for n, t in new_state.items())]

    # ---- saving ----------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on: state tensors as NumPy arrays, step counts, hyperparameters that are numbers.

        returns  {'steps', 'groups': [{'counts', 'state': {name: array}, 'hyper': {...}}]}
        raises   nothing
        source   definition
        """
        groups = []
        for group, state, counts in zip(self.param_groups, self._state, self._counts):
            hyper = {k: v for k, v in group.items() if isinstance(v, (bool, int, float, str, tuple, type(None)))}
            groups.append({"counts": list(counts), "state": {n: np.array(t.numpy()) for n, t in state.items()}, "hyper": hyper})
        return {"steps": self.steps, "groups": groups}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Go on from a saved state.

        saved    what state_dict gave
        raises   CheckpointError when groups, names or sizes differ
        source   definition
        """
        groups = saved["groups"]
        if len(groups) != len(self.param_groups):
            raise CheckpointError(f"optimizer state has {len(groups)} parameter groups, this optimizer {len(self.param_groups)}")
        pairs: list[tuple[Tensor | Part, Tensor]] = []
        for i, entry in enumerate(groups):
            mine = self._state[i]
            if set(entry["state"]) != set(mine) or len(entry["counts"]) != len(self._counts[i]):
                raise CheckpointError(f"optimizer group {i} holds {sorted(entry['state'])} for {len(entry['counts'])} parameters; expected "
                                      f"{sorted(mine)} for {len(self._counts[i])}")
            for n, array in entry["state"].items():
                if array.shape != mine[n].shape:
                    raise CheckpointError(f"optimizer state {n} of group {i} has shape {array.shape}; expected {mine[n].shape}")
                pairs.append((mine[n], as_tensor(array)))
        overwrite(pairs)
        self.steps = saved["steps"]
        for counts, group, entry in zip(self._counts, self.param_groups, groups):
            counts[:] = entry["counts"]
            group.update({k: tuple(v) if isinstance(v, list) else v for k, v in entry["hyper"].items()})
        changes.note()


def _scalar_tensors(values: Callable[[], dict[str, float]]) -> dict[str, Tensor]:
    """Numbers as 0-d float32 tensors: bound now, or before each run of a plan under construction."""
    if tracing.recorder is not None:
        return tracing.recorder.scalars(values, dt.float32)
    return {n: Tensor(scalar(v, dt.float32)) for n, v in values().items()}


def decay_groups(module: Any, weight_decay: float, **hyper: Any) -> list[dict[str, Any]]:
    """Two parameter groups: weights with decay; biases, norms and other parameters with at most one axis without.

    module        anything with parameters()
    weight_decay  of the first group
    hyper         more hyperparameters of both groups
    returns       a list for an optimizer
    raises        nothing
    source        He et al. 2018, arXiv:1812.01187, section 3.1
    """
    parameters = list(module.parameters())
    weights: Sequence[Any] = [p for p in parameters if p.ndim > 1]
    others: Sequence[Any] = [p for p in parameters if p.ndim <= 1]
    groups = [{"params": weights, "weight_decay": weight_decay, **hyper}, {"params": others, "weight_decay": 0.0, **hyper}]
    return [g for g in groups if g["params"]]
