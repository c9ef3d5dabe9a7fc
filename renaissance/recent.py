"""Recent: a mapping that keeps the entries used last, so that what a long run makes anew does not pile up."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """At most `most` values by key; when one more comes, the quarter that was not used for longest is let go.

    A look-up costs what one in a dict does: it only notes the time.
    """

    def __init__(self, most: int):
        self.most = most
        self._clock = 0
        self._entries: dict[Hashable, list] = {}  # [value, when it was last used]

    def get(self, key: Hashable) -> V | None:
        """The value of a key, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._clock += 1
        entry[1] = self._clock
        return entry[0]

    def put(self, key: Hashable, value: V) -> None:
        """Keep a value under a key."""
        if len(self._entries) >= self.most and key not in self._entries:
            oldest = sorted(self._entries, key=lambda k: self._entries[k][1])[:max(1, self.most // 4)]
            for k in oldest:
                del self._entries[k]
        self._clock += 1
        self._entries[key] = [value, self._clock]

    def values(self) -> list[V]:
        """All values kept."""
        return [value for value, _ in self._entries.values()]

    def clear(self) -> None:
        """Let go of everything."""
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)
