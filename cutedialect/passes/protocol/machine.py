"""Runs the roles of a skeleton side by side in one case of trips, with clocks: whatever order the
roles come in, what is not ordered by barriers shows, and so does what waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from xdsl.ir import Operation

from . import findings
from .clocks import Access, Clock, Shadow, Team, order
from .events import Does, Engine
from .findings import Finding
from .mbarriers import MBarrier, Ring
from .skeleton import INSTANCE, Branch, Event, Loop, Number, Part, Skeleton, Touch, While

_LANES = 32
# Trips of one loop, or rounds of one `scf.while`, after which a case is not run to its end.
_MOST_TRIPS = 400
_MOST_FINDINGS = 8

Running = Generator[Event, None, None]


class TooLong(Exception):  # noqa: N818 - control flow of this package
    """A loop of a case has more trips than are run."""


@dataclass
class Case:
    """One case: what inputs are. `number` gives the integer of a term, `items` how many work items
    a CTA claims.
    """

    name: str
    numbers: Callable[[Any], int]
    items: int = 2


@dataclass
class Machine:
    """The state of a run."""

    skeleton: Skeleton
    case: Case
    trace: Callable[[Team, Event], None] | None = None
    found: list[Finding] = field(default_factory=list)
    trips: dict[Operation, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        skeleton = self.skeleton
        self.teams: list[Team] = []
        plans = list(_teams(skeleton))
        count = len(plans)
        columns = 3 * count + len(skeleton.rings)
        for column, (role, name, warps, offset, instance, turn, elected) in enumerate(plans):
            team = Team(column, columns, role, name, warps)
            team.offset, team.instance, team.turn, team.elected = offset, instance, turn, elected
            team.slots = [0] * skeleton.slots
            team.slots[INSTANCE] = instance
            for slot, argument in skeleton.inputs.items():
                team.slots[slot] = ("input", argument.index)
            self.teams.append(team)
        self.rings = [
            Ring(op, 3 * count + at, skeleton.cluster) for at, op in enumerate(skeleton.rings)
        ]
        self.shadows = [Shadow(*arena) for arena in skeleton.arenas]
        self.sent: dict[tuple[int, int], Any] = {}
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
        return self.found

    # Control.

    def play(self, team: Team, nodes: Iterable[Any]) -> Running:
        slots = team.slots
        number = self.number
        for node in nodes:
            kind = type(node)
            if kind is Number:
                slots[node.slot] = node.step([slots[at] for at in node.operands], number)
            elif kind is Event:
                if node.pred >= 0 and not number(slots[node.pred]):
                    self.absent(team, node)
                    continue
                if self.trace is not None:
                    self.trace(team, node)
                perform = _PERFORM[node.does]
                while not perform(self, team, node):
                    yield node
            elif kind is Loop:
                yield from self.loop(team, node)
            elif kind is Branch:
                body, given = node.sides[0 if number(slots[node.condition]) else 1]
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
        if len(trips) > _MOST_TRIPS:
            raise TooLong
        for argument, first, _, _ in node.carried:
            slots[argument] = slots[first]
        for index in trips:
            slots[node.index] = index
            yield from self.play(team, node.body)
            _move(slots, [(following, argument) for argument, _, following, _ in node.carried])
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
            yield from self.play(team, node.after)
            _move(slots, node.nexts)
            count += 1
            if count > _MOST_TRIPS:
                raise TooLong
        self.trips.setdefault(node.op, set()).add(count)
        _move(slots, node.results)

    def claimed(self, team: Team, key: str, total: int) -> int:
        """The next work item of a CTA: one more, then none."""
        count = team.counts.get(key, 0)
        team.counts[key] = count + 1
        return total - 1 if count + 1 < self.case.items and total > 1 else total

    def number(self, value: Any) -> int:
        return value if isinstance(value, int) else self.case.numbers(value)

    # Findings.

    def report(self, code: str, event: Event, message: str, other: Event | None = None) -> None:
        key = code, id(event), id(other)
        if key not in self.reported:
            self.reported.add(key)
            at = None if other is None else other.op
            self.found.append(Finding(code, event.op, message, at, self.case.name))

    def compare(self, shadow: Shadow, before: Access, now: Access) -> None:
        missing = order(before, now, not shadow.is_tensor_memory)
        if not missing:
            return
        what = f"{_verb(now)} {shadow.name}, which {_whose(before)} {_verb(before, past=True)}"
        if missing == "fence":
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
        event = self.blocked[teams[0].column]
        self.report(findings.STUCK, event, f"no wait of these ever ends: {waits}")

    def ended(self) -> None:
        """All have come to their ends: nothing may be at work."""
        for team in self.teams:
            for engine in (Engine.WGMMA, Engine.CP_ASYNC, Engine.BULK_STORE):
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
        for ring in self.rings:
            for at, barrier in enumerate(ring.full):
                is_whole = barrier.pending == barrier.count and not barrier.bytes
                if barrier.last is not None and not is_whole:
                    self.report(
                        findings.ARRIVALS,
                        barrier.last,
                        f"stage {at} of {ring.name} is left with {barrier.pending} pending "
                        f"arrivals of {barrier.count} and {barrier.bytes} bytes",
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
        place = _place(each, team.slots, self.number)
        access = Access(
            event, team, event.engine, each.writes, each.mask << place, place, each.parts, time,
            column, is_done,
        )  # fmt: skip
        if team.offset or (each.parts is not None and team.warps < len(each.parts)):
            mine = 0
            for warp in range(team.warps):
                mine |= access.part(warp)
            access.mask = mine
        return access

    def meet(self, access: Access, each: Touch) -> None:
        """Compare an access with those before it."""
        shadow, event, team = self.shadows[each.arena], access.event, access.team
        known = shadow.written
        missing = shadow.access(access, partial(self.compare, shadow))
        if each.keeps and (event.value < 0 or self.number(team.slots[event.value])):
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
                place = _place(each, team.slots, self.number)
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


def perform_accesses(self: Machine, team: Team, event: Event) -> bool:
    """Accesses of an engine."""
    engine = event.engine
    match engine:
        case Engine.THREADS:
            if event.reads or event.writes:
                self.registers(team, event)
            if event.touches:
                self.touch(team, event, True, team.column, team.step())
        case Engine.CP_ASYNC:
            team.copies += 1
            made = self.touch(team, event, False, team.column, team.step())
            team.open.setdefault((engine, -1), []).extend(made)
        case Engine.BULK_STORE:
            self.store(team, event)
        case Engine.WGMMA:
            _multiply(self, team, event)
        case Engine.TCGEN05:
            team.multiplies += 1
            team.step()
            column = len(self.teams) + team.column
            self.touch(team, event, False, column, team.multiplies)
        case Engine.BULK_LOAD:
            _load(self, team, event)
    return True


def _multiply(self: Machine, team: Team, event: Event) -> None:
    made = self.touch(team, event, False, team.column, team.step())
    for register in (*event.reads, *event.writes):
        before = team.unfenced.get(register)
        if before is not None:
            self.report(
                findings.IN_FLIGHT,
                event,
                "uses registers that threads have written: expected wgmma_fence in front",
                before,
            )
    uses = Access(event, team, Engine.WGMMA, True, 0, 0, None, team.time, team.column, False)
    for register in event.writes:
        team.busy[register] = [uses]
    reads = Access(event, team, Engine.WGMMA, False, 0, 0, None, team.time, team.column, False)
    for register in set(event.reads) - set(event.writes):
        at_work = [access for access in team.busy.get(register, ()) if not access.is_done]
        team.busy[register] = [*at_work, reads]
    team.open.setdefault((Engine.WGMMA, -1), []).extend((*made, uses, reads))


def _load(self: Machine, team: Team, event: Event) -> None:
    ring = self.rings[event.ring]
    stage = team.slots[event.state] % ring.stages
    barrier = ring.full[stage]
    ring.loads += 1
    team.step()
    for access in self.touch(team, event, True, ring.column, ring.loads):
        access.column = ring.column
    count = event.count if event.does is not Does.REQUEST else 16
    barrier.bytes -= count * ring.copies
    barrier.last = event
    clock = team.clock[:]
    clock[ring.column] = ring.loads
    barrier.gather(clock)
    if barrier.bytes < 0:
        self.report(
            findings.BYTES,
            event,
            f"brings more bytes than stage {stage} of {ring.name} expects: expected "
            f"{ring.expected_bytes}, got {-barrier.bytes} more",
        )
    barrier.complete()


def _arrive(
    self: Machine, event: Event, ring: Ring, barrier: MBarrier, count: int, clock: Clock
) -> None:
    barrier.gather(clock)
    barrier.last = event
    if count > barrier.pending:
        self.report(
            findings.ARRIVALS,
            event,
            f"arrives {count} times at a barrier of {ring.name} where {barrier.pending} of "
            f"{barrier.count} arrivals are pending",
        )
        count = barrier.pending
    barrier.pending -= count
    barrier.complete()


def _await(self: Machine, team: Team, event: Event, barrier: MBarrier, rounds: int) -> bool:
    """Wait until `rounds` phases are complete, by the parity of the last of them."""
    ring = self.rings[event.ring]
    if rounds and (barrier.phases & 1) == ((rounds - 1) & 1):
        self.blocked[team.column] = event
        return False
    if rounds == 0 and barrier.phases & 1:
        self.blocked[team.column] = event
        return False
    if barrier.phases != rounds:
        self.report(
            findings.PHASE,
            event,
            f"passes in phase {barrier.phases} of a barrier of {ring.name} where it waits for "
            f"phase {rounds}: the parity is the same",
        )
    team.step()
    if barrier.clock is not None:
        team.learn(barrier.clock)
    return True


def _acquire(self: Machine, team: Team, event: Event) -> bool:
    ring = self.rings[event.ring]
    position = team.slots[event.state]
    stage = position % ring.stages
    if ring.op.is_released and not _await(
        self, team, event, ring.empty[stage], position // ring.stages
    ):
        return False
    team.step()
    if "tma" in ring.op.kinds:
        barrier = ring.full[stage]
        barrier.bytes += ring.expected_bytes
        _arrive(self, event, ring, barrier, 1, team.published())
    return True


def _wait(self: Machine, team: Team, event: Event) -> bool:
    ring = self.rings[event.ring]
    position = team.slots[event.state]
    barrier = ring.full[position % ring.stages]
    return _await(self, team, event, barrier, position // ring.stages + 1)


def _commit(self: Machine, team: Team, event: Event) -> bool:
    ring = self.rings[event.ring]
    kinds = ring.op.kinds
    barrier = ring.full[team.slots[event.state] % ring.stages]
    team.step()
    if "tcgen05" in kinds:
        _arrive(self, event, ring, barrier, 1, _committed(self, team))
    if "tmem" in kinds or "threads" in kinds:
        arrivals = 1 if team.elected else team.warps
        _arrive(self, event, ring, barrier, arrivals, team.published())
    if "cp_async" in kinds:
        column = 2 * len(self.teams) + team.column
        for access in team.open.pop((Engine.CP_ASYNC, -1), []):
            # Its mbarrier tells of it (`cp.async.mbarrier.arrive.noinc`).
            access.column, access.time, access.is_done = column, team.copies, True
        clock = team.published()
        clock[column] = team.copies
        arrivals = 1 if team.elected else team.warps * _LANES
        _arrive(self, event, ring, barrier, arrivals, clock)
    return True


def _committed(self: Machine, team: Team) -> Clock:
    """What a commit passes on: the multiplies so far, and what came before them."""
    clock = team.clock[:]
    clock[len(self.teams) + team.column] = team.multiplies
    return clock


def _release(self: Machine, team: Team, event: Event) -> bool:
    ring = self.rings[event.ring]
    position = team.slots[event.state] - event.count
    if not ring.op.is_released:
        return True
    barrier = ring.empty[position % ring.stages]
    team.step()
    if event.is_read:
        _arrive(self, event, ring, barrier, ring.commits, _committed(self, team))
        return True
    arrivals = (1 if team.elected else team.warps) * ring.releases
    _arrive(self, event, ring, barrier, arrivals, team.published())
    return True


def _advance(self: Machine, team: Team, event: Event) -> bool:
    team.slots[event.state] += 1 if event.value < 0 else self.number(team.slots[event.value])
    return True


def _barrier(self: Machine, team: Team, event: Event) -> bool:
    others = [
        other for other in self.teams if other.role == team.role and other.instance == team.instance
    ]
    if len(others) == 1 or (event.warps and event.warps <= team.warps):
        team.meet(event.warps)
        return True
    # Teams that take turns meet as one role, each time anew.
    key = team.role, team.instance
    if not team.counts.get("meets"):
        team.counts["meets"] = 1
        team.counts["met"] = team.counts.get("met", 0) + 1
        team.meet(0)
        self.meetings[key, team.counts["met"], team.column] = team.published()
    places = [(key, team.counts["met"], other.column) for other in others]
    if not all(place in self.meetings for place in places):
        self.blocked[team.column] = event
        return False
    team.counts["meets"] = 0
    team.step()
    for place in places:
        team.learn(self.meetings[place])
    return True


def _gather(self: Machine, team: Team, event: Event) -> bool:
    if event.reads or event.writes:
        self.registers(team, event)
    if not _barrier(self, team, event):
        return False
    if event.result >= 0:
        team.slots[event.result] = ("condition", event.op.name)
    return True


def _fence(self: Machine, team: Team, event: Event) -> bool:
    team.fence()
    return True


def _wgmma_fence(self: Machine, team: Team, event: Event) -> bool:
    team.unfenced.clear()
    return True


def _issuers(team: Team, event: Event) -> Iterable[int]:
    """The warps whose thread issues bulk stores, commits or waits; -1 where all threads do."""
    if event.engine is not Engine.BULK_STORE:
        return (-1,)
    return range(0, team.warps, event.warps) if event.warps else (0,)


def _close(self: Machine, team: Team, event: Event) -> bool:
    for issuer in _issuers(team, event):
        key = event.engine, issuer
        team.groups.setdefault(key, []).append(team.open.pop(key, []))
    return True


def _close_wait(self: Machine, team: Team, event: Event) -> bool:
    time = team.step()
    for issuer in _issuers(team, event):
        key = event.engine, issuer
        groups = team.groups.get(key, [])
        done = groups[: len(groups) - event.count] if event.count else groups
        for group in done:
            for access in group:
                access.is_done, access.time = True, time
        team.groups[key] = groups[len(done) :]
    return True


def _send(self: Machine, team: Team, event: Event) -> bool:
    touch = event.touches[0]
    self.touch(team, event, True, team.column, team.step())
    place = _place(touch, team.slots, self.number)
    self.sent[touch.arena, place] = team.slots[event.value]
    return True


def _receive(self: Machine, team: Team, event: Event) -> bool:
    touch = event.touches[0]
    self.touch(team, event, True, team.column, team.step())
    team.slots[event.result] = self.sent.get(
        (touch.arena, _place(touch, team.slots, self.number)), 0
    )
    return True


def _request(self: Machine, team: Team, event: Event) -> bool:
    _load(self, team, event)
    return True


def _respond(self: Machine, team: Team, event: Event) -> bool:
    self.touch(team, event, True, team.column, team.step())
    total = self.number(team.slots[event.value])
    team.slots[event.result] = self.claimed(team, "response", total)
    return True


def _claim(self: Machine, team: Team, event: Event) -> bool:
    total = self.number(team.slots[event.value])
    team.slots[event.result] = self.claimed(team, "claim", total)
    return True


def _turn_wait(self: Machine, team: Team, event: Event) -> bool:
    mine = team.turn if event.warps else team.instance
    if event.is_read and mine != 0:
        return True
    waiting = self.tokens.get(_turn_of(team, event, mine), [])
    if not waiting:
        self.blocked[team.column] = event
        return False
    team.step()
    team.learn(waiting.pop(0))
    return True


def _turn_pass(self: Machine, team: Team, event: Event) -> bool:
    mine = team.turn if event.warps else team.instance
    count = 1 + max(
        other.turn if event.warps else other.instance
        for other in self.teams
        if other.role == team.role
    )
    if event.is_read and mine != count - 1:
        return True
    passed = self.tokens.setdefault(_turn_of(team, event, (mine + 1) % count), [])
    if passed:
        self.report(
            findings.ARRIVALS,
            event,
            f"role '{team.name}' passes a turn on that was passed on before, and not taken",
        )
    passed.append(team.published())
    return True


def _turn_of(team: Team, event: Event, number: int) -> tuple[int, int, int, int]:
    """The barrier at which a turn is taken."""
    instance = team.instance if event.warps else -1
    return team.role, instance, event.warps, number


_PERFORM: dict[Does, Callable[[Machine, Team, Event], bool]] = {
    Does.NOTHING: perform_accesses,
    Does.GIVES: perform_accesses,
    Does.ACQUIRE: _acquire,
    Does.COMMIT: _commit,
    Does.WAIT: _wait,
    Does.RELEASE: _release,
    Does.ADVANCE: _advance,
    Does.BARRIER: _barrier,
    Does.TURN_WAIT: _turn_wait,
    Does.TURN_PASS: _turn_pass,
    Does.CLAIM: _claim,
    Does.GATHER: _gather,
    Does.PROXY_FENCE: _fence,
    Does.GROUP_COMMIT: _close,
    Does.GROUP_WAIT: _close_wait,
    Does.WGMMA_FENCE: _wgmma_fence,
    Does.SEND: _send,
    Does.RECEIVE: _receive,
    Does.REQUEST: _request,
    Does.RESPOND: _respond,
}


def _teams(
    skeleton: Skeleton,
) -> Iterable[tuple[int, str, int, int, int, int, bool]]:
    """(role, name, warps, first warp, instance, turn, elected) of each team."""
    if not skeleton.roles:
        yield -1, "main", skeleton.warps, 0, 0, 0, False
        return
    for at, role in enumerate(skeleton.roles):
        warps = len(role.warp_range) // role.teams
        size = skeleton.turns.get(at) or warps
        for instance in range(role.teams):
            for turn in range(warps // size):
                name = role.role.data
                if role.teams > 1:
                    name += f" #{instance}"
                if size < warps:
                    name += f".{turn}"
                elected = role.elect is not None
                yield at, name, size, turn * size, instance, turn, elected


def _move(slots: list[Any], pairs: Iterable[tuple[int, int]]) -> None:
    """Assign at once."""
    values = [(target, slots[source]) for source, target in pairs]
    for target, value in values:
        slots[target] = value


def _place(touch: Touch, slots: list[Any], number: Callable[[Any], int]) -> int:
    return touch.start + sum(number(slots[slot]) * factor for slot, factor in touch.terms)


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
