"""Check who imports whom: the direction of imports is part of the design. Exits with 1 and a list of offences."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "renaissance"

# Each part, and the parts it may import. A part is a folder or a file directly below the package.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "config": {"errors"},
    "changes": set(),
    "progress": set(),
    "locks": set(),
    "recent": set(),
    "tree": set(),
    "ir": {"errors", "config", "locks"},
    "ops": {"errors", "config", "locks", "recent", "ir"},
    "autodiff": {"errors", "ir", "ops"},
    "compile": {"errors", "config", "ir", "ops"},
    "kernels": {"errors", "config", "ir", "ops"},
    "runtime": {"errors", "config", "ir", "kernels"},
    "region": {"ir", "ops", "runtime"},
    "linear": {"errors", "ir", "ops", "region"},
    "tuned": {"errors", "ir", "compile"},
}
# Each of these may import all that stand before it.
for _part in ("engine", "tensor", "parameter", "random", "trace", "transforms", "debug"):
    ALLOWED[_part] = {*ALLOWED}
CORE = {*ALLOWED}
ALLOWED |= {"nn": CORE, "optim": CORE, "data": CORE}
ALLOWED |= {"models": CORE | {"nn"}, "train": CORE | {"nn", "optim", "data"}}
ALLOWED |= {"cli": CORE | {"nn", "optim", "data", "models", "train"}}
ALLOWED |= {"__init__": {*ALLOWED}}


def part_of(path: Path) -> str:
    """The part a file belongs to."""
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported(module: str, names: list[str]) -> set[str]:
    """The parts an import statement reaches."""
    pieces = module.split(".")
    if pieces[0] != "renaissance":
        return set()
    return {pieces[1]} if len(pieces) > 1 else set(names)


def offences(path: Path) -> list[str]:
    """What a file imports against the rules, and its imports inside functions."""
    part, found = part_of(path), []
    tree = ast.parse(path.read_text(), str(path))
    for scope in ast.walk(tree):
        inside = isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef))
        for statement in ast.walk(scope) if inside else [scope]:
            if isinstance(statement, ast.Import):
                reached = set().union(*(imported(a.name, []) for a in statement.names))
            elif isinstance(statement, ast.ImportFrom):
                if statement.level:
                    found.append(f"{path}:{statement.lineno}: relative import; write the full name")
                reached = imported(statement.module or "", [a.name for a in statement.names])
            else:
                continue
            if inside:
                found.append(f"{path}:{statement.lineno}: import inside a function")
            for other in sorted(reached - {part}):
                if other not in ALLOWED[part]:
                    found.append(f"{path}:{statement.lineno}: {part} must not import {other}")
    return sorted(set(found))


def main() -> int:
    """Check the whole package."""
    found = [o for path in sorted(ROOT.rglob("*.py")) for o in offences(path)]
    print("\n".join(found) or "layering: in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
