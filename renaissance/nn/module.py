"""Module: a tree of parameters, buffers and other modules, with PyTorch's names."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from renaissance import changes
from renaissance.errors import ArgumentError, CheckpointError
from renaissance.parameter import Parameter
from renaissance.tensor import Tensor, as_tensor, overwrite


class _Watch(threading.local):
    """Told of every module call in this thread, while somebody asks: a plan's table of layers is made from it."""

    hook: Callable[[Module, Any], None] | None = None


_watch = _Watch()


@contextmanager
def watching(hook: Callable[[Module, Any], None]) -> Iterator[None]:
    """Inside, `hook(module, output)` is called after each module call in this thread."""
    before, _watch.hook = _watch.hook, hook
    try:
        yield
    finally:
        _watch.hook = before


class Module:
    """Base of all layers and models. A subclass sets parameters, buffers and modules as attributes and defines forward().

    training   whether layers such as Dropout behave as in training; see train() and eval()
    source     PyTorch, torch.nn.Module
    """

    training: bool

    def __init__(self) -> None:
        fields: dict[str, Any] = {"training": True, "_parameters": {}, "_buffers": {}, "_modules": {}}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise ArgumentError(f"{type(self).__name__} does not define forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self.forward(*args, **kwargs)
        if _watch.hook is not None:
            _watch.hook(self, output)
        return output

    # ---- attributes ------------------------------------------------------------------------------------------------------

    def _tables(self) -> tuple[dict[str, Any], ...]:
        if "_modules" not in self.__dict__:
            raise ArgumentError(f"{type(self).__name__}: call super().__init__() before setting attributes")
        return self._parameters, self._buffers, self._modules  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: Any) -> None:
        parameters, buffers, modules = self._tables()
        kinds: tuple[tuple[dict[str, Any], Any], ...] = ((parameters, Parameter), (modules, Module))
        for table, kind in kinds:
            if isinstance(value, kind):
                for other in (parameters, buffers, modules, self.__dict__):
                    other.pop(name, None)
                table[name] = value
                changes.note()
                return
        for table in (parameters, modules):
            if name in table:
                if value is not None:
                    raise ArgumentError(f"{type(self).__name__}.{name} must be a {type(table[name]).__name__} or None, got {value!r}")
                table[name] = None
                changes.note()
                return
        if name in buffers:
            buffers[name] = value
        elif name in self.__dict__ and _same(self.__dict__[name], value):
            return
        else:
            object.__setattr__(self, name, value)
        changes.note()

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            known = self.__dict__.get(table)
            if known is not None and name in known:
                return known[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for table in self._tables():
            if name in table:
                del table[name]
                changes.note()
                return
        object.__delattr__(self, name)

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Add a parameter under a name; None keeps the name without a value."""
        self._parameters[name] = parameter  # type: ignore[attr-defined]
        changes.note()

    def register_buffer(self, name: str, tensor: Tensor | None) -> None:
        """Add a tensor that is saved with the module but not trained."""
        self._buffers[name] = tensor  # type: ignore[attr-defined]
        changes.note()

    # ---- walking the tree ------------------------------------------------------------------------------------------------

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with their paths."""
        seen: set[int] = set()
        stack = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield path, module
            below = [(f"{path}.{n}" if path else n, m) for n, m in module._tables()[2].items() if m is not None]
            stack.extend(reversed(below))

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (m for _, m in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, with their names."""
        return ((n, m) for n, m in self._tables()[2].items() if m is not None)

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        return (m for _, m in self.named_children())

    def _named(self, table: int, once: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules():
            for name, value in module._tables()[table].items():
                if value is None or (once and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their paths; a shared one once, unless duplicates are wanted."""
        return self._named(0, remove_duplicate)

    def parameters(self) -> Iterator[Parameter]:
        """All parameters, a shared one once."""
        return (p for _, p in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their paths."""
        return self._named(1, True)

    def buffers(self) -> Iterator[Tensor]:
        """All buffers."""
        return (b for _, b in self.named_buffers())

    def apply(self, function: Callable[[Module], Any]) -> Module:
        """Call a function on every module below, then on this one; returns the module."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    # ---- modes -----------------------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Module:
        """Switch this module and all below to training (or evaluation) behaviour; returns the module."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Switch this module and all below to evaluation behaviour; returns the module."""
        return self.train(False)

    def requires_grad_(self, wanted: bool = True) -> Module:
        """Train all parameters, or freeze them; returns the module."""
        for p in self.parameters():
            p.requires_grad_(wanted)
        return self

    def freeze(self) -> Module:
        """Stop training this module: no gradients, and evaluation behaviour (statistics stand still); returns the module."""
        return self.requires_grad_(False).eval()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters."""
        for p in self.parameters():
            p.grad = None if set_to_none else as_tensor(np.zeros(p.shape, p.dtype.numpy))

    # ---- saving ----------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of all parameters and buffers by path; a shared one under each of its paths.

        returns  {path: tensor}
        source   PyTorch, state_dict
        """
        named = [*self._named(0, False), *self._named(1, False)]
        return {name: as_tensor(np.array(value.numpy())) for name, value in named}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> tuple[list[str], list[str]]:
        """Overwrite parameters and buffers by path.

        state    {path: tensor or array}
        strict   raise when names do not match
        returns  missing names, unexpected names
        raises   CheckpointError naming missing and unexpected keys with the nearest known name, or wrong shapes; nothing is
                 changed then
        source   PyTorch, load_state_dict
        """
        own = dict([*self._named(0, False), *self._named(1, False)])
        missing = [n for n in own if n not in state]
        unexpected = [n for n in state if n not in own]
        if strict and (missing or unexpected):
            raise CheckpointError(_mismatch(missing, unexpected, list(own)))
        pairs: dict[int, tuple[Any, Any]] = {}
        for name, value in state.items():
            if name not in own:
                continue
            if tuple(value.shape) != own[name].shape:
                raise CheckpointError(f"state: {name} has shape {tuple(value.shape)}, the model's has {own[name].shape}")
            pairs[id(own[name])] = (own[name], as_tensor(value).detach().astype(own[name].dtype))  # type: ignore[attr-defined]
        overwrite(list(pairs.values()))
        return missing, unexpected

    def extra_repr(self) -> str:
        """The settings of this layer, as shown in its repr."""
        return ""

    def __repr__(self) -> str:
        inner = [f"  ({n}): " + repr(m).replace("\n", "\n  ") for n, m in self.named_children()]
        name = type(self).__name__
        return f"{name}({self.extra_repr()})" if not inner else f"{name}(\n" + "\n".join(inner) + "\n)"


def _same(a: Any, b: Any) -> bool:
    """Whether setting an attribute to b changes nothing: equal plain values."""
    return a is b or (type(a) is type(b) and isinstance(a, (bool, int, float, str)) and a == b)


def _mismatch(missing: list[str], unexpected: list[str], known: list[str]) -> str:
    lines = []
    if missing:
        lines.append(f"missing: {', '.join(missing)}")
    for name in unexpected:
        near = difflib.get_close_matches(name, known, 1)
        lines.append(f"unexpected: {name}" + (f" (nearest known: {near[0]})" if near else ""))
    return "state does not fit the model; " + "; ".join(lines) + "; use strict=False to load what fits"
