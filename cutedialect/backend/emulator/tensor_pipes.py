"""What the tensor core has in flight: tcgen05.mma, cp and shift, and the commits that track them
(PTX ISA 9.7.16.6.2). Their results are formed at the issue; until a commit behind them has signaled
its mbarrier, nobody may use the results, nor write what they read. That goes for later instructions
of the same thread, too, but for multiplies of one shape into one accumulator, and for pairs that
are not two multiplies: these execute in the order of their issue (9.7.16.6.2.1). A commit signals
as late as the kernel allows.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .lanes import Array, anywhere
from .shared import READING
from .transfers import Load

if TYPE_CHECKING:
    from .machine import Machine
    from .module import Instruction


@dataclass(eq=False)
class _Operation:
    """The ``number``-th instruction of a warp, by one of its lanes; ``chunks`` are the 16-byte
    pieces of shared memory that it reads."""

    ins: Instruction
    lane: int
    number: int
    chunks: list[Array]


@dataclass(eq=False)
class _Commit:
    """``reached``: how many instructions of the warp are over when it signals."""

    reached: int
    events: list[Load] = field(default_factory=list[Load])
    signals: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


class TensorPipes:
    """One queue a warp. ``_clocks[w]`` has the warp's clock at each issue."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._clocks: dict[int, list[int]] = {}
        # What each multiply of a warp accumulates into, by its number: where, and the shape.
        self._accumulators: dict[int, dict[int, object]] = {}
        self._flying: dict[int, list[_Operation]] = {}
        self._commits: dict[int, list[_Commit]] = {}
        # The number of the last instruction of each thread.
        self._issued: dict[int, int] = {}
        machine.shared.explain.append(self._explain)

    def issued_before(self, warp: int) -> dict[int, int]:
        """Instructions of other warps that were issued before what ``warp`` does now: their number
        by the tensor core's column of the clocks."""
        ordering = self._machine.ordering
        assert ordering is not None
        cluster = warp // ordering.per_cluster
        found: dict[int, int] = {}
        for other, clocks in self._clocks.items():
            if other != warp and other // ordering.per_cluster == cluster:
                column = int(ordering.column[other])
                reached = max(ordering.known[warp, column], ordering.ordered[warp, column])
                found[ordering.per_cluster + column] = bisect.bisect_right(clocks, int(reached))
        return found

    def accumulate(self, warp: int, number: int, accumulator: object) -> None:
        """The ``number``-th instruction of a warp is a multiply into an accumulator."""
        self._accumulators.setdefault(warp, {})[number] = accumulator

    def are_pipelined(self, warp: int, before: int, after: int) -> bool:
        """Whether two instructions of a warp execute in their order without a wait."""
        known = self._accumulators.get(warp, {})
        first, second = known.get(before), known.get(after)
        return first is None or second is None or first == second

    def next_number(self, warp: int) -> int:
        """The number of the instruction that ``warp`` issues next, counted from 1."""
        return len(self._clocks.get(warp, ())) + 1

    def issue(self, ins: Instruction, lane: int, chunks: list[Array]) -> None:
        """An instruction by ``lane`` is in flight, and reads ``chunks`` (distinct in each)."""
        ordering = self._machine.ordering
        assert ordering is not None
        warp = lane >> 5
        number = self.next_number(warp)
        clock = int(ordering.known[warp, ordering.column[warp]])
        self._clocks.setdefault(warp, []).append(clock)
        self._issued[lane] = number
        for part in chunks:
            self._machine.shared.begin_read(part)
        self._flying.setdefault(warp, []).append(_Operation(ins, lane, number, chunks))
        self._machine.progress = True

    def is_empty(self, lane: int) -> bool:
        """Is there nothing that a commit of the thread could track: has it waited for all that it
        has issued, if it has issued anything? A commit before this one changes nothing of it."""
        ordering = self._machine.ordering
        assert ordering is not None
        warp = lane >> 5
        over = ordering.known[warp, ordering.per_cluster + ordering.column[warp]]
        return self._issued.get(lane, 0) <= int(over)

    def commit(self, ins: Instruction, lane: int, slots: list[tuple[int, int]]) -> None:
        """Signal the mbarriers ``slots``, pairs of a CTA row and a slot, once all instructions that
        ``lane`` has issued are over."""
        ordering = self._machine.ordering
        assert ordering is not None
        warp = lane >> 5
        flying = self._flying.get(warp, [])
        others = next((op.number for op in flying if op.lane != lane), 1 << 29)
        reached = min(others - 1, len(self._clocks.get(warp, ())))
        passed = ordering.completion(warp, reached)
        commit = _Commit(reached)
        self._commits.setdefault(warp, []).append(commit)
        machine = self._machine
        for cta, slot in slots:

            def signal(slot: int = slot) -> None:
                machine.mbarriers.signal(slot, passed)

            def finish(commit: _Commit = commit) -> Array:
                self._finish(warp, commit)
                return np.zeros(0, np.int64)

            commit.signals.append(signal)
            event = Load(ins, lane, cta, slot, 0, np.zeros(0, np.int64), finish)
            commit.events.append(event)
            machine.transfers.event(event)

    def _finish(self, warp: int, commit: _Commit) -> None:
        """The commit signals, and all before it have: the queue is in order."""
        queue = self._commits[warp]
        if commit not in queue:
            return
        at = queue.index(commit) + 1
        due, self._commits[warp] = queue[:at], queue[at:]
        reached = max(each.reached for each in due)
        self._retire(warp, reached)
        for each in due:
            self._machine.transfers.withdraw(each.events)
            for signal in each.signals:
                signal()

    def _retire(self, warp: int, reached: int) -> None:
        kept: list[_Operation] = []
        for op in self._flying.get(warp, ()):
            if op.number > reached:
                kept.append(op)
                continue
            for part in op.chunks:
                self._machine.shared.end_read(part)
        self._flying[warp] = kept

    def left(self, rows: Array) -> None:
        """CTAs have exited: the tensor core may not read their shared memory any more."""
        pitch = self._machine.shared.pitch // 16
        for queue in self._flying.values():
            for op in queue:
                for part in op.chunks:
                    if len(part) and int(part[0]) // pitch in rows:
                        row = int(part[0]) // pitch
                        raise op.ins.error(
                            "CD-B11",
                            f"CTA {self._machine.describe_cta(row)} exits while this instruction "
                            "may still read its shared memory: expected a wait for a "
                            "tcgen05.commit behind it before the exit",
                        )

    def _explain(self, at: int, flags: int) -> tuple[str, str] | None:
        """Which instruction reads the byte at a shared offset."""
        if not flags & READING:
            return None
        for queue in self._flying.values():
            for op in queue:
                if any(anywhere(part == at // 16) for part in op.chunks):
                    head = ".".join(op.ins.opcode.split(".")[:2])
                    return "CD-B7", (
                        f"the {head} at PTX line {op.ins.line} may still read it: expected a wait "
                        "for a tcgen05.commit behind it"
                    )
        return None

    def in_flight(self) -> int:
        """Instructions that no commit has covered, at the end of the kernel."""
        return sum(len(queue) for queue in self._flying.values())
