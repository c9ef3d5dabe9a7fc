"""Partition: which nodes are computed together. Legality (may it be one item?) and worth (how many bytes?) are separate.

Nodes are taken in order, inputs first. Each joins the group of a producer where that saves memory traffic, and makes one group of
several producers where that is legal; so everything pointwise ends up behind a contraction, around the reductions over the same
rows, or in one map. Groups of independent nodes over one space are put together at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from renaissance.compile.dependence import Dependence
from renaissance.compile.groups import ALONE, Group, Space, group_of
from renaissance.compile.links import Link, is_row_constant, links_of, seen_through
from renaissance.compile.storage import Storage
from renaissance.ir.indexmap import is_view
from renaissance.ir.node import Node
from renaissance.ir.shape import size

MOST_MEMBERS = 160  # scalar instructions of one body: beyond that registers spill and compiling is slow
SMALL_BYTES = 1 << 15  # below this a launch costs more than the traffic of its values
LATER_BYTES = 1 << 12  # merging for less waits until all nodes are placed: it must not keep a larger one from being legal
NEAR_NODES = 32  # values made much earlier than they are needed would only wait in memory
MOST_SEEN = 24  # nodes looked at to find out what a reduction reads in the end


@dataclass(frozen=True)
class Worth:
    """What joining a node to a group saves: bytes not read again, and bytes not written because nobody else reads them."""

    read_bytes: int
    written_bytes: int

    @property
    def saved_bytes(self) -> int:
        return self.read_bytes + self.written_bytes


class Partition:
    """The groups of a graph.

    groups   in no particular order; each has its members in the order of the graph
    home     the group each computed node belongs to
    links    what each computed node reads
    readers  who reads each node, through which views
    """

    def __init__(self, order: list[Node], storage: Storage):
        self._storage = storage
        self._position = {n: i for i, n in enumerate(order)}
        self._dependence = Dependence()
        self._number: dict[Node, int] = {}  # of a computed node or concatenation: its group
        self._groups: dict[int, Group] = {}
        self._closed: set[int] = set()  # groups nothing may join
        self._later: list[tuple[int, int]] = []  # pairs of groups to merge at the end if that is still legal
        self._columns: dict[tuple[int, ...], list[tuple[Node, set[Node]]]] = {}  # by sizes: reductions and what they read
        self.links: dict[Node, list[Link]] = {}
        self.readers: dict[Node, list[tuple[Node, Link]]] = {}
        computed = [n for n in order if size(n.shape) and self._is_computed(n)]
        for n in computed:
            self.links[n] = links_of(n, storage.solid)
            for link in self.links[n]:
                self.readers.setdefault(link.base, []).append((n, link))
        for n in computed:
            self._place(n)
        for a, b in self._later:
            self._try_merge(a, b)
        self._merge_row_constants()
        self._merge_independent()
        self.groups = list(self._groups.values())
        self.home = {n: group for group in self.groups for n in group.members}

    def _is_computed(self, n: Node) -> bool:
        """Whether something must be done for a node: it is neither a leaf nor a view that nobody stores."""
        if n in self._storage.leaves or n.op.kind == "leaf":
            return False
        return n in self._storage.solid or not is_view(n)

    def in_order(self) -> list[Group]:
        """The groups, those that others wait for first: what comes before a group has fewer groups before it."""
        return [self._groups[g] for g in sorted(self._groups, key=lambda g: (self._dependence.rank(g), g))]

    # ---- one node -----------------------------------------------------------------------------------------------------

    def _place(self, n: Node) -> None:
        """Join `n` to the group that saves most, with all other groups that can become one with it; or begin a group."""
        needs = {self._number[link.base] for link in self.links[n] if link.base in self._number}
        if n.op.name == "concat":
            self._number[n] = self._dependence.add(needs)
            self._closed.add(self._number[n])
            return
        alone = group_of(n)
        legal = [g for g in dict.fromkeys(self._dependence.find(g) for g in needs) if self._may_join(n, alone, g, needs)]
        if not legal or n.op.name == "check":
            number = self._dependence.add(needs)
            self._groups[number] = alone
            self._number[n] = number
            if alone.kind == "column":
                self._share_pass(n, alone)
            if n.op.name == "check" or (is_view(n) and n in self._storage.dense):
                self._closed.add(number)
            return
        best = max(legal, key=lambda g: (self._worth(n, g).saved_bytes, g))
        self._join(n, alone, best, needs)
        for other in legal:
            if other != best:
                if self._worth(n, other).saved_bytes > LATER_BYTES:
                    self._try_merge(best, other)
                else:
                    self._later.append((best, other))

    def _share_pass(self, n: Node, alone: Group) -> None:
        """Put a new column reduction to one that lies near and reads the same values: one pass over them does for both.

        Now, and not at the end: what is computed from both would join the later one, which then waits for the earlier.
        """
        seen = self._seen(n, _points(alone))
        earlier = self._columns.setdefault(alone.sizes, [])
        for other, others in reversed(earlier):
            if self._position[n] - self._position[other] > NEAR_NODES:
                break
            if seen & others and self._try_merge(self._number[other], self._number[n]):
                break
        earlier.append((n, seen))

    def _seen(self, n: Node, points: int) -> set[Node]:
        """What a reduction reads with about one value per point, and what that is computed from."""
        seen: set[Node] = set()
        stack = [n]
        while stack and len(seen) < MOST_SEEN:
            for link in self.links.get(stack.pop(), ()):
                elements = min(size(v.shape) for v in (link.base, *link.path))
                if 2 * elements > points and link.base not in seen:
                    seen.add(link.base)
                    if link.base.op.kind == "scalar":
                        stack.append(link.base)
        return seen

    def _may_join(self, n: Node, alone: Group, g: int, needs: set[int]) -> bool:
        """Whether `n` can be computed in group `g`: the spaces fit, no circle forms, the body stays short."""
        if g in self._closed or not self._dependence.may_need(g, needs) or len(self._groups[g].members) >= MOST_MEMBERS:
            return False
        if self._overwrites_early(self._groups[g].kind, [*self._groups[g].members, n]):
            return False
        wider = joined(self._groups[g], alone)
        role = wider and role_in(n, alone, wider, self.links[n])
        if wider is None or role is None:
            return False
        inside = set(wider.members)
        if is_view(n) and not self._have_one_space(Group(wider.kind, wider.sizes, [*wider.members, n])):
            return False
        return all(link_fits(n, k, role, link, wider) for k, link in enumerate(self.links[n]) if link.base in inside)

    def _overwrites_early(self, kind: str, nodes: list[Node]) -> bool:
        """Whether pieces of new state would be made where something is reduced that others wait for, while the old state may
        still be read later, so that it could not be overwritten then."""
        if kind not in ("row", "column") or not any(self._storage.is_piece_of_state(n) for n in nodes):
            return False
        return any(n.op.kind == "reduce" and self._serves_others(n) for n in nodes)

    def _serves_others(self, n: Node) -> bool:
        """Whether something but pointwise work of as many elements, a state's update for example, depends on a value."""
        seen, stack = {n}, [n]
        while stack:
            for reader, _ in self.readers.get(stack.pop(), ()):
                if reader.op.name != "concat" and (reader.op.kind != "scalar" or size(reader.shape) != size(n.shape)):
                    return True
                if reader not in seen and reader.op.name != "concat":
                    seen.add(reader)
                    stack.append(reader)
        return False

    def _worth(self, n: Node, g: int) -> Worth:
        read = written = 0
        for base in dict.fromkeys(link.base for link in self.links[n]):
            if base in self._number and self._dependence.find(self._number[base]) == g:
                size_bytes = size(base.shape) * base.dtype.size
                read += size_bytes
                if base not in self._storage.home and all(reader is n for reader, _ in self.readers[base]):
                    written += size_bytes
        return Worth(read, written)

    def _join(self, n: Node, alone: Group, g: int, needs: set[int]) -> None:
        group = self._groups[g]
        wider = joined(group, alone)
        assert wider is not None
        group.kind, group.sizes = wider.kind, wider.sizes
        if role_in(n, alone, group, self.links[n]) == "kept":
            group.kept.add(n)
        group.members.append(n)
        self._number[n] = g
        self._dependence.need(g, needs)

    # ---- two groups ---------------------------------------------------------------------------------------------------

    def _try_merge(self, a: int, b: int) -> bool:
        """Make two groups one if that is legal."""
        a, b = self._dependence.find(a), self._dependence.find(b)
        if a == b or a in self._closed or b in self._closed or not self._dependence.may_merge(a, b):
            return False
        first, second = self._groups[a], self._groups[b]
        if len(first.members) + len(second.members) > MOST_MEMBERS:
            return False
        merged = merged_group(first, second)
        if merged is None or self._overwrites_early(merged.kind, merged.members):
            return False
        inside = set(merged.members)
        for n in merged.members:
            role = "kept" if n in merged.kept else "full"
            for k, link in enumerate(self.links[n]):
                if link.base in inside and not link_fits(n, k, role, link, merged):
                    return False
        if any(map(is_view, merged.members)) and not self._have_one_space(merged):
            return False
        merged.members.sort(key=self._position.__getitem__)
        number = self._dependence.merge(a, b)
        del self._groups[a], self._groups[b]
        self._groups[number] = merged
        return True

    def _have_one_space(self, group: Group) -> bool:
        """Whether some space of a map reaches all that its members read: a view that is stored may turn what others go along."""
        if group.kind != "map":
            return True
        space, inside = Space.of(group), set(group.members)
        for link in dict.fromkeys(link for n in group.members for link in self.links[n] if link.base not in inside and link.path):
            found = seen_through(link, space)
            if found is None:
                return False
            space = found[1]
        return True

    def _merge_row_constants(self) -> None:
        """Let values with one element per row be computed by the group that needs them row by row."""
        for g in list(self._groups):
            group = self._groups.get(g)
            if group is not None and group.kind == "row" and group.sizes[1] > 1:
                bases = {link.base for n in group.members for link in self.links[n] if size(link.base.shape) == group.sizes[0]}
                for base in sorted(bases & self._number.keys(), key=self._position.__getitem__):
                    self._try_merge(g, self._number[base])

    def _merge_independent(self) -> None:
        """Put together groups over one space that are small, or lie near each other and read the same values.

        Small updates of state stay apart: those of all parameters are one piece of code, every set of them would be another.
        """
        table: dict[int, list[int]] = {}
        for g, group in self._groups.items():
            if group.kind in ("map", "row") and g not in self._closed:
                table.setdefault(_points(group), []).append(g)
                if group.kind == "row" and group.sizes[0] != _points(group):
                    table.setdefault(group.sizes[0], []).append(g)
        for points, numbers in table.items():
            for i, a in enumerate(numbers):
                for b in numbers[i + 1:]:
                    if a in self._groups and b in self._groups and (
                            4 * points <= SMALL_BYTES and not self._are_updates(a, b) or self._akin(a, b)):
                        self._try_merge(a, b)

    def _are_updates(self, *groups: int) -> bool:
        """Whether each of some groups makes pieces of new state."""
        return all(any(map(self._storage.is_piece_of_state, self._groups[g].members)) for g in groups)

    def _akin(self, a: int, b: int) -> bool:
        """Whether two groups lie near each other and read the same large values."""
        first, second = sorted((self._groups[a], self._groups[b]), key=lambda group: self._position[group.members[0]])
        near = self._position[second.members[0]] - self._position[first.members[-1]] <= NEAR_NODES
        return near and bool(self._large_reads(first) & self._large_reads(second))

    def _large_reads(self, group: Group) -> set[Node | tuple[Node, ...]]:
        """What a group reads with about one value per point; of what has far more values the part that it sees."""
        points = _points(group)
        links = {link for n in group.members for link in self.links[n] if 2 * size(link.base.shape) > points}
        return {link.path if size(link.base.shape) > 2 * points else link.base for link in links}


def _points(group: Group) -> int:
    total = 1
    for n in group.sizes:
        total *= n
    return total


def joined(group: Group, alone: Group) -> Group | None:
    """What a group is once another node is in it (its members are not added here); None if they are no one item."""
    if alone.kind == "map":
        return group if group.kind in ("map", "row", "column", "contraction") else None
    if alone.kind == "row":
        if group.kind == "row" and group.sizes == alone.sizes:
            return group
        if group.kind == "map" and group.sizes[0] == _points(alone):
            return Group("row", alone.sizes, group.members)
    return None


def role_in(n: Node, alone: Group, group: Group, links: list[Link]) -> str | None:
    """'full' for a value with one element per point of the group's space, 'kept' for one per reduced row; None if neither."""
    if alone.kind == "row":
        return "kept"
    count = size(n.shape)
    if group.kind == "column":
        return "kept" if count == group.sizes[0] * group.sizes[2] else None
    if group.kind == "row" and count == group.sizes[0] and any(link.base in group.kept and link.relabels for link in links):
        return "kept"
    return "full" if count == _points(group) else None


def link_fits(n: Node, k: int, role: str, link: Link, group: Group) -> bool:
    """Whether `n` can take its input number k from its own group: at the same point, or from the same reduced row.

    role  what n is in the group: 'full' or 'kept'
    """
    if n.op.kind in ("contraction", *ALONE) or (n.op.kind == "gather" and k == 0):
        return False
    if n.op.kind == "reduce":
        role = "full" if group.kind == "row" else "none"
    if link.base in group.kept:
        if role == "kept":
            return link.relabels
        return role == "full" and group.kind == "row" and is_row_constant(link, group.sizes[0], group.sizes[1])
    return role == "full" and link.relabels


def merged_group(a: Group, b: Group) -> Group | None:
    """The group of both, its members unsorted; None if the two are no one item."""
    if a.kind == "map":
        a, b = b, a
    if b.kind == "map":
        if a.kind in ("map", "row", "contraction") and _points(a) == _points(b):
            return Group(a.kind, a.sizes, a.members + b.members, set(a.kept))
        if a.kind in ("row", "column") and _points(a) == _points(b) * a.sizes[1]:
            return Group(a.kind, a.sizes, a.members + b.members, a.kept.union(b.members))
        return None
    if a.kind == b.kind and a.kind in ("row", "column") and a.sizes == b.sizes:
        return Group(a.kind, a.sizes, a.members + b.members, a.kept | b.kept)
    return None
