"""Who knows of whose writes: vector clocks, one entry a warp of the cluster. A barrier, an mbarrier
and an atomic pass on what a warp knows; a proxy fence declares what its warp knows as visible to
asynchronous copies and matrix instructions (PTX ISA 8.9, proxies). A kernel that has no
asynchronous copies and no mbarriers keeps no clocks; one with tcgen05 instructions has a second
entry for each warp, which counts what the tensor core has completed for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .errors import EmulatorError
from .lanes import Array, Lanes, anywhere, distinct

if TYPE_CHECKING:
    from .machine import Machine

# A stamp is ``time << _SHIFT | column``: when a warp wrote, in its own clock.
_SHIFT = 9
_COLUMN = np.uint32((1 << _SHIFT) - 1)

_HEADS = (
    "mbarrier", "cp.async.bulk", "cp.reduce.async.bulk", "wgmma", "barrier.cluster", "st.async",
    "red.async", "mapa", "fence.proxy.async", "tcgen05",
)  # fmt: skip


# What lands in shared memory by itself, and counts at an mbarrier.
_COPIES = ("cp.async.bulk", "clusterlaunchcontrol.try_cancel")
_COPY_COLUMNS = 32


def concerns(opcode: str) -> bool:
    """Does an instruction make clocks necessary?"""
    return opcode.startswith(_HEADS)


def split(stamp: int) -> tuple[int, int]:
    """(column, time) of a stamp."""
    return stamp & int(_COLUMN), stamp >> _SHIFT


class Ordering:
    """``state[w]`` holds three rows of clocks for warp w of the batch. ``known``: writes that
    happened before what w does next. ``fenced``: those that a proxy fence has made visible to the
    async proxy. ``published``: mbarrier initializations made visible to the cluster and the async
    proxy by ``fence.mbarrier_init``, and that a warp exists at all.

    A kernel with tcgen05 instructions has a fourth row, ``heard``: what other warps had ordered by
    ``tcgen05.fence::before_thread_sync`` (PTX ISA 9.7.16.6.3) before a signal that w has seen, even
    a relaxed one. ``ordered`` is the part of it that ``fence::after_thread_sync`` has put before
    the next tcgen05 instruction of w, ``offered`` what w passes on.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        cluster = machine.image.cluster
        # Warps of a cluster; column ``per_cluster + c`` counts for the tensor core as ``c`` for its
        # warp.
        self.per_cluster = machine.warps * cluster[0] * cluster[1] * cluster[2]
        tensor = any(ins.opcode.startswith("tcgen05") for ins in machine.module.code)
        self.columns = self.per_cluster * (2 if tensor else 1)
        # Further columns count bulk copies by the mbarrier that learns of them, some mbarriers in
        # one: no signal of the warp that issues a copy tells that it has landed.
        copies = any(ins.opcode.startswith(_COPIES) for ins in machine.module.code)
        fits = self.columns + _COPY_COLUMNS <= 1 << _SHIFT
        self._copies = self.columns if copies and fits else None
        if self._copies is not None:
            self.columns += _COPY_COLUMNS
        # With a timeline, model time is one more thing that warps learn of each other.
        self.time: int | None = None
        if machine.timeline is not None:
            self.time = self.columns
            self.columns += 1
        warps = machine.ctas * machine.warps
        self.state = np.zeros((warps, (4 if tensor else 3) * self.columns), np.int32)
        self.known = self.state[:, : self.columns]
        self.fenced = self.state[:, self.columns : 2 * self.columns]
        self.published = self.state[:, 2 * self.columns : 3 * self.columns]
        every = np.arange(warps)
        self.column = every % self.per_cluster
        self.known[every, self.column] = 2
        self._issued = [0] * _COPY_COLUMNS
        self.published[every, self.column] = 1
        self.stamp: Array = ((2 << _SHIFT) | self.column).astype(np.uint32)
        # What flags in memory (atomics, volatile loads) pass on, by cluster.
        self._flags = np.zeros((warps // self.per_cluster, self.state.shape[1]), np.int32)
        self.heard: Array = self.state[:, 3 * self.columns :] if tensor else None
        self.ordered: Array = np.zeros((warps, self.columns), np.int32) if tensor else None
        self.offered: Array = np.zeros((warps, self.columns), np.int32) if tensor else None

    def stamps(self, lanes: Lanes) -> Array:
        """The stamp of a write by each lane."""
        return self.stamp[lanes.index >> 5]

    def advance(self, warps: Array) -> None:
        """Later writes of ``warps`` (distinct) are told from those before."""
        self.known[warps, self.column[warps]] += 1
        self.stamp[warps] += np.uint32(1 << _SHIFT)

    def issue(self, slot: int) -> int:
        """The stamp of a bulk copy of which an mbarrier will learn; 0 where nothing counts them."""
        if self._copies is None:
            return 0
        column = slot % _COPY_COLUMNS
        self._issued[column] += 1
        return self._issued[column] << _SHIFT | self._copies + column

    def release(self, warps: Array) -> Array:
        """A copy of what ``warps`` pass on, as rows of ``state``."""
        passed: Array = self.state[warps]
        if self.heard is not None:
            passed[:, 3 * self.columns :] = self.offered[warps]
        self.advance(warps)
        return passed

    def release_existence(self, warps: Array) -> Array:
        """What a relaxed arrival passes on: published initializations, and what a tcgen05 fence has
        put before it."""
        passed = np.zeros((len(warps), self.state.shape[1]), np.int32)
        passed[:, 2 * self.columns : 3 * self.columns] = self.published[warps]
        if self.heard is not None:
            passed[:, 3 * self.columns :] = self.offered[warps]
        return passed

    def acquire(self, warps: Array, passed: Array) -> None:
        """``warps`` (distinct) learn ``passed``: one row each, or one for all."""
        self.state[warps] = np.maximum(self.state[warps], passed)

    def overhear(self, warps: Array, passed: Array) -> None:
        """``warps`` learn of a signal by a relaxed wait: only what tcgen05 fences put before it."""
        if self.heard is not None:
            self.heard[warps] = np.maximum(self.heard[warps], passed[:, 3 * self.columns :])

    def fence_before_sync(self, warps: Array) -> None:
        """``tcgen05.fence::before_thread_sync``."""
        reached = np.maximum(self.known[warps], self.ordered[warps])
        self.offered[warps] = np.maximum(self.offered[warps], reached)
        self.advance(warps)

    def fence_after_sync(self, warps: Array) -> None:
        """``tcgen05.fence::after_thread_sync``."""
        self.ordered[warps] = np.maximum(self.ordered[warps], self.heard[warps])

    def completion(self, warp: int, reached: int) -> Array:
        """What ``tcgen05.commit`` passes on: that the tensor core has done the first ``reached``
        instructions of ``warp``, and what the warp had published."""
        row = self.release_existence(np.array([warp]))[0]
        column = self.per_cluster + int(self.column[warp])
        row[column] = row[3 * self.columns + column] = reached
        timeline = self._machine.timeline
        if timeline is not None and self.time is not None:
            row[self.time] = timeline.multiplied(self._machine, warp)
        return row

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
        if self.heard is not None:
            self.meet_by_group(np.arange(len(self.state)), warps)
            return
        by_cta = self.state.reshape(-1, warps, self.state.shape[1])
        by_cta[:] = by_cta.max(axis=1, keepdims=True)
        self.advance(np.arange(len(self.state)))

    def through_flag(self, warps: Array) -> None:
        """``warps`` (distinct) read or write flags in memory: they learn from and tell everyone in
        their cluster who does."""
        clusters = warps // self.per_cluster
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
        return anywhere(self.published[warp, part]) or anywhere(self.known[warp, part])

    def demand_visible(self, warps: Array, stamps: Array, reader: str, code: str) -> None:
        """Error ``code`` unless all writes marked by ``stamps`` (0: none) are visible to an
        asynchronous operation that threads of each of ``warps`` issue now. ``reader`` names it."""
        marks: Array = distinct(stamps)
        marks = marks[marks != 0]
        column, time = marks & _COLUMN, (marks >> np.uint32(_SHIFT)).astype(np.int64)
        hidden = self.fenced[warps[:, None], column] < time
        if not anywhere(hidden):
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
        if self._copies is not None and column >= self._copies:
            return "a bulk copy"
        machine = self._machine
        own, of_tensor = column % self.per_cluster, column >= self.per_cluster
        which = warp // self.per_cluster * self.per_cluster + own
        cta, local = divmod(which, machine.warps)
        owner = f"warp {local} of CTA {machine.describe_cta(cta)}"
        return f"the tensor core for {owner}" if of_tensor else owner
