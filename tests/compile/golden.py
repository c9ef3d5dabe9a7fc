"""Plans of small models as text. `python -m tests.compile.golden` writes the files that the test compares with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from renaissance import autodiff
from renaissance.compile.pipeline import compile_graph
from renaissance.ir import dtype as dt
from renaissance.ir.graph import Graph
from renaissance.ir.node import Node, unique
from renaissance.ir.show import show_graph, show_plan
from renaissance.ops import compose, contraction
from renaissance.ops import elementwise as ew
from renaissance.ops import movement as mv
from renaissance.ops import reduce as rd
from renaissance.ops.composed import expanded
from renaissance.ops.precision import precision as precision_of
from renaissance.ops.value import LEAF, SCALAR, Value, variable

FOLDER = Path(__file__).parent / "golden"


def leaf(*shape: int, dtype=dt.float32) -> Node:
    return unique(LEAF, shape, dtype)


def mlp_step(sizes: tuple[int, ...], batch: int, precision: str) -> Graph:
    """Forward, loss, backward and AdamW of a fully connected network whose parameters, and both moments, are flat."""
    x, target = leaf(batch, sizes[0]), leaf(batch, sizes[-1])
    count = sum(a * b + b for a, b in zip(sizes, sizes[1:]))
    flat, first, second = leaf(count), leaf(count), leaf(count)
    rate, step = unique(SCALAR, (), dt.float32), unique(SCALAR, (), dt.float32)
    parameters, at = [], 0
    for a, b in zip(sizes, sizes[1:]):
        for shape in ((b, a), (b,)):
            end = at + (b * a if len(shape) == 2 else b)
            parameters.append(variable(mv.reshape(Value(flat)[at:end], shape).node))
            at = end
    h = Value(x)
    with precision_of(precision):
        for k in range(0, len(parameters), 2):
            h = contraction.linear(h, Value(parameters[k]), Value(parameters[k + 1]))
            h = compose.relu(h) if k + 2 < len(parameters) else ew.astype(h, dt.float32)
    loss = ew.negative(rd.mean(rd.sum(compose.log_softmax(h, -1) * Value(target), -1)))
    gradients = autodiff.vjp([loss.node], [ew.lit(1.0, loss).node], parameters)
    assert all(g is not None for g in gradients)
    g = mv.concat([mv.reshape(Value(g), (-1,)) for g in gradients if g is not None], 0)
    m, v = Value(first) * 0.9 + g * 0.1, Value(second) * 0.999 + g * g * 0.001
    fresh = [ew.lit(1.0, Value(step)) - ew.power(ew.lit(b, Value(step)), Value(step)) for b in (0.9, 0.999)]
    update = (m / fresh[0]) / (ew.sqrt(v / fresh[1]) + 1e-8)
    new = Value(flat) * (ew.lit(1.0, Value(rate)) - Value(rate) * 0.01) - Value(rate) * update
    states = ((flat, new.node), (first, m.node), (second, v.node))
    return expanded(Graph((x, target, flat, first, second), (rate, step), (loss.node,), states))


def attention_scores() -> Graph:
    """Softmax of a masked batched product, times values."""
    q, k, v, mask = leaf(4, 16, 8), leaf(4, 16, 8), leaf(4, 16, 8), leaf(16, 16, dtype=dt.bool_)
    scores = contraction.matmul(Value(q), mv.permute_dims(Value(k), (0, 2, 1))) * 0.125
    scores = ew.where(Value(mask), scores, -1e30)
    return expanded(Graph((q, k, v, mask), (), (contraction.matmul(compose.softmax(scores, -1), Value(v)).node,)))


def normalised() -> Graph:
    """Mean and variance per row, scale and shift, and the residual sum."""
    x, scale, shift = leaf(32, 64), leaf(64), leaf(64)
    v = Value(x)
    centred = v - rd.mean(v, -1, keepdims=True)
    y = centred / ew.sqrt(rd.mean(centred * centred, -1, keepdims=True) + 1e-5)
    return expanded(Graph((x, scale, shift), (), ((v + y * Value(scale) + Value(shift)).node,)))


MODELS: dict[str, Callable[[], str]] = {
    "mlp_f32": lambda: show_plan(compile_graph(mlp_step((784, 1024, 512, 256, 10), 200, "fp32"), None)),
    "mlp_bf16": lambda: show_plan(compile_graph(mlp_step((784, 1024, 512, 256, 10), 200, "bf16"), None)),
    "mlp_small": lambda: show_plan(compile_graph(mlp_step((10, 45, 45, 10), 128, "fp32"), None)),
    "attention": lambda: show_plan(compile_graph(attention_scores(), None), code=True),
    "normalised": lambda: show_plan(compile_graph(normalised(), None), code=True),
    "normalised_graph": lambda: show_graph(compile_graph(normalised(), None, stop="simplify")),
}

if __name__ == "__main__":
    for name, text in MODELS.items():
        (FOLDER / f"{name}.txt").write_text(text())
