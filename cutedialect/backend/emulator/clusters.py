"""Clusters of CTAs (PTX ISA 5.1, 9.7.13.3): which CTA a ``shared::cluster`` address names, the
cluster barrier, and whether a CTA that another one touches is there: it must have started, and it
must not exit before it knows of the access.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .barriers import compact
from .errors import EmulatorError
from .lanes import Array, Lanes, anywhere, distinct

if TYPE_CHECKING:
    from .machine import Machine

# A shared::cluster address of the CTA with rank r is its shared::cta address plus
# ``(r + 1) << RANK_SHIFT``; 0 in the upper bits is the executing thread's own CTA.
RANK_SHIFT = 24
_LOCAL = np.uint64((1 << RANK_SHIFT) - 1)


@dataclass
class _Sleepers:
    lanes: Lanes
    until: Array
    pc: int
    stack: tuple[Any, ...]


class Clusters:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.size = machine.cluster_size
        count = machine.ctas // self.size
        self._lanes = machine.warps * 32 * self.size
        self._arrived = np.zeros(machine.total, np.bool_)
        # How many phases of the cluster barrier each thread has arrived at and waited for.
        self._arrivals = np.zeros(machine.total, np.int64)
        self._waits = np.zeros(machine.total, np.int64)
        self._phase = np.zeros(count, np.int64)
        self._sleepers: list[_Sleepers] = []
        self._gone = np.zeros(machine.ctas, np.bool_)
        ordering = machine.ordering
        width = 0 if ordering is None else ordering.state.shape[1]
        columns = 0 if ordering is None else ordering.columns
        self._gathered = np.zeros((count, width), np.int32)
        self._passed = np.zeros((count, width), np.int32)
        # The last access to a CTA by each warp of its cluster, in that warp's clock.
        self._touched = np.zeros((machine.ctas, columns), np.int32)

    # Addresses.

    def address(self, addresses: Array, ranks: Array, wide: Any) -> Array:
        """``mapa``: the shared::cluster address of the same place in the CTA of each rank."""
        if int(ranks.max()) >= self.size:
            raise EmulatorError(
                f"expected a CTA rank below the cluster's {self.size}, got {int(ranks.max())}",
                code="CD-H3",
            )
        part = (ranks.astype(np.uint64) + np.uint64(1)) << np.uint64(RANK_SHIFT)
        keep = ~np.uint64(0xFF << RANK_SHIFT)
        return ((addresses.astype(np.uint64) & keep) | part).astype(wide)

    def ranks(self, lanes: Lanes, addresses: Array) -> Array:
        """``getctarank`` of shared::cluster addresses."""
        named = (addresses.astype(np.uint64) >> np.uint64(RANK_SHIFT) & np.uint64(0xFF)).astype(
            np.int64
        )
        own = self._machine.lane_cta[lanes.sel] % self.size
        return np.where(named == 0, own, named - 1)

    def owners(self, lanes: Lanes, addresses: Array, counted: bool = False) -> tuple[Array, Array]:
        """``(CTA rows, addresses within the CTA)`` of shared::cluster addresses; ``counted`` as in
        ``reach``."""
        own = self._machine.lane_cta[lanes.sel]
        named = (addresses >> np.uint64(RANK_SHIFT)).astype(np.int64)
        if not anywhere(named):
            return own, addresses
        if int(named.max()) > self.size:
            bad = int(addresses[np.argmax(named > self.size)])
            raise EmulatorError(
                f"shared::cluster address {bad:#x} names no CTA of this cluster of {self.size}",
                code="CD-H3",
            )
        rows = np.where(named == 0, own, own - own % self.size + named - 1)
        away = rows != own
        if anywhere(away):
            self.reach((lanes.index >> 5)[away], rows[away], counted)
        return rows, addresses & _LOCAL

    def reach(self, warps: Array, rows: Array, counted: bool = False) -> None:
        """Threads of ``warps`` access the CTAs ``rows``, one each, which are not their own. Who
        waits for a ``counted`` access (the bytes of a copy) knows that it is over."""
        if anywhere(self._gone[rows]):
            row = int(rows[np.argmax(self._gone[rows])])
            raise EmulatorError(
                f"access to the shared memory of CTA {self._machine.describe_cta(row)} of the "
                "cluster, which has exited: expected a cluster barrier (or a wait for this access) "
                "before its exit",
                code="CD-H1",
            )
        ordering = self._machine.ordering
        if ordering is None:
            return
        for warp, row in {(int(w), int(r)) for w, r in zip(warps, rows, strict=True)}:
            if not ordering.existence(warp, row):
                raise EmulatorError(
                    f"access to the shared memory of CTA {self._machine.describe_cta(row)} of the "
                    "cluster, which may not have started: expected a cluster barrier before",
                    code="CD-H2",
                )
        if counted:
            return
        self._touched[rows, ordering.column[warps]] = (ordering.stamp[warps] >> 9).astype(np.int32)

    # The barrier.

    def arrive(self, lanes: Lanes, relaxed: bool) -> None:
        machine = self._machine
        if anywhere(self._arrivals[lanes.sel] > self._waits[lanes.sel]):
            raise EmulatorError(
                "a thread arrives twice at the cluster barrier: expected barrier.cluster.wait "
                "in between",
                code="CD-H4",
            )
        self._arrived[lanes.sel] = True
        self._arrivals[lanes.sel] += 1
        clusters = lanes.warps // (machine.warps * self.size)
        if machine.ordering is not None:
            warps = lanes.warps
            rows = (
                machine.ordering.release_existence(warps)
                if relaxed
                else machine.ordering.release(warps)
            )
            np.maximum.at(self._gathered, clusters, rows)
        machine.progress = True
        self._complete()

    def _complete(self) -> None:
        there = (self._arrived | ~self._machine.alive).reshape(-1, self._lanes)
        done = there.all(axis=1) & self._arrived.reshape(-1, self._lanes).any(axis=1)
        if not anywhere(done):
            return
        self._phase[done] += 1
        self._arrived.reshape(-1, self._lanes)[done] = False
        self._passed[done] = self._gathered[done]
        self._machine.progress = True
        sleepers, self._sleepers = self._sleepers, []
        for group in sleepers:
            ready = self._phase[group.lanes.index // self._lanes] >= group.until
            going = group.lanes.where(ready, self._machine.total)
            staying = group.lanes.where(~ready, self._machine.total)
            if going is not None:
                self._learn(going)
                self._machine.scheduler.add(going, group.pc + 1, group.stack)
            if staying is not None:
                self._sleepers.append(_Sleepers(staying, group.until[~ready], group.pc,
                                                group.stack))  # fmt: skip

    def _learn(self, lanes: Lanes) -> None:
        ordering = self._machine.ordering
        if ordering is not None:
            warps = lanes.warps
            ordering.acquire(warps, self._passed[warps // ordering.per_cluster])

    def over(self, lanes: Lanes) -> Array:
        """Begin a wait; whose phase has completed."""
        if anywhere(self._arrivals[lanes.sel] == self._waits[lanes.sel]):
            raise EmulatorError(
                "barrier.cluster.wait without an arrival: expected barrier.cluster.arrive before",
                code="CD-H4",
            )
        self._waits[lanes.sel] += 1
        return self._phase[lanes.index // self._lanes] >= self._arrivals[lanes.sel]

    def pass_barrier(self, lanes: Lanes) -> None:
        self._learn(lanes)

    def sleep(self, lanes: Lanes, pc: int, stack: Any) -> None:
        self._sleepers.append(_Sleepers(lanes, self._arrivals[lanes.sel].copy(), pc, stack))

    # Exits.

    def left(self, lanes: Lanes) -> None:
        """Threads exited."""
        machine = self._machine
        rows: Array = distinct(machine.lane_cta[lanes.index])
        alive = machine.alive.reshape(machine.ctas, -1)[rows].any(axis=1)
        gone = rows[~alive]
        if len(gone):
            self._gone[gone] = True
            machine.transfers.left(gone)
            machine.pipes.left(gone)
            machine.tensor.left(gone)
            if self.size > 1:
                for row in gone:
                    self._check_exit(int(row))
        if self._sleepers or anywhere(self._arrived):
            self._complete()

    def _check_exit(self, row: int) -> None:
        """CD-H1 unless the CTA knew of every access to it."""
        ordering = self._machine.ordering
        if ordering is None or not anywhere(self._touched[row]):
            return
        first = row * self._machine.warps
        known = ordering.known[first : first + self._machine.warps].max(axis=0)
        missed = np.flatnonzero(known < self._touched[row])
        if len(missed):
            raise EmulatorError(
                f"CTA {self._machine.describe_cta(row)} exits while "
                f"{ordering.describe(first, int(missed[0]))} may still access its shared memory "
                "(or arrive at its mbarriers): expected a cluster barrier, or a wait for that "
                "arrival, before the exit",
                code="CD-H1",
            )

    def report(self, describe_pc: Callable[[int], str]) -> tuple[str, list[str], list[int]]:
        """(code, lines, pcs) about the cluster barriers that somebody waits for."""
        machine = self._machine
        lines: list[str] = []
        for group in self._sleepers:
            for cluster in distinct(group.lanes.index // self._lanes)[:8]:
                mine = group.lanes.index[group.lanes.index // self._lanes == cluster]
                part = slice(int(cluster) * self._lanes, (int(cluster) + 1) * self._lanes)
                arrived = int(self._arrived[part].sum())
                alive = int(machine.alive[part].sum())
                lines.append(
                    f"cluster barrier of CTA {machine.describe_cta(int(cluster) * self.size)}: "
                    f"{arrived} of {alive} threads have arrived"
                )
                for cta in sorted({int(machine.lane_cta[lane]) for lane in mine}):
                    warps = sorted({(int(lane) >> 5) % machine.warps for lane in mine
                                    if machine.lane_cta[lane] == cta})  # fmt: skip
                    lines.append(
                        f"  CTA {machine.describe_cta(cta)} warps {compact(warps)} wait at "
                        f"{describe_pc(group.pc)}"
                    )
        return ("CD-H4" if lines else ""), lines, [group.pc for group in self._sleepers]
