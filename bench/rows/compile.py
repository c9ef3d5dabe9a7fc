"""Row `compile`: seconds until two training steps of the `mlp` network are done, compiling included.

cold  fresh process, empty cache
warm  fresh process, filled cache
"""

from __future__ import annotations

from bench.measure import Bar, Case
from bench.program import Program


def cases() -> list[Case]:
    """Both variants in fp32."""
    return [
        Case("compile", variant, "fp32", Program("renaissance", "bench.ours.first_step", empty_cache=cold),
             (Program("torch compile", "bench.rivals.first_step", empty_cache=cold),),
             bars=(Bar("ours_s", limit, at_most=True),))
        for variant, cold, limit in (("cold", True, 2.0), ("warm", False, 0.2))]
