"""What all tests share: texts kept in tests/golden, and that the suite runs without PyTorch.

tests/parity, which compares with PyTorch, is collected only where it is installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

collect_ignore = [] if importlib.util.find_spec("torch") else ["parity"]

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the texts in tests/golden anew, not compare with them")
    parser.addoption("--graphs", type=int, default=200, help="number of random programs in the long run of tests/fuzz")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with the one kept under a name; after a change that is meant: --update-golden, and read the diff."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.write_text(text + "\n")
        assert path.read_text() == text + "\n", f"{path.name} differs; if that is meant: pytest --update-golden"

    return compare
