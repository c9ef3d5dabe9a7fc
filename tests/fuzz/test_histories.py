"""Random histories of handles: each shows its own value, whatever happens to the others."""

from __future__ import annotations

import pytest

from .history import History


@pytest.mark.parametrize("number", range(10))
def test_histories(number):
    History(number).run(60)


@pytest.mark.slow
def test_many_histories(request):
    for number in range(100, 100 + request.config.getoption("--graphs")):
        History(number).run(60)
