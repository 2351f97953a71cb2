"""Who runs next. Threads at the same place with the same call stack form a cohort and step
together, whatever their warp or CTA. The cohort with the lowest pc runs first, so that diverged
threads meet again; a cohort that polls memory in a loop, or has run long, yields to all others, so
that threads which wait for each other through memory make progress. A non-zero seed draws the order
at random.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .barriers import compact
from .convergence import WARPGROUP_WAIT
from .errors import EmulatorError
from .lanes import Array, Lanes, anywhere
from .linker import Linker

if TYPE_CHECKING:
    from .machine import Machine

Stack = tuple[Any, ...]

QUANTUM = 20_000
STALLED_ROUNDS = 20_000


class Cohort:
    __slots__ = ("fuel", "lanes", "pc", "round", "stack")

    def __init__(self, lanes: Lanes, pc: int, stack: Stack, round: int, fuel: int) -> None:
        self.lanes = lanes
        self.pc = pc
        self.stack = stack
        self.round = round
        self.fuel = fuel


class Scheduler:
    """Runs a machine to its end. ``max_steps`` bounds the instructions issued for cohorts; ``tell``
    is called now and then with those issued so far.
    """

    def __init__(
        self,
        machine: Machine,
        seed: int,
        max_steps: int,
        tell: Callable[[int], object] | None = None,
    ) -> None:
        self.tell = tell
        self.machine = machine
        machine.scheduler = self
        self.linker = Linker(machine)
        self.random = random.Random(seed) if seed else None
        self.max_steps = max_steps
        self.steps = 0
        self.round = 0
        self.fuel = QUANTUM
        self._timed_out = False
        # Threads that an arrival has just woken: they run before the one that arrived goes on.
        self._woken: list[tuple[int, Stack]] = []
        self.ready: dict[tuple[int, Stack], Cohort] = {}
        self.blocked: dict[tuple[int, Stack], tuple[Lanes, str]] = {}
        self.counts = [0] * len(machine.module.code)

    def add(self, lanes: Lanes, pc: int, stack: Stack) -> None:
        """Make ``lanes`` ready at ``pc``; they join whoever is ready there."""
        self._put(lanes, pc, stack, self.round, self.fuel)

    def wake(self, lanes: Lanes, pc: int, stack: Stack) -> None:
        """Make sleepers ready, ahead of the thread that runs now: what it releases too early is
        overwritten before its next step. A seed draws whether they go first."""
        self.add(lanes, pc, stack)
        if self.random is None or self.random.random() < 0.5:
            self._woken.append((pc, stack))

    def _put(self, lanes: Lanes, pc: int, stack: Stack, round: int, fuel: int) -> None:
        key = (pc, stack)
        other = self.ready.get(key)
        if other is None:
            self.ready[key] = Cohort(lanes, pc, stack, round, fuel)
        else:
            other.lanes = other.lanes.union(lanes, self.machine.total)
            other.fuel = min(other.fuel, fuel)

    def block(self, lanes: Lanes, pc: int, stack: Stack, reason: str) -> None:
        """Put ``lanes`` to sleep at ``pc`` until others arrive there or threads exit."""
        self.blocked[pc, stack] = (lanes, reason)

    def join_blocked(self, lanes: Lanes, pc: int, stack: Stack) -> Lanes:
        """``lanes`` with those that sleep at the same place; the sleepers are awake after this."""
        found = self.blocked.pop((pc, stack), None)
        return lanes if found is None else lanes.union(found[0], self.machine.total)

    def exit(self, lanes: Lanes) -> None:
        self.machine.exit(lanes)
        if self.blocked:
            sleepers, self.blocked = self.blocked, {}
            for (pc, stack), (asleep, _) in sleepers.items():
                self.add(asleep, pc, stack)
        self.machine.barriers.recheck(self)
        self.machine.clusters.left(lanes)

    def run(self, lanes: Lanes, pc: int) -> None:
        self.add(lanes, pc, ())
        stalled = 0
        machine = self.machine
        while True:
            if not self.ready:
                if not anywhere(machine.alive):
                    return
                self._unblock()
            machine.transfers.tick()
            cohort = self._pick()
            if cohort.round > self.round:
                self.round = cohort.round
                stalled = 0 if machine.progress else stalled + 1
                machine.progress = False
                if stalled > 1 and machine.transfers.advance():
                    stalled = 0
                if stalled > STALLED_ROUNDS:
                    raise self._hang("all threads poll memory that nobody changes", cohort)
            del self.ready[cohort.pc, cohort.stack]
            self.fuel = cohort.fuel
            self._run(cohort)
            if self.tell is not None:
                self.tell(self.steps)

    def _unblock(self) -> None:
        """All threads sleep: complete transfers, or else let try_wait fail once; then it hangs."""
        machine = self.machine
        while not self.ready and machine.transfers.advance():
            self._timed_out = False
        if self.ready:
            return
        if (machine.progress or not self._timed_out) and machine.mbarriers.time_out():
            self._timed_out, machine.progress = True, False
            return
        raise self._hang("no thread can make progress", None)

    def _pick(self) -> Cohort:
        while self._woken:
            cohort = self.ready.get(self._woken.pop())
            if cohort is not None:
                return cohort
        cohorts = self.ready.values()
        if len(cohorts) == 1:
            return next(iter(cohorts))
        if self.random is not None:
            now = min(c.round for c in cohorts)
            return self.random.choice([c for c in cohorts if c.round == now])
        return min(cohorts, key=_urgency)

    def _run(self, cohort: Cohort) -> None:
        machine = self.machine
        steps, counts = self.linker.steps, self.counts
        lanes, pc, stack = cohort.lanes, cohort.pc, cohort.stack
        machine.local_shift = stack[-1].local_shift if stack else 0
        here = [c.pc for c in self.ready.values() if c.stack == stack]
        stops = set(here)
        lowest = min(here, default=1 << 60)
        warps = len(lanes.warps)
        segment = pc
        woken = self._woken
        try:
            while True:
                result = steps[pc](lanes)
                counts[pc] += warps
                if result is None:
                    pc += 1
                    if woken:
                        self.steps += pc - segment
                        self.add(lanes, pc, stack)
                        return
                elif type(result) is int:
                    done = pc - segment + 1
                    self.steps += done
                    self.fuel -= done
                    backward = result <= pc
                    pc = segment = result
                    if backward:
                        if self.steps > self.max_steps:
                            raise EmulatorError(
                                f"the instruction budget of {self.max_steps} steps is spent",
                                code="CD-LIMIT",
                                notes=tuple(self._where(cohort, pc)),
                            )
                        if machine.polled or self.fuel <= 0:
                            machine.progress |= not machine.polled
                            machine.polled = False
                            self._put(lanes, pc, stack, self.round + 1, QUANTUM)
                            return
                    if pc > lowest:
                        self.add(lanes, pc, stack)
                        return
                else:
                    self.steps += pc - segment + 1
                    self.fuel -= pc - segment + 1
                    result(self, lanes, pc, stack)
                    return
                if pc in stops:
                    self.steps += pc - segment
                    self.add(lanes, pc, stack)
                    return
        except EmulatorError as error:
            self._locate(error, pc)
            raise
        except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError,
                ValueError) as error:  # fmt: skip
            bug = EmulatorError(f"the emulator failed here: {error!r}", code="CD-BUG")
            self._locate(bug, pc)
            raise bug from error

    def _locate(self, error: EmulatorError, pc: int) -> None:
        if error.ptx_line is None:
            ins = self.machine.module.code[pc]
            error.ptx_line, error.ir, error.python = ins.line, ins.ir, ins.loc
            error.instruction = str(ins)

    def _describe(self, pc: int) -> str:
        ins = self.machine.module.code[pc]
        extra = "".join(f" [{text}]" for text in (ins.ir, ins.loc) if text)
        return f"PTX line {ins.line}: {ins}{extra}"

    def _warps(self, index: Array) -> str:
        """Warps of the first CTA concerned, and how many CTAs there are."""
        machine = self.machine
        ctas = sorted({int(machine.lane_cta[lane]) for lane in index})
        warps = sorted({(int(i) >> 5) % machine.warps for i in index
                        if machine.lane_cta[i] == ctas[0]})  # fmt: skip
        more = f" (and {len(ctas) - 1} more CTAs)" if len(ctas) > 1 else ""
        return f"CTA {machine.describe_cta(ctas[0])} warps {compact(warps)}{more}"

    def _where(self, running: Cohort | None, pc: int | None = None) -> list[str]:
        lines: list[str] = []
        cohorts = list(self.ready.values())
        if running is not None and running not in cohorts:
            cohorts.append(running)
        for cohort in cohorts:
            at = pc if cohort is running and pc is not None else cohort.pc
            lines.append(f"{self._warps(cohort.lanes.index)} run at {self._describe(at)}")
        for (at, _), (lanes, reason) in self.blocked.items():
            lines.append(f"{self._warps(lanes.index)} wait at {self._describe(at)} {reason}")
        return lines

    def _hang(self, why: str, running: Cohort | None) -> EmulatorError:
        machine = self.machine
        code, lines = machine.barriers.report(self._describe)
        waiting = machine.barriers.waiting_at()
        for waits in (machine.pool, machine.clusters, machine.mbarriers):
            fault, more, pcs = waits.report(self._describe)
            code = fault if fault and code in ("CD-HANG", "CD-H4", "CD-G1") else code
            lines += more
            waiting = pcs or waiting
        # Who waits for tensor memory is what the others wait for.
        fault, more, pcs = machine.tensor.allocator.report(self._describe)
        if fault:
            code, lines, waiting = fault, more + lines, pcs
        lines = self._where(running) + lines + machine.transfers.report()
        for _, reason in self.blocked.values():
            code = "CD-G4" if ".aligned" in reason else "CD-I8"
            code = "CD-C5" if reason == WARPGROUP_WAIT else code
        pcs = [pc for pc, _ in self.blocked] or waiting
        pcs = pcs or [c.pc for c in self.ready.values()]
        pcs = pcs or ([] if running is None else [running.pc])
        error = EmulatorError(f"hang: {why}", code=code, notes=tuple(lines))
        if pcs:
            self._locate(error, min(pcs))
        return error


def _urgency(cohort: Cohort) -> tuple[int, int, int]:
    return cohort.round, -len(cohort.stack), cohort.pc
