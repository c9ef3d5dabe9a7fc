"""Items: turn groups into kernel launches: bodies, stages, operands, a readable name, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from renaissance.compile.body import Body, Operands, Place, Scope
from renaissance.compile.describe import cost, name_of
from renaissance.compile.groups import Group, Space
from renaissance.compile.images import DEPTHWISE_OPS, depthwise_of, image_of, is_image
from renaissance.compile.links import Link
from renaissance.compile.reuse import saved_values
from renaissance.compile.storage import Storage, Where
from renaissance.compile.winograd import extents_of, is_channels_last, sums_of, weight_gradient_of, weights_of, winograd_of
from renaissance.errors import PlanError
from renaissance.ir.graph import Graph
from renaissance.ir.indexmap import Affine, Extents, IndexMap, NeedsSplit, NotAffine, dense
from renaissance.ir.node import Node
from renaissance.ir.plan import Access, Contraction, Host, Instr, Item, Nest, Scatter, Spec, Stage, Store
from renaissance.ir.shape import size
from renaissance.ops.winograd import WINOGRAD, WINOGRAD_WEIGHT_GRADIENT, WINOGRAD_WEIGHTS


class Writer:
    """Makes the items of one graph.

    raises  NotAffine from `item` when a node must lie dense in memory before the item can read it
    """

    def __init__(self, storage: Storage, links: dict[Node, list[Link]], graph: Graph, order: list[Node]):
        self.links = links
        self._storage = storage
        self._scalars = {s: i for i, s in enumerate(graph.scalars)}
        self.numbers = graph.numbers or {n: i for i, n in enumerate(order)}
        self._messages: dict[str, int] = {}
        for n in order:
            if n.op.name == "check":
                self._messages.setdefault(n.attr("message"), len(self._messages))

    @property
    def messages(self) -> tuple[str, ...]:
        """The texts of the checks, by number."""
        return tuple(self._messages)

    def item(self, group: Group) -> tuple[Item, set[Node]]:
        """The item that computes a group, and the stored nodes it reads."""
        return self._drafted(group, lambda draft: draft.item())

    def copy(self, node: Node, where: Where) -> tuple[Item, set[Node]]:
        """The item that writes a value which lies elsewhere, or nowhere, to a place of its own."""
        return self._drafted(Group("map", (size(node.shape),), []), lambda draft: draft.copy(node, where))

    def _drafted(self, group: Group, make: Callable[[_Draft], Item]) -> tuple[Item, set[Node]]:
        space = Space.of(group)
        while True:
            draft = _Draft(self, group, space)
            try:
                return make(draft), draft.read
            except NeedsSplit as need:
                space = space.split(need)


class _Draft:
    """An item under construction over one choice of space."""

    def __init__(self, writer: Writer, group: Group, space: Space):
        storage = writer._storage
        self._writer = writer
        self._storage = storage
        self._group = group
        self._space = space
        self._operands = Operands(lambda b: storage.buffers[b].dtype)
        self._here = set(group.members)  # computed in this item, so not to be loaded
        self.read: set[Node] = set()
        self._given: dict[Node, tuple[str, Any]] = {}
        self._stages: list[Stage] = []
        self._bodies: list[Body] = []
        self._saved: dict[Node, Where] = {}  # members that an earlier stage has put in memory

    def item(self) -> Item:
        kind = self._group.kind
        makers: dict[str, Callable[[], Spec]] = {
            "map": self._nest, "row": self._nest, "column": self._nest, "contraction": self._contraction,
            "scatter": self._scatter, "winograd": self._winograd, "host": self._host}
        return self._finished(makers[kind]())

    def copy(self, node: Node, where: Where) -> Item:
        body = self._body(self._space.extents)
        number = body.value(node, self._space.map())
        stores = (body.store(number, self._place(node, where, self._space.full)),)
        return self._finished(Nest("row", self._space.extents, (Stage("map", tuple(body.instrs), stores),)))

    # ---- nests --------------------------------------------------------------------------------------------------------

    def _nest(self) -> Nest:
        """Stages in the order of the members: reductions as they come, point stages before a sweep that may need them."""
        points: list[Node] = []
        saved = saved_values(self._group, self._storage, self._writer.links)
        for n in self._group.members:
            if n.op.kind == "reduce":
                if self._group.kind == "row":  # a column nest has one point stage, after its reductions
                    points = self._points(points)
                body = self._body(self._space.extents).result(n.inputs[0], self._space.map())
                self._stages.append(Stage("reduce", body, (), n.op.name.removeprefix("reduce_")))
                self._given[n] = ("carry", (len(self._stages) - 1, 0))
                points.append(n)
            elif n in saved:
                points = self._points(points)
                self._sweep([n], {n: saved[n]})
            elif n in self._group.kept:
                points.append(n)
        self._points(points, last=True)
        last = [n for n in self._group.members if n in self._storage.home and n not in self._group.kept and n not in saved]
        self._sweep(last, {})
        return Nest("column" if self._group.kind == "column" else "row", self._space.extents, tuple(self._stages))

    def _sweep(self, nodes: list[Node], saved: dict[Node, Where]) -> None:
        """Add a map stage that stores `nodes`; later stages load those of them that are saved."""
        if not nodes:
            return
        body = self._body(self._space.extents)
        stores = self._stored(body, nodes, self._space.full, saved)
        self._stages.append(Stage("map", tuple(body.instrs), stores))
        self._saved.update(saved)

    def _points(self, nodes: list[Node], last: bool = False) -> list[Node]:
        """Add a point stage for `nodes` if there is something to compute, or at last to store; returns what is put off."""
        computed = [n for n in nodes if n.op.kind != "reduce"]
        stored = [n for n in nodes if n in self._storage.home]
        if not computed and not (last and stored):
            return nodes
        body, space = self._body(self._space.extents), self._space
        numbers = {n: body.value(n, space.map(kept=True)) for n in nodes if n in self._storage.home or n in computed}
        assert space.kept is not None
        stores = self._stored(body, stored, space.kept)
        self._stages.append(Stage("point", tuple(body.instrs), stores))
        self._given.update({n: ("carry", (len(self._stages) - 1, numbers[n])) for n in computed})
        return []

    # ---- the other kinds ----------------------------------------------------------------------------------------------

    def _contraction(self) -> Spec:
        dot = next(n for n in self._group.members if n.op.kind == "contraction")
        a, b = dot.inputs
        self._given[dot] = ("acc", None)
        if dot.op is WINOGRAD:
            return winograd_of(dot, self._flat(dot, a), self._whole(b), *self._epilogue())
        if dot.op.name in DEPTHWISE_OPS:
            bodies = [self._body(x.shape).result(x, dense(x.shape)) for x in (a, b)]
            return depthwise_of(dot, bodies, *self._epilogue())
        batch, m, n = dot.shape
        image = image_of(dot)
        bodies = [self._body(x.shape).result(x, dense(x.shape)) for x in (a, b)]
        if image is not None and image.right and not is_image(bodies[1], image):
            raise NotAffine(b)
        k = a.shape[2] if image is None or image.right else b.shape[1]
        return Contraction(batch, m, n, k, a.dtype, bodies[0], bodies[1], *self._epilogue(), image)

    def _epilogue(self) -> tuple[tuple[Instr, ...], tuple[Store, ...]]:
        """What happens to each element of a product, and where the results go."""
        body = self._body(self._space.extents)
        stores = self._stored(body, [x for x in self._group.members if x in self._storage.home], self._space.full)
        return tuple(body.instrs), stores

    def _winograd(self) -> Spec:
        """The transforms and sums around a convolution by minimal filtering."""
        node = self._group.members[0]
        if node.op is WINOGRAD_WEIGHT_GRADIENT:
            return weight_gradient_of(node, self._whole(node.inputs[0]), self._own(node))
        bodies = [self._flat(node, x) for x in node.inputs]
        make = weights_of if node.op is WINOGRAD_WEIGHTS else sums_of
        return make(node, bodies, self._own(node))

    def _flat(self, node: Node, x: Node) -> tuple[Instr, ...]:
        """The body of an input of such a node; an image whose channels do not lie side by side is put in order first."""
        extents = extents_of(node, x)
        body = self._body(extents).result(x, dense(extents))
        if node.op is not WINOGRAD_WEIGHTS and not is_channels_last(body, extents):
            raise NotAffine(x)
        return body

    def _whole(self, node: Node) -> int:
        """The operand number of a value that is read as a buffer of its shape."""
        where = self._storage.home.get(node)
        if not isinstance(where, int):
            raise NotAffine(node)
        self.read.add(node)
        return self._operands.number(where, "in")

    def _own(self, node: Node) -> int:
        """The operand number of a value that is written to a buffer of its own."""
        where = self._storage.home[node]
        if not isinstance(where, int):
            raise PlanError(f"{node!r}: must be written to a buffer of its own")
        return self._operands.number(where, "out")

    def _scatter(self) -> Scatter:
        node = self._group.members[0]
        init, index, value = node.inputs
        rows, n = node.shape
        m = index.shape[0]
        start = self._body((rows, n))
        number = start.value(init, IndexMap(Affine((n, 1))))
        first = start.instrs[number]
        if first.op == "load" and not first.args and isinstance(first.attr, Access):
            access = first.attr
        elif first.op == "const" and isinstance(first.attr, bytes) and not any(first.attr):
            access = None
        else:
            raise NotAffine(init)
        indices = self._body((m, n)).result(index, IndexMap(Affine((1, 0))))
        values = self._body((m, n)).result(value, IndexMap(Affine((n, 1))))
        return Scatter(rows, n, m, node.attr("combine"), indices, values, access, self._own(node))

    def _host(self) -> Host:
        """A Python function sees whole arrays, so each input must be all of a buffer of its shape."""
        node = self._group.members[0]
        inputs = tuple(self._whole(i) for i in node.inputs)
        return Host(node.op.name, node.attrs, inputs, (self._own(node),))

    # ---- parts --------------------------------------------------------------------------------------------------------

    def _body(self, extents: Extents) -> Body:
        scope = Scope(self._locate, self._writer._scalars, self._writer._messages)
        self._bodies.append(Body(extents, scope, self._operands, self._given))
        return self._bodies[-1]

    def _locate(self, node: Node, flat: Affine, extents: Extents) -> Place | None:
        if node in self._saved:
            return self._storage.place(node, self._saved[node], flat, extents)
        if node in self._here or node not in self._storage.home:
            return None
        self.read.add(node)
        return self._storage.locate(node, flat, extents)

    def _place(self, node: Node, where: Where, flat: Affine) -> Place:
        return self._storage.place(node, where, flat, self._space.extents)

    def _stored(self, body: Body, nodes: list[Node], flat: Affine, saved: dict[Node, Where] | None = None) -> tuple[Store, ...]:
        """Stores of `nodes`, each to all its places, and to the place where it is saved."""
        stores = []
        for n in nodes:
            number = body.value(n, IndexMap(flat))
            home = self._storage.home.get(n)
            places = [] if home is None else [home, *self._storage.extra.get(n, ())]
            if saved and home is None:
                places.append(saved[n])
            stores += [body.store(number, self._place(n, where, flat)) for where in places]
        return tuple(stores)

    def _finished(self, spec: Spec) -> Item:
        rows = tuple(self._operands.rows)
        sizes = [self._storage.buffers[row.buffer].size_bytes for row in rows]
        flops, moved = cost(spec, [row.dtype for row in rows], sizes)
        computed = {n for body in self._bodies for n in body.computed if n.op.kind != "leaf"}.union(self._group.members)
        nodes = tuple(sorted({self._writer.numbers[n] for n in computed}))
        return Item(name_of(spec, [row.dtype for row in rows]), spec, rows, nodes, flops, moved)
