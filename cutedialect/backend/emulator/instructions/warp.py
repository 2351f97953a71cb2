"""Warp-wide exchange: shfl, vote, match, redux, activemask, elect, bar.warp.sync (PTX ISA 9.7.9.6,
9.7.13). A shuffle from a lane that does not take part gives poison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..convergence import named_lanes
from ..lanes import Array, Lanes, anywhere, everywhere, where
from ..module import Instruction, Operand, Pair, Sink
from ..types import TYPES
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step
    from ..scheduler import Scheduler, Stack


def _spread(machine: Machine, lanes: Lanes, values: Array) -> Array:
    """Per-lane values as an array over the whole batch."""
    full = np.zeros(machine.total, values.dtype)
    full[lanes.sel] = values
    return full


def _ballot(machine: Machine, lanes: Lanes, flags: Array) -> Array:
    """Bits of the lanes that are set, by warp of the batch."""
    full = _spread(machine, lanes, flags)
    return np.packbits(full.reshape(-1, 32), axis=1, bitorder="little").view(np.uint32)[:, 0]


def _two(operand: Operand) -> tuple[Operand, Operand]:
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())


@instruction("shfl.sync")
def _shfl(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("shfl.sync")
    mode = mods.take("up", "down", "bfly", "idx")
    mods.type("b32")
    mods.done()
    ins.expect(5)
    if mode is None:
        raise ins.unsupported("expected .up, .down, .bfly or .idx")
    u32, pred = TYPES["u32"], TYPES["pred"]
    target, valid = _two(ins.operands[0])
    a, b, c, mask = ins.operands[1:]
    read_a, read_b = machine.read(ins, a, u32), machine.read(ins, b, u32)
    read_c, read_mask = machine.read(ins, c, u32), machine.read(ins, mask, u32)
    write = machine.write(ins, target, u32)
    write_valid = machine.write(ins, valid, pred)
    registers = machine.sources(target)
    flags = machine.sources(valid)
    data, control = machine.sources(a), machine.sources(b, c)

    def run(lanes: Lanes) -> None:
        machine.demand(control, lanes, "a shuffle distance")
        lane = lanes.index & 31
        distance, bounds = read_b(lanes).astype(np.int64), read_c(lanes).astype(np.int64)
        segment = bounds >> 8 & 31
        limit = (lane & segment) | (bounds & 31 & ~segment)
        step = distance & 31
        if mode == "up":
            source = lane - step
            inside = source >= limit
        elif mode == "down":
            source = lane + step
            inside = source <= limit
        elif mode == "bfly":
            source = lane ^ step
            inside = source <= limit
        else:
            source = (lane & segment) | (step & ~segment & 31)
            inside = source <= limit
        at = (lanes.index & ~31) + where(inside, source, lane)
        values = _spread(machine, lanes, np.broadcast_to(read_a(lanes), (lanes.count,)))
        poison = ~_spread(machine, lanes, np.ones(lanes.count, np.bool_))
        absent = poison[at]
        origin = ("CD-I8", f"the shuffle at PTX line {ins.line} read a lane that took no part")
        for register in data:
            found = register.poisoned(lanes)
            if found is not None:
                poison = poison | _spread(machine, lanes, found)
                origin = register.why() if not anywhere(absent) else origin
        bad = poison[at]
        write(lanes, values[at])
        write_valid(lanes, np.broadcast_to(inside, (lanes.count,)))
        for register in registers:
            if anywhere(bad):
                register.taint(lanes, bad, origin, machine.total)
            else:
                register.clear(lanes)
        for register in flags:
            register.clear(lanes)

    return named_lanes(ins, machine, read_mask, machine.sources(mask), run)


@instruction("vote.sync")
def _vote(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("vote.sync")
    mode = mods.take("all", "any", "uni", "ballot")
    result = mods.type("b32" if mode == "ballot" else "pred")
    mods.done()
    ins.expect(3)
    if mode is None:
        raise ins.unsupported("expected .all, .any, .uni or .ballot")
    target, a, mask = ins.operands
    read = machine.read(ins, a, TYPES["pred"])
    read_mask = machine.read(ins, mask, TYPES["u32"])
    write = machine.write(ins, target, result)
    registers, sources = machine.sources(target), machine.sources(a)

    def run(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "a vote")
        warp = lanes.index >> 5
        votes = _ballot(machine, lanes, np.broadcast_to(read(lanes), (lanes.count,)))[warp]
        members = read_mask(lanes) & machine.alive_bits()[warp]
        votes = votes & members
        value = {
            "ballot": votes, "all": votes == members, "any": votes != 0,
            "uni": (votes == members) | (votes == 0),
        }[mode]  # fmt: skip
        write(lanes, value)
        for register in registers:
            register.clear(lanes)

    return named_lanes(ins, machine, read_mask, machine.sources(mask), run)


def _groups(machine: Machine, lanes: Lanes, masks: Array) -> list[Array]:
    """Positions of lanes that share a warp and a mask."""
    keys = (lanes.index >> 5) * (1 << 32) + masks.astype(np.int64)
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)


@instruction("match.any.sync", "match.all.sync")
def _match(ins: Instruction, machine: Machine) -> Step:
    every = ins.opcode.startswith("match.all")
    mods = ins.modifiers("match.all.sync" if every else "match.any.sync")
    type = mods.type("b32", "b64")
    mods.done()
    ins.expect(3)
    u32 = TYPES["u32"]
    target, valid = _two(ins.operands[0])
    a, mask = ins.operands[1:]
    read, read_mask = machine.read(ins, a, type), machine.read(ins, mask, u32)
    write, write_valid = machine.write(ins, target, u32), machine.write(ins, valid, TYPES["pred"])
    registers, sources = machine.sources(target, valid), machine.sources(a)

    def run(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "a match")
        values = np.broadcast_to(read(lanes), (lanes.count,))
        masks = np.broadcast_to(read_mask(lanes), (lanes.count,))
        out = np.zeros(lanes.count, np.uint32)
        bits = np.uint32(1) << (lanes.index & 31).astype(np.uint32)
        for group in _groups(machine, lanes, masks):
            same = values[group][:, None] == values[group][None, :]
            if every:
                out[group] = np.bitwise_or.reduce(bits[group]) if everywhere(same) else 0
            else:
                out[group] = (same * bits[group][None, :]).sum(axis=1, dtype=np.uint32)
        write(lanes, out)
        write_valid(lanes, out != 0)
        for register in registers:
            register.clear(lanes)

    return named_lanes(ins, machine, read_mask, machine.sources(mask), run)


@instruction("redux.sync")
def _redux(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("redux.sync")
    name = mods.take("add", "min", "max", "and", "or", "xor")
    type = mods.type(*(("b32",) if name in ("and", "or", "xor") else ("u32", "s32")))
    mods.done()
    ins.expect(3)
    if name is None:
        raise ins.unsupported("unknown operation")
    target, a, mask = ins.operands
    read, read_mask = machine.read(ins, a, type), machine.read(ins, mask, TYPES["u32"])
    write = machine.write(ins, target, type)
    registers, sources = machine.sources(target), machine.sources(a)
    ufunc: Any = {
        "add": np.add, "min": np.minimum, "max": np.maximum,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }[name]  # fmt: skip

    def run(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "a reduction")
        values = np.broadcast_to(read(lanes), (lanes.count,))
        masks = np.broadcast_to(read_mask(lanes), (lanes.count,))
        out = np.zeros(lanes.count, type.dtype)
        for group in _groups(machine, lanes, masks):
            out[group] = ufunc.reduce(values[group], dtype=type.dtype)
        write(lanes, out)
        for register in registers:
            register.clear(lanes)

    return named_lanes(ins, machine, read_mask, machine.sources(mask), run)


@instruction("activemask")
def _activemask(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("activemask")
    mods.type("b32")
    mods.done()
    write = machine.write(ins, ins.operands[0], TYPES["b32"])
    registers = machine.sources(ins.operands[0])

    def step(lanes: Lanes) -> None:
        write(lanes, machine.present_bits(lanes)[lanes.index >> 5])
        for register in registers:
            register.clear(lanes)

    return step


@instruction("elect.sync")
def _elect(ins: Instruction, machine: Machine) -> Step:
    """The lowest lane of the mask is elected, as an H100 does."""
    ins.modifiers("elect.sync").done()
    ins.expect(2)
    target, flag = _two(ins.operands[0])
    mask = ins.operands[1]
    read_mask = machine.read(ins, mask, TYPES["u32"])
    write, write_flag = (
        machine.write(ins, target, TYPES["b32"]),
        machine.write(ins, flag, TYPES["pred"]),
    )
    registers = machine.sources(target, flag)

    def run(lanes: Lanes) -> None:
        members = read_mask(lanes) & machine.alive_bits()[lanes.index >> 5]
        lowest = np.bitwise_count((members & (~members + np.uint32(1))) - np.uint32(1))
        write(lanes, lowest.astype(np.uint32))
        write_flag(lanes, lowest == (lanes.index & 31))
        for register in registers:
            register.clear(lanes)

    return named_lanes(ins, machine, read_mask, machine.sources(mask), run)


@instruction("bar.warp.sync")
def _warp_barrier(ins: Instruction, machine: Machine) -> Step:
    """Threads of one warp may come from different places."""
    ins.modifiers("bar.warp.sync").done()
    ins.expect(1)
    read_mask = machine.read(ins, ins.operands[0], TYPES["u32"])
    sources = machine.sources(ins.operands[0])

    def gather(scheduler: Scheduler, lanes: Lanes, pc: int, stack: Stack) -> None:
        lanes = scheduler.join_blocked(lanes, pc, stack)
        places = [(lanes, pc, stack)]
        for (other_pc, other_stack), (asleep, reason) in list(scheduler.blocked.items()):
            if reason == _ELSEWHERE:
                places.append((asleep, other_pc, other_stack))
                del scheduler.blocked[other_pc, other_stack]
        present = np.zeros(len(machine.alive_bits()), np.uint32)
        for asleep, _, _ in places:
            present |= machine.present_bits(asleep)
        for asleep, at, frames in places:
            warp = asleep.index >> 5
            masks = np.broadcast_to(machine.warp_masks(at, asleep), (asleep.count,))
            ready = masks & machine.alive_bits()[warp] & ~present[warp] == 0
            going, waiting = asleep.where(ready, machine.total), asleep.where(~ready, machine.total)
            if going is not None:
                scheduler.add(going, at + 1, frames)
            if waiting is not None:
                scheduler.block(waiting, at, frames, _ELSEWHERE)

    def step(lanes: Lanes) -> Any:
        machine.demand(sources, lanes, "a member mask")
        masks = np.broadcast_to(read_mask(lanes), (lanes.count,))
        if not everywhere(masks >> (lanes.index & 31).astype(np.uint32) & np.uint32(1)):
            raise ins.error("CD-I8", "the member mask does not name the executing thread's lane")
        needed = masks & machine.alive_bits()[lanes.index >> 5]
        if lanes.whole or everywhere(needed & ~machine.present_bits(lanes)[lanes.index >> 5] == 0):
            return None
        machine.mask_readers[ins.pc] = read_mask
        return gather

    return step


_ELSEWHERE = "for other threads of the member mask (bar.warp.sync)"
