"""Tensor memory (PTX ISA 9.7.16.1): 128 lanes of 512 columns of 32 bits for each CTA, with what is
known of each cell: was it ever written, who wrote and who read it last, and when. Warps count in
their clock (``Ordering``), the tensor core in the number of the instruction. An access is legal
where its warp knows that the conflicting one is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import EmulatorError
from .lanes import Array, Lanes, anywhere, distinct, everywhere
from .tensor_allocator import TensorAllocator

if TYPE_CHECKING:
    from .machine import Machine, Step
    from .module import Instruction

LANES, COLUMNS = 128, 512
# The time of an access by a thread that tcgen05.wait has yet to cover.
_PENDING = 1 << 30


@dataclass(frozen=True, eq=False)
class Region:
    """Cells of one CTA: ``lanes`` is a slice or an array of lane numbers."""

    cta: int
    lanes: Any
    columns: slice

    @property
    def index(self) -> Any:
        return self.cta, self.lanes, self.columns


class TensorMemory:
    """``data``, ``unset`` and the rest have one entry a cell: ``[CTAs, 128, 512]``.

    ``_agent``, ``_time`` and ``_pc`` tell who wrote a cell, ``_reader``, ``_read_time`` and
    ``_read_pc`` which tensor core instruction read it last, ``_loads[s]`` when warp ``4s + p`` of
    the CTA did, where p is the quarter of the lanes that it may reach.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.allocator = TensorAllocator(machine, self)
        self._made = False
        # Groups of warps whose tcgen05.ld, or tcgen05.st, have not been waited for: (warps, cells).
        self._loading: list[tuple[Array, Array]] = []
        self._storing: list[tuple[Array, Array]] = []
        # Which tcgen05.ld of a warp defined a register last, and which have been waited for.
        self._loaded: dict[int, Array] = {}
        self._count = np.zeros(machine.ctas * machine.warps, np.int64)
        self._waited = np.zeros(machine.ctas * machine.warps, np.int64)
        self._load_of: dict[int, Instruction] = {}
        self._targets = _load_targets(machine)

    def make(self) -> None:
        """Memory for all CTAs; pages that no CTA touches cost nothing."""
        if self._made:
            return
        self._made = True
        shape = (self._machine.ctas, LANES, COLUMNS)
        self.data: Array = np.zeros(shape, np.uint32)
        self.unset: Array = np.ones(shape, np.bool_)
        self._agent: Array = np.zeros(shape, np.int16)
        self._time: Array = np.zeros(shape, np.int32)
        self._pc: Array = np.zeros(shape, np.int32)
        self._reader: Array = np.zeros(shape, np.int16)
        self._read_time: Array = np.zeros(shape, np.int32)
        self._read_pc: Array = np.zeros(shape, np.int32)
        self._loads: Array = np.zeros((-(-self._machine.warps // 4), *shape), np.int32)

    # Accesses by threads: tcgen05.ld and tcgen05.st. ``cells [warps, registers, 32]`` are indices
    # into the flattened arrays.

    def load(self, ins: Instruction, warps: Array, cells: Array) -> tuple[Array, Array]:
        """``(words, poison)`` of the cells; they may not be overwritten before ``wait::ld``."""
        ordering = self._machine.ordering
        assert ordering is not None
        self._demand_written(ins, warps, cells)
        slot = warps % self._machine.warps // 4
        flat = self._loads.reshape(len(self._loads), -1)
        flat[slot[:, None, None], cells] = _PENDING
        self._loading.append((warps, cells))
        return self.data.reshape(-1)[cells], self.unset.reshape(-1)[cells]

    def store(self, ins: Instruction, warps: Array, cells: Array, words: Array, bad: Array) -> None:
        """Write the cells, which nobody may use before ``wait::st``."""
        ordering = self._machine.ordering
        assert ordering is not None
        self._demand_written(ins, warps, cells)
        reader = self._reader.reshape(-1)[cells]
        self._check(ins, warps, reader, self._read_time.reshape(-1)[cells],
                    self._read_pc.reshape(-1)[cells], "overwrites")  # fmt: skip
        quarter = (cells >> 9 & 127) >> 5
        for slot, loads in enumerate(self._loads.reshape(len(self._loads), -1)):
            times = loads[cells]
            if anywhere(times):
                first = warps // self._machine.warps * self._machine.warps + 4 * slot
                readers = first[:, None, None] + quarter
                self._check_loads(ins, warps, readers, times)
        self.data.reshape(-1)[cells] = words
        self.unset.reshape(-1)[cells] = bad
        self._agent.reshape(-1)[cells] = ordering.column[warps][:, None, None]
        self._time.reshape(-1)[cells] = _PENDING
        self._pc.reshape(-1)[cells] = ins.pc
        self._storing.append((warps, cells))

    def wait(self, warps: Array, loads: bool) -> None:
        """``tcgen05.wait::ld`` or ``wait::st`` by ``warps``."""
        ordering = self._machine.ordering
        assert ordering is not None
        if loads:
            self._waited[warps] = self._count[warps]
        pending = self._loading if loads else self._storing
        kept: list[tuple[Array, Array]] = []
        for members, cells in pending:
            here = np.isin(members, warps)
            if anywhere(here):
                done, part = members[here], cells[here]
                clock = ordering.known[done, ordering.column[done]][:, None, None]
                if loads:
                    flat = self._loads.reshape(len(self._loads), -1)
                    flat[(done % self._machine.warps // 4)[:, None, None], part] = clock
                else:
                    self._time.reshape(-1)[part] = clock
            if not everywhere(here):
                kept.append((members[~here], cells[~here]))
        pending[:] = kept

    def _demand_written(self, ins: Instruction, warps: Array, cells: Array) -> None:
        agent, time = self._agent.reshape(-1)[cells], self._time.reshape(-1)[cells]
        self._check(ins, warps, agent, time, self._pc.reshape(-1)[cells], "touches")

    def _check(
        self, ins: Instruction, warps: Array, agent: Array, time: Array, pc: Array, verb: str
    ) -> None:
        """Threads of ``warps`` may access cells that ``agent`` used at ``time``."""
        ordering = self._machine.ordering
        assert ordering is not None
        rows = warps[:, None, None]
        wrong = ordering.known[rows, agent] < time
        if not anywhere(wrong):
            # The same warp needs no fence.
            own = ordering.column[rows] == agent % ordering.per_cluster
            unfenced = (ordering.ordered[rows, agent] < time) & ~own
            if anywhere(unfenced):
                at = tuple(np.argwhere(unfenced)[0])
                self._note_fence(ins, int(pc[at]))
            return
        at = tuple(np.argwhere(wrong & (ordering.ordered[rows, agent] < time))[:1].T)
        if not len(at[0]):
            return
        i = tuple(int(x[0]) for x in at)
        self._refuse(ins, int(warps[i[0]]), int(agent[i]), int(time[i]), int(pc[i]), verb)

    def _check_loads(self, ins: Instruction, warps: Array, readers: Array, times: Array) -> None:
        ordering = self._machine.ordering
        assert ordering is not None
        agent = ordering.column[np.minimum(readers, len(ordering.column) - 1)]
        rows = warps[:, None, None]
        wrong = np.maximum(ordering.known[rows, agent], ordering.ordered[rows, agent]) < times
        if anywhere(wrong):
            i = tuple(int(x) for x in np.argwhere(wrong)[0])
            self._refuse_load(ins, int(warps[i[0]]), int(agent[i]), int(times[i]))

    # Accesses by the tensor core, for an instruction that a thread of ``warp`` issues as the
    # ``number``-th of that warp.

    def begin(self, ins: Instruction, warp: int, number: int, region: Region, writes: bool) -> None:
        """Check that the tensor core may read (or write) the region now, and note that it does."""
        ordering = self._machine.ordering
        assert ordering is not None
        own = ordering.per_cluster + int(ordering.column[warp])
        known = np.maximum(ordering.known[warp], ordering.ordered[warp])
        index = region.index
        over = int(known[own])
        known[own] = _PENDING - 1
        self._demand_pipelined(ins, warp, number, over, self._agent[index], self._time[index],
                               self._pc[index], "touches")  # fmt: skip
        if writes:
            self._demand_pipelined(ins, warp, number, over, self._reader[index],
                                   self._read_time[index], self._read_pc[index],
                                   "overwrites")  # fmt: skip
        for other, reached in self._machine.pipes.issued_before(warp).items():
            known[other] = max(known[other], reached)
        agent, time = self._agent[index], self._time[index]
        wrong = known[agent] < time
        if anywhere(wrong):
            i = tuple(int(x) for x in np.argwhere(wrong)[0])
            self._refuse(ins, warp, int(agent[i]), int(time[i]), int(self._pc[index][i]), "reads")
        fenced = ordering.ordered[warp].copy()
        fenced[own] = fenced[int(ordering.column[warp])] = _PENDING
        late = fenced[agent] < time
        if anywhere(late) and anywhere(agent[late] < ordering.per_cluster):
            i = tuple(int(x) for x in np.argwhere(late)[0])
            self._note_fence(ins, int(self._pc[index][i]))
        if writes:
            reader, read = self._reader[index], self._read_time[index]
            wrong = known[reader] < read
            if anywhere(wrong):
                i = tuple(int(x) for x in np.argwhere(wrong)[0])
                self._refuse(ins, warp, int(reader[i]), int(read[i]), int(self._read_pc[index][i]),
                             "overwrites")  # fmt: skip
            self._check_loads_of_region(ins, warp, known, region)
            self._agent[index] = own
            self._time[index] = number
            self._pc[index] = ins.pc
            return
        self._reader[index] = own
        self._read_time[index] = number
        self._read_pc[index] = ins.pc

    def _demand_pipelined(
        self, ins: Instruction, warp: int, number: int, over: int, agent: Array, time: Array,
        pc: Array, verb: str,
    ) -> None:  # fmt: skip
        """Of the warp's own instructions, the first ``over`` of which are known to be over, those
        that used the cells last are pipelined with this one.
        """
        ordering = self._machine.ordering
        assert ordering is not None
        own = ordering.per_cluster + int(ordering.column[warp])
        flying = (agent == own) & (time > over) & (time < number)
        if not anywhere(flying):
            return
        pipes = self._machine.pipes
        for before in distinct(time[flying]).tolist():
            if not pipes.are_pipelined(warp, before, number):
                at = tuple(int(x) for x in np.argwhere(flying & (time == before))[0])
                self._refuse(ins, warp, own, before, int(pc[at]), verb)

    def _check_loads_of_region(
        self, ins: Instruction, warp: int, known: Array, region: Region
    ) -> None:
        machine = self._machine
        ordering = machine.ordering
        assert ordering is not None
        lanes = np.arange(LANES)[region.lanes]
        for slot, loads in enumerate(self._loads):
            times = loads[region.index]
            if not anywhere(times):
                continue
            readers = region.cta * machine.warps + 4 * slot + (lanes >> 5)
            agent = ordering.column[np.minimum(readers, len(ordering.column) - 1)]
            wrong = known[agent][:, None] < times
            if anywhere(wrong):
                i = tuple(int(x) for x in np.argwhere(wrong)[0])
                self._refuse_load(ins, warp, int(agent[i[0]]), int(times[i]))
            late = (times > 0) & (ordering.ordered[warp][agent][:, None] < times)
            late &= (agent != ordering.column[warp])[:, None]
            if anywhere(late):
                self._note_fence(ins, -1)

    # Allocation.

    def release(self, ins: Instruction, warp: int, cta: int, columns: slice, code: str) -> None:
        """Columns may be given back: every access to them is over, and ``warp`` knows of it."""
        ordering = self._machine.ordering
        assert ordering is not None
        region = Region(cta, slice(0, LANES), columns)
        known = np.maximum(ordering.known[warp], ordering.ordered[warp])
        index = region.index
        for agent, time, pc in (
            (self._agent[index], self._time[index], self._pc[index]),
            (self._reader[index], self._read_time[index], self._read_pc[index]),
        ):
            wrong = known[agent] < time
            if anywhere(wrong):
                i = tuple(int(x) for x in np.argwhere(wrong)[0])
                line = self._machine.module.code[int(pc[i])].line
                raise ins.error(
                    code,
                    f"tensor memory of CTA {self._machine.describe_cta(cta)} is given back while "
                    f"{ordering.describe(warp, int(agent[i]))} may still use it (PTX line {line}): "
                    "expected a wait for that, or a cluster barrier, before",
                )
        try:
            self._check_loads_of_region(ins, warp, known, region)
        except EmulatorError as error:
            why = error.message.partition(" reads: ")[2]
            raise ins.error(
                code,
                f"tensor memory of CTA {self._machine.describe_cta(cta)} is given back while a "
                f"tcgen05.ld may still read it: {why}",
            ) from error

    def clear(self, cta: int, columns: slice) -> None:
        """Columns have been allocated: nobody has written them."""
        index = cta, slice(0, LANES), columns
        self.unset[index] = True
        self._time[index] = self._read_time[index] = 0
        for loads in self._loads:
            loads[index] = 0

    def columns_of(self, ins: Instruction, cta: int, first: int, count: int, what: str) -> slice:
        """``count`` columns from ``first`` on, which one allocation has to hold: CD-D11."""
        held = self.allocator.holder(cta, first)
        if held is None or first + count > held.column + held.count:
            where = f"column {first} is not allocated"
            if held is not None:
                where = f"the allocation ends at column {held.column + held.count - 1}"
            raise ins.error(
                "CD-D11",
                f"{what} covers columns {first} to {first + count - 1} of tensor memory of CTA "
                f"{self._machine.describe_cta(cta)}, but {where}: expected columns of one "
                "allocation",
            )
        return slice(first, first + count)

    def left(self, rows: Array) -> None:
        """All threads of CTAs have exited: CD-D1 unless all columns were given back."""
        self.allocator.left(rows)

    # Registers that tcgen05.ld defines.

    def loaded(self, ins: Instruction, warps: Array, slots: list[int]) -> None:
        """This tcgen05.ld defines registers ``slots`` of ``warps``, when it is waited for."""
        self._count[warps] += 1
        for slot in slots:
            marks = self._loaded.get(slot)
            if marks is None:
                marks = self._loaded[slot] = np.zeros(len(self._count), np.int64)
            marks[warps] = self._count[warps]
            self._load_of[slot] = ins

    def watch(self, ins: Instruction, step: Step) -> Step:
        """``step`` for an ordinary instruction: a note if it uses a register that a tcgen05.ld
        defines before ``wait::ld`` (PTX ISA 9.7.16.8.1)."""
        if not self._targets or ins.opcode.startswith("tcgen05"):
            return step
        from .machine import collect_registers

        named: dict[int, Any] = {}
        collect_registers(ins.operands, named)
        watched = [slot for slot in named if slot in self._targets]
        if not watched:
            return step

        def using(lanes: Lanes) -> Any:
            for slot in watched:
                marks = self._loaded.get(slot)
                if marks is not None and anywhere(marks[lanes.warps] > self._waited[lanes.warps]):
                    line = self._load_of[slot].line
                    self.note(
                        f"CD-D6: PTX line {ins.line}: {ins.opcode} uses {named[slot].name}, which "
                        f"the tcgen05.ld at PTX line {line} loads: expected tcgen05.wait::ld "
                        "between them"
                    )
            return step(lanes)

        return using

    # Reports.

    def note(self, text: str) -> None:
        notes = self._machine.report.notes
        if text not in notes:
            notes.append(text)

    def _note_fence(self, ins: Instruction, pc: int) -> None:
        what = "a tcgen05.ld" if pc < 0 else f"PTX line {self._machine.module.code[pc].line}"
        self.note(
            f"CD-D7: PTX line {ins.line}: {ins.opcode} follows {what} in another warp by an "
            "acquire alone: expected tcgen05.fence::before_thread_sync there before the signal, "
            "and tcgen05.fence::after_thread_sync here after the wait"
        )

    def _refuse(
        self, ins: Instruction, warp: int, agent: int, time: int, pc: int, verb: str
    ) -> None:
        ordering = self._machine.ordering
        assert ordering is not None
        source = self._machine.module.code[pc]
        head = ".".join(source.opcode.split(".")[:2])
        by_core = agent >= ordering.per_cluster
        if ordering.heard[warp, agent] >= time:
            raise ins.error(
                "CD-D7",
                f"this instruction follows the {head} at PTX line {source.line} by a relaxed wait: "
                "expected tcgen05.fence::after_thread_sync between the wait and this",
            )
        if by_core:
            missing = (
                "expected tcgen05.commit to an mbarrier, and a wait for it by a thread that this "
                "one has synchronized with"
            )
            code = "CD-D5"
        elif time == _PENDING:
            missing = "expected tcgen05.wait::st by the warp that stores, then a signal"
            code = "CD-D6"
        else:
            missing = (
                "nothing orders the two: expected a signal after tcgen05.wait::st, and a wait for "
                "it before this"
            )
            code = "CD-D7"
        raise ins.error(
            code,
            f"{ins.opcode.split('.cta')[0]} {verb} tensor memory that the {head} at PTX line "
            f"{source.line} of {ordering.describe(warp, agent)} uses and may not have finished "
            f"with: {missing} ({self._describe(warp)})",
        )

    def _refuse_load(self, ins: Instruction, warp: int, agent: int, time: int) -> None:
        ordering = self._machine.ordering
        assert ordering is not None
        reader = ordering.describe(warp, agent)
        if time == _PENDING:
            why = "expected tcgen05.wait::ld by that warp, then a signal"
        elif ordering.heard[warp, agent] >= time:
            raise ins.error(
                "CD-D7",
                f"this instruction overwrites tensor memory that {reader} has loaded, after a "
                "relaxed wait: expected tcgen05.fence::after_thread_sync between the wait and this",
            )
        else:
            why = "nothing orders that load before this: expected a signal after its wait::ld"
        raise ins.error(
            "CD-D6",
            f"{ins.opcode.split('.cta')[0]} overwrites tensor memory that a tcgen05.ld of {reader} "
            f"reads: {why} ({self._describe(warp)})",
        )

    def _describe(self, warp: int) -> str:
        cta, local = divmod(warp, self._machine.warps)
        return f"CTA {self._machine.describe_cta(cta)}, warp {local}"


def _load_targets(machine: Machine) -> frozenset[int]:
    """Slots of the registers that some tcgen05.ld of the module defines."""
    from .machine import collect_registers

    found: dict[int, Any] = {}
    for ins in machine.module.code:
        if ins.opcode.startswith("tcgen05.ld"):
            collect_registers(ins.operands[:1], found)
    return frozenset(found)
