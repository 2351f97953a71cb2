"""Runs the steps of all teams side by side in one case of trips, with clocks: whatever order the
roles come in, what is not ordered by barriers shows, and so does what waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from . import findings
from .clocks import FIELD_BITS, TIMES, Access, Clock, Shadow, Team
from .events import Does, Engine
from .exchanges import Exchange
from .findings import Finding
from .mbarriers import Ring
from .nodes import Body, Column, Event, Skeleton
from .perform import performer_of
from .steps import Step, Walks
from .versions import Versions

_MOST_FINDINGS = 8
# What each step asks for: an attribute of an enum is looked up by a function.
_THREADS, _BULK_STORE = Engine.THREADS, Engine.BULK_STORE


@dataclass
class Machine:
    """The state of a run of a case of this name."""

    skeleton: Skeleton
    name: str
    walks: Walks
    trace: Callable[[Team, Event], None] | None = None
    found: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        skeleton = self.skeleton
        # Columns of clocks: of each team, and behind them of rings.
        owned = skeleton.owned or columns_of(skeleton)
        skeleton.owned, first = owned, sum(map(len, owned))
        columns = first + len(skeleton.rings) + 1
        self.teams = [
            Team(plan, own, columns) for plan, own in zip(skeleton.teams, owned, strict=True)
        ]
        # The fields of asynchronous copies (`cp.async` of teams, bulk loads of rings), and of what
        # threads do in front of the roles.
        self.copied = sum(TIMES << team.copying for team in self.teams if team.copying >= 0)
        self.copied |= (1 << columns * FIELD_BITS) - (1 << first * FIELD_BITS)
        self.rings = [
            Ring(plan, (first + at) * FIELD_BITS) for at, plan in enumerate(skeleton.rings)
        ]
        # What threads do in front of the roles, whichever they have then: its column, how much that
        # is, and how much of it a proxy fence has followed.
        self.entry, self.entered_with, self.fenced_with = (columns - 1) * FIELD_BITS, 0, 0
        # What has taken tensor memory that nobody has given back.
        self.taken: Event | None = None
        self.exchanges: dict[Any, Exchange] = {}
        self.versions = Versions()
        self.shadows = [
            Shadow(name, is_tensor_memory, self.versions)
            for name, is_tensor_memory in skeleton.arenas
        ]
        # Who has come to a barrier, by whom it is for and how often before, and what all know.
        self.meetings: dict[Any, tuple[int, Clock]] = {}
        self.tokens: dict[Any, list[Clock]] = {}
        self.blocked: dict[int, Event] = {}
        self.reported: set[Any] = set()
        # The last step of each team that was traced.
        self.traced: dict[int, int] = {}
        for team, runs in zip(self.teams, self.walks.runs, strict=True):
            team.runs = runs
        self._mates: dict[tuple[int, int], list[Team]] = {}

    def run(self) -> list[Finding]:
        """Run all teams to their ends; what was found."""
        running = list(range(len(self.teams)))
        while running:
            progress = False
            for number in list(running):
                team = self.teams[number]
                before = team.time
                if self.go(number, team):
                    running.remove(number)
                    progress = True
                progress |= team.time != before
                if len(self.found) >= _MOST_FINDINGS:
                    return self.found
            if not progress:
                # Those that were not led to their ends could let others go on.
                if all(number in running for number in self.walks.cut):
                    self.stuck([self.teams[number] for number in running])
                return self.found
        if not self.walks.is_whole:
            return self.found
        if not self.found:
            self.ended()
        if not self.found:
            self.found += [replace(finding, case=self.name) for finding in self.versions.findings()]
        return self.found

    def go(self, number: int, team: Team) -> bool:
        """Let a team go on as far as it can; whether that is to its end."""
        steps, trace = self.walks.steps[number], self.trace
        at, end = team.gone, len(steps)
        while at < end:
            step = steps[at]
            event = step.event
            if trace is not None and self.traced.get(number, -1) < at:
                self.traced[number] = at
                trace(team, event)
            if step.is_absent:
                self.absent(step)
            else:
                perform = event.perform
                if perform is None:
                    perform = event.perform = performer_of(event)
                if not perform(self, team, step):
                    team.waits_for = event
                    break
            at += 1
            team.gone = at
        return at == end

    def mates(self, team: Team) -> list[Team]:
        """The teams that take turns as one instance of a role."""
        key = team.role, team.instance
        mates = self._mates.get(key)
        if mates is None:
            mates = [one for one in self.teams if (one.role, one.instance) == key]
            self._mates[key] = mates
        return mates

    def entered(self) -> set[Body]:
        """The bodies that some team has entered."""
        return {
            body
            for body, (team, steps) in self.walks.entered.items()
            if steps <= self.teams[team].gone
        }

    # Findings.

    def report(self, code: str, event: Event, message: str, other: Event | None = None) -> None:
        key = code, id(event), id(other)
        if key not in self.reported:
            self.reported.add(key)
            at = None if other is None else other.op
            self.found.append(Finding(code, event.op, message, at, self.name))

    def unordered(self, shadow: Shadow, before: Access, now: Access, missing: str) -> None:
        """An order or a fence is missing between two accesses."""
        what = f"{_verb(now)} {shadow.name}, which {_whose(before)} {_verb(before, past=True)}"
        if missing == "fence" and shadow.is_tensor_memory:
            self.report(
                findings.UNFENCED,
                now.reach.event,
                f"{what}: expected tcgen05.fence in front of the signal and behind the wait",
                before.reach.event,
            )
        elif missing == "fence":
            self.report(
                findings.UNFENCED,
                now.reach.event,
                f"{what} through the generic proxy: expected fence.proxy.async behind that",
                before.reach.event,
            )
        else:
            self.report(
                findings.UNORDERED,
                now.reach.event,
                f"{what}: expected {_edge(before)} in between, got no order",
                before.reach.event,
            )

    def reach_others(self, team: Team, event: Event) -> None:
        """Other CTAs of the cluster have to have begun before one reaches their shared memory."""
        if not team.is_in_cluster:
            self.report(
                findings.UNORDERED,
                event,
                "reaches shared memory of other CTAs, which may not have begun: expected "
                "pipeline.start {cluster} in front, got no order",
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
                        left[0].reach.event,
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

    def touch(self, team: Team, step: Step, is_done: bool, column: int, time: int) -> list[Access]:
        """The accesses of a step, each compared with those before."""
        made: list[Access] = []
        for reach in step.reaches:
            touch = reach.touch
            shadow = self.shadows[touch.arena]
            mask = reach.mask if touch.parts is None else reach.of(team.offset, team.warps)
            if mask:
                is_of_threads = shadow.is_tensor_memory and reach.engine is _THREADS
                of = team.tensor if is_of_threads else column
                made.append(access := Access(reach, team, mask, time, of, is_done))
                if shadow.access(access, self.unordered, touch.keeps and step.value != 0):
                    self.unwritten(shadow, step)
        return made

    def unwritten(self, shadow: Shadow, step: Step) -> None:
        """A step reads what nothing has written."""
        self.report(
            findings.UNWRITTEN,
            step.event,
            f"reads {shadow.name}, of which nothing has written a part: expected a write of it, or "
            "a wait for one, in front",
        )

    def store(self, team: Team, step: Step) -> None:
        """Each thread that issues bulk stores has groups of its own."""
        time = team.step()
        for reach in step.reaches:
            shadow, is_of_one = self.shadows[reach.touch.arena], reach.touch.parts is None
            for issuer in range(1 if is_of_one else team.warps):
                mask = reach.of(team.offset + issuer, 1)
                if mask:
                    access = Access(reach, team, mask, time, team.column, False)
                    if shadow.access(access, self.unordered):
                        self.unwritten(shadow, step)
                    team.open.setdefault((_BULK_STORE, issuer), []).append(access)

    def absent(self, step: Step) -> None:
        """What a copy that does not take place would have written nobody counts on."""
        for reach in step.reaches:
            if reach.writes:
                self.shadows[reach.touch.arena].written |= reach.mask

    def registers(self, team: Team, event: Event) -> None:
        """What threads do to registers that multiplies at work use."""
        for register in event.writes:
            team.unfenced[register] = event
        for register in (*event.reads, *event.writes):
            for access in team.busy.get(register, ()):
                if not access.is_done and (register in event.writes or access.reach.writes):
                    self.report(
                        findings.IN_FLIGHT,
                        event,
                        "uses registers that a wgmma at work still uses: expected wgmma_wait in "
                        "front",
                        access.reach.event,
                    )


def columns_of(skeleton: Skeleton) -> list[dict[Column, int]]:
    """The columns of clocks of each team."""
    number = count()
    return [
        {
            column: next(number)
            for column in Column
            if column is Column.THREADS
            or not skeleton.columns.isdisjoint(((plan.role, column), (-1, column)))
        }
        for plan in skeleton.teams
    ]


def _whose(access: Access) -> str:
    return f"role '{access.team.name}'"


def _verb(access: Access, past: bool = False) -> str:
    verb = "writes" if access.reach.writes else "reads"
    if past:
        verb = "wrote" if access.reach.writes else "read"
    if access.reach.engine is not Engine.THREADS:
        verb += f" by {access.reach.engine.value}"
    return verb


def _edge(access: Access) -> str:
    match access.reach.engine:
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
