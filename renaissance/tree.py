"""Nested tuples, lists and dicts: taken apart into a hashable skeleton and leaves, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

LEAF = None  # what stands for a leaf in a skeleton


def flatten_tree(tree: Any, leaves: list[Any]) -> Any:
    """The skeleton of a tree, which equals that of another of the same form; its contents go to `leaves` in order.

    Tuples with names keep their class; other subclasses of tuple, list and dict are leaves.
    """
    kind = type(tree)
    if kind is tuple or kind is list or (isinstance(tree, tuple) and hasattr(kind, "_fields")):
        return (kind, *[flatten_tree(x, leaves) for x in tree])
    if kind is dict and isinstance(tree, dict):
        return (dict, tuple(tree), *[flatten_tree(x, leaves) for x in tree.values()])
    leaves.append(tree)
    return LEAF


def build_tree(skeleton: Any, leaves: Iterator[Any]) -> Any:
    """The inverse of flatten_tree."""
    if skeleton is LEAF:
        return next(leaves)
    kind = skeleton[0]
    if kind is dict:
        return {k: build_tree(s, leaves) for k, s in zip(skeleton[1], skeleton[2:])}
    items = [build_tree(s, leaves) for s in skeleton[1:]]
    return items if kind is list else tuple(items) if kind is tuple else kind(*items)


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same tree with `function` of each leaf in its place."""
    leaves: list[Any] = []
    skeleton = flatten_tree(tree, leaves)
    return build_tree(skeleton, iter([function(x) for x in leaves]))
