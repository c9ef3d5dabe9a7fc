"""A file of measured engines: which one does which convolution on this machine, as `renaissance tune` found. Readable JSON."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from renaissance.compile.choice import convolution_named, engines_on
from renaissance.errors import ArgumentError
from renaissance.ir.target import Target

_VERSION = 1  # of the form of the file, and of the engines: one more when either changes, so that no old file is taken for a new
# Not part of what a file was measured on: what LLVM is told beside the CPU's name, which varies with its version; and choices.
_ASIDE = ("features", "winograd", "overrides")

Overrides = tuple[tuple[str, str], ...]


def write_overrides(path: Path, target: Target, threads: int, engines: Mapping[str, str],
                    times_ms: Mapping[str, Mapping[str, float]]) -> None:
    """Write a file of engines; it appears whole or not at all.

    target    what they were measured on
    threads   with how many threads
    engines   by the name of the convolution
    times_ms  for the reader: by convolution and engine, in ms
    raises    ArgumentError when it cannot be written
    """
    content = {"version": _VERSION, "target": _facts(target), "threads": threads, "engines": dict(sorted(engines.items())),
               "times_ms": dict(sorted(times_ms.items()))}
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_text(json.dumps(content, indent=1) + "\n")
        aside.replace(path)
    except OSError as e:
        raise ArgumentError(f"{path}: cannot be written: {e.strerror or e}") from None
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()


def read_overrides(path: Path, target: Target) -> Overrides:
    """The overrides in a file that `write_overrides` wrote.

    target  what they are for
    raises  ArgumentError, which says what to do, for a file that cannot be read, is damaged, of another version, of another
            Target, or names what is no convolution or an engine that cannot do it
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise _refused(path, f"cannot be read: {e.strerror or e}") from None
    except (ValueError, RecursionError) as e:
        raise _refused(path, f"is damaged, no JSON: {e}") from None
    if not isinstance(content, dict) or not isinstance(content.get("engines"), dict):
        raise _refused(path, "is damaged: it has no entry engines")
    if content.get("version") != _VERSION:
        raise _refused(path, f"is of version {content.get('version')!r}, this package reads version {_VERSION}")
    measured = content.get("target")
    for name, value in _facts(target).items():
        theirs = measured.get(name) if isinstance(measured, dict) else None
        if theirs != value:
            raise _refused(path, f"was measured on another Target: {name} {theirs!r}, here {value!r}")
    return tuple(sorted(_checked(path, name, engine, target) for name, engine in content["engines"].items()))


def _checked(path: Path, name: str, engine: Any, target: Target) -> tuple[str, str]:
    if convolution_named(name) is None:
        raise _refused(path, f"{name!r} is no convolution that several engines can do")
    legal = engines_on(target)
    if engine not in legal:
        why = "" if target.winograd else " under RENAISSANCE_WINOGRAD=0"
        raise _refused(path, f"engine {engine!r} cannot do {name!r}; {', '.join(legal)} can{why}")
    return name, engine


def _facts(target: Target) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(target).items() if name not in _ASIDE}


def _refused(path: Path, why: str) -> ArgumentError:
    return ArgumentError(f"RENAISSANCE_TUNED: {path} {why}; measure again with `renaissance tune`, or unset RENAISSANCE_TUNED")
