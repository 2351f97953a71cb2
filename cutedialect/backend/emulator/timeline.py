"""When each warp did what: a launch in model time. A warp takes a cycle for an instruction, and
longer for some; copies arrive after a latency, and the tensor core works through its queue.
Barriers, mbarriers and flags pass on the time of who arrives last, as a further column of the
clocks of `ordering.py`, so that who waits waits until then.

The model leaves out what warps of a multiprocessor take from each other (issue slots, the units of
a quarter) and the caches: it shows which role waits for which, not how long a kernel takes.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .lanes import Lanes

if TYPE_CHECKING:
    from .machine import Machine
    from .module import Instruction

# Cycles of a warp: an instruction, one of the unit for special functions (16 results in a cycle of
# a multiprocessor, CUDA C++ Programming Guide, throughput of native arithmetic instructions).
_CYCLE, _SPECIAL = 1, 8
_SPECIAL_FUNCTIONS = ("ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh")
# Of a B200: cycles until a copy begins to arrive (assumed), its bytes in a cycle from L2 (assumed),
# and floating-point operations of 16 bits of the tensor core in a cycle (2.25 PFLOP/s of 148
# multiprocessors at 1.85 GHz).
_LATENCY, _BYTES, _FLOPS = 600, 64, 8192
# Operations for each element of a result of one instruction: a product and a sum of 16 elements of
# 16 bits (of other widths in the same time).
_DEPTH = 32
_WAITS = ("mbarrier.try_wait", "mbarrier.test_wait", "bar", "barrier")
COPIES, TENSOR = "copies", "tensor core"


@dataclass(frozen=True)
class Span:
    """What a warp (by its number in the first CTA) or a unit did, from one cycle to another: the IR
    op of its instructions, and whether it waited.
    """

    who: int | str
    start: int
    end: int
    what: str
    waits: bool = False


@dataclass
class Timeline:
    """What the warps of a launch's first CTA did, and the units that they use."""

    ptx: str = ""
    spans: list[Span] = field(default_factory=list[Span])
    _open: dict[int | str, Span] = field(default_factory=dict[int | str, Span])
    _last: dict[int, str] = field(default_factory=dict[int, str])
    _seen: dict[int, int] = field(default_factory=dict[int, int])
    _free: dict[str, int] = field(default_factory=dict[str, int])

    def step(self, machine: Machine, ins: Instruction, lanes: Lanes) -> None:
        """Lanes have issued an instruction."""
        ordering = machine.ordering
        assert ordering is not None
        assert ordering.time is not None
        family = ins.opcode.split(".", 1)[0]
        waits = ins.opcode.startswith(_WAITS)
        cost = _SPECIAL if family in _SPECIAL_FUNCTIONS else 0 if waits else _CYCLE
        for warp in lanes.warps.tolist():
            what = self._last[warp] = ins.ir or self._last.get(warp, "")
            before = self._seen.get(warp, 0)
            now = int(ordering.known[warp, ordering.time])
            ordering.known[warp, ordering.time] = self._seen[warp] = now + cost
            if warp < machine.warps:
                if now > before:
                    self._add(Span(warp, before, now, what, True))
                if cost:
                    self._add(Span(warp, now, now + cost, what))

    def copy(self, machine: Machine, warp: int, size: int) -> int:
        """When a copy of so many bytes has arrived that a warp issues now."""
        start, end = self._unit(machine, warp, COPIES, -(-size // _BYTES))
        if warp < machine.warps:
            self._add(Span(COPIES, start, end, f"{size} bytes"))
        return end + _LATENCY

    def multiply(self, machine: Machine, warp: int, m: int, n: int) -> None:
        """A warp gives the tensor core a multiply of 32 bytes of depth."""
        start, end = self._unit(machine, warp, TENSOR, max(1, m * n * _DEPTH // _FLOPS))
        if warp < machine.warps:
            self._add(Span(TENSOR, start, end, f"{m} x {n}"))

    def multiplied(self, machine: Machine, warp: int) -> int:
        """When the tensor core is done with what it has got."""
        return self._free.get(f"{TENSOR} {warp // machine.warps}", 0)

    def done(self) -> Timeline:
        """The spans of all warps and units are whole."""
        self.spans += [span for span in self._open.values() if span.end > span.start]
        self._open.clear()
        self.spans.sort(key=lambda span: (str(span.who), span.start))
        return self

    def _unit(self, machine: Machine, warp: int, unit: str, cycles: int) -> tuple[int, int]:
        """From when to when a unit of a warp's multiprocessor works on what the warp gives it."""
        ordering = machine.ordering
        assert ordering is not None
        now = int(ordering.known[warp, ordering.time])
        key = f"{unit} {warp // machine.warps}"
        start = max(now, self._free.get(key, 0))
        self._free[key] = start + cycles
        return start, start + cycles

    def _add(self, span: Span) -> None:
        last = self._open.get(span.who)
        if last is not None:
            if (last.end, last.what, last.waits) == (span.start, span.what, span.waits):
                self._open[span.who] = Span(span.who, last.start, span.end, span.what, span.waits)
                return
            self.spans.append(last)
        self._open[span.who] = span


_recorded: list[list[Timeline]] = []


@contextmanager
def recording() -> Generator[list[Timeline]]:
    """The timelines of the launches in a `with` block, each of its first CTAs."""
    found: list[Timeline] = []
    _recorded.append(found)
    try:
        yield found
    finally:
        _recorded.remove(found)


def begin(ptx: str) -> Timeline | None:
    """The timeline of a launch, if somebody records."""
    if not _recorded:
        return None
    timeline = Timeline(ptx)
    for found in _recorded:
        found.append(timeline)
    return timeline
