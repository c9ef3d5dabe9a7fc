"""Keep or compute again: which values lie in memory, and which cheap ones are computed anew in every item that reads them.

A value that another group reads is stored, unless computing it there again is legal (cheap code over values that are stored
anyway) and moves fewer bytes. The bits are the same either way.
"""

from __future__ import annotations

from dataclasses import dataclass

from renaissance.compile.groups import Group
from renaissance.compile.links import CHEAP, Link, cost_of
from renaissance.compile.partition import Partition
from renaissance.compile.storage import Storage
from renaissance.ir.node import Node
from renaissance.ir.shape import size

MOST_ONCE = 400  # additions' worth of code that may move to its only reader
MOST_AGAIN = 24  # the same for code that several items then run
MOST_STRETCHED = 4  # the same for a single number that is computed again for every point
CACHED_BYTES = 1 << 20  # what stays in a core's own cache until all of a line is used
MOST_WINDOWS = 96  # the same for code that one item runs at several places for each of its points


@dataclass(frozen=True)
class Worth:
    """Bytes moved if values are stored and read, against bytes moved if every reader computes them again."""

    stored_bytes: int
    again_bytes: int


@dataclass(frozen=True)
class Recipe:
    """How a value can be computed again: from which stored values, by about how many additions, the dearest word costing what.

    sources  how many bytes of each are read
    windows  whether it takes several elements of one value, each at a distance of its own
    """

    sources: dict[Node, int]
    cost: int
    dearest: int
    windows: bool


class Keeping:
    """Decides, group by group in order of dependence, and gives stored nodes their place.

    groups  those that still have something to compute, in order of dependence
    """

    def __init__(self, partition: Partition, storage: Storage):
        self._partition = partition
        self._storage = storage
        self._sources: dict[Group, dict[Node, int]] = {g: self._read_by(g) for g in partition.groups}
        self.groups: list[Group] = []
        for group in partition.in_order():
            self._decide(group)
            if any(n in storage.home for n in group.members):
                self.groups.append(group)

    def _read_by(self, group: Group) -> dict[Node, int]:
        """The values a group takes from memory, and how many bytes of each."""
        inside, found = set(group.members), {}
        for link in (link for n in group.members for link in self._partition.links[n]):
            if link.base not in inside and (link.base.op.kind != "leaf" or link.base in self._storage.home):
                found[link.base] = max(found.get(link.base, 0), _seen_bytes(link))
        return found

    def _decide(self, group: Group) -> None:
        wanted = [n for n in group.members if self._outside(n, group)]
        delivered = any(n in self._storage.home for n in group.members)
        if not delivered and group.kind == "map" and self._compute_again(group, wanted, all_gone=True):
            return
        for n in wanted:
            if n not in self._storage.home and not self._compute_again(group, [n], all_gone=False):
                self._storage.keep(n)

    def _outside(self, n: Node, group: Group) -> list[Group]:
        """The other groups that read a value."""
        home = self._partition.home
        found = [home.get(reader) for reader, _ in self._partition.readers.get(n, ())]
        return [g for g in dict.fromkeys(found) if g is not None and g is not group]

    def _compute_again(self, group: Group, values: list[Node], all_gone: bool) -> bool:
        """Have all readers of `values` compute them, if that is legal and worth it.

        all_gone  nothing else of the group is needed, so that its own reads go too
        """
        readers = dict.fromkeys(g for n in values for g in self._outside(n, group))
        recipes = {n: self._recipe(n) for n in values}
        alone = all_gone and len(readers) == 1
        if not all(recipe is not None and self._legal(n, recipe, group, alone) for n, recipe in recipes.items()):
            return False
        needs: dict[Group, dict[Node, int]] = {g: {} for g in readers}
        for n, recipe in recipes.items():
            assert recipe is not None
            for g in self._outside(n, group):
                for source, read in recipe.sources.items():
                    needs[g][source] = max(needs[g].get(source, 0), read * self._dearness(n, g))
        worth = self._worth(group, values, needs, all_gone)
        if worth.again_bytes > worth.stored_bytes:
            return False
        for g, sources in needs.items():
            self._sources[g] = {n: read for n, read in {**sources, **self._sources[g]}.items() if n not in recipes}
        return True

    def _worth(self, group: Group, values: list[Node], needs: dict[Group, dict[Node, int]], all_gone: bool) -> Worth:
        stored = sum(_bytes(n) * (1 + sum(self._dearness(n, g) for g in self._outside(n, group))) for n in values)
        if all_gone:
            stored += sum(self._sources[group].values())
        again = sum(read for g, sources in needs.items() for s, read in sources.items() if s not in self._sources[g])
        return Worth(stored, again)

    def _dearness(self, n: Node, reader: Group) -> int:
        """What reading a byte of `n` costs a group: twice as much where a large value is turned: lines are used in parts."""
        if _bytes(n) < CACHED_BYTES:
            return 1
        links = [link for r, link in self._partition.readers[n] if self._partition.home.get(r) is reader]
        return 2 if any(v.op.name == "permute" for link in links for v in link.path) else 1

    # ---- legality -----------------------------------------------------------------------------------------------------

    def _legal(self, n: Node, recipe: Recipe, group: Group, alone: bool) -> bool:
        """Whether all readers may compute `n` themselves.

        alone  one group reads it and nothing else of this group is needed, so that nothing is computed twice
        """
        for reader, link in self._partition.readers[n]:
            home = self._partition.home.get(reader)
            if home is group:
                continue
            table = link is self._table(reader)
            if home is None or reader.op.kind == "host" or table or not self._fits_windows(n, recipe, reader, home):
                return False
            if link.stretches and recipe.cost > (MOST_STRETCHED if size(n.shape) == 1 else 1):
                return False
            once = alone and home.kind in ("map", "column") and not link.stretches
            if not once and (recipe.cost > MOST_AGAIN or recipe.dearest > CHEAP):
                return False
        return True

    def _table(self, reader: Node) -> Link | None:
        """The link of the input that a node can only read from memory: the table of a gather, an image that is packed."""
        number = 0 if reader.op.kind == "gather" else 1 if reader.op.name == "image_sums" else None
        return None if number is None else self._partition.links[reader][number]

    def _fits_windows(self, n: Node, recipe: Recipe, reader: Node, home: Group) -> bool:
        """Whether no windows would be taken of windows, and a product need not take them again and again as it is packed."""
        if recipe.windows and reader.op.kind == "contraction":
            return False
        readers = self._partition.readers[n]
        times = len({link.path for r, link in readers if _is_window(link) and self._partition.home.get(r) is home})
        return times < 2 or not (recipe.windows or recipe.cost * times > MOST_WINDOWS)

    def _recipe(self, n: Node) -> Recipe | None:
        """How to compute `n` from stored values; None if that takes more than a moderate amount of scalar code."""
        sources: dict[Node, int] = {}
        reached = {n: _bytes(n)}
        cost = dearest = 0
        paths: dict[Node, set[tuple[Node, ...]]] = {}
        stack = [n]
        while stack:
            m = stack.pop()
            if m.op.kind == "leaf" and m not in self._storage.home:
                continue
            if m in self._storage.home:
                sources[m] = reached[m]
                continue
            if m.op.kind != "scalar" or m.op.name == "check" or cost > MOST_ONCE:
                return None
            cost += cost_of(m)
            dearest = max(dearest, cost_of(m))
            for link in self._partition.links[m]:
                if _is_window(link) and size(link.path[0].shape) >= size(n.shape):
                    paths.setdefault(link.base, set()).add(link.path)
                if link.base not in reached:
                    stack.append(link.base)
                reached[link.base] = max(reached.get(link.base, 0), _seen_bytes(link))
        return Recipe({s: reached[s] for s in sources}, cost, dearest, any(len(found) > 1 for found in paths.values()))


def _is_window(link: Link) -> bool:
    """Whether a value is seen at some distance."""
    return any(v.op.name in ("slice", "pad", "shear") for v in link.path)


def _seen_bytes(link: Link) -> int:
    """How much of a value is read through a link: of a flat run of parameters the part that is one of them."""
    return min(size(v.shape) for v in (link.base, *link.path)) * link.base.dtype.size


def _bytes(n: Node) -> int:
    return size(n.shape) * n.dtype.size
