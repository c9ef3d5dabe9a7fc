"""Reuse: dear values that several sweeps over a row need are computed in one sweep, put in memory, and loaded by the others.

The memory is that of a value the item stores anyway: its own, or that of a later result at the same points, which is written
over it at the end. So reuse costs no bytes, and the exponentials of a softmax are computed once, not for the sum and again for
the quotient.
"""

from __future__ import annotations

from renaissance.compile.groups import Group
from renaissance.compile.links import CHEAP, Link, cost_of
from renaissance.compile.storage import Storage, Where
from renaissance.ir.node import Node

Links = dict[Node, list[Link]]


def saved_values(group: Group, storage: Storage, links: Links) -> dict[Node, Where]:
    """For each member of a row group that is worth saving for later sweeps, the place to put it."""
    if group.kind != "row":
        return {}
    final = [n for n in group.members if n not in group.kept and n in storage.home]
    free = [n for n in final if n not in storage.extra]
    saved: dict[Node, Where] = {}
    lenders: set[Node] = set()
    for n in reversed(group.members):
        if n in group.kept or n in lenders or cost_of(n) <= CHEAP or sweeps_of(n, group, final, links, set(saved)) < 2:
            continue
        if n in storage.home:
            saved[n] = storage.home[n]
            continue
        lender = next((f for f in free if f.dtype is n.dtype and f not in saved), None)
        if lender is not None:
            free.remove(lender)
            lenders.add(lender)
            saved[n] = storage.home[lender]
    return saved


def sweeps_of(n: Node, group: Group, final: list[Node], links: Links, saved: set[Node]) -> int:
    """In how many sweeps a member is computed: one for each reduction and each saved value, and one for what is stored last."""
    roots = [[r] for r in group.members if r.op.kind == "reduce"] + [[s] for s in saved]
    roots.append([f for f in final if f not in saved])
    return sum(_reaches(sweep, n, group, links, saved - set(sweep)) for sweep in roots)


def _reaches(roots: list[Node], n: Node, group: Group, links: Links, stop: set[Node]) -> bool:
    """Whether the code of `roots` contains `n`, not looking behind values that are loaded or carried."""
    inside = set(group.members) - group.kept - stop
    stack, seen = list(roots), set(roots)
    while stack:
        m = stack.pop()
        if m is n:
            return True
        for link in links[m]:
            if link.base in inside and link.base not in seen:
                seen.add(link.base)
                stack.append(link.base)
    return False
