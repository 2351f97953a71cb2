"""Which write a read gets. Whatever order it comes in, a read of another stage than the one that
the program means leaves a stage that is written and never read; a write to another stage leaves one
that is read and never written. So each place that an event writes has to be read in some case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .clocks import Shadow
from .findings import LOST, Finding
from .nodes import Event


@dataclass
class _Writes:
    """The writes of one event by where they begin: the granules from there on that somebody has
    read in some case, and those that nobody has.
    """

    event: Event
    name: str
    seen: dict[int, int] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)

    def is_lost(self) -> bool:
        """Whether nothing is ever read, or at some place not what is read at others."""
        read = 0
        for seen in self.seen.values():
            read |= seen
        return not read or any(lost & read & ~self.seen[place] for place, lost in self.lost.items())


class Lost:
    """What the cases of a kernel tell of its writes."""

    def __init__(self) -> None:
        self.writes: dict[int, _Writes] = {}

    def note(self, shadows: Iterable[Shadow]) -> None:
        """Add a case that has come to its end."""
        for shadow in shadows:
            for access in shadow.ended():
                key = id(access.event)
                writes = self.writes.get(key)
                if writes is None:
                    writes = self.writes[key] = _Writes(access.event, shadow.name)
                place = access.place
                writes.seen[place] = writes.seen.get(place, 0) | access.seen >> place
                if access.lost:
                    writes.lost[place] = writes.lost.get(place, 0) | access.lost >> place

    def findings(self) -> Iterator[Finding]:
        """The writes that have a place where nobody reads them."""
        for writes in self.writes.values():
            if writes.is_lost():
                yield Finding(
                    LOST,
                    writes.event.op,
                    f"writes {writes.name}, of which nothing ever reads a part: expected a read "
                    "of each stage that is written",
                )
