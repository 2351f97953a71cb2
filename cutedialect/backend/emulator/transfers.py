"""Bulk copies in flight (PTX ISA 9.7.9.25.4): they complete as late as the kernel allows. A load's
destination is unreadable from its issue until its bytes count at the mbarrier; what a store writes
appears when its group is waited for. Nothing completes before all threads are stuck; with a seed,
some of it does, in an order drawn at random.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .errors import EmulatorError
from .lanes import Array, Lanes, anywhere
from .shared import BARRIER, CHUNK, IN_FLIGHT, LOADING, READING, UNSET

if TYPE_CHECKING:
    from .machine import Machine
    from .module import Instruction


@dataclass(eq=False)
class Load:
    """A copy into shared memory (or another event that an mbarrier counts). ``chunks`` are numbers
    of 16 destination bytes, ``cta`` the row that holds them and the barrier, ``source`` chunks that
    it reads until it completes. ``stamp`` counts it among those of its barrier: who has seen the
    phase that its bytes complete knows of it. ``due`` is when it lands, in a timeline."""

    ins: Instruction
    lane: int
    cta: int
    slot: int
    size: int
    chunks: Array
    finish: Callable[[], Array]
    source: Array = None
    stamp: int = 0
    due: int = 0


@dataclass(eq=False)
class Store:
    """A copy out of shared memory. ``write`` puts the data in global memory; ``chunks`` may not be
    overwritten until the thread that issued it knows that the group has been read, which it learns
    from a wait alone."""

    ins: Instruction
    lane: int
    group: int
    chunks: Array
    write: Callable[[], None]
    read: bool = False
    written: bool = False


class Transfers:
    def __init__(self, machine: Machine, seed: int) -> None:
        self._machine = machine
        self._loads: list[Load] = []
        self._stores: list[Store] = []
        self._committed = np.zeros(machine.total, np.int64)
        self._random = random.Random(seed) if seed else None
        machine.shared.explain.append(self._explain)

    # Loads.

    def load(self, load: Load) -> None:
        """Begin a load. The bytes are checked, and poison until it completes."""
        shared = self._machine.shared
        shared.refuse(
            load.chunks, IN_FLIGHT | LOADING | READING | BARRIER, f"{_name(load.ins)} to", "CD-B6"
        )
        if self._machine.races is not None and len(load.chunks):
            self._machine.races.overwrite(load.ins, load.lane >> 5, load.chunks)
        shared.words(CHUNK)[1][load.chunks] = np.uint32(LOADING * 0x01010101)
        ordering = self._machine.ordering
        if ordering is not None and len(load.chunks):
            load.stamp = ordering.issue(load.slot)
            if self._machine.timeline is not None:
                warp = load.lane >> 5
                load.due = self._machine.timeline.copy(self._machine, warp, load.size)
        self._loads.append(load)

    def event(self, load: Load) -> None:
        """An arrival that happens later; ``finish`` makes it."""
        self._loads.append(load)

    def withdraw(self, events: list[Load]) -> None:
        """Events that have happened by another way."""
        gone = set(map(id, events))
        self._loads = [load for load in self._loads if id(load) not in gone]

    def _complete(self, loads: list[Load]) -> None:
        """Land data and events in order, then let the bytes count."""
        load = loads[0]
        try:
            for load in loads:
                self._land(load)
            counted = [load for load in loads if load.size]
            if counted:
                load = counted[0]
                for each in counted:
                    if each.stamp:
                        self._machine.mbarriers.know(each.slot, each.stamp, each.due)
                self._machine.mbarriers.deliver(
                    np.array([load.slot for load in counted]),
                    np.array([load.size for load in counted]),
                )
        except EmulatorError as error:
            _locate(error, load.ins)
            raise

    def _land(self, load: Load) -> None:
        machine = self._machine
        data = load.finish()
        machine.progress = True
        if len(load.chunks):
            words, shadow = machine.shared.words(CHUNK)
            words[load.chunks] = data.reshape(-1).view(np.uint32).reshape(-1, 4)
            shadow[load.chunks] = 0
            machine.unstamp(load.chunks)
            if machine.races is not None:
                machine.races.land(load.ins, load.lane >> 5, load.stamp, load.chunks)
        if load.source is not None:
            machine.shared.end_read(load.source)

    def advance(self) -> bool:
        """All threads are stuck: complete what they wait for. False if that is nothing."""
        if not self._loads:
            return False
        barriers = self._machine.mbarriers
        due = self._loads
        if barriers.waiting:
            wanted = set(barriers.waited_for().tolist())
            due = [load for load in self._loads if load.slot in wanted]
        if not due:
            return False
        if self._random is not None:
            due = self._random.sample(due, self._random.randint(1, len(due)))
        chosen = set(map(id, due))
        self._loads = [load for load in self._loads if id(load) not in chosen]
        self._complete(due)
        return True

    def tick(self) -> None:
        """Between two steps of the threads: with a seed, now and then something completes."""
        if self._random is None or not (self._loads or self._stores):
            return
        if self._loads and self._random.random() < 0.06:
            at = self._random.randrange(len(self._loads))
            self._complete([self._loads.pop(at)])
        if self._stores and self._random.random() < 0.06:
            store = self._random.choice(self._stores)
            if store.group < self._committed[store.lane]:
                self._write(store)

    # Stores.

    def store(self, ins: Instruction, lane: int, chunks: Array, write: Callable[[], None]) -> None:
        self._machine.shared.begin_read(chunks)
        self._stores.append(Store(ins, lane, int(self._committed[lane]), chunks, write))

    def commit(self, lanes: Lanes) -> None:
        self._committed[lanes.sel] += 1

    def wait(self, lanes: Lanes, allowed: int, only_read: bool) -> None:
        """All but the ``allowed`` youngest committed groups of each thread have been read (and
        written, unless ``only_read``)."""
        if not self._stores:
            return
        limit = np.full(self._machine.total, -1, np.int64)
        limit[lanes.sel] = self._committed[lanes.sel] - allowed
        due = [store for store in self._stores if store.group < limit[store.lane]]
        if only_read:
            for store in due:
                self._end_read(store)
            return
        chosen = set(map(id, due))
        self._stores = [store for store in self._stores if id(store) not in chosen]
        if self._random is not None:
            self._random.shuffle(due)
        for store in due:
            self._finish(store)

    def _end_read(self, store: Store) -> None:
        if not store.read:
            store.read = True
            self._machine.shared.end_read(store.chunks)
            if self._machine.races is not None:
                self._machine.races.read_by_copy(store.ins, store.lane >> 5, store.chunks)

    def _finish(self, store: Store) -> None:
        self._end_read(store)
        self._write(store)

    def _write(self, store: Store) -> None:
        if store.written:
            return
        store.written = True
        try:
            store.write()
        except EmulatorError as error:
            _locate(error, store.ins)
            raise
        self._machine.progress = True

    def flush(self) -> None:
        """The kernel ends: what stores have written appears."""
        due, self._stores = self._stores, []
        for store in due:
            self._finish(store)

    # Exits and reports.

    def left(self, rows: Array) -> None:
        """All threads of CTAs have exited: nothing may use their shared memory any more."""
        machine = self._machine
        for load in self._loads:
            if load.cta in rows:
                verb = "copies into" if len(load.chunks) else "has yet to signal an mbarrier in"
                raise self._dangling(load.ins, load.cta, verb, "wait at its mbarrier")
            source = int(machine.lane_cta[load.lane])
            if load.source is not None and source in rows:
                raise self._dangling(load.ins, source, "still reads", "cluster barrier after it")
        for store in self._stores:
            cta = int(machine.lane_cta[store.lane])
            if cta in rows and not store.read:
                raise self._dangling(
                    store.ins, cta, "still reads", "cp.async.bulk.wait_group.read 0"
                )

    def _dangling(self, ins: Instruction, cta: int, verb: str, wait: str) -> EmulatorError:
        return ins.error(
            "CD-B11",
            f"CTA {self._machine.describe_cta(cta)} exits while {_name(ins)} {verb} its shared "
            f"memory: expected a {wait} before the exit",
        )

    def _explain(self, at: int, flags: int) -> tuple[str, str] | None:
        """Which operation uses the byte at a shared offset."""
        chunk = at // CHUNK
        for load in self._loads:
            if flags & LOADING and anywhere(load.chunks == chunk):
                bar = self._machine.mbarriers.name(int(self._machine.mbarriers.at[load.slot]))
                return "CD-I9", (
                    f"{_name(load.ins)} at PTX line {load.ins.line} fills it, and its {load.size} "
                    f"bytes have not yet counted at {bar}"
                )
        for store in self._stores:
            if flags & READING and not store.read and anywhere(store.chunks == chunk):
                return "CD-E7", (
                    f"{_name(store.ins)} at PTX line {store.ins.line} reads it: expected "
                    "cp.async.bulk.wait_group.read by the thread that issued it, then a barrier"
                )
        return None

    def report(self) -> list[str]:
        """What is in flight that nobody waits for."""
        lines: list[str] = []
        for load in self._loads[:8]:
            barriers = self._machine.mbarriers
            lines.append(
                f"{_name(load.ins)} at PTX line {load.ins.line} is in flight to CTA "
                f"{self._machine.describe_cta(load.cta)}: {load.size} bytes for "
                f"{barriers.name(int(barriers.at[load.slot]))}"
            )
        return lines

    # Reads of shared memory by the async proxy.

    def read_shared(self, ins: Instruction, lane: int, chunks: Array) -> tuple[Array, Array]:
        """``(bytes [chunks, 16], poison of the same shape or None)`` of an asynchronous read that
        ``lane`` issues: CD-I9 where bytes are in flight, CD-A1 where ordinary stores are not
        visible to it."""
        machine = self._machine
        shared = machine.shared
        shared.refuse(chunks, IN_FLIGHT | LOADING | BARRIER, f"{_name(ins)} from")
        machine.demand_visible(np.array([lane >> 5]), chunks, _name(ins))
        words, shadow = shared.words(CHUNK)
        data = words[chunks].view(np.uint8)
        state = shadow[chunks].view(np.uint8) & UNSET
        return data, state != 0 if anywhere(state) else None


def _locate(error: EmulatorError, ins: Instruction) -> None:
    if error.ptx_line is None:
        error.ptx_line, error.ir, error.python = ins.line, ins.ir, ins.loc
        error.instruction = str(ins)


def _name(ins: Instruction) -> str:
    """The opcode without its modifiers."""
    for head in ("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor", "cp.reduce.async.bulk",
                 "cp.async.bulk", "cp.async.mbarrier.arrive", "tcgen05.commit",
                 "clusterlaunchcontrol.try_cancel.async"):  # fmt: skip
        if ins.opcode.startswith(head):
            return head
    return ins.opcode
