"""Sizes of memory as users write them."""

from __future__ import annotations

import re

from renaissance.errors import ArgumentError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def parsed_size(size: int | str) -> int:
    """Bytes of a size: a whole number of bytes, or text such as '1.5 GiB' (units B, KB to TB, KiB to TiB).

    raises  ArgumentError for anything else, and for a size that is not positive
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", size, re.IGNORECASE) if isinstance(size, str) else None
    if found and found[2].upper() in _UNITS:
        number = int(float(found[1]) * _UNITS[found[2].upper()])
    else:
        number = size if isinstance(size, int) and not isinstance(size, bool) else 0
    if number < 1:
        raise ArgumentError(f"memory_budget: a number of bytes, at least 1, or text such as '1.5 GiB', got {size!r}")
    return number
