"""Candidates for the quickest way to run one PyTorch program: eager and compiled, with malloc as it is and tuned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bench.program import TUNED_MALLOC, Program

DEFAULT_MALLOC: Mapping[str, Mapping[str, str]] = {"default": {}}
MALLOCS = {"tuned": TUNED_MALLOC, **DEFAULT_MALLOC}


def torch_programs(module: str, arguments: tuple[str, ...], quick: tuple[str, ...], *,
                   modes: Iterable[str] = ("eager", "compile", "autotune"),
                   mallocs: Mapping[str, Mapping[str, str]] = MALLOCS, suffix: str = "") -> tuple[Program, ...]:
    """One program for each mode and each malloc; `suffix` is added to their names.

    modes    'eager', 'compile' (torch.compile) or 'autotune' (torch.compile with mode max-autotune); others of the module's own
    mallocs  variables of the environment, by name
    """
    return tuple(
        Program(f"torch {mode}, {malloc} malloc{suffix}", module, (*arguments, "--mode", mode), quick, environment)
        for mode in modes
        for malloc, environment in mallocs.items())
