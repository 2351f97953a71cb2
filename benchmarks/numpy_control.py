"""What loops, conditions and early exits mean in NumPy: a body is run by Python, and what is not at
work, since a condition does not hold or a loop was left, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class NumpyControl:
    """The names of the language for control; `active` says of each body around whether it works."""

    def __init__(self) -> None:
        self.active = [True]
        # The places in `active` of the loops around.
        self.loops: list[int] = []

    def range(self, first: int, end: int | None = None, step: int = 1) -> Iterator[int]:
        first, last = (0, first) if end is None else (first, end)
        return self._trips(range(int(first), int(last), int(step)), lambda: True)

    def while_(self, condition: Callable[[], bool], max_trips: int) -> Iterator[int]:
        return self._trips(range(max_trips), condition)

    def _trips(self, trips: range, holds: Callable[[], bool]) -> Iterator[int]:
        for index in trips:
            if not holds():
                return
            self.loops.append(len(self.active))
            self.active.append(self.active[-1])
            works = self.active[-1]
            yield index
            self.loops.pop()
            if self.active.pop() != works:
                return

    def break_if(self, condition: object) -> None:
        self._leave(condition, self.loops[-1])

    def return_if(self, condition: object) -> None:
        self._leave(condition, 0)

    def _leave(self, condition: object, outermost: int) -> None:
        if self.active[-1] and condition:
            self.active[outermost:] = [False] * (len(self.active) - outermost)

    @contextmanager
    def when(self, condition: object) -> Iterator[None]:
        taken = bool(condition)
        self.active.append(self.active[-1] and taken)
        yield
        self.active.pop()
        self.last = taken

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        self.active.append(self.active[-1] and not self.last)
        yield
        self.active.pop()
