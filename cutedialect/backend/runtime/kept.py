"""Results kept for calls that look alike: a dictionary that starts anew when it is full."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class Kept(dict[_K, _V]):
    """At most `limit` results. Reading is a dictionary's, or `known` where calls repeat; `keep` is
    how they come in.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        # What was asked for last: comparing keys takes half of the time of hashing one.
        self._last: tuple[_K, _V] | None = None

    def known(self, key: _K | None) -> _V | None:
        """What is remembered under a key; None for None and for a key without a hash."""
        if key is None:
            return None
        last = self._last
        try:
            if last is not None and last[0] == key:
                return last[1]
            found = self.get(key)
        except (TypeError, ValueError):  # ValueError: parts that compare to more than one answer
            return None
        if found is not None:
            self._last = key, found
        return found

    def keep(self, key: _K, value: _V) -> None:
        """Remember a result, without all earlier ones where there is no more room; one under a key
        without a hash is forgotten.
        """
        if len(self) >= self._limit:
            self.clear()
        with suppress(TypeError):
            self[key] = value
            self._last = None

    def clear(self) -> None:
        """Forget all of them."""
        super().clear()
        self._last = None
