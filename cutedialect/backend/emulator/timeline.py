"""When each warp did what: a launch in model time. A warp takes a cycle for an instruction, and
longer for some; copies arrive after a latency, and the tensor core works through its queue.
Barriers, mbarriers and flags pass on the time of who arrives last, as a further column of the
clocks of `ordering.py`, so that who waits waits until then.

The model leaves out what warps of a multiprocessor take from each other (issue slots, the units of
a quarter) and the caches: it shows which role waits for which, not how long a kernel takes.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from .lanes import Lanes

if TYPE_CHECKING:
    from .machine import Machine
    from .module import Instruction

# Cycles of a warp: an instruction, one of the unit for special functions (16 results in a cycle of
# a multiprocessor, CUDA C++ Programming Guide, throughput of native arithmetic instructions).
_CYCLE, _SPECIAL = 1, 8
_SPECIAL_FUNCTIONS = ("ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh")
# Cycles until a copy begins to arrive (assumed), and its bytes in a cycle from L2 (assumed).
_LATENCY, _BYTES = 600, 64
# By the number of a target: floating-point operations of 16 bits of a multiprocessor's tensor cores
# in a cycle, from NVIDIA's data sheets: V100 (125 TFLOP/s of 80 at 1.53 GHz), T4 (65 of 40 at
# 1.59), A100 (312 of 108 at 1.41), A10 and Orin (assumed to be half of that), L40S (362 of 142 at
# 2.52), H100 SXM (989 of 132 at 1.83), B200 (2250 of 148 at 1.85), RTX PRO 6000 (504 of 188 at
# 2.6); 110 is assumed to be as 100.
_FLOPS = {
    70: 1024, 72: 1024, 75: 1024, 80: 2048, 86: 1024, 87: 1024, 88: 1024, 89: 1024, 90: 4096,
    100: 8192, 103: 8192, 110: 8192, 120: 1024, 121: 1024,
}  # fmt: skip
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)
# Operations for each element of a result of 32 bytes of depth: a product and a sum of 16 elements
# of 16 bits (of other widths in the same time).
_DEPTH, _DEPTH_BYTES = 32, 32
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
# Bits of A's elements.
_BITS = {
    "f64": 64, "tf32": 32, "f32": 32, "s32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8,
    "s8": 8, "u8": 8, "e3m2": 8, "e2m3": 8, "e2m1": 4, "s4": 4, "u4": 4, "b1": 1,
}  # fmt: skip
_GROUP = 4
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
    # By the first warp of a warpgroup: when its multiplies are done, of each group and of all.
    _groups: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    _multiplied: dict[int, int] = field(default_factory=dict[int, int])
    _flops: int = 0

    def __post_init__(self) -> None:
        found = _TARGET.search(self.ptx)
        self._flops = _FLOPS.get(int(found[1]) if found else 0, max(_FLOPS.values()))

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
            if family in ("mma", "wgmma"):
                now = max(now, self._multiply_of(machine, ins, warp))
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

    def multiply(
        self, machine: Machine, warp: int, m: int, n: int, depth: int = _DEPTH_BYTES
    ) -> tuple[int, int]:
        """A warp gives the tensor core a multiply of so many bytes of depth; from when to when it
        works on that.
        """
        cycles = max(1, m * n * _DEPTH * depth // (_DEPTH_BYTES * self._flops))
        start, end = self._unit(machine, warp, TENSOR, cycles)
        if warp < machine.warps:
            self._add(Span(TENSOR, start, end, f"{m} x {n}"))
        return start, end

    def _multiply_of(self, machine: Machine, ins: Instruction, warp: int) -> int:
        """A warp multiplies, or groups multiplies of its warpgroup, or waits for such groups; until
        when it waits. Multiplies of a warp (`mma.sync`) are taken one after the other.
        """
        first = warp - warp % _GROUP
        multiply = _multiply(ins.opcode)
        if multiply is not None:
            if not ins.opcode.startswith("wgmma"):
                return self.multiply(machine, warp, *multiply)[0]
            if warp == first:
                self._multiplied[first] = self.multiply(machine, warp, *multiply)[1]
        elif ins.opcode.startswith("wgmma.commit_group") and warp == first:
            self._groups.setdefault(first, []).append(self._multiplied.get(first, 0))
        elif ins.opcode.startswith("wgmma.wait_group"):
            groups, (pending,) = self._groups.get(first, []), ins.operands
            done = len(groups) - int(str(pending))
            return groups[done - 1] if done > 0 else 0
        return 0

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


@lru_cache(maxsize=256)
def _multiply(opcode: str) -> tuple[int, int, int] | None:
    """Rows, columns and bytes of depth of a multiply of one warp or of a warpgroup, from the words
    of its shape and of the types of the result and of A.
    """
    shape = _SHAPE.search(opcode)
    if shape is None:
        return None
    types = [_BITS[word] for word in opcode[shape.end() :].split(".") if word in _BITS]
    m, n, k = map(int, shape.groups())
    return m, n, max(1, k * types[1] // 8)


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
