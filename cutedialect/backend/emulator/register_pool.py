"""``setmaxnreg`` (PTX ISA 9.7.19.5): each CTA's pool of registers. A warp that asks for more than
is free sleeps until others of its CTA give some back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .barriers import compact
from .errors import EmulatorError
from .lanes import Array, Lanes, anywhere

if TYPE_CHECKING:
    from .machine import Machine
    from .module import Function

_FILE = 65536


def entry_registers(function: Function) -> int | None:
    """Registers of a thread at entry where ``setmaxnreg`` is honoured, else None: ptxas needs
    ``.maxnreg``, or the block size and ``.minnctapersm``."""
    tuning = function.tuning
    if tuning.get("maxnreg"):
        return tuning["maxnreg"][0]
    block = tuning.get("reqntid") or tuning.get("maxntid")
    ctas = tuning.get("minnctapersm")
    if not block or not ctas:
        return None
    threads = int(np.prod(block))
    warps = -(-threads // 32) * ctas[0]
    return min(255, _FILE // (warps * 32) // 8 * 8)


@dataclass
class _Sleepers:
    lanes: Lanes
    wanted: int
    pc: int
    stack: tuple[Any, ...]


class RegisterPool:
    """``held[w]`` are the registers of a thread of warp w."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.entry = entry_registers(machine.module.functions[machine.image.entry])
        self._held = np.full(machine.ctas * machine.warps, self.entry or 0, np.int64)
        self._free = np.zeros(machine.ctas, np.int64)
        self._sleepers: list[_Sleepers] = []

    def decrease(self, lanes: Lanes, count: int) -> None:
        warps = lanes.warps
        self._check(warps, self._held[warps] < count, "dec", "at most", count)
        np.add.at(self._free, warps // self._machine.warps, self._held[warps] - count)
        self._held[warps] = count
        self._machine.progress = True
        sleepers, self._sleepers = self._sleepers, []
        for group in sleepers:
            granted = self.increase(group.lanes, group.wanted)
            going = group.lanes.where(granted, self._machine.total)
            staying = group.lanes.where(~granted, self._machine.total)
            if going is not None:
                self._machine.scheduler.add(going, group.pc + 1, group.stack)
            if staying is not None:
                self.sleep(staying, group.wanted, group.pc, group.stack)

    def increase(self, lanes: Lanes, count: int) -> Array:
        """Grant what the pools allow; one bool a lane."""
        warps = lanes.warps
        self._check(warps, self._held[warps] > count, "inc", "at least", count)
        granted = np.zeros(len(self._held), np.bool_)
        for warp in warps:
            cta, more = int(warp) // self._machine.warps, count - int(self._held[warp])
            if more <= self._free[cta]:
                self._free[cta] -= more
                self._held[warp] = count
                granted[warp] = True
                self._machine.progress = True
        return granted[lanes.index >> 5]

    def sleep(self, lanes: Lanes, wanted: int, pc: int, stack: Any) -> None:
        self._sleepers.append(_Sleepers(lanes, wanted, pc, stack))

    def _check(self, warps: Array, wrong: Array, verb: str, bound: str, count: int) -> None:
        if anywhere(wrong):
            held = int(self._held[warps[np.argmax(wrong)]])
            raise EmulatorError(
                f"setmaxnreg.{verb} to {count} registers by a warp that holds {held}: expected "
                f"{bound} {held}",
                code="CD-G1",
            )

    def report(self, describe_pc: Callable[[int], str]) -> tuple[str, list[str], list[int]]:
        """(code, lines, pcs) about the warps that wait for registers."""
        machine = self._machine
        lines: list[str] = []
        for group in self._sleepers:
            for cta in sorted({int(row) for row in machine.lane_cta[group.lanes.index]})[:8]:
                first = cta * machine.warps
                held = self._held[first : first + machine.warps]
                waiting = [int(w) - first for w in group.lanes.warps
                           if int(w) // machine.warps == cta]  # fmt: skip
                asked = int(held.sum()) + sum(group.wanted - int(held[w]) for w in waiting)
                lines.append(
                    f"CTA {machine.describe_cta(cta)} warps {compact(waiting)} wait for "
                    f"{group.wanted} registers a thread at {describe_pc(group.pc)}"
                )
                lines.append(
                    f"  the CTA began with {self.entry} registers for each of {machine.warps} "
                    f"warps, {int(self.entry or 0) * machine.warps * 32} in all; "
                    f"{int(self._free[cta]) * 32} are free and {asked * 32} would be needed"
                )
        return ("CD-G1" if lines else ""), lines, [group.pc for group in self._sleepers]
