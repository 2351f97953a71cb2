"""Allocation of tensor memory (PTX ISA 9.7.16.7): columns in powers of two from 32, by one warp of
a CTA, or by one warp in each CTA of a pair, which wait for each other. An allocation that finds no
room waits until another warp gives columns back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .lanes import Array, Lanes, anywhere

if TYPE_CHECKING:
    from .machine import Machine
    from .module import Instruction
    from .tensor_memory import TensorMemory

_COLUMNS = 512
_SIZES = (32, 64, 128, 256, 512)


@dataclass(eq=False)
class Allocation:
    """Columns of the CTAs ``rows`` (one, or the pair) that have yet to give them back."""

    ins: Instruction
    column: int
    count: int
    group: int
    rows: list[int] = field(default_factory=list[int])


@dataclass(eq=False)
class _Request:
    """A warp that asks for columns; ``grant(column)`` tells it where they are."""

    ins: Instruction
    warp: int
    count: int
    group: int
    grant: Callable[[int], None]


class TensorAllocator:
    """``_held[cta]`` are the allocations of a CTA, ``_waiting`` the requests not yet granted."""

    def __init__(self, machine: Machine, memory: TensorMemory) -> None:
        self._machine = machine
        self._memory = memory
        self._held: dict[int, list[Allocation]] = {}
        self._waiting: list[_Request] = []
        self._last: dict[int, int] = {}
        self._relinquished: set[int] = set()

    def holder(self, cta: int, column: int) -> Allocation | None:
        """The allocation that has a column of a CTA."""
        for held in self._held.get(cta, ()):
            if held.column <= column < held.column + held.count:
                return held
        return None

    def request(
        self, ins: Instruction, warp: int, count: int, group: int, grant: Callable[[int], None]
    ) -> None:
        """``tcgen05.alloc`` by a warp; ``grant`` is called at once or later."""
        cta = warp // self._machine.warps
        self._check_size(ins, count)
        if group == 2:
            self._check_pair(ins)
        if cta in self._relinquished:
            raise ins.error(
                "CD-D2",
                f"CTA {self._machine.describe_cta(cta)} allocates tensor memory after "
                "tcgen05.relinquish_alloc_permit",
            )
        if count > self._last.get(cta, _COLUMNS):
            raise ins.error(
                "CD-D2",
                f"an allocation of {count} columns after one of {self._last[cta]}: expected the "
                "sizes of a CTA's allocations not to grow",
            )
        self._memory.make()
        self._last[cta] = count
        self._waiting.append(_Request(ins, warp, count, group, grant))
        self._serve()

    def _check_size(self, ins: Instruction, count: int) -> None:
        if count not in _SIZES:
            raise ins.error(
                "CD-D2",
                f"expected a power of two from 32 to 512 as the number of columns, got {count}",
            )

    def _check_pair(self, ins: Instruction) -> None:
        if self._machine.cluster_size % 2:
            raise ins.error(
                "CD-D2",
                f".cta_group::2 needs a cluster of CTA pairs, got one of "
                f"{self._machine.cluster_size}",
            )

    def _serve(self) -> None:
        """Grant what can be granted, in the order of the requests."""
        for request in list(self._waiting):
            if request not in self._waiting:
                continue
            cta = request.warp // self._machine.warps
            partners = [request]
            rows = [cta]
            if request.group == 2:
                other = next((r for r in self._waiting if r.group == 2
                              and r.warp // self._machine.warps == cta ^ 1), None)  # fmt: skip
                if other is None:
                    continue
                if other.count != request.count:
                    raise request.ins.error(
                        "CD-D2",
                        f"the CTAs of a pair allocate {request.count} and {other.count} columns: "
                        "expected the same number",
                    )
                partners.append(other)
                rows.append(cta ^ 1)
            column = self._room(rows, request.count)
            if column is None:
                continue
            for row in rows:
                held = Allocation(request.ins, column, request.count, request.group, [row])
                self._held.setdefault(row, []).append(held)
                self._memory.clear(row, slice(column, column + request.count))
            for each in partners:
                self._waiting.remove(each)
                each.grant(column)
            self._machine.progress = True

    def _room(self, rows: list[int], count: int) -> int | None:
        """The lowest multiple of ``count`` that is free in all of ``rows``."""
        used = np.zeros(_COLUMNS, np.bool_)
        for row in rows:
            for held in self._held.get(row, ()):
                used[held.column : held.column + held.count] = True
        return next(
            (c for c in range(0, _COLUMNS, count) if not anywhere(used[c : c + count])), None
        )

    def free(self, ins: Instruction, warp: int, address: int, count: int, group: int) -> None:
        """``tcgen05.dealloc`` by a warp: CD-D3 unless it names one whole allocation, CD-D4 where
        the CTA pair may still use it."""
        cta = warp // self._machine.warps
        column = address & 0xFFFF
        held = self.holder(cta, column) if address >> 16 == 0 else None
        if held is None or (held.column, held.count) != (column, count):
            there = ", ".join(
                f"{each.count} at column {each.column}" for each in self._held.get(cta, ())
            )
            raise ins.error(
                "CD-D3",
                f"tcgen05.dealloc of {count} columns at address {address:#x} of CTA "
                f"{self._machine.describe_cta(cta)}, which holds {there or 'none'}: expected the "
                "address and the size of one allocation",
            )
        columns = slice(column, column + count)
        self._memory.release(ins, warp, cta, columns, "CD-D3")
        if group == 2:
            self._memory.release(ins, warp, cta ^ 1, columns, "CD-D4")
        self._held[cta].remove(held)
        self._machine.progress = True
        self._serve()

    def relinquish(self, ctas: Array) -> None:
        self._relinquished.update(int(cta) for cta in ctas)

    def left(self, rows: Array) -> None:
        for row in rows.tolist():
            for held in self._held.get(row, ()):
                raise held.ins.error(
                    "CD-D1",
                    f"CTA {self._machine.describe_cta(row)} exits with {held.count} columns of "
                    f"tensor memory, from column {held.column} on: expected tcgen05.dealloc before "
                    "the exit",
                )

    def report(self, describe_pc: Callable[[int], str]) -> tuple[str, list[str], list[int]]:
        """(code, lines, pcs) about the warps that wait for columns."""
        lines: list[str] = []
        for request in self._waiting[:8]:
            cta, local = divmod(request.warp, self._machine.warps)
            taken = sum(each.count for each in self._held.get(cta, ()))
            why = f"{taken} of {_COLUMNS} are taken"
            if request.group == 2:
                why += ", or its peer CTA has not asked"
            lines.append(
                f"CTA {self._machine.describe_cta(cta)} warp {local} waits for {request.count} "
                f"columns of tensor memory at {describe_pc(request.ins.pc)}: {why}"
            )
        return ("CD-D2" if lines else ""), lines, [r.ins.pc for r in self._waiting]


def sleeper(machine: Machine, lanes: Lanes, pc: int, stack: Any) -> Callable[[], None]:
    """Wakes ``lanes`` behind the instruction at ``pc``."""
    return lambda: machine.scheduler.add(lanes, pc + 1, stack)
