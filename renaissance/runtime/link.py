"""link: a Plan becomes an Executable."""

from __future__ import annotations

from renaissance.ir.plan import Host, Plan
from renaissance.ir.target import Target
from renaissance.kernels.lower import lower
from renaissance.runtime import jit
from renaissance.runtime.assemble import assemble
from renaissance.runtime.executable import Executable


def link(plan: Plan, target: Target, threads: int) -> Executable:
    """Make a plan ready to run on a pool of `threads` threads.

    raises   KernelError or PlanError for an item nothing can run, DeviceError when the machine lacks the memory
    """
    target = target.machine
    kernels = [lower(item, target, threads) for item in plan.items if not isinstance(item.spec, Host)]
    return assemble(plan, kernels, jit.functions(kernels, target), target, threads)
