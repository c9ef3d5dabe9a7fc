"""The pages of this project as programs: their Python blocks run, their links lead somewhere, the names in them exist.

A page may hold directions to the tests, which readers do not see:

    <!-- test: 100 -> 2; a -> b -->   before a block: what tests put in place of what, so that it runs on a small input
    <!-- test: absent -->             before a list: the names in it must not exist yet
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import renaissance as rn
from renaissance import data, nn, optim

ROOT = Path(__file__).resolve().parent.parent
NAMESPACES = {"rn": rn, "nn": nn, "optim": optim, "data": data}
_BLOCK = re.compile(r"^(?:<!-- test: (?P<changes>[^\n]*?->[^\n]*?) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$",
                    re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"(?<![\w.])(rn|nn|optim|data)((?:\.[A-Za-z_]\w*)+)")
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
_ABSENT = re.compile(r"^<!-- test: absent -->\n(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A code block: its language, its text as tests run it, and the line of the page it starts on."""

    language: str
    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The code blocks of a page, with the changes it asks for made; a change that finds nothing to change is an error."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        code = match["code"]
        for change in (match["changes"] or "").split(";"):
            old, arrow, new = (part.strip() for part in change.partition("->"))
            assert not arrow or old in code, f"{page.name}: nothing to change: {old!r}"
            code = code.replace(old, new) if arrow else code
        found.append(Block(match["language"], code, text.count("\n", 0, match.start("code")) + 1))
    return found


def run(page: Path) -> dict[str, Any]:
    """Run the Python blocks of a page one after the other, as one program; returns its names."""
    names: dict[str, Any] = {"__name__": page.stem}
    for block in blocks(page):
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), names)
    return names


def dead_links(page: Path) -> list[str]:
    """Links of a page to files that do not exist."""
    return [target for target in _LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / target).exists()]


def wrong_names(page: Path) -> list[str]:
    """Dotted names of the public modules that a page uses and that do not exist, or that it says are absent and that do exist."""
    text = page.read_text(encoding="utf-8")
    absent = {name for part in _ABSENT.findall(text) for name in _names(part)}
    present = _names(_ABSENT.sub("", text))
    return sorted([name for name in present if not _exists(name)] + [f"{name} (exists)" for name in absent if _exists(name)])


def _names(text: str) -> set[str]:
    return {root + path for root, path in _NAME.findall(text)}


def _exists(name: str) -> bool:
    root, *path = name.split(".")
    value = NAMESPACES[root]
    for part in path:
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True
