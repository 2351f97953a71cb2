"""Who knows of whose writes: vector clocks, one entry a warp of the cluster. A barrier, an mbarrier
and an atomic pass on what a warp knows; a proxy fence declares what its warp knows as visible to
asynchronous copies and matrix instructions (PTX ISA 8.9, proxies). A kernel that has no
asynchronous copies and no mbarriers keeps no clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .errors import EmulatorError
from .lanes import Array, Lanes

if TYPE_CHECKING:
    from .machine import Machine

# A stamp is ``time << _SHIFT | column``: when a warp wrote, in its own clock.
_SHIFT = 9
_COLUMN = np.uint32((1 << _SHIFT) - 1)

_HEADS = (
    "mbarrier", "cp.async.bulk", "cp.reduce.async.bulk", "wgmma", "barrier.cluster", "st.async",
    "red.async", "mapa", "fence.proxy.async", "tcgen05",
)  # fmt: skip


def concerns(opcode: str) -> bool:
    """Does an instruction make clocks necessary?"""
    return opcode.startswith(_HEADS)


class Ordering:
    """``state[w]`` holds three rows of clocks for warp w of the batch. ``known``: writes that
    happened before what w does next. ``fenced``: those that a proxy fence has made visible to the
    async proxy. ``published``: mbarrier initializations made visible to the cluster and the async
    proxy by ``fence.mbarrier_init``, and that a warp exists at all.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        cluster = machine.image.cluster
        self.columns = machine.warps * cluster[0] * cluster[1] * cluster[2]
        warps = machine.ctas * machine.warps
        self.state = np.zeros((warps, 3 * self.columns), np.int32)
        self.known = self.state[:, : self.columns]
        self.fenced = self.state[:, self.columns : 2 * self.columns]
        self.published = self.state[:, 2 * self.columns :]
        every = np.arange(warps)
        self.column = every % self.columns
        self.known[every, self.column] = 2
        self.published[every, self.column] = 1
        self.stamp: Array = ((2 << _SHIFT) | self.column).astype(np.uint32)
        # What flags in memory (atomics, volatile loads) pass on, by cluster.
        self._flags = np.zeros((warps // self.columns, 3 * self.columns), np.int32)

    def stamps(self, lanes: Lanes) -> Array:
        """The stamp of a write by each lane."""
        return self.stamp[lanes.index >> 5]

    def advance(self, warps: Array) -> None:
        """Later writes of ``warps`` (distinct) are told from those before."""
        self.known[warps, self.column[warps]] += 1
        self.stamp[warps] += np.uint32(1 << _SHIFT)

    def release(self, warps: Array) -> Array:
        """A copy of what ``warps`` pass on, ``[warps, 3 columns]``."""
        passed: Array = self.state[warps]
        self.advance(warps)
        return passed

    def release_existence(self, warps: Array) -> Array:
        """What a relaxed arrival passes on: published initializations only."""
        passed = np.zeros((len(warps), self.state.shape[1]), np.int32)
        passed[:, 2 * self.columns :] = self.published[warps]
        return passed

    def acquire(self, warps: Array, passed: Array) -> None:
        """``warps`` (distinct) learn ``passed``: one row each, or one for all."""
        self.state[warps] = np.maximum(self.state[warps], passed)

    def meet(self, arriving: Array, leaving: Array) -> None:
        """A CTA barrier: ``leaving`` warps learn what ``arriving`` ones of their CTA know."""
        self.acquire(leaving, self.release(arriving).max(axis=0))

    def meet_by_group(self, warps: Array, size: int) -> None:
        """Each ``size`` consecutive ``warps`` pass a barrier of theirs."""
        passed = self.release(warps)
        best = passed.reshape(-1, size, passed.shape[1]).max(axis=1)
        self.acquire(warps, np.repeat(best, size, axis=0))

    def meet_by_cta(self) -> None:
        """Every CTA passes a barrier with all of its warps."""
        warps = self._machine.warps
        by_cta = self.state.reshape(-1, warps, self.state.shape[1])
        by_cta[:] = by_cta.max(axis=1, keepdims=True)
        self.advance(np.arange(len(self.state)))

    def through_flag(self, warps: Array) -> None:
        """``warps`` (distinct) read or write flags in memory: they learn from and tell everyone in
        their cluster who does."""
        clusters = warps // self.columns
        passed = self.release(warps)
        if len(warps) == 1:
            np.maximum(self._flags[clusters], passed, out=passed)
            self._flags[clusters] = passed
        else:
            np.maximum.at(self._flags, clusters, passed)
            passed = self._flags[clusters]
        self.acquire(warps, passed)

    def fence_proxy(self, warps: Array) -> None:
        self.fenced[warps] = np.maximum(self.fenced[warps], self.known[warps])
        self.published[warps] = np.maximum(self.published[warps], self.known[warps])
        self.advance(warps)

    def fence_initialization(self, warps: Array) -> None:
        self.published[warps] = np.maximum(self.published[warps], self.known[warps])
        self.advance(warps)

    def existence(self, warp: int, cta: int) -> bool:
        """Has ``warp`` heard of any warp of the CTA (a row of the batch)?"""
        first = int(self.column[cta * self._machine.warps])
        part = slice(first, first + self._machine.warps)
        return bool(self.published[warp, part].any() or self.known[warp, part].any())

    def demand_visible(self, warps: Array, stamps: Array, reader: str, code: str) -> None:
        """Error ``code`` unless all writes marked by ``stamps`` (0: none) are visible to an
        asynchronous operation that threads of each of ``warps`` issue now. ``reader`` names it."""
        marks: Array = np.unique(stamps)
        marks = marks[marks != 0]
        column, time = marks & _COLUMN, (marks >> np.uint32(_SHIFT)).astype(np.int64)
        hidden = self.fenced[warps[:, None], column] < time
        if not hidden.any():
            return
        row, at = (int(i) for i in np.argwhere(hidden)[0])
        warp = int(warps[row])
        writer = self.describe(warp, int(column[at]))
        if self.known[warp, column[at]] < time[at]:
            why = (
                f"{writer} wrote there, and nothing orders that write before the {reader}: expected"
                " fence.proxy.async by the writer, then a barrier"
            )
        else:
            why = (
                f"{writer} wrote there with ordinary stores, and no fence.proxy.async between the "
                f"write and the {reader} makes it visible to the async proxy"
            )
        raise EmulatorError(f"{reader} may read stale shared memory: {why}", code=code)

    def describe(self, warp: int, column: int) -> str:
        """Names the warp of a column, as seen from the cluster of ``warp``."""
        machine = self._machine
        which = warp // self.columns * self.columns + column
        cta, local = divmod(which, machine.warps)
        return f"warp {local} of CTA {machine.describe_cta(cta)}"
