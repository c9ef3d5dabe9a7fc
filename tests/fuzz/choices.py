"""Where random programs get their choices from: hypothesis, which can make a failing program smaller, or a numbered random source."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hypothesis import strategies as st


class Choices(Protocol):
    """A source of choices."""

    def one_of(self, items: Sequence[Any]) -> Any: ...
    def number(self, low: int, high: int) -> int: ...
    def some_of(self, items: Sequence[Any], least: int, most: int) -> list[Any]: ...
    def order(self, count: int) -> list[int]: ...


class Drawn:
    """Choices drawn by hypothesis."""

    def __init__(self, draw: Callable[[Any], Any]):
        self._draw = draw

    def one_of(self, items: Sequence[Any]) -> Any:
        return self._draw(st.sampled_from(items))

    def number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def some_of(self, items: Sequence[Any], least: int, most: int) -> list[Any]:
        return self._draw(st.lists(st.sampled_from(items), min_size=least, max_size=most, unique=True))

    def order(self, count: int) -> list[int]:
        return self._draw(st.permutations(range(count)))


class Numbered:
    """Choices by a random source with a number: the same number gives the same program."""

    def __init__(self, number: int):
        self._random = random.Random(number)

    def one_of(self, items: Sequence[Any]) -> Any:
        return self._random.choice(items)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def some_of(self, items: Sequence[Any], least: int, most: int) -> list[Any]:
        unique = list(dict.fromkeys(items))
        return self._random.sample(unique, min(len(unique), self._random.randint(least, most)))

    def order(self, count: int) -> list[int]:
        return self._random.sample(range(count), count)
