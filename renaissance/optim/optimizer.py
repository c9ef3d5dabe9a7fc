"""What all optimizers share: parameter groups, state in flat runs, and one sweep over everything that has a gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from renaissance import changes
from renaissance.errors import ArgumentError, CheckpointError
from renaissance.ir.dtype import DType
from renaissance.ops.composed import call
from renaissance.ops.elementwise import astype
from renaissance.ops.value import Value, no_grad
from renaissance.optim.group import ParamGroup
from renaissance.optim.schedule import Schedule
from renaissance.parameter import Parameter, gather, lay_flat, scatter
from renaissance.region import scalar
from renaissance.tensor import USED, Part, Tensor, as_tensor, join_flat, overwrite, tracing, zeros


class Optimizer:
    """Base of all optimizers: a subclass says which state a parameter has and how one step changes both.

    p, state = update(p, gradient, state, scalars), for every parameter that has a gradient

    params      parameters, or dicts with 'params' and hyperparameters of their own
    defaults    hyperparameters of groups that do not state them; lr may be a Schedule
    keep_grads  keep gradients readable after step() (costs their memory)
    raises      ArgumentError for an empty list, a parameter given twice, or an unknown hyperparameter
    source      PyTorch, torch.optim.Optimizer

    State is kept, and updates are computed, in float32 or wider, whatever the dtype of the parameters.
    """

    state_names: tuple[str, ...] = ()
    per_parameter = False  # True: the update looks at each parameter as a whole (a norm), not only at its elements

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any], *, keep_grads: bool = False):
        self.defaults = defaults
        self.keep_grads = keep_grads
        self.steps = 0
        self.param_groups: list[ParamGroup] = []
        given: list[Any] = [params] if isinstance(params, Parameter) else list(params)
        if not given:
            raise ArgumentError(f"{type(self).__name__}: got an empty list of parameters")
        for group in given if isinstance(given[0], Mapping) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Add parameters with hyperparameters of their own.

        group    {'params': parameters, hyperparameter: value, ...}
        raises   ArgumentError for a parameter given twice, a tensor that is no Parameter, or an unknown hyperparameter
        source   PyTorch, add_param_group
        """
        name = type(self).__name__
        if "params" not in group:
            raise ArgumentError(f"{name}: a parameter group needs 'params', got {sorted(group)}")
        params = [group["params"]] if isinstance(group["params"], Parameter) else list(group["params"])
        unknown = set(group) - set(self.defaults) - {"params"}
        if unknown:
            raise ArgumentError(f"{name}: unknown hyperparameter {sorted(unknown)}; known are {sorted(self.defaults)}")
        if wrong := [type(p).__name__ for p in params if not isinstance(p, Parameter)]:
            raise ArgumentError(f"{name}: takes Parameters (module.parameters()), got {wrong[0]}")
        known = {id(p) for g in self.param_groups for p in g.params}
        if len({id(p) for p in params}) < len(params) or any(id(p) in known for p in params):
            raise ArgumentError(f"{name}: a parameter is given twice")
        made = ParamGroup({**self.defaults, **group, "params": tuple(params)}, self._furnish)
        self.check(made)
        lay_flat(params)
        self._furnish(made)
        self.param_groups.append(made)
        changes.note()

    def _furnish(self, group: ParamGroup) -> None:
        """Make the state tensors that the hyperparameters of a group call for and that do not exist yet."""
        for n in self.names(group):
            if n not in group.state:
                group.state[n] = zeros(group.size, group.wide)
                if tracing.recorder is None:
                    group.state[n].realize()  # memory of its own, before a plan asks for its arena

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
        group        the hyperparameters
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
            for p in group.params:
                p.grad = None if set_to_none else zeros(p.shape, p.dtype)

    def step(self) -> None:
        """Change every parameter that has a gradient; one fused sweep, together with what is pending.

        raises   what the program's checks state: then nothing has changed; ArgumentError for hyperparameters out of range
        source   PyTorch, step
        """
        pairs: list[tuple[Tensor | Part, Tensor]] = []
        advance: list[tuple[list[int], int]] = []
        used: list[Parameter] = []
        with no_grad():
            for group in self.param_groups:
                self.check(group)
                for segment in group.segments(self.per_parameter):
                    pairs += self._segment_pairs(group, segment)
                    advance += [(group.counts, k) for k in segment]
                    used += [group.params[k] for k in segment]
        if not used:
            return

        def count() -> None:
            self.steps += 1
            for counts, k in advance:
                counts[k] += 1

        self._apply(pairs, [] if self.keep_grads else used, count)

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

    def _segment_pairs(self, group: ParamGroup, segment: list[int]) -> list[tuple[Tensor | Part, Tensor]]:
        """What `overwrite` takes to update one run of parameters and its state."""
        params, first = [group.params[k] for k in segment], segment[0]
        start, stop = group.offsets[first], group.offsets[segment[-1] + 1]
        if stop == start:
            return []
        s = _bound(lambda: self.scalars(group, self.lr(group), group.counts[first] + 1), group.wide)
        state = {n: group.state[n] for n in self.names(group)}
        state = {n: t if start == 0 and stop == t.size else t[start:stop] for n, t in state.items()}  # type: ignore[index]
        new, new_state = self._updated(gather(params), [p.grad for p in params], state, s, group)  # type: ignore[misc]
        return [*scatter(params, new), *((Part(group.state[n], start), t) for n, t in new_state.items())]

    def _apply(self, pairs: list[tuple[Tensor | Part, Tensor]], used: list[Parameter], then: Callable[[], None]) -> None:
        """Overwrite, with the gradients of `used` let go so that they take no memory; they are given back if nothing changed."""
        before = self.steps
        nodes = [p.grad.node for p in used]  # type: ignore[union-attr]
        for p in used:
            p.collect(USED)
        try:
            overwrite(pairs, then)
        except BaseException:
            if self.steps == before:
                for p, n in zip(used, nodes):
                    p.collect(Tensor(n))
            raise

    def _updated(self, p: Tensor, grads: list[Tensor], state: dict[str, Tensor], s: dict[str, Value],
                 group: ParamGroup) -> tuple[Tensor, dict[str, Tensor]]:
        """The update as one composed op. It may look at every hyperparameter but the rate, which is a scalar."""
        settings, names, wide, count = group.settings, tuple(state), group.wide, len(grads)

        def flat(p: Any, *rest: Any) -> tuple[Any, ...]:
            g, given = astype(join_flat(rest[:count]), wide), dict(zip(names, rest[count:]))
            numbers = dict(zip(s, rest[count + len(names):]))
            new, new_state = self.update(astype(p, wide), g, given, numbers, settings)  # type: ignore[arg-type]
            return (astype(new, p.dtype), *(new_state[n] for n in names))

        values = (p, *grads, *state.values(), *s.values())
        key = (type(self), tuple([(k, type(v), repr(v)) for k, v in settings.items()]), names, tuple(s), wide, count)
        new, *new_state = call(key, flat, values, values, {})
        return new, dict(zip(names, new_state))

    # ---- saving ----------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on: state tensors as NumPy arrays, step counts, hyperparameters that are numbers.

        returns  {'steps', 'groups': [{'counts', 'shapes', 'state': {name: array}, 'hyper': {...}}]}
        raises   nothing
        source   definition
        """
        groups = []
        for group in self.param_groups:
            hyper = {k: v for k, v in group.items() if k != "params" and not isinstance(v, Schedule)}
            groups.append({"counts": list(group.counts), "shapes": [p.shape for p in group.params],
                           "state": {n: np.array(group.state[n].numpy()) for n in self.names(group)}, "hyper": hyper})
        return {"steps": self.steps, "groups": groups}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Go on from a saved state: its hyperparameters replace those here, but a Schedule stays.

        saved    what state_dict gave; 'shapes', and hyperparameters it does not know yet, may be missing
        raises   CheckpointError when groups, shapes of parameters, or state differ: nothing is changed then
        source   definition
        """
        groups = saved["groups"]
        if len(groups) != len(self.param_groups):
            raise CheckpointError(f"optimizer state has {len(groups)} parameter groups, this optimizer {len(self.param_groups)}")
        settings = [self._fitting(i, group, entry) for i, (group, entry) in enumerate(zip(self.param_groups, groups))]
        for group, hyper in zip(self.param_groups, settings):
            group.update(hyper)
        overwrite([(group.state[n], as_tensor(array)) for group, entry in zip(self.param_groups, groups)
                   for n, array in entry["state"].items()])
        self.steps = saved["steps"]
        for group, entry in zip(self.param_groups, groups):
            group.counts[:] = entry["counts"]
        changes.note()

    def _fitting(self, i: int, group: ParamGroup, entry: dict[str, Any]) -> dict[str, Any]:
        """The hyperparameters group `i` takes from a saved entry, once all of the entry is known to fit."""
        shapes = [tuple(s) for s in entry.get("shapes", [p.shape for p in group.params])]
        mine = [p.shape for p in group.params]
        if shapes != mine or len(entry["counts"]) != len(mine):
            raise CheckpointError(f"optimizer group {i}: the state is for parameters of shapes {shapes}; expected {mine}")
        hyper = {k: tuple(v) if isinstance(v, list) else v for k, v in entry["hyper"].items()}
        if unknown := sorted(set(hyper) - set(group)):
            raise CheckpointError(f"optimizer group {i}: the state sets {', '.join(unknown)}, unknown to {type(self).__name__}")
        hyper = {k: v for k, v in hyper.items() if not isinstance(group[k], Schedule)}
        names = self.names(ParamGroup({**group, **hyper}, self._furnish))
        if set(names) != set(entry["state"]):
            raise CheckpointError(f"optimizer group {i}: the state holds {sorted(entry['state'])}; expected {sorted(names)}")
        for n, array in entry["state"].items():
            if array.shape != (group.size,):
                raise CheckpointError(f"optimizer group {i}: state {n} has shape {array.shape}; expected {(group.size,)}")
        return hyper


def _bound(values: Callable[[], dict[str, float]], dtype: DType) -> dict[str, Value]:
    """Numbers as 0-d values: bound now, or before each run of a plan under construction."""
    if tracing.recorder is not None:
        return tracing.recorder.scalars(values, dtype)
    return {n: Value(scalar(v, dtype)) for n, v in values().items()}


def decay_groups(module: Any, weight_decay: float, **hyper: Any) -> list[dict[str, Any]]:
    """Two parameter groups: weights with decay; biases, norms and other parameters with at most one axis without.

    {'params': those with 2 axes or more, 'weight_decay': weight_decay}, {'params': the others, 'weight_decay': 0}

    module        anything with parameters()
    weight_decay  of the first group
    hyper         more hyperparameters of both groups
    returns       a list for an optimizer, without an empty group
    raises        nothing
    source        He et al. 2018, arXiv:1812.01187, section 3.1
    """
    parameters = list(module.parameters())
    groups = [{"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay, **hyper},
              {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0, **hyper}]
    return [g for g in groups if g["params"]]
