"""Row `compile`: seconds until two training steps are done, compiling included.

cold, warm               of the `mlp` network, in a fresh process with an empty or a filled cache
vgg16bn_224_cold, _warm  of VGG, without what two steps take once it is compiled: compiling alone
"""

from __future__ import annotations

from bench.measure import Bar, Case
from bench.program import Program

QUICK = ("--batch", "2", "--steps", "1")
LIMIT = {("mlp", "cold"): 2.0, ("mlp", "warm"): 0.2, ("vgg16bn_224", "cold"): 5.0, ("vgg16bn_224", "warm"): 0.5}


def cases() -> list[Case]:
    """All variants in fp32."""
    found = []
    for (network, state), limit in LIMIT.items():
        alone = network != "mlp"
        arguments = (network, "--steps", "3") if alone else (network,)
        programs = [Program(name, module, arguments, QUICK if alone else (), empty_cache=state == "cold")
                    for name, module in (("renaissance", "bench.ours.first_step"), ("torch compile", "bench.rivals.first_step"))]
        found.append(Case("compile", f"{network}_{state}" if alone else state, "fp32", programs[0], (programs[1],),
                          bars=(Bar("ours_s", limit, at_most=True),)))
    return found
