"""Make a failing program smaller: leave out outputs, losses and steps, or give a step's result, as long as it still fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from renaissance.ir.dtype import dtype as dtype_of

from .node_by_node import node_by_node
from .program import Input, Program, Run, Step


def smaller(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The smallest program found that still fails."""
    improved = True
    while improved:
        improved = False
        for candidate in _candidates(program):
            if _weight(candidate) < _weight(program) and fails(candidate):
                program, improved = candidate, True
                break
    return program


def _weight(program: Program) -> tuple[int, ...]:
    return (len(program.steps), len(program.outputs) + len(program.losses) + len(program.after), len(program.inputs), program.gradient != "none",
            program.precision != "fp32")


def _candidates(program: Program) -> Iterator[Program]:
    for field in ("outputs", "losses", "after"):
        numbers = getattr(program, field)
        for k in range(len(numbers) if field != "outputs" or len(numbers) > 1 else 0):
            yield _used(dataclasses.replace(program, **{field: numbers[:k] + numbers[k + 1:]}))
    yield dataclasses.replace(program, gradient="none", losses=(), after=())
    yield dataclasses.replace(program, precision="fp32")
    read = {i for s in program.steps for i in s.inputs} | _wanted(program)
    for k in reversed(range(len(program.steps))):
        if len(program.inputs) + k not in read:
            yield _without(program, k)
    for k in range(len(program.steps)):
        yield _used(_given(program, k))
    for k, step in enumerate(program.steps):
        for i in step.inputs:
            yield _used(_replaced(program, len(program.inputs) + k, i))


def _renumbered(program: Program, steps: Iterable[Step], there: Callable[[int], int]) -> Program:
    """The program with other steps, and another number for each value read."""
    changed = tuple(dataclasses.replace(s, inputs=tuple(map(there, s.inputs))) for s in steps)
    outputs, losses = (tuple(map(there, numbers)) for numbers in (program.outputs, program.losses))
    after = tuple((there(state), there(value)) for state, value in program.after)
    return dataclasses.replace(program, steps=changed, outputs=outputs, losses=losses, after=after)


def _replaced(program: Program, old: int, new: int) -> Program:
    """Readers of one value read another instead."""
    return _renumbered(program, program.steps, lambda i: new if i == old else i)


def _given(program: Program, k: int) -> Program:
    """A step's result as an argument with small whole numbers instead."""
    count = len(program.inputs)
    value = _quietly(dataclasses.replace(program, steps=program.steps[:k + 1], outputs=(count + k,), losses=(), gradient="none", after=()))
    values = "halves" if dtype_of(value.dtype).kind == "f" else (int(value.min(initial=0)), int(value.max(initial=0)) + 1)
    given = Input(value.shape, dtype_of(value.dtype).name, "argument", values, 100 + k)

    def there(i: int) -> int:
        return count if i == count + k else i + 1 if count <= i < count + k else i

    steps = [s for j, s in enumerate(program.steps) if j != k]
    return _renumbered(dataclasses.replace(program, inputs=(*program.inputs, given)), steps, there)


def _without(program: Program, k: int) -> Program:
    """One step left out that nothing reads."""
    out = len(program.inputs) + k
    return _renumbered(program, [s for j, s in enumerate(program.steps) if j != k], lambda i: i - (i > out))


def _quietly(program: Program) -> np.ndarray:
    with np.errstate(all="ignore"), node_by_node():
        return Run(program, calls=1).results()[0]


def _wanted(program: Program) -> set[int]:
    return {*program.outputs, *program.losses, *(i for pair in program.after for i in pair)}


def _used(program: Program) -> Program:
    """Without the steps and inputs that nothing needs."""
    count = len(program.inputs)
    needed = _wanted(program)
    for k in reversed(range(len(program.steps))):
        step = program.steps[k]
        if count + k in needed or (step.name == "copy_" and step.inputs[0] in needed):
            needed.update((count + k, *step.inputs))
    kept = [i for i in range(count + len(program.steps)) if i in needed or (i < count and program.inputs[i].role == "parameter")]
    place = {old: new for new, old in enumerate(kept)}
    inputs = tuple(x for i, x in enumerate(program.inputs) if i in place)
    steps = [s for k, s in enumerate(program.steps) if count + k in place]
    return _renumbered(dataclasses.replace(program, inputs=inputs), steps, place.__getitem__)
