"""Python numbers given to a compiled function: inputs of its plan, as long as it only calculates with them."""

from __future__ import annotations

from typing import Any, NoReturn

from renaissance.ir.node import Node, topological, unique
from renaissance.ops.value import SCALAR, STOP_GRADIENT, Value
from renaissance.tensor import Tensor


class Looked(BaseException):
    """A function under compilation depends on numbers themselves: it is traced again with them fixed. No error, so that nobody
    catches it on the way.

    scalars  what stood for the numbers
    """

    def __init__(self, scalars: list[Node]):
        self.scalars = scalars


class TracedNumber(Tensor):
    """A number that varies from run to run: a run-time scalar that takes the dtype of what it meets, as Python numbers do.

    What Python computes otherwise than a plan would, or needs the number for (a condition, a size, an index), looks at it.
    """

    __slots__ = ()
    weak = True

    @property
    def node(self) -> Node:
        """A new mark for each use, as each use of a Python number is a new scalar: gradients are added up in the same order."""
        n = self._node
        return unique(STOP_GRADIENT, n.shape, n.dtype, (), (n,))

    def look(self) -> NoReturn:
        raise Looked([n for n in topological([self._node]) if n.op is SCALAR])

    def numpy(self) -> NoReturn:
        self.look()

    def item(self) -> NoReturn:
        self.look()

    def __bool__(self) -> NoReturn:  # noqa: PLE0304
        self.look()

    def __index__(self) -> NoReturn:  # noqa: PLE0305
        self.look()

    def __round__(self, digits: int | None = None) -> NoReturn:
        self.look()

    __hash__ = Tensor.__hash__


def _looking(name: str) -> Any:
    """An operator that looks at its numbers unless a tensor is among them."""
    plain = getattr(Tensor, name)

    def operator(self: TracedNumber, other: Any) -> Any:
        if not isinstance(other, Value) or other.weak:
            self.look()
        return plain(self, other)

    return operator


for _name in ("eq", "ne", "lt", "le", "gt", "ge", "pow", "rpow", "floordiv", "rfloordiv", "mod", "rmod"):
    setattr(TracedNumber, f"__{_name}__", _looking(f"__{_name}__"))
