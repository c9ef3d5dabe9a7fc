"""Functions of functions: gradients in the functional style."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from renaissance.autodiff import vjp as node_vjp
from renaissance.errors import ArgumentError, GradientError, ShapeError
from renaissance.ir.node import Node, topological
from renaissance.ops.elementwise import lit
from renaissance.ops.value import VARIABLE, Value, const, variable
from renaissance.tensor import Tensor, detached, tracing


def _marked(x: Any, argument: str) -> Tensor:
    if not isinstance(x, Tensor) or not x.dtype.is_float:
        kind = x.dtype.name if isinstance(x, Value) else type(x).__name__
        raise GradientError(f"{argument} must be a float tensor, got {kind}")
    return Tensor(variable(x.node))


def value_and_grad(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives both the value and the gradient with respect to some arguments.

    (f(x), df/dx)

    function  returns a 0-d float tensor, or with has_aux a pair of it and anything else
    argnums   which positional arguments
    has_aux   the function returns a pair; only its first part is differentiated
    returns   a function returning (value, gradient); a tuple of gradients when argnums is one
    raises    GradientError unless the value is 0-d and the arguments float tensors
    source    JAX, value_and_grad
    """
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def both(*args: Any, **kwargs: Any) -> Any:
        if any(not -len(args) <= i < len(args) for i in wanted):
            raise ArgumentError(f"value_and_grad: argnums {argnums} for {len(args)} arguments")
        given = list(args)
        variables = []
        for i in wanted:
            given[i] = _marked(args[i], f"value_and_grad: argument {i}")
            variables.append(given[i])
        tracing.inlined += 1
        try:
            result = function(*given, **kwargs)
        finally:
            tracing.inlined -= 1
        out, aux = result if has_aux else (result, None)
        if not isinstance(out, Tensor) or out.size != 1:
            kind = getattr(out, "shape", type(out).__name__)
            raise ShapeError(f"value_and_grad: the function must return one number, got {kind}")
        nodes = node_vjp([out.node], [lit(1, out).node], [v.node for v in variables])
        grads = tuple(_result(n, v, {v.node for v in variables}) for n, v in zip(nodes, variables))
        value = Tensor(detached(out.node))
        return ((value, aux) if has_aux else value), (grads[0] if isinstance(argnums, int) else grads)

    return both


def _result(n: Node | None, like: Tensor, own: set[Node]) -> Tensor:
    """A gradient as a tensor: zeros where nothing flows; it asks for gradients itself only if variables besides `own` do."""
    if n is None:
        return Tensor(const(0.0, like.dtype)).broadcast_to(like.shape)
    order = topological([n], lambda v: not v.needs_grad or (v.op is VARIABLE and v not in own))
    others = any(v.op is VARIABLE and v not in own for v in order)
    return Tensor(n if others else detached(n))


def grad(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that gives the gradient with respect to some arguments.

    df/dx

    function  returns a 0-d float tensor
    argnums   which positional arguments
    returns   a function returning the gradient; a tuple of them when argnums is one
    raises    GradientError unless the value is 0-d and the arguments float tensors
    source    JAX, grad
    """
    both = value_and_grad(function, argnums)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return gradient


def vjp(function: Callable[..., Any], *primals: Tensor) -> tuple[Any, Callable[[Tensor], tuple[Tensor, ...]]]:
    """The value of a function and the map from its cotangent to those of its arguments.

    v -> v^T J

    function  of float tensors, returns a float tensor
    primals   the point
    returns   value, pullback
    raises    GradientError for arguments that are no float tensors; ShapeError for a cotangent of another shape
    source    JAX, vjp
    """
    variables = [_marked(x, f"vjp: argument {i}") for i, x in enumerate(primals)]
    tracing.inlined += 1
    try:
        out = function(*variables)
    finally:
        tracing.inlined -= 1

    def pullback(cotangent: Tensor) -> tuple[Tensor, ...]:
        if cotangent.shape != out.shape:
            raise ShapeError(f"vjp: the cotangent must have shape {out.shape}, got {cotangent.shape}")
        nodes = node_vjp([out.node], [cotangent.node], [v.node for v in variables])
        return tuple(_result(n, v, {v.node for v in variables}) for n, v in zip(nodes, variables))

    return Tensor(detached(out.node)), pullback
