"""Instructions about clusters of CTAs and what they share with the machine: barrier.cluster, mapa,
getctarank (PTX ISA 9.7.13.3, 9.7.9.23), setmaxnreg (9.7.19.5) and griddepcontrol (9.7.13.13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..convergence import ALL, named_lanes
from ..lanes import Array, Lanes, everywhere
from ..memory import SHARED_WINDOW
from ..module import Address, Imm, Instruction, Operand, Sym
from ..types import TYPES
from .load_store import take_space
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Read, Step

_EVERY = np.array([ALL], np.uint32)


def _all_lanes(lanes: Lanes) -> Array:
    return _EVERY


@instruction("barrier.cluster.arrive", "barrier.cluster.wait")
def _barrier(ins: Instruction, machine: Machine) -> Step:
    arrives = ins.opcode.startswith("barrier.cluster.arrive")
    mods = ins.modifiers("barrier.cluster.arrive" if arrives else "barrier.cluster.wait")
    order = mods.take("release", "relaxed") if arrives else mods.take("acquire")
    aligned = mods.has("aligned")
    mods.done()
    ins.expect(0)
    if arrives:

        def arrive(lanes: Lanes) -> None:
            machine.clusters.arrive(lanes, order == "relaxed")

        return named_lanes(ins, machine, _all_lanes, [], arrive) if aligned else arrive

    def wait(lanes: Lanes) -> Any:
        over = machine.clusters.over(lanes)
        going = lanes.where(over, machine.total)
        if going is not None:
            machine.clusters.pass_barrier(going)
        if going is lanes:
            return None

        def sleep(scheduler: Any, arrived: Lanes, pc: int, stack: Any) -> None:
            asleep = arrived.where(~over, machine.total)
            assert asleep is not None
            machine.clusters.sleep(asleep, pc, stack)
            if going is not None:
                scheduler.add(going, pc + 1, stack)

        return sleep

    return wait


def _address(ins: Instruction, machine: Machine, operand: Operand, wide: str, space: str) -> Read:
    """An address operand that may be a register, a variable, or a variable plus a constant."""
    if isinstance(operand, Address):
        operand = operand.base if isinstance(operand.base, Sym) else operand
    read = machine.read(ins, operand, TYPES[wide])
    if isinstance(operand, Sym) and space == "generic":
        return lambda lanes: read(lanes) + np.uint64(SHARED_WINDOW)
    return read


@instruction("mapa")
def _mapa(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("mapa")
    space = take_space(ins, mods)
    type = mods.type("u32", "u64")
    mods.done()
    ins.expect(3)
    if space not in ("generic", "cluster") or (space == "generic" and type.bits == 32):
        raise ins.unsupported("expected .shared::cluster, or a generic address with .u64")
    target, source, rank = ins.operands
    read = _address(ins, machine, source, type.name, space)
    ranks = machine.read(ins, rank, TYPES["u32"])
    write = machine.write(ins, target, type)
    finish = machine.finisher(machine.sources(target), [])
    sources = machine.sources(source, rank)

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an address")
        which = np.broadcast_to(ranks(lanes), (lanes.count,))
        addresses = np.broadcast_to(read(lanes), (lanes.count,))
        write(lanes, machine.clusters.address(addresses, which, type.dtype))
        finish(lanes)

    return step


@instruction("getctarank")
def _getctarank(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("getctarank")
    space = take_space(ins, mods)
    type = mods.type("u32", "u64")
    mods.done()
    ins.expect(2)
    if space not in ("generic", "cluster"):
        raise ins.unsupported("expected .shared::cluster or a generic address")
    target, source = ins.operands
    read = _address(ins, machine, source, type.name, space)
    write = machine.write(ins, target, TYPES["u32"])
    finish = machine.finisher(machine.sources(target), [])
    sources = machine.sources(source)

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an address")
        addresses = np.broadcast_to(read(lanes), (lanes.count,))
        write(lanes, machine.clusters.ranks(lanes, addresses).astype(np.uint32))
        finish(lanes)

    return step


@instruction("setmaxnreg.inc", "setmaxnreg.dec")
def _setmaxnreg(ins: Instruction, machine: Machine) -> Step:
    """Without a register count at entry ptxas drops the instruction, and so does this."""
    increases = ins.opcode.startswith("setmaxnreg.inc")
    mods = ins.modifiers(ins.opcode[:14])
    fine = mods.has("sync") and mods.has("aligned")
    mods.type("u32")
    mods.done()
    ins.expect(1)
    operand = ins.operands[0]
    if not fine or not isinstance(operand, Imm):
        raise ins.unsupported("expected .sync.aligned.u32 and a constant")
    count = int(operand.value)
    if not 24 <= count <= 256 or count % 8:
        raise ins.malformed(f"expected a multiple of 8 from 24 to 256, got {count}")
    pool = machine.pool
    if pool.entry is None:
        note = (
            f"PTX line {ins.line}: {ins.opcode} has no effect without .maxnreg, or a block size "
            "and .minnctapersm"
        )
        if note not in machine.report.notes:
            machine.report.notes.append(note)
        return lambda lanes: None
    if not increases:
        return named_lanes(ins, machine, _all_lanes, [], lambda lanes: pool.decrease(lanes, count))

    def step(lanes: Lanes) -> Any:
        granted = pool.increase(lanes, count)
        if everywhere(granted):
            return None

        def sleep(scheduler: Any, asking: Lanes, pc: int, stack: Any) -> None:
            going = asking.where(granted, machine.total)
            waiting = asking.where(~granted, machine.total)
            assert waiting is not None
            pool.sleep(waiting, count, pc, stack)
            if going is not None:
                scheduler.add(going, pc + 1, stack)

        return sleep

    return step


@instruction("griddepcontrol")
def _griddepcontrol(ins: Instruction, machine: Machine) -> Step:
    """A launch here begins when all before it have ended."""
    mods = ins.modifiers("griddepcontrol")
    action = mods.take("launch_dependents", "wait")
    mods.done()
    ins.expect(0)
    if action is None:
        raise ins.unsupported("expected .launch_dependents or .wait")
    return lambda lanes: None
