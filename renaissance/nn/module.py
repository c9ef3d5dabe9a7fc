"""Module: a tree of parameters, buffers and other modules, with PyTorch's names."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from renaissance import changes
from renaissance.errors import ArgumentError, CheckpointError
from renaissance.parameter import Parameter
from renaissance.tensor import Tensor, as_tensor, overwrite, tensor, zeros

_SHOWN = 8  # names of a kind that an error message lists


class Unmatched(NamedTuple):
    """Names that load_state_dict found on one side only."""

    missing_keys: list[str]
    unexpected_keys: list[str]


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
    """Base of all layers and models: a subclass sets parameters, buffers and modules as attributes and defines forward().

    module(x) = module.forward(x)

    training   whether layers such as Dropout behave as in training; see train() and eval()
    frozen     whether train() passes this module over; see freeze()
    raises     ArgumentError when attributes are set before super().__init__()
    source     PyTorch, torch.nn.Module
    """

    training: bool
    frozen: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]

    def __init__(self) -> None:
        fields: dict[str, Any] = {"training": True, "frozen": False, "_parameters": {}, "_buffers": {}, "_modules": {}}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What a call of the module gives; a subclass says it."""
        raise ArgumentError(f"{type(self).__name__} does not define forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self.forward(*args, **kwargs)
        if _watch.hook is not None:
            _watch.hook(self, output)
        return output

    # ---- attributes ------------------------------------------------------------------------------------------------------

    def _tables(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if "_modules" not in self.__dict__:
            raise ArgumentError(f"{type(self).__name__}: call super().__init__() before setting attributes")
        return self._parameters, self._buffers, self._modules

    def __setattr__(self, name: str, value: Any) -> None:
        parameters, buffers, modules = self._tables()
        for table, kind in ((parameters, Parameter), (modules, Module)):
            if isinstance(value, kind):
                self._enter(table, name, value)
                return
        for table, kind in ((parameters, Parameter), (modules, Module), (buffers, Tensor)):
            if name in table:
                if value is not None and not isinstance(value, kind):
                    raise ArgumentError(f"{type(self).__name__}.{name} must be a {kind.__name__} or None, got {value!r}")
                table[name] = value
                changes.note()
                return
        if name in self.__dict__ and _same(self.__dict__[name], value):
            return
        object.__setattr__(self, name, value)
        changes.note()

    def _enter(self, table: dict[str, Any], name: str, value: Any) -> None:
        """Put a value under a name into one table, and take the name out of all others."""
        if "." in name or not name:
            raise ArgumentError(f"{type(self).__name__}: a name must not be empty or hold a dot, got {name!r}")
        if isinstance(value, Module) and any(m is self for m in value.modules()):
            raise ArgumentError(f"{type(self).__name__}.{name}: a module cannot contain itself")
        for other in (*self._tables(), self.__dict__):
            if other is not table:
                other.pop(name, None)
        table[name] = value
        changes.note()

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            known = self.__dict__.get(table)
            if known is not None and name in known:
                return known[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self)

    def __delattr__(self, name: str) -> None:
        for table in self._tables():
            if name in table:
                del table[name]
                changes.note()
                return
        object.__delattr__(self, name)
        changes.note()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for table in self._tables() for name in table)})

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Add a parameter under a name; None keeps the name without a value."""
        self._register(self._parameters, Parameter, name, parameter)

    def register_buffer(self, name: str, tensor: Tensor | None) -> None:
        """Add a tensor that is saved with the module but not trained; None keeps the name without a value."""
        self._register(self._buffers, Tensor, name, tensor)

    def _register(self, table: dict[str, Any], kind: type, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, kind):
            raise ArgumentError(f"{type(self).__name__}.{name} must be a {kind.__name__} or None, got {value!r}")
        if name not in table and hasattr(self, name):
            raise ArgumentError(f"{type(self).__name__} has an attribute {name!r} already")
        self._enter(table, name, value)

    # ---- walking the tree ------------------------------------------------------------------------------------------------

    def named_modules(self, prefix: str = "", *, remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """This module and all below it with their paths, parents first; a shared one once, unless duplicates are wanted."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if remove_duplicate and id(module) in seen:
                continue
            seen.add(id(module))
            yield path, module
            below = [(f"{path}.{n}" if path else n, m) for n, m in module.named_children()]
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

    def _named(self, table: int, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]:
            for name, value in module._tables()[table].items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their paths; a shared one once, unless duplicates are wanted."""
        return self._named(0, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, a shared one once."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their paths; a shared one once, unless duplicates are wanted."""
        return self._named(1, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, a shared one once."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def apply(self, function: Callable[[Module], Any]) -> Module:
        """Call a function on every module below, then on this one; returns the module."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    # ---- modes -----------------------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Module:
        """Switch this module and all below to training (or evaluation) behaviour, frozen ones aside; returns the module."""
        for module in self.modules():
            module.training = mode and not module.frozen
        return self

    def eval(self) -> Module:
        """Switch this module and all below to evaluation behaviour; returns the module."""
        return self.train(False)

    def requires_grad_(self, wanted: bool = True) -> Module:
        """Ask for gradients of all parameters, or stop asking; returns the module."""
        for p in self.parameters():
            p.requires_grad_(wanted)
        return self

    def freeze(self, wanted: bool = True) -> Module:
        """Stop training this module and all below, or take that back; returns the module.

        Frozen: no gradients, and evaluation behaviour (statistics stand still) that a later train() of the whole model keeps.
        Taken back, it is the next train() that counts.
        """
        for module in self.modules():
            module.frozen = wanted
            module.training = module.training and not wanted
        return self.requires_grad_(not wanted)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero."""
        for p in self.parameters():
            p.grad = None if set_to_none else zeros(p.shape, p.dtype)

    # ---- saving ----------------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Tensor]:
        modules = self.named_modules(remove_duplicate=False)
        return {name: value for path, module in modules for table in (0, 1)
                for name, value in module._named(table, path, False, False)}

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of all parameters and buffers by path; a shared one under each of its paths.

        returns  {path: tensor}
        raises   TraceError inside a compiled function
        source   PyTorch, state_dict
        """
        return {name: tensor(value) for name, value in self._state().items()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Unmatched:
        """Overwrite parameters and buffers by path.

        state    {path: tensor or array}
        strict   raise when names do not match
        returns  missing names, unexpected names
        raises   CheckpointError naming missing and unexpected keys with the nearest known name, or wrong shapes; nothing is
                 changed then
        source   PyTorch, load_state_dict
        """
        own = self._state()
        missing, unexpected = [n for n in own if n not in state], [n for n in state if n not in own]
        if strict and (missing or unexpected):
            raise CheckpointError(_mismatch(missing, unexpected, list(own)))
        given = {name: as_tensor(state[name]) for name in own if name in state}
        if wrong := [n for n, value in given.items() if value.shape != own[n].shape]:
            raise CheckpointError(f"state: {wrong[0]} has shape {given[wrong[0]].shape}, the model's has {own[wrong[0]].shape}")
        pairs = {id(own[n]): (own[n], value.astype(own[n].dtype)) for n, value in given.items()}  # type: ignore[attr-defined]
        overwrite(list(pairs.values()))
        return Unmatched(missing, unexpected)

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
    lines = [f"missing: {_listed(missing)}"] if missing else []
    if unexpected:
        near = {name: difflib.get_close_matches(name, known, 1) for name in unexpected}
        lines.append("unexpected: " + _listed([name + (f" (nearest known: {m[0]})" if m else "") for name, m in near.items()]))
    return "state does not fit the model; " + "; ".join(lines) + "; use strict=False to load what fits"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
