"""Which trip's data a read gets. Barriers may order a read of another stage than the one that the
program means: it gets what another trip wrote, in good order.

What is read at a position of a ring was written at that one. Where no ring says which stage it is,
a stage is read at the place of a ring, or of the loops around both, at which it is written, or
always so many places later. So for each pair of a write and a read there is a coordinate, the
position of a ring's state or the number of a loop's trip, in which the write lies as far behind the
read each time. A coordinate that does not tell the writes of one place apart says nothing of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from .events import Engine
from .findings import TRIP, Finding
from .nodes import Event

if TYPE_CHECKING:
    from .clocks import Access


@dataclass
class _Pair:
    """A write and a read of it: the distances that are the same so far, by coordinates (number of
    that of the write, of that of the read), and those of the write that they share.
    """

    read: Event
    write: Event
    name: str
    distances: dict[tuple[int, int], int] = field(default_factory=dict)
    started: frozenset[int] = frozenset()
    # The same of loops that are around one of both alone, in one trip of those around both; and
    # whether some trip had none left.
    loops: tuple[tuple[int, int], ...] = ()
    shared: tuple[tuple[int, int], ...] = ()
    around: tuple[int, ...] = ()
    apart: dict[tuple[int, int], int] = field(default_factory=dict)
    strays: bool = False


@dataclass
class _Write:
    """Where a write was each time, by coordinate: those that do not tell its times at a place
    apart.
    """

    places: set[int] = field(default_factory=set)
    seen: set[tuple[int, int, int]] = field(default_factory=set)
    coarse: set[int] = field(default_factory=set)


class Versions:
    """The writes and reads of one case."""

    def __init__(self) -> None:
        self._writes: dict[tuple[int, int], _Write] = {}
        self._pairs: dict[tuple[int, int, int, int], _Pair] = {}
        self._strays: dict[tuple[int, int], Finding] = {}
        # What was written at a position of a ring (event, team, ring, position), until it is read;
        # and what was read, of another position, by who had waited for that one (ring, position).
        self._unread: dict[tuple[int, int, int, int], Event] = {}
        self._instead: dict[tuple[int, int], tuple[Event, int, str]] = {}

    def wrote(self, access: Access) -> None:
        """Note a write."""
        if access.position is not None:
            self._unread[_place_of(access, access.position)] = access.event
        key = id(access.event), access.team.column
        write = self._writes.get(key)
        if write is None:
            write = self._writes[key] = _Write()
        place = access.place
        write.places.add(place)
        seen = write.seen
        for number, position in enumerate(access.at):
            mark = number, position, place
            if mark in seen:
                write.coarse.add(number)
            else:
                seen.add(mark)

    def read(self, write: Access, read: Access, name: str) -> None:
        """Note that a read gets something of a write."""
        if write.position is not None:
            self._unread.pop(_place_of(write, write.position), None)
        if read.is_last and read.engine is Engine.THREADS:
            # What threads read ahead for the next trip nobody uses: it may be of any trip.
            return
        if write.ring == read.ring >= 0:
            self._compare_positions(write, read, name)
        key = id(write.event), write.team.column, id(read.event), read.team.column
        pair = self._pairs.get(key)
        if pair is None:
            self._pairs[key] = _paired(write, read, name)
            return
        here, there = read.at, write.at
        wrong = [
            (one, other)
            for (one, other), distance in pair.distances.items()
            if here[other] - there[one] != distance
        ]
        for coordinate in wrong:
            del pair.distances[coordinate]
        if pair.loops:
            _compare_loops(write, read, pair)

    def _compare_positions(self, write: Access, read: Access, name: str) -> None:
        """What is read at a position of a ring was written at that one."""
        there, here = write.position, read.position
        if there is None or here is None:
            return
        awaited = read.team.waited.get(read.ring, here)
        if awaited != here:
            self._instead[read.ring, awaited] = read.event, here, name
        if there != here:
            stray = _stray(read.event, name, here, there, write.event)
            self._strays.setdefault((id(write.event), id(read.event)), stray)

    def findings(self) -> Iterator[Finding]:
        """The reads that get what was written at another position than theirs, and those that get
        now this, now that trip's data.
        """
        yield from self._strays.values()
        for (_, _, ring, awaited), write in self._unread.items():
            instead = self._instead.get((ring, awaited))
            if instead is not None:
                read, position, name = instead
                yield _stray(read, name, awaited, position, write)
        for (event, team, *_), pair in self._pairs.items():
            write = self._writes[event, team]
            if len(write.places) < 2:
                continue
            fine = pair.started - write.coarse
            is_apart = fine and not any(one in fine for one, _ in pair.distances)
            if not is_apart and not pair.strays:
                continue
            yield Finding(
                TRIP,
                pair.read.op,
                f"reads {pair.name} as other trips than its own wrote it: expected the stage that "
                "the same trip wrote, or always one of so many trips before",
                pair.write.op,
            )


def _paired(write: Access, read: Access, name: str) -> _Pair:
    """A write and the first read of it."""
    pair = _Pair(read.event, write.event, name)
    there, here = write.event.names, read.event.names
    both, pair.started = _shared(there, here)
    pair.distances = {(one, other): read.at[other] - write.at[one] for one, other in both}
    if write.team.role == read.team.role and all(there[one] < 0 for one in pair.started):
        pair.loops = tuple(
            (one, other)
            for one, loop in enumerate(there)
            if loop < 0 and loop not in here
            for other, another in enumerate(here)
            if another < 0 and another not in there
        )
        if pair.loops:
            pair.shared = both
            _compare_loops(write, read, pair)
    return pair


@lru_cache(maxsize=4096)
def _shared(
    there: tuple[int, ...], here: tuple[int, ...]
) -> tuple[tuple[tuple[int, int], ...], frozenset[int]]:
    """The coordinates that two events share, by their names: numbers of those of both, and of those
    of the first one.
    """
    both = tuple(
        (one, other)
        for one, ring in enumerate(there)
        for other, another in enumerate(here)
        if ring == another
    )
    return both, frozenset(one for one, _ in both)


def _compare_loops(write: Access, read: Access, pair: _Pair) -> None:
    """What a loop ahead of another one writes, that one reads trip by trip: the first trip what the
    first wrote, or always so many later.
    """
    there, here = write.at, read.at
    around = tuple([trip for one, other in pair.shared for trip in (there[one], here[other])])
    now = {(one, other): here[other] - there[one] for one, other in pair.loops}
    if not pair.apart or pair.around != around:
        pair.around, pair.apart = around, now
        return
    pair.apart = {at: distance for at, distance in pair.apart.items() if now[at] == distance}
    pair.strays |= not pair.apart


def _place_of(write: Access, position: int) -> tuple[int, int, int, int]:
    return id(write.event), write.team.column, write.ring, position


def _stray(read: Event, name: str, here: int, there: int, write: Event) -> Finding:
    """A read at a position gets what was written at another one."""
    return Finding(
        TRIP,
        read.op,
        f"reads {name} at position {here} of a ring, and gets what was written at position "
        f"{there}: expected the stage that was waited for",
        write.op,
    )
