"""CTA barriers (``bar`` / ``barrier.cta``, PTX ISA 9.7.13.1): sixteen for each CTA. A barrier
counts warps: one arrives with its first thread to do so, each standing for 32 threads, and the
barrier completes when all its arrivals are there and every living thread of the arrived warps has
come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import EmulatorError
from .lanes import Array, Lanes, anywhere, distinct

if TYPE_CHECKING:
    from .machine import Machine
    from .scheduler import Scheduler


@dataclass
class Waiter:
    """Threads that sleep in a barrier; ``finish(lanes, true, all)`` gives them the result
    of ``bar.red``: how many threads voted true, of how many."""

    lanes: Array
    pc: int
    stack: tuple[Any, ...]
    values: Array = None
    finish: Callable[[Lanes, int, int], None] | None = None


@dataclass
class _State:
    expected: int
    arrived: set[int] = field(default_factory=set[int])
    warps: set[int] = field(default_factory=set[int])
    waiters: list[Waiter] = field(default_factory=list[Waiter])


class Barriers:
    """``expected`` of an arrival is its thread count, or None for all threads of the CTA."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._states: dict[tuple[int, int], _State] = {}

    def waiting_at(self) -> list[int]:
        """The pcs at which threads sleep."""
        return [waiter.pc for state in self._states.values() for waiter in state.waiters]

    def passes_at_once(self, lanes: Lanes, ids: Array, expected: int | None) -> bool:
        """True when ``lanes`` are all threads of the batch, so that nobody needs to wait."""
        return (
            lanes.full
            and (expected is None or expected == self._machine.warps * 32)
            and len(ids) == 1
            and not self._states
        )

    def _all_here(self, lanes: Lanes, keys: Array, expected: int | None) -> bool:
        """True when whole warps complete every barrier that they arrive at, all by themselves; the
        barriers are over then. ``keys`` number the barrier of each lane, CTA by CTA."""
        machine = self._machine
        count = machine.warps * 32 if expected is None else expected
        if len(keys) % count or anywhere(np.diff(keys) < 0):
            return False
        rows = keys.reshape(-1, count)
        numbers = rows[:, 0]
        if anywhere(rows != numbers[:, None]) or len(distinct(numbers)) != len(numbers):
            return False
        if self._states and any((k >> 4, k & 15) in self._states for k in numbers.tolist()):
            return False
        machine.progress = True
        if machine.ordering is not None:
            machine.ordering.meet_by_group(lanes.warps, count // 32)
        return True

    def arrive(
        self,
        scheduler: Scheduler,
        lanes: Lanes,
        ids: Array,
        expected: int | None,
        sleep: Callable[[Array, Array], Waiter] | None,
    ) -> None:
        """``ids`` is one barrier number a lane (or one for all). ``sleep(lane numbers, positions)``
        makes the waiter of a CTA's threads; None for ``bar.arrive``, which does not wait."""
        machine = self._machine
        index = lanes.index
        ids = np.broadcast_to(ids, index.shape)
        keys = machine.lane_cta[index] * 16 + ids
        if sleep is not None and lanes.whole:
            waiter = sleep(index, np.arange(len(index)))
            if waiter.values is None and self._all_here(lanes, keys, expected):
                scheduler.add(lanes, waiter.pc + 1, waiter.stack)
                return
        order = np.argsort(keys, kind="stable")
        cuts = np.flatnonzero(np.diff(keys[order])) + 1
        for positions in np.split(order, cuts):
            key = int(keys[positions[0]])
            cta, number = key >> 4, key & 15
            members = index[positions]
            state = self._states.get((cta, number))
            count = machine.warps * 32 if expected is None else expected
            if state is None:
                state = self._states[cta, number] = _State(count)
            elif state.expected != count:
                raise EmulatorError(
                    f"barrier {number} of CTA {machine.describe_cta(cta)} is used with thread "
                    f"counts {state.expected} and {count} at the same time",
                    code="CD-G3",
                )
            state.warps.update((members >> 5).tolist())
            state.arrived.update(members.tolist())
            if 32 * len(state.warps) > state.expected:
                raise EmulatorError(
                    f"barrier {number} of CTA {machine.describe_cta(cta)} expects "
                    f"{state.expected} threads, but {len(state.warps)} warps arrive",
                    code="CD-G3",
                )
            if sleep is not None:
                state.waiters.append(sleep(members, positions))
            self._complete(scheduler, cta, number, state)

    def _complete(self, scheduler: Scheduler, cta: int, number: int, state: _State) -> None:
        if 32 * len(state.warps) < state.expected:
            return
        alive = self._machine.alive
        for warp in state.warps:
            base = warp * 32
            members = np.flatnonzero(alive[base : base + 32]) + base
            if not state.arrived.issuperset(members.tolist()):
                return
        del self._states[cta, number]
        self._machine.progress = True
        ordering = self._machine.ordering
        if ordering is not None and state.waiters:
            leaving = distinct(np.concatenate([w.lanes for w in state.waiters]) >> 5)
            ordering.meet(np.array(sorted(state.warps)), leaving)
        voters = [w for w in state.waiters if w.values is not None]
        for waiter in state.waiters:
            lanes = Lanes.of(np.sort(waiter.lanes), self._machine.total)
            if waiter.finish is not None:
                true = sum(int(w.values.sum()) for w in voters)
                every = sum(len(w.values) for w in voters)
                waiter.finish(lanes, true, every)
            scheduler.add(lanes, waiter.pc + 1, waiter.stack)

    def recheck(self, scheduler: Scheduler) -> None:
        """After threads exited: barriers that only waited for those lanes of an arrived warp."""
        for (cta, number), state in list(self._states.items()):
            self._complete(scheduler, cta, number, state)

    def report(self, describe_pc: Callable[[int], str]) -> tuple[str, list[str]]:
        """(code, lines) about every barrier that somebody waits for."""
        machine = self._machine
        code = "CD-HANG"
        lines: list[str] = []
        for (cta, number), state in sorted(self._states.items()):
            if not state.waiters:
                continue
            arrived = 32 * len(state.warps)
            lines.append(
                f"CTA {machine.describe_cta(cta)}: barrier {number} has {arrived} of "
                f"{state.expected} threads"
            )
            for waiter in state.waiters:
                warps = sorted({(int(lane) >> 5) % machine.warps for lane in waiter.lanes})
                lines.append(f"  warps {compact(warps)} wait at {describe_pc(waiter.pc)}")
            first = cta * machine.warps
            gone = [
                w for w in range(machine.warps)
                if first + w not in state.warps
                and not anywhere(machine.alive[(first + w) * 32 : (first + w + 1) * 32])
            ]  # fmt: skip
            if gone:
                code = "CD-G5"
                lines.append(f"  warps {compact(gone)} have exited and will never arrive")
            elif code == "CD-HANG":
                code = "CD-G3"
            if len(lines) > 24:
                lines.append("... and more")
                break
        return code, lines


def compact(numbers: list[int]) -> str:
    """``[0, 1, 2, 5]`` as ``0-2, 5``."""
    parts: list[str] = []
    start = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[i - 1] + 1:
            first, last = numbers[start], numbers[i - 1]
            parts.append(str(first) if first == last else f"{first}-{last}")
            start = i
    return ", ".join(parts)
