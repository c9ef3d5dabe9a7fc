"""Random programs: uncompiled, with some values computed early, and compiled, they give the bits of node by node.

The long run: pytest tests/fuzz -m slow --graphs 2000
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from .check import check
from .grow import numbered_program, programs
from .program import Program
from .shrink import smaller


@settings(max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck),
          phases=(Phase.generate, Phase.shrink))
@given(programs(most_steps=8))
def test_small_programs(program):
    check(program)


@pytest.mark.parametrize("number", range(12))
def test_programs_by_number(number):
    check(numbered_program(number, most_steps=16), number, everywhere=number == 2)


@pytest.mark.slow
def test_many_programs(request):
    """All programs from 100 on, as many as --graphs says; what fails is made smaller and shown."""
    failures = []
    for number in range(100, 100 + request.config.getoption("--graphs")):
        program = numbered_program(number)
        failure = failure_of(program, number)
        if failure is not None:
            least = smaller(program, lambda p, n=number, f=failure: failure_of(p, n) == f)
            failures.append(f"program {number}: {failure}\n{least}\n{least!r}")
            if len(failures) == 3:
                break
    assert not failures, "\n\n".join(failures)


def failure_of(program: Program, number: int) -> str | None:
    """How a program fails, in a few words."""
    try:
        check(program, number, everywhere=number % 8 == 0)
    except Exception as e:
        return f"{type(e).__name__}: {str(e)[:20]}"
    return None
