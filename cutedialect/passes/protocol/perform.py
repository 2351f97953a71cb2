"""What each kind of event does to the state of a run: accesses, arrivals and waits, fences, groups,
messages and turns. What says False cannot go on yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cutedialect.dialects.pipeline import StartWaitOp

from . import findings
from .clocks import TIMES, Access, Clock, Team, joined, with_time
from .events import Does, Engine
from .exchanges import await_all, expect_all, leave, report_unmade, send_all, tell
from .mbarriers import MBarrier
from .nodes import Event, Touch
from .regions import LANES_PER_WARP
from .steps import Reach, Step

if TYPE_CHECKING:
    from .machine import Machine

# The groups of all threads.
_COPIES, _MULTIPLIES = (Engine.CP_ASYNC, -1), (Engine.WGMMA, -1)
_BULK_STORE = Engine.BULK_STORE


def perform_accesses(machine: Machine, team: Team, step: Step) -> bool:
    """Accesses of an engine."""
    return _ACCESSES[step.event.engine](machine, team, step)


def _by_threads(machine: Machine, team: Team, step: Step) -> bool:
    event = step.event
    if event.reads or event.writes:
        machine.registers(team, event)
    if event.is_of_cta:
        team.step()
        machine.entered_with += 1
        machine.touch(team, step, True, machine.entry, machine.entered_with)
    elif event.touches:
        machine.touch(team, step, True, team.column, team.step())
    return True


def _copy_async(machine: Machine, team: Team, step: Step) -> bool:
    team.copies += 1
    made = machine.touch(team, step, False, team.column, team.step())
    team.open.setdefault(_COPIES, []).extend(made)
    return True


def _store(machine: Machine, team: Team, step: Step) -> bool:
    machine.store(team, step)
    return True


def _multiply_in_tensor_memory(machine: Machine, team: Team, step: Step) -> bool:
    team.multiplies += 1
    team.step()
    machine.touch(team, step, False, team.core, team.multiplies)
    return True


def _multiply(machine: Machine, team: Team, step: Step) -> bool:
    event = step.event
    made = machine.touch(team, step, False, team.column, team.step())
    for register in (*event.reads, *event.writes) if team.unfenced else ():
        before = team.unfenced.get(register)
        if before is not None:
            machine.report(
                findings.IN_FLIGHT,
                event,
                "uses registers that threads have written: expected wgmma_fence in front",
                before,
            )
    if event.writes:
        uses = Access(_of_registers(event, True), team, 0, team.time, team.column, False)
        for register in event.writes:
            team.busy[register] = [uses]
        made.append(uses)
    read_only = set(event.reads).difference(event.writes)
    if read_only:
        reads = Access(_of_registers(event, False), team, 0, team.time, team.column, False)
        for register in read_only:
            at_work = [access for access in team.busy.get(register, ()) if not access.is_done]
            team.busy[register] = [*at_work, reads]
        made.append(reads)
    team.open.setdefault(_MULTIPLIES, []).extend(made)
    return True


def _of_registers(event: Event, writes: bool) -> Reach:
    """What a multiply does to registers: nothing of memory."""
    return Reach(event, Touch(-1, 0, None, 0, (), writes), Engine.WGMMA, writes, 0, 0)


def _load(machine: Machine, team: Team, step: Step) -> bool:
    event, ring = step.event, machine.rings[step.event.ring]
    stage = step.position % ring.stages
    barrier = ring.full[stage]
    ring.loads += 1
    team.step()
    machine.touch(team, step, True, ring.column, ring.loads)
    if ring.plan.is_shared:
        machine.reach_others(team, event)
    count = event.count if event.does is not Does.REQUEST else 16
    barrier.bytes -= count * ring.plan.copies
    barrier.last = event
    barrier.gather(with_time(team.clock, ring.column, ring.loads), team.carries)
    if barrier.bytes < 0:
        machine.report(
            findings.BYTES,
            event,
            f"brings more bytes than stage {stage} of {ring.name} expects: expected "
            f"{ring.plan.expected_bytes}, got {-barrier.bytes} more",
        )
    barrier.complete()
    return True


def _arrive(
    machine: Machine, team: Team, event: Event, barrier: MBarrier, count: int, clock: Clock
) -> None:
    ring = machine.rings[event.ring]
    if ring.plan.is_shared:
        machine.reach_others(team, event)
    barrier.gather(clock, team.carries)
    barrier.last = event
    if count > barrier.pending:
        machine.report(
            findings.ARRIVALS,
            event,
            f"arrives {count} times at a barrier of {ring.name} where {barrier.pending} of "
            f"{barrier.count} arrivals are pending",
        )
        count = barrier.pending
    barrier.pending -= count
    barrier.complete()


def _is_shut(barrier: MBarrier, rounds: int) -> bool:
    """Whether a wait for the parity of so many phases does not pass."""
    return (barrier.phases & 1) == ((rounds - 1) & 1 if rounds else 1)


def _await(machine: Machine, team: Team, event: Event, barrier: MBarrier, rounds: int) -> bool:
    """Wait until `rounds` phases are complete, by the parity of the last of them."""
    if not team.has_started:
        report_unmade(machine, event, machine.rings[event.ring].name)
    if _is_shut(barrier, rounds):
        machine.blocked[team.column] = event
        return False
    if barrier.awaited < rounds:
        barrier.awaited = rounds
    if barrier.phases != rounds:
        name = machine.rings[event.ring].name
        machine.report(
            findings.PHASE,
            event,
            f"passes in phase {barrier.phases} of a barrier of {name} where it waits for phase "
            f"{rounds}: the parity is the same",
        )
    team.step()
    if machine.rings[event.ring].plan.is_shared:
        team.learn_of_cluster(barrier.clock)
    else:
        team.learn(barrier.clock)
    return True


def _acquire(machine: Machine, team: Team, step: Step) -> bool:
    event, ring, position = step.event, machine.rings[step.event.ring], step.position
    team.waited[event.ring] = position
    stage = position % ring.stages
    if ring.plan.is_released and not _await(
        machine, team, event, ring.empty[stage], position // ring.stages
    ):
        return False
    team.step()
    return True


def _expect(machine: Machine, team: Team, step: Step) -> bool:
    event, ring = step.event, machine.rings[step.event.ring]
    barrier = ring.full[step.position % ring.stages]
    team.step()
    barrier.bytes += ring.plan.expected_bytes
    _arrive(machine, team, event, barrier, 1, team.published())
    return True


def _drain(machine: Machine, team: Team, step: Step) -> bool:
    event, ring, position = step.event, machine.rings[step.event.ring], step.position
    stages = [
        (ring.empty[at % ring.stages], at // ring.stages)
        for at in range(position, position + ring.stages)
    ]
    if any(_is_shut(barrier, rounds) for barrier, rounds in stages):
        machine.blocked[team.column] = event
        return False
    return all(_await(machine, team, event, barrier, rounds) for barrier, rounds in stages)


def _tensor_fence(machine: Machine, team: Team, step: Step) -> bool:
    if step.event.is_before:
        team.clock = with_time(team.clock, team.tensor, team.step())
    else:
        team.tensor_clock = team.clock
    return True


def _wait(machine: Machine, team: Team, step: Step) -> bool:
    event, ring, position = step.event, machine.rings[step.event.ring], step.position
    barrier = ring.full[position % ring.stages]
    phase = position // ring.stages + 1
    if not _await(machine, team, event, barrier, phase):
        return False
    team.waited[event.ring] = position
    return True


def _commit(machine: Machine, team: Team, step: Step) -> bool:
    event, ring = step.event, machine.rings[step.event.ring]
    kinds = ring.plan.kinds
    barrier = ring.full[step.position % ring.stages]
    team.step()
    if "tcgen05" in kinds:
        clock = _signaled(machine, team, step, ring.plan.tells_pair)
        _arrive(machine, team, event, barrier, 1, clock)
    if "tmem" in kinds or "threads" in kinds:
        arrivals = (1 if team.elected else team.warps) * ring.plan.stores
        _arrive(machine, team, event, barrier, arrivals, team.published())
    if "cp_async" in kinds:
        for access in team.open.pop(_COPIES, []):
            # Its mbarrier tells of it (`cp.async.mbarrier.arrive.noinc`).
            access.column, access.time, access.is_done = team.copying, team.copies, True
        clock = with_time(team.published(), team.copying, team.copies)
        arrivals = 1 if team.elected else team.warps * LANES_PER_WARP
        _arrive(machine, team, event, barrier, arrivals, clock)
    return True


def _signaled(machine: Machine, team: Team, step: Step, tells_pair: bool) -> Clock:
    """What a commit passes on, or the thread that arrives instead where it says that nothing was
    multiplied; a commit of nothing cannot tell both CTAs of a pair.
    """
    event = step.event
    if tells_pair and step.value and not team.is_multiplying():
        machine.report(
            findings.STUCK,
            event,
            f"commits to {machine.rings[event.ring].name} of both CTAs of a pair while nothing is "
            "at work, which tells its own CTA alone, so that the other one waits for ever: "
            "expected a multiply in front, or whether there was one",
        )
    return _committed(machine, team) if step.value else team.published()


def _committed(machine: Machine, team: Team) -> Clock:
    """What a commit passes on: the multiplies so far, and which asynchronous copies the thread has
    waited for. It is the tensor core that arrives, and not the thread, so that nothing is told of
    what other threads did.
    """
    return with_time(team.clock & machine.copied, team.core, team.multiplies)


def _release(machine: Machine, team: Team, step: Step) -> bool:
    event, ring = step.event, machine.rings[step.event.ring]
    position = step.position - event.count
    if not ring.plan.is_released:
        return True
    barrier = ring.empty[position % ring.stages]
    team.step()
    if event.is_read:
        clock = _signaled(machine, team, step, ring.plan.tells_readers)
        _arrive(machine, team, event, barrier, ring.plan.commits, clock)
        return True
    arrivals = (1 if team.elected else team.warps) * ring.plan.releases
    if ring.plan.is_led and team.is_paired:
        arrivals //= 2  # Only one CTA of a pair has the role.
    _arrive(machine, team, event, barrier, arrivals, team.published())
    return True


def _barrier(machine: Machine, team: Team, step: Step) -> bool:
    event = step.event
    if event.is_of_cluster:
        return _meet_in_cluster(machine, team, event)
    if event.role_names:
        roles = machine.skeleton.roles
        others = [
            other
            for other in machine.teams
            if other.role >= 0 and roles[other.role].role.data in event.role_names
        ]
        return _meet(machine, team, event, event.role_names, others)
    others = machine.mates(team)
    if len(others) == 1 or (event.warps and event.warps <= team.warps):
        team.meet(event.warps)
        return True
    # Teams that take turns meet as one role.
    return _meet(machine, team, event, (team.role, team.instance), others)


def _meet(machine: Machine, team: Team, event: Event, key: Any, others: Sequence[Team]) -> bool:
    """Teams meet at a barrier, each time anew; where that `shows` it, they see what all wrote."""
    counts = team.counts
    if not counts.get(("meets", key)):
        _come(machine, team, event, key, others)
    come, clock = machine.meetings.get((key, counts["met", key]), (0, 0))
    if come < len(others):
        machine.blocked[team.column] = event
        return False
    counts["meets", key] = 0
    team.step()
    if event.shows:
        team.learn(clock)
    return True


def _meet_in_cluster(machine: Machine, team: Team, event: Event) -> bool:
    """A barrier of the cluster is for all threads that have not ended, whatever role they have (PTX
    ISA 9.7.13.3). Other CTAs do as this one does.
    """
    counts = team.counts
    if not counts.get(("meets", "cluster")):
        _come(machine, team, event, "cluster", machine.teams)
    times = counts["met", "cluster"]
    steps = machine.walks.steps
    if any(
        other.counts.get(("met", "cluster"), 0) < times and other.gone < len(own)
        for other, own in zip(machine.teams, steps, strict=True)
    ):
        machine.blocked[team.column] = event
        return False
    counts["meets", "cluster"] = 0
    _, clock = machine.meetings["cluster", times]
    team.step()
    team.learn_of_cluster(clock)
    team.is_in_cluster = True
    return True


def _come(machine: Machine, team: Team, event: Event, key: Any, others: Sequence[Team]) -> None:
    """A team comes to a barrier of it and others."""
    counts = team.counts
    counts["meets", key] = 1
    counts["met", key] = counts.get(("met", key), 0) + 1
    if event.shows:
        team.meet(0)
    published = team.published()
    if team in others:
        place = key, counts["met", key]
        come, clock = machine.meetings.get(place, (0, 0))
        machine.meetings[place] = come + 1, joined(clock, published, team.carries)


def _start(machine: Machine, team: Team, step: Step) -> bool:
    event = step.event
    if not team.has_started:
        # Roles begin in their order, whichever comes last.
        team.has_started = True
        _come(machine, team, event, "start", machine.teams)
        machine.blocked[team.column] = event
        return False
    if not _meet(machine, team, event, "start", machine.teams):
        return False
    team.is_in_cluster |= event.is_of_cluster or isinstance(event.op, StartWaitOp)
    if event.shows:
        fenced = team.half + machine.entry
        fenced_with = max(team.clock >> fenced & TIMES, machine.fenced_with)
        team.clock = with_time(team.clock, machine.entry, machine.entered_with)
        team.clock = with_time(team.clock, fenced, fenced_with)
        if team.is_in_cluster:
            team.of_cluster = team.clock
    return True


def _take(machine: Machine, team: Team, step: Step) -> bool:
    machine.taken = step.event
    return perform_accesses(machine, team, step)


def _give_back(machine: Machine, team: Team, step: Step) -> bool:
    machine.taken = None
    for touch in step.event.touches if step.event.is_of_cluster else ():
        # The other CTA of the pair does to its columns what this one has done.
        shadow = machine.shadows[touch.arena]
        for before in (*shadow.writes.values(), *shadow.reads.values()):
            is_of_threads = before.column == before.team.tensor
            column = before.team.column if is_of_threads else before.column
            if team.of_cluster >> column & TIMES < before.time:
                machine.report(
                    findings.UNORDERED,
                    step.event,
                    f"gives {shadow.name} of both CTAs of a pair back, which role "
                    f"'{before.team.name}' of the other one may still use: expected cute.barrier "
                    "{cluster} in front, got no order",
                    before.reach.event,
                )
    return perform_accesses(machine, team, step)


def _gather(machine: Machine, team: Team, step: Step) -> bool:
    event = step.event
    if event.reads or event.writes:
        machine.registers(team, event)
    return True


def _fence(machine: Machine, team: Team, step: Step) -> bool:
    if not team.has_started:
        machine.fenced_with = machine.entered_with
    team.fence()
    return True


def _wgmma_fence(machine: Machine, team: Team, step: Step) -> bool:
    team.unfenced.clear()
    return True


def _issuers(team: Team, event: Event) -> Iterable[int]:
    """The warps whose thread issues bulk stores, commits or waits; -1 where all threads do."""
    if event.engine is not _BULK_STORE:
        return (-1,)
    return range(0, team.warps, event.warps) if event.warps else (0,)


def _close(machine: Machine, team: Team, step: Step) -> bool:
    event = step.event
    for issuer in _issuers(team, event):
        key = event.engine, issuer
        team.groups.setdefault(key, []).append(team.open.pop(key, []))
    return True


def _close_wait(machine: Machine, team: Team, step: Step) -> bool:
    event, time = step.event, team.step()
    for issuer in _issuers(team, event):
        key = event.engine, issuer
        groups = team.groups.get(key)
        done = 0 if groups is None else len(groups) - event.count
        if groups is not None and done > 0:
            for group in groups[:done]:
                for access in group:
                    access.is_done, access.time = True, time
            team.groups[key] = groups[done:]
    return True


def _message(machine: Machine, team: Team, step: Step) -> bool:
    machine.touch(team, step, True, team.column, team.step())
    return True


def _turn_wait(machine: Machine, team: Team, step: Step) -> bool:
    event = step.event
    mine = team.turn if event.warps else team.instance
    if event.is_read and mine != 0:
        return True
    waiting = machine.tokens.get(_turn_of(team, event, mine), [])
    if not waiting:
        machine.blocked[team.column] = event
        return False
    team.step()
    team.learn(waiting.pop(0))
    return True


def _turn_pass(machine: Machine, team: Team, step: Step) -> bool:
    event = step.event
    mine = team.turn if event.warps else team.instance
    count = 1 + max(
        other.turn if event.warps else other.instance
        for other in machine.teams
        if other.role == team.role
    )
    if event.is_read and mine != count - 1:
        return True
    passed = machine.tokens.setdefault(_turn_of(team, event, (mine + 1) % count), [])
    if passed:
        machine.report(
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


_ACCESSES: dict[Engine, Callable[[Machine, Team, Step], bool]] = {
    Engine.THREADS: _by_threads,
    Engine.CP_ASYNC: _copy_async,
    Engine.BULK_LOAD: _load,
    Engine.BULK_STORE: _store,
    Engine.WGMMA: _multiply,
    Engine.TCGEN05: _multiply_in_tensor_memory,
}
PERFORM: dict[Does, Callable[[Machine, Team, Step], bool]] = {
    Does.NOTHING: perform_accesses,
    Does.GIVES: perform_accesses,
    Does.ACQUIRE: _acquire,
    Does.EXPECT: _expect,
    Does.DRAIN: _drain,
    Does.TENSOR_FENCE: _tensor_fence,
    Does.COMMIT: _commit,
    Does.WAIT: _wait,
    Does.RELEASE: _release,
    Does.BARRIER: _barrier,
    Does.TURN_WAIT: _turn_wait,
    Does.TURN_PASS: _turn_pass,
    Does.GATHER: _gather,
    Does.LEAVE: leave,
    Does.EXPECT_ALL: expect_all,
    Does.SEND_ALL: send_all,
    Does.AWAIT_ALL: await_all,
    Does.TELL: tell,
    Does.START: _start,
    Does.TAKE: _take,
    Does.FIND: perform_accesses,
    Does.GIVE_BACK: _give_back,
    Does.PROXY_FENCE: _fence,
    Does.GROUP_COMMIT: _close,
    Does.GROUP_WAIT: _close_wait,
    Does.WGMMA_FENCE: _wgmma_fence,
    Does.SEND: _message,
    Does.RECEIVE: _message,
    Does.REQUEST: _load,
    Does.RESPOND: _message,
}


def performer_of(event: Event) -> Callable[[Machine, Team, Step], bool]:
    """What performs the steps of an event."""
    perform = PERFORM[event.does]
    return _ACCESSES[event.engine] if perform is perform_accesses else perform
