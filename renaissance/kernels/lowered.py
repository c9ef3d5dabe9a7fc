"""What lowering an item gives: the recipe of its code, the argument block of the launch, and how it is cut into chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from renaissance.kernels.loops import Module

# ("operand", number, byte offset) an address | ("int", value) | ("scalar", number, dtype) | ("error",) an address
Slot = tuple


@dataclass(frozen=True)
class Lowered:
    """One item made ready for a Target.

    key            names the object code, equal for equal code; the Target is not part of it
    symbol         the exported function's name
    build          makes the loop program; called only when no code is cached under the key
    slots          the argument block, 8 bytes each
    chunks         calls of the function that make one launch, in any order
    scratch_bytes  what each thread must own for it
    """

    key: str
    symbol: str
    build: Callable[[], Module]
    slots: tuple[Slot, ...]
    chunks: int
    scratch_bytes: int = 0


def code_key(prefix: str, structure: object) -> str:
    """A key, fit for a symbol: the readable prefix, then a digest of everything that shapes the code (by its repr)."""
    digest = hashlib.sha256(repr(structure).encode()).hexdigest()[:16]
    readable = "".join(c if c.isalnum() else "_" for c in prefix)[:80]
    return f"{readable}_{digest}"
