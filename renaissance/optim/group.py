"""Parameter groups: parameters that share hyperparameters, and what an optimizer remembers about them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from renaissance import changes
from renaissance.errors import ArgumentError, TraceError
from renaissance.ir import dtype as dt
from renaissance.parameter import Parameter
from renaissance.tensor import Tensor, tracing, user_line


class ParamGroup(MutableMapping[str, Any]):
    """A mapping of 'params' and hyperparameters; compiled functions see a change of value, however it is made.

    values   'params' and the hyperparameters by name
    changed  called after a change
    raises   ArgumentError for another name, for new 'params', or when one is taken away; TraceError when set inside a compiled
             function
    source   PyTorch, Optimizer.param_groups
    """

    def __init__(self, values: dict[str, Any], changed: Callable[[ParamGroup], None]):
        self._values = values
        self._changed = changed
        self.params: tuple[Parameter, ...] = values["params"]
        self.counts = [0] * len(self.params)  # steps each parameter took
        self.offsets = list(itertools.accumulate([p.size for p in self.params], initial=0))  # where each begins, and the end
        self.wide = dt.float32  # what state is kept in and updates are computed in
        for p in self.params:
            self.wide = dt.promote(self.wide, dt.accumulator(p.dtype))
        self.state: dict[str, Tensor] = {}  # by name, each as long as all parameters together

    @property
    def size(self) -> int:
        """Elements of all parameters."""
        return self.offsets[-1]

    @property
    def settings(self) -> dict[str, Any]:
        """The hyperparameters but the rate: what an update may look at, so that it is another op when one changes."""
        return {k: v for k, v in self._values.items() if k not in ("params", "lr")}

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "params" or key not in self._values:
            known = ", ".join(sorted(set(self._values) - {"params"}))
            raise ArgumentError(f"parameter group: {key!r} cannot be set, only {known}; add_param_group adds parameters")
        before = self._values[key]
        if before is value or (type(before) is type(value) and before == value):
            return
        if tracing.recorder is not None:
            raise TraceError(f"hyperparameter {key!r} is set inside a compiled function at {user_line()}: it would happen once, "
                             "while tracing; set it outside, or give lr a Schedule")
        self._values[key] = value
        self._changed(self)
        changes.note()

    def __delitem__(self, key: str) -> None:
        raise ArgumentError(f"parameter group: {key!r} cannot be taken away; set it to another value")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        hyper = ", ".join(f"{k}={v!r}" for k, v in self._values.items() if k != "params")
        return f"ParamGroup({len(self.params)} parameters, {hyper})"

    def segments(self, alone: bool) -> list[list[int]]:
        """Runs of neighbouring parameters that have gradients, one dtype, and took the same number of steps.

        alone  every parameter is a run of its own
        """
        found: list[list[int]] = []
        for k, p in enumerate(self.params):
            if not p.requires_grad or p.grad is None:
                continue
            last = found[-1][-1] if found and not alone else -2
            if last == k - 1 and self.counts[last] == self.counts[k] and self.params[last].dtype is p.dtype:
                found[-1].append(k)
            else:
                found.append([k])
        return found
