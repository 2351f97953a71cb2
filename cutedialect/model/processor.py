"""A multiprocessor in time: units that serve warps in turn, mbarriers and named barriers, and what
each role has taken of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .devices import Device

QUARTERS = 4


@dataclass
class Mbarrier:
    """Arrivals and bytes that the current phase waits for; when each past phase was complete, and
    the time of the latest arrival of the current one.
    """

    count: int
    woken: list[int]
    arrived: float = 0.0
    expected: float = 0.0
    ends: list[float] = field(default_factory=list)
    latest: float = 0.0
    waiters: list[int] = field(default_factory=list)

    def arrive(self, time: float, count: float = 1.0) -> None:
        self.arrived += count
        self.latest = max(self.latest, time)
        self._test()

    def expect(self, amount: float) -> None:
        self.expected += amount

    def receive(self, time: float, amount: float) -> None:
        self.expected -= amount
        self.latest = max(self.latest, time)
        self._test()

    def _test(self) -> None:
        if self.arrived >= self.count and self.expected <= 0:
            self.ends.append(self.latest)
            self.arrived, self.expected, self.latest = 0.0, 0.0, 0.0
            self.woken += self.waiters
            self.waiters.clear()

    def end_of(self, parity: int) -> float | None:
        """When the phase of a parity was complete; None where it is not."""
        phase = len(self.ends)
        if phase & 1 == parity & 1:
            return None
        return self.ends[-1] if self.ends else 0.0


@dataclass
class Usage:
    """Cycles in which a role has kept units busy, what it has moved (bytes), and for how long its
    warps have waited, by what for.
    """

    busy: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    waited: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    bytes: dict[str, float] = field(default_factory=lambda: defaultdict(float))


class Processor:
    """The units of one SM of so many that run. `serve` books an amount of a unit's time; `woken`
    has the warps whose barrier has completed a phase.
    """

    def __init__(
        self,
        device: Device,
        running: int,
        cold: Mapping[object, float] | None = None,
        requests: Sequence[tuple[float, object, float]] | None = None,
    ) -> None:
        self.device = device
        self.cold = cold or {}
        # What has been asked for of which tensor, and when.
        self.asked: list[tuple[float, object, float]] = []
        self.requests = requests or []
        self.next_request, self.requested = 0, 0.0
        self.memory_bytes = device.memory_bytes / device.clock / running
        self.free: dict[tuple[str, int], float] = defaultdict(float)
        self.woken: list[int] = []
        # Warps of each quarter that have used its unit of special functions.
        self.users: list[set[tuple[int, int]]] = [set() for _ in range(QUARTERS)]
        # An SM reaches L2 through a port of its own, and shares what L2 gives in all.
        share = device.l2_bytes * device.processors / running
        self.l2_bytes = min(share, device.l2_port)

    def arrives(
        self, usage: Usage, now: float, begin: float, amount: float, tensor: object
    ) -> float:
        """When bytes of a tensor reach the SM. A part of them is not in L2 yet: as much as nobody
        else of those who load the tensor has asked for.
        """
        self.asked.append((begin, tensor, amount))
        cold = amount * self.cold.get(tensor, 0.0)
        usage.bytes["l2"] += amount
        end = self.serve(usage, "l2", 0, now, begin, amount / self.l2_bytes)
        if not cold:
            return end + self.device.l2
        # SMs drift apart, so that memory serves others in one's pauses: by a time no SM has had
        # more than its share of what memory gives until then. What is asked for meanwhile comes
        # beside it.
        usage.busy["memory"] += cold / self.memory_bytes
        until = begin + self.device.memory
        while self.next_request < len(self.requests):
            at, other, more = self.requests[self.next_request]
            if at > until:
                break
            self.requested += more * self.cold.get(other, 0.0)
            self.next_request += 1
        return max(end, self.requested / self.memory_bytes) + self.device.memory

    def serve(
        self, usage: Usage, unit: str, quarter: int, now: float, begin: float, amount: float
    ) -> float:
        """When a unit is done with work of so many cycles, booked now, that may begin at a later
        time: until then the unit does what else it is given.
        """
        key = unit, quarter
        self.free[key] = max(self.free[key], now) + amount
        usage.busy[unit] += amount
        return max(self.free[key], begin + amount)
