"""cp.async and its groups (PTX ISA 9.7.9.25.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..bank_conflicts import wavefronts
from ..lanes import Array, Lanes, anywhere, distinct, everywhere
from ..module import Imm, Instruction, Reg
from ..races import warps_of
from ..transfers import Load
from ..types import TYPES
from .load_store import resolve, take_space
from .registry import instruction
from .shared_place import shared_place

if TYPE_CHECKING:
    from ..machine import Machine, Step


@instruction("cp.async.ca", "cp.async.cg")
def _copy(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers(ins.opcode[:11])
    space = mods.take("shared", "shared::cta")
    hint = mods.has("L2::cache_hint")
    mods.drop("L2::")
    source_space = mods.has("global")
    mods.done()
    operands = list(ins.operands)
    if hint:
        operands.pop()
    if space is None or not source_space or not 3 <= len(operands) <= 4:
        raise ins.unsupported("expected .shared.global and three or four operands")
    size = operands[2]
    if not isinstance(size, Imm) or size.value not in (4, 8, 16):
        raise ins.malformed(f"expected a size of 4, 8 or 16, got {size}")
    width = int(size.value)
    if ins.opcode.startswith("cp.async.cg") and width != 16:
        raise ins.malformed(f".cg copies 16 bytes, got {width}")
    target, target_sources = resolve(ins, machine, operands[0], "shared")
    source, source_sources = resolve(ins, machine, operands[1], "global")
    amount: Any = None
    ignore: Any = None
    extra = machine.sources(*operands[3:])
    if len(operands) == 4:
        last = operands[3]
        if isinstance(last, Reg) and last.type.bits == 1:
            ignore = machine.read(ins, last, TYPES["pred"])
        else:
            amount = machine.read(ins, last, TYPES["u32"])
    shared, memory = machine.shared, machine.global_memory

    def step(lanes: Lanes) -> None:
        machine.demand(target_sources + source_sources, lanes, "an address")
        if extra:
            machine.demand(extra, lanes, "a copy size")
        used = np.full(lanes.count, width, np.int64)
        if ignore is not None:
            used[np.broadcast_to(ignore(lanes), (lanes.count,))] = 0
        elif amount is not None:
            used[:] = amount(lanes)
            if anywhere(used > width):
                raise ins.error(
                    "CD-I1", f"source size {used.max()} exceeds the copy's {width} bytes"
                )
        at = shared.offsets(target(lanes), machine.lane_cta[lanes.sel], width, "write")
        origin = source(lanes)
        touched = used > 0
        if everywhere(touched) and everywhere(used == width):
            memory.check(origin, width, "read")
        elif anywhere(touched):
            memory.check_alignment(origin[touched], width)
            memory.check(origin[touched], 1, "read")
            memory.check(
                origin[touched] + used[touched].astype(np.uint64) - np.uint64(1), 1, "read"
            )
        group = lanes.index >> (3 if width == 16 else 4 if width == 8 else 5)
        group = group - group[0]
        machine.count_shared(ins, wavefronts(at, group, width, int(group[-1]) + 1))
        if anywhere(touched):
            copied = lanes if everywhere(touched) else lanes.where(touched, machine.total)
            assert copied is not None
            machine.count_global(ins, copied, origin[touched], width)
        if machine.races is not None:
            warps = warps_of(lanes)
            for some in distinct(used[touched]):
                those = used == some
                machine.races.read_global(ins, warps[those], origin[those], int(some))
            machine.races.begin_copy(ins, warps, at, width)
        machine.copies.issue(lanes, at, origin, used, width, ins.line)

    return step


@instruction("cp.async.commit_group")
def _commit(ins: Instruction, machine: Machine) -> Step:
    ins.modifiers("cp.async.commit_group").done()
    return lambda lanes: machine.copies.commit(lanes)


@instruction("cp.async.wait_group")
def _wait(ins: Instruction, machine: Machine) -> Step:
    ins.modifiers("cp.async.wait_group").done()
    ins.expect(1)
    count = ins.operands[0]
    if not isinstance(count, Imm):
        raise ins.malformed("expected a constant")
    allowed = int(count.value)
    return lambda lanes: machine.copies.wait(lanes, allowed)


@instruction("cp.async.wait_all")
def _wait_all(ins: Instruction, machine: Machine) -> Step:
    ins.modifiers("cp.async.wait_all").done()
    return lambda lanes: machine.copies.wait_all(lanes)


@instruction("cp.async.mbarrier.arrive")
def _arrive(ins: Instruction, machine: Machine) -> Step:
    """An arrival that happens when all cp.async that the thread has issued so far have landed."""
    mods = ins.modifiers("cp.async.mbarrier.arrive")
    counted = mods.has("noinc")
    space = take_space(ins, mods)
    mods.type("b64")
    mods.done()
    ins.expect(1)
    locate, sources = shared_place(ins, machine, ins.operands[0], space, 8, "mbarrier")

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an mbarrier address")
        barriers, sequence = machine.mbarriers, machine.copies.issued
        slots = barriers.find(lanes, locate(lanes))
        if not counted:
            barriers.await_more(slots)
        for slot in distinct(slots):
            members: Array = lanes.index[slots == slot]
            part = Lanes.of(members, machine.total)
            machine.transfers.event(
                Load(ins, int(members[0]), int(machine.lane_cta[members[0]]), int(slot), 0,
                     members[:0], _arrival(machine, part, int(slot), sequence))
            )  # fmt: skip

    return step


def _arrival(machine: Machine, lanes: Lanes, slot: int, sequence: int) -> Callable[[], Array]:
    def finish() -> Array:
        machine.copies.land_until(lanes.index, sequence)
        slots = np.full(lanes.count, slot, np.int64)
        machine.mbarriers.arrive(lanes, slots, np.ones(lanes.count, np.int64))
        return slots[:0]

    return finish
