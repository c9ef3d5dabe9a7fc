"""Row `tinymlp`: one training step of 10-45-45-10 with Adam, batch 128, where almost all of PyTorch's time is overhead.

The rivals are tried on one thread too, which is the quicker for so little work.
"""

from __future__ import annotations

from bench.measure import Bar, Case
from bench.program import Program
from bench.rows.candidates import torch_programs

QUICK = ("--steps", "20")
STEPS = ("--steps", "3000")


def cases() -> list[Case]:
    """Both precisions; the bar is for fp32."""
    found = []
    for precision in ("fp32", "bf16"):
        arguments = ("tinymlp", "--precision", precision, *STEPS)
        rivals = (
            *torch_programs("bench.rivals.step", (*arguments, "--threads", "1"), QUICK, modes=("eager", "compile"),
                            suffix=", one thread"),
            *torch_programs("bench.rivals.step", arguments, QUICK, modes=("eager", "compile")))
        found.append(Case("tinymlp", "fastest", precision, Program("renaissance", "bench.ours.step", arguments, QUICK), rivals,
                          bars=(Bar("ratio", 10),) if precision == "fp32" else ()))
    return found
