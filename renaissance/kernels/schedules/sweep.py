"""A stage of a nest as a pattern: its body bound to the argument block, where it stores, how it combines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from renaissance.ir.plan import Instr, Stage
from renaissance.kernels import body as bodies
from renaissance.kernels.arguments import Arguments, Frame
from renaissance.kernels.combine import Combine
from renaissance.kernels.loops import Builder, Value

LANES = 16  # on every Target: LLVM splits the vectors where registers are narrower
_SILENT = ("load", "const", "scalar", "carry", "coord", "acc")


@dataclass(frozen=True)
class Sweep:
    """A stage bound to the argument block; stores are (place, instruction)."""

    kind: str
    body: tuple[Instr, ...]
    stores: tuple[tuple[int, int], ...]
    combine: Combine | None

    @property
    def cost(self) -> int:
        """Simple operations at one point."""
        return bodies.cost(self.body) + len(self.stores)

    def put(self, b: Builder, frame: Frame, values: Sequence[Value], index: bodies.Index, lanes: int,
            mask: Value | None = None, ahead: int = 0) -> None:
        """Write what the stage stores at `lanes` points."""
        for place, value in self.stores:
            bodies.store(b, frame, place, values[value], index, lanes, mask, ahead=ahead)


def bind(arguments: Arguments, stage: Stage) -> Sweep:
    """The pattern of a stage."""
    body = arguments.bind(stage.body)
    stores = tuple((arguments.output(s.access), s.value) for s in stage.stores)
    return Sweep(stage.kind, body, stores, Combine(stage.combine, stage.body[-1].dtype) if stage.combine else None)


def pattern_name(kind: str, stages: Sequence[Stage]) -> str:
    """A readable name: the words of the bodies, each once."""
    words = [i.op for s in stages for i in s.body if i.op not in _SILENT]
    words += [s.combine for s in stages if s.combine]
    return "_".join([kind, *(dict.fromkeys(words) or ["copy"])])
