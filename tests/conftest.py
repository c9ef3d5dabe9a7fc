"""What all tests share: texts kept in tests/golden, and that the suite runs without PyTorch.

tests/parity, which compares with PyTorch, is collected only where it is installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import renaissance as rn

collect_ignore = [] if importlib.util.find_spec("torch") else ["parity"]

_CONVOLVES = re.compile(r"\bconv\b|numbers_of_torchvision|compiled_step_of_a_model|small_images|half_way|models_in_bf16|convolution_layers|convolution_parity|lenet_trains")
GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the texts in tests/golden anew, not compare with them")
    parser.addoption("--graphs", type=int, default=200, help="number of random programs in the long run of tests/fuzz")


@pytest.fixture(autouse=True)
def convolutions_on_the_reference_executor(request: pytest.FixtureRequest) -> Iterator[None]:
    """The cpu has no kernels for convolutions yet: tests that compute some run on the reference executor."""
    with rn.executor("reference") if _CONVOLVES.search(request.node.nodeid) else contextlib.nullcontext():
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with the one kept under a name; after a change that is meant: --update-golden, and read the diff."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.write_text(text + "\n")
        assert path.read_text() == text + "\n", f"{path.name} differs; if that is meant: pytest --update-golden"

    return compare
