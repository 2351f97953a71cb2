"""A warp and its CTA in time: what it knows of a launch, what it has on its way, and the units of
its multiprocessor that it books. What its instructions do is in `warps.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from .claims import Claims, Survey
from .integers import Value
from .processor import QUARTERS, Mbarrier, Processor, Usage


@dataclass
class Cta:
    """A CTA of the launch: its index, and what its warps share."""

    number: int
    arguments: dict[SSAValue, Any]
    special: dict[str, int]
    warps: int
    # Whether it and the other CTA of a pair multiply together.
    is_paired: bool = False
    mbarriers: dict[int, Mbarrier] = field(default_factory=dict)
    named: dict[int, Mbarrier] = field(default_factory=dict)
    numbers: dict[int, Value] = field(default_factory=dict)
    claims: Claims = field(default_factory=lambda: Claims([0]))
    # Where the items that it claims are stored for its warps; whether one is about to be.
    slots: set[int] = field(default_factory=set)
    is_claiming: bool = False
    # Where nothing is to be run but what items load is counted.
    survey: Survey | None = None


class Warp:
    """One warp, as lane 0 sees it: its time, what it knows, and what it has on its way."""

    def __init__(self, processor: Processor, cta: Cta, index: int) -> None:
        self.processor, self.cta, self.index = processor, cta, index
        self.device = processor.device
        self.usage = Usage()
        self.quarter = index % QUARTERS
        self.time = 0.0
        self.known: dict[SSAValue, Value] = dict(cta.arguments)
        self.arrays: dict[SSAValue, list[Value]] = {}
        self.ready: dict[SSAValue, float] = {}
        self.multiplies: list[float] = []
        self.last_multiply = 0.0
        self.copies: list[float] = []
        self.last_copy = 0.0
        self.stores: list[tuple[float, float]] = []
        self.last_read, self.last_store = 0.0, 0.0
        self.tensor_memory = 0.0
        # Cycles beside special functions in which nothing else was issued yet.
        self.beside = 0.0
        # Whether it has read which item comes next, and not released where that stands.
        self.has_response = False

    # Time

    def issue(self, slots: float) -> None:
        self.time = self.serve("issue", slots)

    def serve(self, unit: str, amount: float, begin: float | None = None) -> float:
        """The end of work of this warp on a unit of its quarter."""
        start = self.time if begin is None else begin
        return self.processor.serve(self.usage, unit, self.quarter, self.time, start, amount)

    def crowding(self, unit: str) -> float:
        """How much longer a unit of a quarter is kept busy where several warps want it."""
        if unit != "sfu":
            return 1.0
        users = self.processor.users[self.quarter]
        users.add((self.cta.number, self.index))
        crowded = self.device.crowded
        return crowded[min(len(users), len(crowded)) - 1]

    def shared(self, unit: str, amount: float, begin: float | None = None) -> float:
        """The end of work on a unit of the whole SM."""
        start = self.time if begin is None else begin
        return self.processor.serve(self.usage, unit, 0, self.time, start, amount)

    def until(self, time: float, why: str) -> None:
        if time > self.time:
            self.usage.waited[why] += time - self.time
            self.time = time
            self.beside = 0.0

    def moved(self, where: str, amount: float, begin: float | None = None) -> float:
        """The end of a transfer of bytes."""
        rate = {
            "shared": self.device.shared_bytes, "fill": self.device.fill_bytes,
            "l2": self.processor.l2_bytes,
            "l1": self.device.shared_bytes / 2,
        }[where]  # fmt: skip
        self.usage.bytes[where] += amount
        unit = "shared" if where == "fill" else where
        return self.shared(unit, amount / rate, begin)

    def arrives(self, amount: float, begin: float | None = None, tensor: object = None) -> float:
        """When bytes of a tensor reach the SM; None is one that threads address."""
        start = self.time if begin is None else begin
        return self.processor.arrives(self.usage, self.time, start, amount, tensor)

    def stored(self, amount: float) -> None:
        """An asynchronous store: when shared memory has been read, and when all is there."""
        self.last_read = max(self.last_read, self.moved("shared", amount) + self.device.shared)
        end = self.moved("l2", amount, self.last_read) + self.device.store
        self.last_store = max(self.last_store, end)

    def wait_for(self, values: Any) -> None:
        ready = self.ready
        if ready:
            late = max((ready.get(value, 0.0) for value in values), default=0.0)
            self.until(late, "loads")

    # Values

    def value(self, value: SSAValue | None) -> Value:
        return None if value is None else self.known.get(value)

    def holds(self, pred: SSAValue | None) -> bool:
        """Whether a predicated instruction runs; one on data does."""
        return pred is None or self.known.get(pred) is not False

    def barrier(self, addr: SSAValue, offset: IntegerAttr) -> Mbarrier | None:
        at = self.known.get(addr)
        if at is None:
            return None
        return self.cta.mbarriers.get(int(at) + offset.value.data)
