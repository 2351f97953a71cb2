"""Who knows of what: clocks of teams (warps that run one program in step), accesses, and the shadow
of a buffer that compares them.

A clock is one integer with a field of bits for each column: how far its team knows that column, and
then how far it knows it through the async proxy. A column is a team, the tensor core or the
`cp.async` of a team, the accesses of its threads to tensor memory, the bulk loads of a ring, or
what all threads do in front of the roles; its number is that of the first bit of its field.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any

from xdsl.ir import Operation

from cutedialect.dialects.cute import GemmOp

from .events import GENERIC, Engine
from .nodes import Column, Event, TeamPlan
from .steps import Reach
from .versions import Versions

# What each comparison asks for: an attribute of an enum is looked up by a function.
_TCGEN05 = Engine.TCGEN05
Clock = int
FIELD_BITS = 20
"""Bits of a column: a time, and one more that is clear, into which comparisons carry."""
_TIME_BITS = FIELD_BITS - 1
TIMES = (1 << _TIME_BITS) - 1
"""The bits of a time."""
_steps_in_front = itemgetter(0)


@cache
def carries(columns: int) -> Clock:
    """The bits of a clock of so many columns, known and through the async proxy, that are clear."""
    return sum(1 << FIELD_BITS * column + _TIME_BITS for column in range(2 * columns))


def joined(one: Clock, other: Clock, carry: Clock) -> Clock:
    """The later time of each column: all fields are compared by one subtraction."""
    is_later = ((one | carry) - other) & carry
    later = is_later - (is_later >> _TIME_BITS)
    return other ^ ((one ^ other) & later)


def with_time(clock: Clock, column: int, time: int) -> Clock:
    """A clock with another time of a column."""
    return clock + (time - (clock >> column & TIMES) << column)


class Team:
    """Warps of a role, or of an instance or turn of it, that run in step."""

    def __init__(self, plan: TeamPlan, own: Mapping[Column, int], columns: int) -> None:
        # Its columns: its threads, its tensor core, its `cp.async`, and its threads' accesses to
        # tensor memory, which fences pass on; -1 for what it does not have.
        self.column, self.core, self.copying, self.tensor = (
            FIELD_BITS * own[column] if column in own else -1 for column in Column
        )
        self.half = columns * FIELD_BITS
        self.carries = carries(columns)
        self.role, self.name, self.warps = plan.role, plan.name, plan.warps
        self.offset, self.instance, self.turn = plan.offset, plan.instance, plan.turn
        self.elected, self.is_paired = plan.is_elected, plan.is_paired
        self.clock: Clock = 0
        # What it knew at its last fence behind a wait.
        self.tensor_clock: Clock = 0
        # What others of the cluster have told it of their CTAs, which are as this one.
        self.of_cluster: Clock = 0
        self.time = 1
        # The team's own time up to which neighboring warps know each other's accesses, and, of
        # these, those that a proxy fence followed: by how many warps met. 0: all of the team.
        self.met: dict[int, tuple[int, int]] = {0: (0, 0)}
        self.fenced = 0
        self.counts: dict[Any, int] = {}
        # By ring: the position of the last stage that it waited for, to fill or to read it.
        self.waited: dict[int, int] = {}
        # Groups of asynchronous accesses by engine and the warp that issues them, -1 where all do:
        # those committed, and those since.
        self.groups: dict[tuple[Engine, int], list[list[Access]]] = {}
        self.open: dict[tuple[Engine, int], list[Access]] = {}
        # Registers that a multiply at work uses: number of the register tile to its accesses.
        self.busy: dict[int, list[Access]] = {}
        self.unfenced: dict[int, Event] = {}
        self.multiplies = 0
        self.copies = 0
        # Steps that it has gone; and, by loop, the steps in front of it each time, and its trips.
        self.gone = 0
        self.runs: Mapping[Operation, Sequence[tuple[int, int]]] = {}
        # Whether its mbarriers are made; and by exchange what other CTAs have not told it yet.
        self.has_started = False
        # Whether all CTAs of the cluster have begun.
        self.is_in_cluster = False
        self.sent: dict[int, Event] = {}
        self.waits_for: Event | None = None

    def step(self) -> int:
        self.time += 1
        return self.time

    def knows(self, column: int) -> int:
        """The time up to which it knows a column."""
        return self.clock >> column & TIMES

    def has_trips(self, loop: Operation) -> bool:
        """Whether a loop has trips when the team comes to it next; so does one that it does not."""
        runs = self.runs.get(loop, ())
        at = bisect_right(runs, self.gone, key=_steps_in_front)
        return at == len(runs) or runs[at][1] > 0

    def is_multiplying(self) -> bool:
        """Whether it has not waited for all that its tensor core was given."""
        return self.core >= 0 and self.knows(self.core) < self.multiplies

    def published(self) -> Clock:
        """What an arrival of all its warps passes on."""
        own, through_async = self.column, self.half + self.column
        clock = with_time(self.clock, own, self.step())
        if self.fenced > clock >> through_async & TIMES:
            clock = with_time(clock, through_async, self.fenced)
        return clock

    def learn(self, clock: Clock) -> None:
        """All warps get what a barrier passes on."""
        mine = self.clock = joined(self.clock, clock, self.carries)
        own = self.column
        # What comes back to all warps of what all of them had published.
        known, fenced = self.met[0]
        back, through_async = mine >> own & TIMES, mine >> self.half + own & TIMES
        if back > known or through_async > fenced:
            self.met[0] = max(known, back), max(fenced, through_async)

    def learn_of_cluster(self, clock: Clock) -> None:
        """The same of a barrier at which all CTAs of the cluster arrive."""
        self.learn(clock)
        self.of_cluster = joined(self.of_cluster, clock, self.carries)

    def fence(self) -> None:
        """A proxy fence of every warp: what it knows is ordered in front of the async proxy."""
        self.fenced = self.step()
        known = self.clock & (1 << self.half) - 1
        self.clock = known | known << self.half
        for size, (time, _) in self.met.items():
            self.met[size] = time, time

    def meet(self, warps: int) -> None:
        """Every `warps` neighbors meet; 0: all of the team."""
        warps = 0 if warps >= self.warps else warps
        time = self.step()
        _, fenced = self.met.get(warps, (0, 0))
        self.met[warps] = time, max(fenced, self.fenced)


@dataclass(slots=True, eq=False)
class Access:
    """Granules that a team touches at a time, of what it reaches there; it is done when the team
    waited for it, or when its barrier knows: a column and a time.
    """

    reach: Reach
    team: Team
    mask: int
    time: int
    column: int
    is_done: bool = True
    # Whether something has read what it wrote.
    is_read: bool = False

    def part(self, warp: int) -> int:
        """The granules of a warp of the team."""
        return self.reach.part(warp + self.team.offset) & self.mask


Report = Callable[["Shadow", Access, Access, str], None]
"""Reports two accesses between which an order or a fence is missing."""


@dataclass
class Shadow:
    """What is known of a buffer: who wrote each granule last, by the granules of each write, of
    which no two share one; and who has read it since.
    """

    name: str
    is_tensor_memory: bool
    versions: Versions
    written: int = 0
    writes: dict[int, Access] = field(default_factory=dict)
    reads: dict[Any, Access] = field(default_factory=dict)

    def access(self, now: Access, report: Report, keeps: bool = False) -> int:
        """Compare an access with those before it, and report what misses an order or a fence; the
        granules that nobody has written. A write that `keeps` reads what it changes.
        """
        reach, mask, versions = now.reach, now.mask, self.versions
        writes, has_proxies = reach.writes, not self.is_tensor_memory
        unwritten = mask & ~self.written if keeps or not writes else 0
        same = self.writes.get(mask)
        touched = self._writes_of(mask) if same is None else (same,)
        for before in touched:
            if (keeps or not writes) and before.reach.event.moves:
                versions.read(before, now, self.name)
            if writes and self.reads and self._is_read(before.mask & mask):
                continue  # Those reads come behind it, and this one behind those.
            if missing := order(before, now, has_proxies):
                report(self, before, now, missing)
        if not writes:
            self.reads[now.team.column, reach.event, mask] = now
            return unwritten
        if same is None:
            for before in touched:
                del self.writes[before.mask]
                before.mask &= ~mask
                if before.mask:
                    self.writes[before.mask] = before
        if self.reads:
            self._compare_reads(now, report)
        self.writes[mask] = now
        self.written |= mask
        if reach.event.moves:
            versions.wrote(now)
        return unwritten

    def _compare_reads(self, now: Access, report: Report) -> None:
        """Compare a write with the reads of what it changes, which are over then."""
        mask, gone = now.mask, []
        for key, before in self.reads.items():
            if before.mask & mask:
                if missing := order(before, now, not self.is_tensor_memory):
                    report(self, before, now, missing)
                before.mask &= ~mask
                if not before.mask:
                    gone.append(key)
        for key in gone:
            del self.reads[key]

    def _writes_of(self, mask: int) -> Sequence[Access]:
        """Who wrote some granules last."""
        return [before for before in self.writes.values() if before.mask & mask]

    def _is_read(self, mask: int) -> bool:
        """Whether multiplies of the tensor core have read all of a part of what was written."""
        for read in self.reads.values():
            if read.reach.engine is _TCGEN05:
                mask &= ~read.mask
        return not mask


def order(before: Access, now: Access, has_proxies: bool) -> str:
    """What is missing between two accesses, one of them a write: "" (nothing), "order", "fence".
    Tensor memory has no proxies.
    """
    team, other = now.team, before.team
    first, second = before.reach.engine, now.reach.engine
    through_async = has_proxies and first in GENERIC and second not in GENERIC
    if first is second is _TCGEN05 and other is team:
        is_in_order = _are_pipelined(before.reach, now.reach)
        return "" if is_in_order or team.knows(team.core) >= before.time else "order"
    if not before.is_done and before.column == other.column:
        return "order"
    if before.column not in (team.column, team.tensor):
        if not has_proxies:
            return _through_tensor_memory(before, team)
        if team.clock >> before.column & TIMES < before.time:
            return "order"
        if now.reach.event.is_of_cluster and not _is_known_of_cluster(before, team):
            return "order"
        if through_async and team.clock >> team.half + before.column & TIMES < before.time:
            return "fence"
        return ""
    return _within(before, now, team, through_async)


def _is_known_of_cluster(before: Access, team: Team) -> bool:
    """Whether a copy to other CTAs, too, comes behind what these did as this one did."""
    return team.of_cluster >> before.column & TIMES >= before.time


def _are_pipelined(before: Reach, now: Reach) -> bool:
    """Whether the tensor core does two things in the order of their issue (PTX ISA 9.7.16.6.2.1):
    all but multiplies, which do where both add to one accumulator.
    """
    if not (isinstance(before.event.op, GemmOp) and isinstance(now.event.op, GemmOp)):
        return True
    return before.writes and now.writes and before.mask == now.mask


def _through_tensor_memory(before: Access, team: Team) -> str:
    """The same of accesses to tensor memory: a fence on either side of the signal."""
    if team.tensor_clock >> before.column & TIMES >= before.time:
        return ""
    is_of_threads = before.column == before.team.tensor
    signal = before.team.column if is_of_threads else before.column
    return "fence" if team.knows(signal) >= before.time else "order"


def _within(before: Access, now: Access, team: Team, through_async: bool) -> str:
    """The same of accesses of one team: each warp orders its own, barriers those of others."""
    known, fenced = team.met[0]
    if known >= before.time and (not through_async or fenced >= before.time):
        return ""
    own_fenced = team.fenced >= before.time
    if team.elected:
        return "" if own_fenced or not through_async else "fence"
    missing = ""
    for sizes, pairs in _meetings(before, now, team):
        lacks = _between([team.met[size] for size in sizes], before.time, through_async)
        if not sizes:
            lacks = "fence" if through_async and not own_fenced else ""
        # The warps' whole tiles meet; what is left of the first access may not.
        if lacks and any(before.part(one) & now.part(another) for one, another in pairs):
            missing = lacks
            if lacks == "order":
                break
    return missing


def _between(met: Sequence[tuple[int, int]], time: int, fenced: bool) -> str:
    """The same of two warps that met at some times."""
    known = known_fenced = 0
    for at, fenced_at in met:
        known, known_fenced = max(known, at), max(known_fenced, fenced_at)
    if known < time:
        return "order"
    return "fence" if fenced and known_fenced < time else ""


_Meetings = Sequence[tuple[tuple[int, ...], Sequence[tuple[int, int]]]]
"""Pairs of warps by the sizes of the groups of neighbors that both are in; of none for one warp."""


def _meetings(before: Access, now: Access, team: Team) -> _Meetings:
    """The pairs of warps whose tiles share granules."""
    warps, sizes, offset = team.warps, tuple(team.met), now.team.offset
    first, second = before.reach.touch.parts, now.reach.touch.parts
    if first is None or second is None:
        return _all_pairs(warps, sizes)
    return _pairs(
        first[offset : offset + warps],
        second[offset : offset + warps],
        now.reach.place - before.reach.place,
        sizes,
    )


@cache
def _all_pairs(warps: int, sizes: tuple[int, ...]) -> _Meetings:
    pairs = ((one, another) for one in range(warps) for another in range(warps))
    return _by_group(pairs, sizes)


@lru_cache(maxsize=4096)
def _pairs(
    first: tuple[int, ...], second: tuple[int, ...], distance: int, sizes: tuple[int, ...]
) -> _Meetings:
    if distance < 0:
        first, distance = tuple(part << -distance for part in first), 0
    pairs = (
        (one, another)
        for another, part in enumerate(second)
        for one, other in enumerate(first)
        if other & (part << distance)
    )
    return _by_group(pairs, sizes)


def _by_group(pairs: Iterable[tuple[int, int]], sizes: tuple[int, ...]) -> _Meetings:
    """Pairs of warps that meet in the same groups know the same of each other, so that one
    comparison is for all of them.
    """
    groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for one, another in pairs:
        same = tuple(
            size
            for size in sizes
            if one != another and (not size or one // size == another // size)
        )
        groups.setdefault(same, []).append((one, another))
    return list(groups.items())
