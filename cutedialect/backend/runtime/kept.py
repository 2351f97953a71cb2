"""Results kept for calls that look alike: a dictionary that starts anew when it is full."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class Kept(dict[_K, _V]):
    """At most `limit` results. Reading is a dictionary's; `keep` is how they come in."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def known(self, key: _K | None) -> _V | None:
        """What is remembered under a key; None for None and for a key without a hash."""
        try:
            return self.get(key)  # type: ignore[arg-type]
        except TypeError:
            return None

    def keep(self, key: _K, value: _V) -> None:
        """Remember a result, without all earlier ones where there is no more room; one under a key
        without a hash is forgotten.
        """
        if len(self) >= self._limit:
            self.clear()
        with suppress(TypeError):
            self[key] = value
