"""Functions of functions: gradients in the functional style."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from renaissance.autodiff import vjp as node_vjp
from renaissance.errors import ArgumentError, GradientError, ShapeError
from renaissance.ir.node import Node, topological
from renaissance.ops.elementwise import lit
from renaissance.ops.value import VARIABLE, Value, const, enable_grad, grad_enabled, variable
from renaissance.tensor import Tensor, detached, tracing
from renaissance.tree import map_tree


def _marked(x: Any, argument: str) -> Tensor:
    if not isinstance(x, Tensor) or not x.dtype.is_float:
        kind = x.dtype.name if isinstance(x, Value) else type(x).__name__
        raise GradientError(f"{argument} must be a float tensor, got {kind}")
    return Tensor(variable(x.node))


def _called(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a function returns, with gradients whatever is around the call; compiled functions in it run as plain ones."""
    tracing.inlined += 1
    try:
        with enable_grad():
            return function(*args, **kwargs)
    finally:
        tracing.inlined -= 1


def value_and_grad(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives both the value and the gradient with respect to some arguments.

    (f(x), df/dx)

    function  returns one float number, or with has_aux a pair of it and anything else
    argnums   which positional arguments
    has_aux   the function returns a pair; only its first part is differentiated
    returns   a function returning (value, gradient); a tuple of gradients when argnums is one. They ask for gradients themselves
              only where they depend on something outside that does; no_grad around the call stops that, not the gradient
    raises    ArgumentError for argnums that name no argument, or one twice; GradientError unless the arguments and the value are
              float tensors; ShapeError unless the value is one number
    source    JAX, value_and_grad
    """
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def both(*args: Any, **kwargs: Any) -> Any:
        places = [i + len(args) if i < 0 else i for i in wanted]
        if any(not 0 <= i < len(args) for i in places) or len(set(places)) < len(places):
            raise ArgumentError(f"value_and_grad: argnums {argnums} for {len(args)} arguments")
        given = list(args)
        for i in places:
            given[i] = _marked(args[i], f"value_and_grad: argument {i}")
        variables = [given[i] for i in places]
        result = _called(function, given, kwargs)
        out, aux = result if has_aux else (result, None)
        if not isinstance(out, Tensor) or out.size != 1:
            kind = getattr(out, "shape", type(out).__name__)
            raise ShapeError(f"value_and_grad: the function must return one number, got {kind}")
        grads = _pulled(out, lit(1, out), variables)
        own = {v.node for v in variables}
        value = _outside(out, own)
        if has_aux:
            value = (value, map_tree(lambda x: _outside(x, own) if isinstance(x, Tensor) else x, aux))
        return value, (grads[0] if isinstance(argnums, int) else grads)

    return both


def _pulled(out: Tensor, cotangent: Value, variables: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The cotangents of variables: zeros where nothing flows."""
    if not out.dtype.is_float:
        raise GradientError(f"the function must return a float tensor, got {out.dtype.name}")
    own = {v.node for v in variables}
    nodes = node_vjp([out.node], [cotangent.node], [v.node for v in variables])
    return tuple([Tensor(const(0.0, v.dtype)).broadcast_to(v.shape) if n is None else _outside(Tensor(n), own)
                  for n, v in zip(nodes, variables)])


def _outside(t: Tensor, own: set[Node]) -> Tensor:
    """A result as the caller sees it: it asks for gradients only if variables besides `own` do."""
    if grad_enabled():
        order = topological([t.node], lambda v: not v.needs_grad or (v.op is VARIABLE and v not in own))
        if any(v.op is VARIABLE and v not in own for v in order):
            return t
    return Tensor(detached(t.node))


def grad(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that gives the gradient with respect to some arguments.

    df/dx

    function  returns one float number
    argnums   which positional arguments
    returns   a function returning the gradient; a tuple of them when argnums is one
    raises    as value_and_grad
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
    raises    GradientError for arguments or a value that are no float tensors; ShapeError for a cotangent of another shape
    source    JAX, vjp
    """
    variables = [_marked(x, f"vjp: argument {i}") for i, x in enumerate(primals)]
    out = _called(function, variables, {})
    if not isinstance(out, Tensor):
        raise GradientError(f"vjp: the function must return a float tensor, got {type(out).__name__}")

    def pullback(cotangent: Tensor) -> tuple[Tensor, ...]:
        if cotangent.shape != out.shape:
            raise ShapeError(f"vjp: the cotangent must have shape {out.shape}, got {cotangent.shape}")
        return _pulled(out, cotangent, variables)

    return _outside(out, {v.node for v in variables}), pullback
