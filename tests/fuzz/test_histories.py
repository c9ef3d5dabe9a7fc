"""Random histories: each handle shows its own value, whatever happens to the others; compiled training is uncompiled training."""

from __future__ import annotations

import pytest

from .history import History
from .twins import Twins


@pytest.mark.parametrize("number", range(10))
def test_histories(number):
    History(number).run(60)


@pytest.mark.slow
def test_many_histories(request):
    for number in range(100, 100 + request.config.getoption("--graphs")):
        History(number).run(60)


@pytest.mark.parametrize("number", range(3))
def test_twins(number):
    Twins(number).run(15)


@pytest.mark.slow
def test_many_twins(request):
    for number in range(100, 100 + request.config.getoption("--graphs") // 4):
        Twins(number).run(30)
