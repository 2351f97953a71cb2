"""Runs the roles of a skeleton side by side in one case of trips, with clocks: whatever order the
roles come in, what is not ordered by barriers shows, and so does what waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.ir import Operation

from . import findings
from .clocks import Access, Clock, Shadow, Team
from .events import Does, Engine
from .findings import Finding
from .mbarriers import Ring
from .nodes import (
    OF_NO_STATE,
    Body,
    Branch,
    Event,
    Loop,
    Number,
    Part,
    Place,
    Skeleton,
    Sum,
    Touch,
    While,
    place_of,
)
from .perform import PERFORM
from .versions import Versions

_MOST_FINDINGS = 8
# Asks a case how many work items a CTA gets by its claims.
CLAIMS = ("claims", "work items")

Running = Generator[Event, None, None]


class TooLong(Exception):  # noqa: N818 - control flow of this package
    """A case has more trips of a loop, or more steps, than are run."""


@dataclass
class Case:
    """One case: what inputs are. `number` gives the integer of a term. With loops of more than
    `most_trips`, or more than `most_steps` of a team, it is not run to its end.
    """

    name: str
    numbers: Callable[[Any], int]
    most_trips: int = 400
    most_steps: int = 20_000


@dataclass
class Machine:
    """The state of a run."""

    skeleton: Skeleton
    case: Case
    trace: Callable[[Team, Event], None] | None = None
    found: list[Finding] = field(default_factory=list)
    trips: dict[Operation, set[int]] = field(default_factory=dict)
    entered: set[Body] = field(default_factory=set)

    def __post_init__(self) -> None:
        skeleton = self.skeleton
        count = len(skeleton.teams)
        columns = 4 * count + len(skeleton.rings) + 1
        # What threads do in front of the roles, whichever they have then: its column, how much that
        # is, and how much of it a proxy fence has followed.
        self.entry, self.entered_with, self.fenced_with = columns - 1, 0, 0
        slots: list[Any] = [0] * skeleton.slots
        for slot, constant in skeleton.constants.items():
            slots[slot] = constant
        for slot, argument in skeleton.inputs.items():
            slots[slot] = ("input", argument.index)
        self.teams = [
            Team(column, columns, plan, 3 * count + column, slots)
            for column, plan in enumerate(skeleton.teams)
        ]
        self.rings = [Ring(plan, 4 * count + at) for at, plan in enumerate(skeleton.rings)]
        self.versions = Versions()
        self.shadows = [
            Shadow(name, is_tensor_memory, versions=self.versions)
            for name, is_tensor_memory in skeleton.arenas
        ]
        self.sent: dict[tuple[int, int], Any] = {}
        # What has taken tensor memory that nobody has given back.
        self.taken: Event | None = None
        self.meetings: dict[Any, Clock] = {}
        self.tokens: dict[Any, list[Clock]] = {}
        self.blocked: dict[int, Event] = {}
        self.reported: set[Any] = set()

    def run(self) -> list[Finding]:
        """Run all teams to their ends; what was found."""
        running: dict[int, Running] = {
            at: self.play(team, self.skeleton.nodes) for at, team in enumerate(self.teams)
        }
        while running:
            progress = False
            for at, role in list(running.items()):
                team = self.teams[at]
                before = team.time
                try:
                    team.waits_for = next(role)
                except StopIteration:
                    del running[at]
                    progress = True
                if team.time != before:
                    progress = True
                if len(self.found) >= _MOST_FINDINGS:
                    return self.found
            if not progress:
                self.stuck([self.teams[at] for at in running])
                return self.found
        if not self.found:
            self.ended()
        if not self.found:
            self.found += [
                replace(finding, case=self.case.name) for finding in self.versions.findings()
            ]
        return self.found

    # Control.

    def play(self, team: Team, nodes: Iterable[Any]) -> Running:
        slots = team.slots
        number = self.number
        for node in nodes:
            kind = type(node)
            if kind is Sum:
                one, other = slots[node.one], slots[node.other]
                if type(one) is not int:
                    one = number(one)
                if type(other) is not int:
                    other = number(other)
                slots[node.slot] = node.function(one, other)
            elif kind is Number:
                slots[node.slot] = node.step([slots[at] for at in node.operands], number)
            elif kind is Place:
                slots[node.position] = position = slots[node.state]
                slots[node.stage] = position % node.stages
            elif kind is Event:
                if node.pred >= 0 and not number(slots[node.pred]):
                    self.absent(team, node)
                    continue
                if node.is_of_cta and team.column:
                    continue  # All threads of the CTA do it, once.
                if self.trace is not None:
                    self.trace(team, node)
                perform = PERFORM[node.does]
                while not perform(self, team, node):
                    yield node
            elif kind is Loop:
                yield from self.loop(team, node)
            elif kind is Branch:
                side = 0 if number(slots[node.condition]) else 1
                self.entered.add((id(node.op), side))
                body, given = node.sides[side]
                yield from self.play(team, body)
                _move(slots, given)
            elif kind is While:
                yield from self.rounds(team, node)
            elif kind is Part and node.role == team.role:
                yield from self.play(team, node.body)

    def loop(self, team: Team, node: Loop) -> Running:
        slots = team.slots
        lower, upper, step = (self.number(slots[at]) for at in node.bounds)
        trips = range(lower, upper, max(1, step))
        self.trips.setdefault(node.op, set()).add(len(trips))
        if len(trips) > self.case.most_trips:
            raise TooLong
        if trips:
            self.entered.add((id(node.op), 0))
        for argument, first, _, _ in node.carried:
            slots[argument] = slots[first]
        around, last = team.is_last, trips[-1] if trips else 0
        for index in trips:
            if team.time > self.case.most_steps:
                raise TooLong
            slots[node.index] = index
            slots[node.trip] += 1
            team.is_last = index == last
            yield from self.play(team, node.body)
            _move(slots, [(following, argument) for argument, _, following, _ in node.carried])
        team.is_last = around
        _move(slots, [(argument, result) for argument, _, _, result in node.carried])

    def rounds(self, team: Team, node: While) -> Running:
        slots = team.slots
        _move(slots, node.firsts)
        count = 0
        while True:
            yield from self.play(team, node.before)
            if not self.number(slots[node.condition]):
                break
            _move(slots, node.passed)
            self.entered.add((id(node.op), 1))
            slots[node.trip] += 1
            yield from self.play(team, node.after)
            _move(slots, node.nexts)
            count += 1
            if count > self.case.most_trips or team.time > self.case.most_steps:
                raise TooLong
        self.trips.setdefault(node.op, set()).add(count)
        _move(slots, node.results)

    def claimed(self, team: Team, key: str, total: int) -> int:
        """The next work item of a CTA, as often as the case says, then none."""
        count = team.counts[key] = team.counts.get(key, 0) + 1
        if total < 2 or count >= self.number(CLAIMS):
            return total
        return self.number(("claims", "item", total))

    def number(self, value: Any) -> int:
        return value if type(value) is int else self.case.numbers(value)

    # Findings.

    def report(self, code: str, event: Event, message: str, other: Event | None = None) -> None:
        key = code, id(event), id(other)
        if key not in self.reported:
            self.reported.add(key)
            at = None if other is None else other.op
            self.found.append(Finding(code, event.op, message, at, self.case.name))

    def unordered(self, shadow: Shadow, before: Access, now: Access, missing: str) -> None:
        """An order or a fence is missing between two accesses."""
        what = f"{_verb(now)} {shadow.name}, which {_whose(before)} {_verb(before, past=True)}"
        if missing == "fence" and shadow.is_tensor_memory:
            self.report(
                findings.UNFENCED,
                now.event,
                f"{what}: expected tcgen05.fence in front of the signal and behind the wait",
                before.event,
            )
        elif missing == "fence":
            self.report(
                findings.UNFENCED,
                now.event,
                f"{what} through the generic proxy: expected fence.proxy.async behind that",
                before.event,
            )
        else:
            self.report(
                findings.UNORDERED,
                now.event,
                f"{what}: expected {_edge(before)} in between, got no order",
                before.event,
            )

    def stuck(self, teams: list[Team]) -> None:
        """Nobody can go on."""
        waits = "; ".join(
            f"role '{team.name}' waits for {event.op.name}{findings.place_of(event.op)}"
            for team in teams
            if (event := team.waits_for) is not None
        )
        # Who is through with its own work waits for the others.
        events = [self.blocked[team.column] for team in teams]
        event = min(events, key=lambda event: event.does is Does.DRAIN)
        self.report(findings.STUCK, event, f"no wait of these ever ends: {waits}")

    def ended(self) -> None:
        """All have come to their ends: nothing may be at work, but for `cp.async` into memory that
        nobody reads any more, which are of the threads that issue them.
        """
        for team in self.teams:
            for engine in (Engine.WGMMA, Engine.BULK_STORE):
                left = [
                    access
                    for issuer in range(-1, team.warps)
                    for group in (
                        *team.groups.get((engine, issuer), ()),
                        team.open.get((engine, issuer), []),
                    )
                    for access in group
                    if not access.is_done
                ]
                if left:
                    self.report(
                        findings.PENDING,
                        left[0].event,
                        f"role '{team.name}' ends while its {engine.value} is at work: expected a "
                        "wait for its group in front of the end",
                    )
            for event in team.sent.values():
                self.report(
                    findings.PENDING,
                    event,
                    f"role '{team.name}' ends while other CTAs read what it sent, and tell a CTA "
                    "that may have ended: expected pipeline.exchange_drain at its end",
                )
            for waits in team.forwards.values():
                for event in waits.values():
                    self.report(
                        findings.STUCK,
                        event,
                        f"role '{team.name}' of the other CTA of the pair waits for ever: expected "
                        "pipeline.forward behind this wait",
                    )
        if self.taken is not None:
            self.report(
                findings.PENDING,
                self.taken,
                "takes tensor memory that no role gives back: expected cute_nvgpu.tmem_dealloc at "
                "the end of one that loads from it",
            )
        for ring in self.rings:
            self.left_over(ring)

    def left_over(self, ring: Ring) -> None:
        """What is left at the barriers of a ring."""
        for at, barrier in enumerate(ring.full):
            is_whole = barrier.pending == barrier.count and not barrier.bytes
            if barrier.last is not None and not is_whole:
                self.report(
                    findings.ARRIVALS,
                    barrier.last,
                    f"stage {at} of {ring.name} is left with {barrier.pending} pending arrivals of "
                    f"{barrier.count} and {barrier.bytes} bytes",
                )
            elif barrier.last is not None and barrier.phases > barrier.awaited:
                self.report(
                    findings.PENDING,
                    barrier.last,
                    f"stage {at} of {ring.name} is full at the end, and no role has waited for it: "
                    "expected a wait, and a state that advances as the producer's does",
                )
        for at, barrier in enumerate(ring.empty if ring.plan.is_signaled else ()):
            if barrier.last is not None and barrier.phases > barrier.awaited:
                self.report(
                    findings.PENDING,
                    barrier.last,
                    f"arrives at stage {at} of {ring.name} of a CTA that may have ended: expected "
                    "pipeline.drain at the end of the role that fills it",
                )

    # Accesses.

    def touch(
        self, team: Team, event: Event, is_done: bool, column: int, time: int
    ) -> list[Access]:
        """The accesses of an event, each compared with those before."""
        made: list[Access] = []
        for each in event.touches:
            access = self.access_of(team, event, each, is_done, column, time)
            if access.mask:
                self.meet(access, each)
                made.append(access)
        return made

    def access_of(
        self, team: Team, event: Event, each: Touch, is_done: bool, column: int, time: int
    ) -> Access:
        """The access that a touch is where the team stands."""
        place = place_of(each, team.slots, self.number)
        if event.engine is Engine.THREADS and self.shadows[each.arena].is_tensor_memory:
            column = team.tensor
        access = Access(
            event, team, event.engine, each.writes, each.mask << place, place, each.parts, time,
            column, is_done,
            {name: tuple(map(team.slots.__getitem__, at)) for name, at in event.coordinates},
        )  # fmt: skip
        stage = each.stage
        if stage is not None:
            at_state = stage.slot != OF_NO_STATE
            position = team.slots[stage.slot] if at_state else team.waited.get(stage.ring)
            access.ring, access.position = stage.ring, position
        if team.offset or (each.parts is not None and team.warps < len(each.parts)):
            mine = 0
            for warp in range(team.warps):
                mine |= access.part(warp)
            access.mask = mine
        return access

    def meet(self, access: Access, each: Touch) -> None:
        """Compare an access with those before it."""
        shadow, event, team = self.shadows[each.arena], access.event, access.team
        keeps = each.keeps and (event.value < 0 or bool(self.number(team.slots[event.value])))
        known = shadow.written
        missing = shadow.access(access, self.unordered, keeps)
        if keeps:
            missing = access.mask & ~known
        if missing:
            self.report(
                findings.UNWRITTEN,
                event,
                f"reads {shadow.name}, of which nothing has written a part: expected a write of "
                "it, or a wait for one, in front",
            )

    def store(self, team: Team, event: Event) -> None:
        """Each thread that issues bulk stores has groups of its own."""
        time = team.step()
        for each in event.touches:
            whole = self.access_of(team, event, each, False, team.column, time)
            for issuer in range(team.warps):
                access = whole.of_warp(issuer)
                if access is not None:
                    self.meet(access, each)
                    team.open.setdefault((Engine.BULK_STORE, issuer), []).append(access)

    def absent(self, team: Team, event: Event) -> None:
        """What a copy that does not take place would have written nobody counts on."""
        for each in event.touches:
            if each.writes:
                place = place_of(each, team.slots, self.number)
                self.shadows[each.arena].written |= each.mask << place

    def registers(self, team: Team, event: Event) -> None:
        """What threads do to registers that multiplies at work use."""
        for register in event.writes:
            team.unfenced[register] = event
        for register in (*event.reads, *event.writes):
            for access in team.busy.get(register, ()):
                if not access.is_done and (register in event.writes or access.writes):
                    self.report(
                        findings.IN_FLIGHT,
                        event,
                        "uses registers that a wgmma at work still uses: expected wgmma_wait in "
                        "front",
                        access.event,
                    )


def _move(slots: list[Any], pairs: Iterable[tuple[int, int]]) -> None:
    """Assign at once."""
    values = [(target, slots[source]) for source, target in pairs]
    for target, value in values:
        slots[target] = value


def _whose(access: Access) -> str:
    return f"role '{access.team.name}'"


def _verb(access: Access, past: bool = False) -> str:
    verb = "writes" if access.writes else "reads"
    if past:
        verb = "wrote" if access.writes else "read"
    if access.engine is not Engine.THREADS:
        verb += f" by {access.engine.value}"
    return verb


def _edge(access: Access) -> str:
    match access.engine:
        case Engine.THREADS:
            return "a barrier or an arrival and a wait"
        case Engine.WGMMA:
            return "wgmma_wait for its group, then a barrier of the warps concerned,"
        case Engine.CP_ASYNC:
            return "a wait for its group, then a barrier of the warps concerned,"
        case Engine.BULK_STORE:
            return "a wait for its group, then a barrier of the warps concerned,"
        case Engine.BULK_LOAD:
            return "a wait for the full barrier of the stage"
        case Engine.TCGEN05:
            return "a wait for the barrier of its commit"
