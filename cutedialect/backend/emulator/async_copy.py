"""``cp.async`` (PTX ISA 9.7.9.25.3): copies that land as late as the kernel allows. Until the
issuing thread waits for its group the destination bytes are in flight, and the source is read on
landing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .lanes import Array, Lanes, anywhere, everywhere
from .shared import CLEAN, IN_FLIGHT

if TYPE_CHECKING:
    from .machine import Machine


@dataclass
class _Copy:
    """``lanes`` issued it; ``target`` are byte offsets into the shared data, ``used`` the source
    bytes of each lane (the rest is zero), ``group`` the lane's group number.
    """

    lanes: Array
    target: Array
    source: Array
    used: Array
    width: int
    group: Array
    sequence: int
    line: int


class AsyncCopies:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._pending: list[_Copy] = []
        self._committed = np.zeros(machine.total, np.int64)
        self.issued = 0

    @property
    def pending(self) -> bool:
        return bool(self._pending)

    def issue(
        self, lanes: Lanes, target: Array, source: Array, used: Array, width: int, line: int
    ) -> None:
        """Arrays are one entry a lane. Bounds and alignment have been checked. ``source`` may be a
        view of a register, so it is copied.
        """
        self._machine.shared.claim(target, width, IN_FLIGHT, "cp.async to")
        group = self._committed[lanes.sel].copy()
        self.issued += 1
        self._pending.append(
            _Copy(lanes.index, target, source.copy(), used, width, group, self.issued, line)
        )

    def commit(self, lanes: Lanes) -> None:
        self._committed[lanes.sel] += 1

    def wait(self, lanes: Lanes, allowed: int) -> None:
        """Land all copies of ``lanes`` but those of the ``allowed`` youngest committed groups (and
        of the group that is still open).
        """
        if not self._pending:
            return
        limit = np.full(self._machine.total, -1, np.int64)
        limit[lanes.sel] = self._committed[lanes.sel] - allowed
        self._land_below(limit)

    def land_until(self, lanes: Array, sequence: int) -> None:
        """Land the copies that ``lanes`` (an index array) issued up to number ``sequence``."""
        limit = np.full(self._machine.total, -1, np.int64)
        limit[lanes] = 1 << 60
        later = [copy for copy in self._pending if copy.sequence > sequence]
        self._pending = [copy for copy in self._pending if copy.sequence <= sequence]
        self._land_below(limit)
        self._pending += later

    def wait_all(self, lanes: Lanes) -> None:
        self.commit(lanes)
        self.wait(lanes, 0)

    def finish(self) -> int:
        """Land what nobody waited for (at the end of the CTAs); how many copies that were."""
        left = sum(len(copy.lanes) for copy in self._pending)
        if left:
            self._land_below(np.full(self._machine.total, 1 << 60, np.int64))
        return left

    def _land_below(self, limit: Array) -> None:
        keep: list[_Copy] = []
        for copy in self._pending:
            due = copy.group < limit[copy.lanes]
            if everywhere(due):
                self._land(copy.lanes, copy.target, copy.source, copy.used, copy.width, copy.line)
            elif not anywhere(due):
                keep.append(copy)
            else:
                self._land(
                    copy.lanes[due], copy.target[due], copy.source[due], copy.used[due], copy.width,
                    copy.line,
                )  # fmt: skip
                rest = ~due
                keep.append(
                    _Copy(
                        copy.lanes[rest], copy.target[rest], copy.source[rest], copy.used[rest],
                        copy.width, copy.group[rest], copy.sequence, copy.line,
                    )
                )  # fmt: skip
        self._pending = keep

    def _land(
        self, lanes: Array, target: Array, source: Array, used: Array, width: int, line: int
    ) -> None:
        if self._machine.races is not None:
            self._machine.races.end_copy(line, lanes >> 5, target, width)
        if self._machine.ordering is not None:
            self._machine.stamp(Lanes.of(lanes, self._machine.total), target, width)
        shared, memory = self._machine.shared, self._machine.global_memory
        shared.mark(target, width, CLEAN)
        data, _ = shared.words(width)
        row = target // width
        whole = used == width
        if everywhere(whole):
            data[row] = memory.load(source, width)
            return
        data[row] = 0
        if anywhere(whole):
            data[row[whole]] = memory.load(source[whole], width)
        for i in np.flatnonzero(~whole & (used > 0)):
            count = int(used[i])
            spots = source[i] + np.arange(count, dtype=np.uint64)
            shared.data[int(target[i]) : int(target[i]) + count] = memory.load(spots, 1)
