"""mbarrier objects (PTX ISA 9.7.13.15) of all resident CTAs, as arrays with one entry a barrier. A
barrier lives at eight bytes of shared memory, which no other instruction may touch while it does.
A phase completes when no arrival and no byte is outstanding; threads that wait for it sleep here
until then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .barriers import compact
from .errors import EmulatorError
from .lanes import Array, Lanes, anywhere, begins, distinct, everywhere
from .ordering import split
from .shared import BARRIER, UNSET

if TYPE_CHECKING:
    from .machine import Machine

MAX_COUNT = (1 << 20) - 1
# Opaque states: the phase above, the pending count in the low bits.
PENDING_BITS = 20


@dataclass
class _Sleepers:
    """Threads that wait at one instruction: each until ``phase[slot] >= until``."""

    lanes: Lanes
    slots: Array
    until: Array
    pc: int
    stack: tuple[Any, ...]
    finish: Callable[[Lanes, bool], None]
    relaxed: bool


class MBarriers:
    """``slot`` numbers are indices into the arrays; ``at`` is a byte offset into the shared data.

    ``wanted`` and ``delivered`` are the bytes of the current phase, for reports; ``tx`` is their
    difference as PTX counts it.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._slot_of: Array = None
        self._count = 0
        self.at = np.zeros(0, np.int64)
        self.expected = np.zeros(0, np.int64)
        self.pending = np.zeros(0, np.int64)
        self.tx = np.zeros(0, np.int64)
        self.phase = np.zeros(0, np.int64)
        self.wanted = np.zeros(0, np.int64)
        self.delivered = np.zeros(0, np.int64)
        self._live = np.zeros(0, np.bool_)
        self._stamp = np.zeros(0, np.uint32)
        # What arrivals of the open phase pass on, and those of the phase that completed last.
        self._gathered = np.zeros((0, 0), np.int32)
        self._passed = np.zeros((0, 0), np.int32)
        self._sleepers: list[_Sleepers] = []
        # Who failed last at a pc, and before which phase, for reports of threads that poll.
        self._polls: dict[int, tuple[Lanes, Array, Array]] = {}
        # The pc of a try_wait that has just told a thread to come again.
        self._refused = np.full(machine.total, -1, np.int64)

    @property
    def waiting(self) -> bool:
        return bool(self._sleepers)

    def waited_for(self) -> Array:
        """The barriers that threads sleep for."""
        return distinct(np.concatenate([s.slots for s in self._sleepers]))

    # Life.

    def init(self, lanes: Lanes, at: Array, counts: Array) -> None:
        machine = self._machine
        if int(counts.min()) < 1 or int(counts.max()) > MAX_COUNT:
            bad = int(counts[np.argmax((counts < 1) | (counts > MAX_COUNT))])
            raise EmulatorError(
                f"expected an arrival count of 1 to {MAX_COUNT} for mbarrier.init, got {bad}",
                code="CD-B5",
            )
        if self._slot_of is None:
            self._slot_of = np.full(len(machine.shared.data) // 8, -1, np.int32)
        word = at // 8
        if len(distinct(word)) != len(word):
            raise EmulatorError(f"several threads initialize {self.name(int(at[0]))}", code="CD-B8")
        again = self._slot_of[word] >= 0
        if anywhere(again):
            raise EmulatorError(
                f"{self.name(int(at[np.argmax(again)]))} is initialized again while it is live: "
                "expected mbarrier.inval first",
                code="CD-B8",
            )
        first, self._count = self._count, self._count + len(at)
        self._grow()
        slots = np.arange(first, self._count)
        self._slot_of[word] = slots
        self.at[slots] = at
        self.expected[slots] = self.pending[slots] = counts
        self._live[slots] = True
        ordering = machine.ordering
        if ordering is not None:
            self._stamp[slots] = ordering.stamps(lanes)
            ordering.advance(lanes.warps)
        machine.shared.claim(at, 8, BARRIER, "mbarrier.init at")
        machine.progress = True

    def _grow(self) -> None:
        capacity = len(self.at)
        if self._count <= capacity:
            return
        more = max(64, self._count, 2 * capacity) - capacity
        for name in ("at", "expected", "pending", "tx", "phase", "wanted", "delivered", "_live",
                     "_stamp"):  # fmt: skip
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.zeros(more, old.dtype))))
        ordering = self._machine.ordering
        width = 0 if ordering is None else ordering.state.shape[1]
        for name in ("_gathered", "_passed"):
            fresh = np.zeros((capacity + more, width), np.int32)
            fresh[:capacity] = getattr(self, name)[:capacity] if capacity else 0
            setattr(self, name, fresh)

    def inval(self, lanes: Lanes, at: Array) -> None:
        slots = self.find(lanes, at)
        self._live[slots] = False
        self._slot_of[at // 8] = -1
        self._machine.shared.mark(at, 8, UNSET)

    def find(self, lanes: Lanes, at: Array) -> Array:
        """Slots of the barriers that ``lanes`` use; CD-B8 where there is none, CD-A8 where the
        thread cannot know of the initialization."""
        return self.find_by(lanes.index >> 5, at)

    def find_by(self, warp: Array, at: Array) -> Array:
        """The same for threads of ``warp``, one entry each."""
        if self._slot_of is None:
            raise self._absent(int(at[0]))
        slots = self._slot_of[at // 8]
        if int(slots.min()) < 0:
            raise self._absent(int(at[np.argmin(slots)]))
        ordering = self._machine.ordering
        if ordering is not None:
            stamp = self._stamp[slots]
            column, time = (stamp & np.uint32(511)).astype(np.intp), stamp >> np.uint32(9)
            unknown = (ordering.known[warp, column] < time) & (
                ordering.published[warp, column] < time
            )
            if anywhere(unknown):
                i = int(np.argmax(unknown))
                raise EmulatorError(
                    f"{self.name(int(at[i]))} was initialized by "
                    f"{ordering.describe(int(warp[i]), int(column[i]))}, and nothing orders that "
                    "before this use: expected a barrier (and fence.mbarrier_init for another CTA) "
                    "in between",
                    code="CD-A8",
                )
        return slots

    def slot(self, at: int) -> int:
        """The slot at a byte offset, -1 if there is no live barrier."""
        return -1 if self._slot_of is None else int(self._slot_of[at // 8])

    def _absent(self, at: int) -> EmulatorError:
        gone = self._count and anywhere(self.at[: self._count] == at)
        what = "has been invalidated" if gone else "was never initialized"
        return EmulatorError(f"{self.name(at)} {what}", code="CD-B8")

    # Arrivals and bytes.

    def arrive(
        self,
        lanes: Lanes,
        slots: Array,
        counts: Array,
        expects: Array | None = None,
        *,
        drop: bool = False,
        complete: bool = True,
        relaxed: bool = False,
    ) -> Array:
        """Arrivals of ``lanes``, in lane order; returns the states before them (uint64). With
        ``expects`` bytes each (``expect_tx`` first); ``complete`` False is ``.noComplete``."""
        self._pass_on(lanes, slots, relaxed)
        if expects is not None:
            np.add.at(self.tx, slots, expects)
            np.add.at(self.wanted, slots, expects)
            self._check_tx(slots)
        alone = len(slots) == 1 or len(distinct(slots)) == len(slots)
        if alone and not anywhere(self.pending[slots] < counts):
            return self._arrive_once(slots, counts, drop, complete)
        tokens = np.empty(len(slots), np.uint64)
        order = np.argsort(slots, kind="stable")
        ordered, amount = slots[order], counts[order]
        first = begins(ordered)
        heads = np.flatnonzero(first)
        total = np.add.reduceat(amount, heads)
        if everywhere(total <= self.pending[ordered[heads]]) and not drop:
            group = np.cumsum(first) - 1
            before = np.cumsum(amount) - amount
            left = self.pending[ordered] - (before - before[heads][group])
            tokens[order] = self._tokens(self.phase[ordered], left)
            self.pending[ordered[heads]] -= total
            self._finish(ordered[heads], complete)
            return tokens
        for i in range(len(slots)):
            one = slots[i : i + 1]
            self._check_count(one, counts[i : i + 1])
            tokens[i : i + 1] = self._arrive_once(one, counts[i : i + 1], drop, complete)
        return tokens

    def _arrive_once(self, slots: Array, counts: Array, drop: bool, complete: bool) -> Array:
        tokens = self._tokens(self.phase[slots], self.pending[slots])
        self.pending[slots] -= counts
        if drop:
            self.expected[slots] -= counts
        self._finish(slots, complete)
        return tokens

    def _check_count(self, slots: Array, counts: Array) -> None:
        slot, count = int(slots[0]), int(counts[0])
        if count > self.pending[slot]:
            raise EmulatorError(
                f"an arrival of {count} at {self.name(int(self.at[slot]))}, which expects only "
                f"{self.pending[slot]} more of {self.expected[slot]} in phase {self.phase[slot]}",
                code="CD-B5",
                notes=(self._state(slot),),
            )

    def _finish(self, slots: Array, complete: bool) -> None:
        if not complete and anywhere((self.pending[slots] == 0) & (self.tx[slots] == 0)):
            raise EmulatorError(
                "an arrival with .noComplete completes the phase of "
                + self.name(int(self.at[slots[0]])),
                code="CD-B5",
            )
        self._machine.progress = True
        self.test(slots)

    def signal(self, slot: int, passed: Array) -> None:
        """One arrival by an asynchronous unit, which passes on the clocks ``passed``."""
        slots = np.array([slot])
        self._check_count(slots, np.ones(1, np.int64))
        if self._gathered.shape[1]:
            self._gathered[slot] = np.maximum(self._gathered[slot], passed)
        self._arrive_once(slots, np.ones(1, np.int64), False, True)

    def await_more(self, slots: Array) -> None:
        """One more pending arrival for each entry of ``slots``."""
        np.add.at(self.pending, slots, 1)

    def expect(self, slots: Array, amounts: Array) -> None:
        """``expect_tx``; may complete a phase that has no pending arrival (as an H100 does)."""
        np.add.at(self.tx, slots, amounts)
        np.add.at(self.wanted, slots, amounts)
        self._check_tx(slots)
        self.test(distinct(slots))

    def deliver(self, slots: Array, amounts: Array) -> None:
        """``complete_tx``."""
        np.subtract.at(self.tx, slots, amounts)
        np.add.at(self.delivered, slots, amounts)
        self._check_tx(slots)
        self._machine.progress = True
        self.test(distinct(slots))

    def know(self, slot: int, stamp: int, due: int = 0) -> None:
        """Bytes of a copy that was issued at ``stamp`` are about to count, ``due`` at a time."""
        ordering = self._machine.ordering
        if ordering is not None and ordering.time is not None:
            at = ordering.time
            self._gathered[slot, at] = max(int(self._gathered[slot, at]), due)
        if self._gathered.shape[1]:
            column, time = split(stamp)
            self._gathered[slot, column] = max(int(self._gathered[slot, column]), time)

    def _check_tx(self, slots: Array) -> None:
        if int(np.abs(self.tx[slots]).max()) > MAX_COUNT:
            slot = int(slots[np.argmax(np.abs(self.tx[slots]))])
            raise EmulatorError(
                f"{self.name(int(self.at[slot]))}: the byte count {self.tx[slot]} leaves the range "
                f"of +-{MAX_COUNT}",
                code="CD-B1",
                notes=(self._state(slot),),
            )

    def test(self, slots: Array) -> None:
        """Complete the phases that have nothing outstanding (``slots`` are distinct)."""
        done: Array = slots[(self.pending[slots] == 0) & (self.tx[slots] == 0)]
        if not len(done):
            return
        self.phase[done] += 1
        self.pending[done] = self.expected[done]
        self.wanted[done] = self.delivered[done] = 0
        if self._gathered.shape[1]:
            self._passed[done] = self._gathered[done]
        self._machine.progress = True
        self._wake()

    def _tokens(self, phase: Array, pending: Array) -> Array:
        return (phase.astype(np.uint64) << np.uint64(PENDING_BITS)) | pending.astype(np.uint64)

    def _pass_on(self, lanes: Lanes, slots: Array, relaxed: bool) -> None:
        ordering = self._machine.ordering
        if ordering is None:
            return
        warps = lanes.warps
        rows = ordering.release_existence(warps) if relaxed else ordering.release(warps)
        slot, warp = _pairs(slots, lanes.index >> 5)
        rows = rows[np.searchsorted(warps, warp)]
        heads = np.flatnonzero(begins(slot))
        best = np.maximum.reduceat(rows, heads, axis=0)
        self._gathered[slot[heads]] = np.maximum(self._gathered[slot[heads]], best)

    def learn(self, lanes: Lanes, slots: Array, relaxed: bool = False) -> None:
        """``lanes`` have seen the last completed phase of their barriers."""
        self._refused[lanes.sel] = -1
        ordering = self._machine.ordering
        if ordering is None:
            return
        acquire = ordering.overhear if relaxed else ordering.acquire
        slot, warp = _pairs(slots, lanes.index >> 5)
        if len(slot) == len(lanes.warps):
            acquire(warp, self._passed[slot])
            return
        for s, w in zip(slot, warp, strict=True):
            acquire(np.array([w]), self._passed[s : s + 1])

    # Waits.

    def passed(self, slots: Array, parity: Array | None, states: Array | None) -> Array:
        """Which waits are over: for the phase of a parity, or of an opaque state."""
        if states is None:
            assert parity is not None
            return (self.phase[slots] & 1) != parity
        return self.phase[slots] > (states >> np.uint64(PENDING_BITS)).astype(np.int64)

    def poll(self, lanes: Lanes, slots: Array, pc: int) -> None:
        """``lanes`` have been told that their phases are not over."""
        self._polls[pc] = lanes, slots, self.phase[slots] + 1

    def refuse(self, lanes: Lanes, pc: int) -> Array:
        """Which of ``lanes`` have just been refused by the try_wait at ``pc``; now all have. A
        first refusal comes at once (a try_wait may fail at any time), the next one sleeps."""
        before = self._refused[lanes.sel] == pc
        self._refused[lanes.sel] = pc
        return before

    def sleep(
        self, lanes: Lanes, slots: Array, pc: int, stack: Any,
        finish: Callable[[Lanes, bool], None], relaxed: bool = False,
    ) -> None:  # fmt: skip
        """``finish(lanes, result)`` writes the result of those that wake."""
        until = self.phase[slots] + 1
        self._sleepers.append(_Sleepers(lanes, slots, until, pc, stack, finish, relaxed))

    def _wake(self) -> None:
        kept: list[_Sleepers] = []
        sleepers, self._sleepers = self._sleepers, []
        for group in sleepers:
            ready = self.phase[group.slots] >= group.until
            if not anywhere(ready):
                kept.append(group)
                continue
            going = group.lanes.where(ready, self._machine.total)
            staying = group.lanes.where(~ready, self._machine.total)
            assert going is not None
            self.learn(going, group.slots[ready], group.relaxed)
            group.finish(going, True)
            self._machine.scheduler.wake(going, group.pc + 1, group.stack)
            if staying is not None:
                group.lanes, group.slots, group.until = (
                    staying, group.slots[~ready], group.until[~ready],
                )  # fmt: skip
                kept.append(group)
        self._sleepers += kept

    def time_out(self) -> bool:
        """Let every sleeping try_wait fail, as the hardware's time limit does."""
        sleepers, self._sleepers = self._sleepers, []
        for group in sleepers:
            group.finish(group.lanes, False)
            self._machine.scheduler.add(group.lanes, group.pc + 1, group.stack)
        return bool(sleepers)

    # Reports.

    def name(self, at: int) -> str:
        """The barrier at a byte offset, in words."""
        return f"the mbarrier {self._machine.describe_shared(at)}"

    def _state(self, slot: int) -> str:
        phase, tx = int(self.phase[slot]), int(self.tx[slot])
        arrived = int(self.expected[slot] - self.pending[slot])
        text = f"phase {phase} (parity {phase & 1}): {arrived} of {self.expected[slot]} arrivals"
        if tx or self.wanted[slot] or self.delivered[slot]:
            text += f", {self.delivered[slot]} of {self.wanted[slot]} bytes"
        return text

    def report(self, describe_pc: Callable[[int], str]) -> tuple[str, list[str], list[int]]:
        """(code, lines, pcs) about every barrier that somebody waits for."""
        code = ""
        lines: list[str] = []
        pcs: list[int] = []
        machine = self._machine
        groups = [(s.lanes, s.slots, s.pc, "wait") for s in self._sleepers]
        if not groups:
            for pc, (lanes, slots, until) in self._polls.items():
                if everywhere(self.phase[slots] < until):
                    groups.append((lanes, slots, pc, "poll"))
        for waiting, slots, pc, verb in groups:
            pcs.append(pc)
            for slot in distinct(slots):
                if len(lines) > 24:
                    lines.append("... and more")
                    return code, lines, pcs
                members: Array = waiting.index[slots == slot]
                by_cta = {int(machine.lane_cta[lane]) for lane in members}
                lines.append(f"{self.name(int(self.at[slot]))} is in {self._state(int(slot))}")
                for cta in sorted(by_cta):
                    warps = sorted({(int(lane) >> 5) % machine.warps for lane in members
                                    if machine.lane_cta[lane] == cta})  # fmt: skip
                    lines.append(
                        f"  CTA {machine.describe_cta(cta)} warps {compact(warps)} {verb} for "
                        f"phase {int(self.phase[slot])} to complete at {describe_pc(pc)}"
                    )
                code = code or self._fault(int(slot))
        return code, lines, pcs

    def _fault(self, slot: int) -> str:
        if self.tx[slot] != 0:
            return "CD-B1"
        return "CD-B5" if self.pending[slot] < self.expected[slot] else ""


def _pairs(slots: Array, warps: Array) -> tuple[Array, Array]:
    """The distinct pairs, ordered by slot."""
    if len(slots) == 1:
        return slots, warps
    keys = distinct(slots.astype(np.int64) << 32 | warps)
    return keys >> 32, keys & 0xFFFFFFFF
