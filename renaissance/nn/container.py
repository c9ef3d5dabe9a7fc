"""Modules that hold modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from renaissance.errors import ArgumentError
from renaissance.nn.module import Module


class Sequential(Module):
    """Modules applied one after the other.

    y = f_n(... f_2(f_1(x)))

    modules  any number of modules, or one dict of them by name; x  what the first takes
    returns  what the last gives; model[i] is a module, model[a:b] a Sequential of some, under the names they have here
    raises   ArgumentError for what is no Module
    source   PyTorch, Sequential
    """

    def __init__(self, *modules: Any):
        super().__init__()
        named = modules[0] if len(modules) == 1 and isinstance(modules[0], dict) else {str(i): m for i, m in enumerate(modules)}
        for name, module in named.items():
            if not isinstance(module, Module):
                raise ArgumentError(f"Sequential: {name} must be a Module, got {type(module).__name__}")
            setattr(self, name, module)

    def forward(self, x: Any) -> Any:
        for module in self.children():
            x = module(x)
        return x

    def __len__(self) -> int:
        return len(list(self.children()))

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, index: int | slice) -> Module:
        modules = list(self.named_children())
        return Sequential(dict(modules[index])) if isinstance(index, slice) else modules[index][1]
