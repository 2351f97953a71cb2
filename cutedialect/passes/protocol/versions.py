"""Which trip's data a read gets. Barriers may order a read of another stage than the one that the
program means: it gets what another trip wrote, in good order.

What is read at a position of a ring was written at that one. Where no ring says which stage it is,
a stage is read at the place of a ring, or of the loops around both, at which it is written, or
always so many places later. So for each pair of a write and a read there is a coordinate, the
position of a ring's state or the number of a loop's trip, in which the write lies as far behind the
read each time. A coordinate that does not tell the writes of one place apart says nothing of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from .events import Engine
from .findings import TRIP, Finding
from .nodes import Event
from .reads_ahead import loops_that_use

if TYPE_CHECKING:
    from .clocks import Access
    from .steps import Reach


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
    # What these distances are in the first trips of loops around both, if one trip alone reads.
    trips: tuple[int, ...] = ()
    once: dict[tuple[int, int], int] = field(default_factory=dict)

    def leave_out(self, here: Sequence[int], there: Sequence[int]) -> None:
        """Leave out the distances that are others now."""
        self.distances = {
            (one, other): distance
            for (one, other), distance in self.distances.items()
            if here[other] - there[one] == distance
        }


class _Write:
    """Where a write of an event by a team was each time: its places, and the coordinates that do
    not tell its times at a place apart.
    """

    def __init__(self) -> None:
        self.places: set[int] = set()
        self.coarse: set[int] = set()
        self._seen: set[tuple[int, int, int]] = set()

    def note(self, reach: Reach) -> None:
        """Note one time."""
        place, seen = reach.place, self._seen
        self.places.add(place)
        for number, position in enumerate(reach.at):
            mark = number, position, place
            if mark in seen:
                self.coarse.add(number)
            else:
                seen.add(mark)


_Key = tuple[Event, int, Event, int]
"""A write and a read, with the columns of their teams."""


class Versions:
    """The writes and reads of one case."""

    def __init__(self) -> None:
        self._written: list[Access] = []
        self._pairs: dict[_Key, _Pair] = {}
        self._strays: dict[tuple[Event, Event], Finding] = {}
        # What was read, of another position, by who had waited for that one (ring, position).
        self._instead: dict[tuple[int, int], tuple[Event, int, str]] = {}

    def wrote(self, access: Access) -> None:
        """Note a write."""
        self._written.append(access)

    def read(self, write: Access, read: Access, name: str) -> None:
        """Note that a read gets something of a write."""
        write.is_read = True
        written, got = write.reach, read.reach
        if got.is_last and _is_for_nobody(read):
            # It may be of any trip.
            return
        if written.ring == got.ring >= 0:
            self._compare_positions(written, got, read.team.waited, name)
        key = written.event, write.team.column, got.event, read.team.column
        pair = self._pairs.get(key)
        if pair is None:
            self._pairs[key] = _paired(write, read, name)
            return
        here, there = got.at, written.at
        for (one, other), distance in pair.distances.items():
            if here[other] - there[one] != distance:
                if not got.is_last and _is_for_nobody(read):
                    return
                pair.leave_out(here, there)
                break
        if pair.loops:
            _compare_loops(written, got, pair)

    def _compare_positions(
        self, written: Reach, got: Reach, waited: Mapping[int, int], name: str
    ) -> None:
        """What is read at a position of a ring was written at that one."""
        there, here = written.position, got.position
        if there is None or here is None:
            return
        awaited = waited.get(got.ring, here)
        if awaited != here:
            self._instead[got.ring, awaited] = got.event, here, name
        if there != here:
            stray = _stray(got.event, name, here, there, written.event)
            self._strays.setdefault((written.event, got.event), stray)

    def _unread(self) -> Iterator[Reach]:
        """What was written at a position of a ring, and not read."""
        last: dict[tuple[Event, int, int, int], Access] = {}
        for access in self._written:
            reach = access.reach
            if reach.position is not None:
                last[reach.event, access.team.column, reach.ring, reach.position] = access
        return (access.reach for access in last.values() if not access.is_read)

    def _writes(self) -> dict[tuple[Event, int], _Write]:
        """Where writes were, by event and the column of the team."""
        writes: dict[tuple[Event, int], _Write] = {}
        for access in self._written:
            key = access.reach.event, access.team.column
            write = writes.get(key)
            if write is None:
                write = writes[key] = _Write()
            write.note(access.reach)
        return writes

    def places(self) -> Iterator[tuple[tuple[Event, int], set[int]]]:
        """The places of writes, by event and the column of the team."""
        for key, write in self._writes().items():
            yield key, write.places

    def once(self) -> Iterator[tuple[_Key, _Pair]]:
        """What trips of a loop get of another one, of which one trip alone reads."""
        return ((key, pair) for key, pair in self._pairs.items() if pair.once)

    def findings(self) -> Iterator[Finding]:
        """The reads that get what was written at another position than theirs, and those that get
        now this, now that trip's data.
        """
        yield from self._strays.values()
        for reach in self._unread() if self._instead else ():
            assert reach.position is not None
            instead = self._instead.get((reach.ring, reach.position))
            if instead is not None:
                read, position, name = instead
                yield _stray(read, name, reach.position, position, reach.event)
        writes = self._writes()
        for (event, team, *_), pair in self._pairs.items():
            write = writes[event, team]
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
    written, got = write.reach, read.reach
    pair = _Pair(got.event, written.event, name)
    there, here = written.event.names, got.event.names
    both, pair.started = _shared(there, here)
    pair.distances = {(one, other): got.at[other] - written.at[one] for one, other in both}
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
            _compare_loops(written, got, pair)
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


def _compare_loops(written: Reach, got: Reach, pair: _Pair) -> None:
    """What a loop ahead of another one writes, that one reads trip by trip: the first trip what the
    first wrote, or always so many later.
    """
    there, here = written.at, got.at
    around = tuple([trip for one, other in pair.shared for trip in (there[one], here[other])])
    now = {(one, other): here[other] - there[one] for one, other in pair.loops}
    if not pair.apart or pair.around != around:
        pair.around, pair.apart, pair.trips = around, now, here
        if all(trip == 1 for trip in around):
            pair.once = now
        return
    if pair.trips != here and all(trip == 1 for trip in around):
        pair.once = {}
    pair.apart = {at: distance for at, distance in pair.apart.items() if now[at] == distance}
    pair.strays |= not pair.apart


def _stray(read: Event, name: str, here: int, there: int, write: Event) -> Finding:
    """A read at a position gets what was written at another one."""
    return Finding(
        TRIP,
        read.op,
        f"reads {name} at position {here} of a ring, and gets what was written at position "
        f"{there}: expected the stage that was waited for",
        write.op,
    )


def _is_for_nobody(read: Access) -> bool:
    """Whether nobody uses what threads read: nothing does but loops that have no trips then."""
    reach, team = read.reach, read.team
    event, is_last = reach.event, reach.is_last
    if reach.engine is not Engine.THREADS:
        return False
    if is_last not in event.users:
        event.users[is_last] = loops_that_use(event.op, is_last)
    loops = event.users[is_last]
    return loops is not None and not any(team.has_trips(loop) for loop in loops)
