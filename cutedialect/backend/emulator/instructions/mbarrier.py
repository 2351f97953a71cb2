"""mbarrier.* (PTX ISA 9.7.13.15). A wait that fails tells the thread to come again, and lets it
sleep in the scheduler when it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..lanes import Array, Lanes, anywhere
from ..mbarriers import MAX_COUNT, PENDING_BITS
from ..module import Instruction, Modifiers, Operand, Sink
from ..types import TYPES
from .load_store import take_space
from .registry import instruction
from .shared_place import shared_place

if TYPE_CHECKING:
    from ..machine import Machine, Step


def _take_order(ins: Instruction, mods: Modifiers) -> tuple[bool, str]:
    """``(relaxed, space)``."""
    order = mods.take("release", "acquire", "relaxed")
    scope = mods.take("cta", "cluster")
    if (order is None) != (scope is None) and order != "relaxed":
        raise ins.unsupported("expected both an ordering and a scope, or neither")
    space = take_space(ins, mods)
    mods.type("b64")
    mods.done()
    return order == "relaxed", space


@instruction("mbarrier.init", "mbarrier.inval")
def _life(ins: Instruction, machine: Machine) -> Step:
    init = ins.opcode.startswith("mbarrier.init")
    mods = ins.modifiers("mbarrier.init" if init else "mbarrier.inval")
    space = take_space(ins, mods)
    mods.type("b64")
    mods.done()
    ins.expect(2 if init else 1)
    if space == "cluster":
        raise ins.unsupported("an mbarrier of another CTA cannot be initialized")
    locate, sources = shared_place(ins, machine, ins.operands[0], space, 8, "mbarrier")
    if not init:

        def inval(lanes: Lanes) -> None:
            machine.demand(sources, lanes, "an mbarrier address")
            machine.mbarriers.inval(lanes, locate(lanes))

        return inval
    count = machine.read(ins, ins.operands[1], TYPES["u32"])
    sources = sources + machine.sources(ins.operands[1])

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an mbarrier operand")
        counts = np.broadcast_to(count(lanes), (lanes.count,)).astype(np.int64)
        machine.mbarriers.init(lanes, locate(lanes), counts)

    return step


def _amount(ins: Instruction, machine: Machine, operand: Operand, name: str) -> Any:
    read = machine.read(ins, operand, TYPES["u32"])

    def values(lanes: Lanes) -> Array:
        found = np.broadcast_to(read(lanes), (lanes.count,)).astype(np.int64)
        if int(found.max()) > MAX_COUNT:
            raise ins.error(
                "CD-B1" if name == "bytes" else "CD-B5",
                f"expected at most {MAX_COUNT} {name}, got {int(found.max())}",
            )
        return found

    return values


@instruction("mbarrier.arrive", "mbarrier.arrive_drop")
def _arrive(ins: Instruction, machine: Machine) -> Step:
    drop = ins.opcode.startswith("mbarrier.arrive_drop")
    mods = ins.modifiers("mbarrier.arrive_drop" if drop else "mbarrier.arrive")
    expects, incomplete = mods.has("expect_tx"), mods.has("noComplete")
    relaxed, space = _take_order(ins, mods)
    operands = list(ins.operands)
    target: Operand = Sink()
    if len(operands) > 1 and not _is_address(operands[0]):
        target = operands.pop(0)
    if not operands or len(operands) > 2 or (len(operands) == 1 and (expects or incomplete)):
        raise ins.malformed("expected a state or _, an address and a count")
    if space == "cluster" and not isinstance(target, Sink):
        raise ins.malformed("expected _ as the state of an arrival at another CTA's mbarrier")
    locate, sources = shared_place(ins, machine, operands[0], space, 8, "mbarrier")
    amount: Any = None
    if len(operands) == 2:
        amount = _amount(ins, machine, operands[1], "bytes" if expects else "arrivals")
        sources = sources + machine.sources(operands[1])
    write = machine.write(ins, target, TYPES["b64"])
    registers = machine.sources(target)

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an mbarrier operand")
        at = locate(lanes)
        slots = machine.mbarriers.find(lanes, at)
        ones = np.ones(lanes.count, np.int64)
        given = None if amount is None else amount(lanes)
        counts = ones if given is None or expects else given
        if int(counts.min()) < 1:
            raise ins.error("CD-B5", "expected an arrival count of at least 1, got 0")
        states = machine.mbarriers.arrive(
            lanes, slots, counts, given if expects else None,
            drop=drop, complete=not incomplete, relaxed=relaxed,
        )  # fmt: skip
        write(lanes, states)
        for register in registers:
            register.clear(lanes)

    return step


def _is_address(operand: Operand) -> bool:
    from ..module import Address

    return isinstance(operand, Address)


@instruction("mbarrier.expect_tx", "mbarrier.complete_tx")
def _transactions(ins: Instruction, machine: Machine) -> Step:
    expects = ins.opcode.startswith("mbarrier.expect_tx")
    mods = ins.modifiers("mbarrier.expect_tx" if expects else "mbarrier.complete_tx")
    _, space = _take_order(ins, mods)
    ins.expect(2)
    locate, sources = shared_place(ins, machine, ins.operands[0], space, 8, "mbarrier")
    amount = _amount(ins, machine, ins.operands[1], "bytes")
    sources = sources + machine.sources(ins.operands[1])

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an mbarrier operand")
        barriers = machine.mbarriers
        slots = barriers.find(lanes, locate(lanes))
        machine.progress = True
        (barriers.expect if expects else barriers.deliver)(slots, amount(lanes))

    return step


@instruction("mbarrier.test_wait", "mbarrier.try_wait")
def _wait(ins: Instruction, machine: Machine) -> Step:
    tries = ins.opcode.startswith("mbarrier.try_wait")
    mods = ins.modifiers("mbarrier.try_wait" if tries else "mbarrier.test_wait")
    by_parity = mods.has("parity")
    relaxed, space = _take_order(ins, mods)
    ins.expect(3, 4)
    if space == "cluster":
        raise ins.unsupported("a thread waits at mbarriers of its own CTA only")
    if len(ins.operands) == 4 and not tries:
        raise ins.malformed("test_wait takes no time limit")
    target, address, state = ins.operands[:3]
    locate, sources = shared_place(ins, machine, address, space, 8, "mbarrier")
    read = machine.read(ins, state, TYPES["u32" if by_parity else "b64"])
    sources = sources + machine.sources(state)
    write = machine.write(ins, target, TYPES["pred"])
    registers = machine.sources(target)
    total = machine.total

    def finish(lanes: Lanes, result: Any) -> None:
        write(lanes, np.broadcast_to(result, (lanes.count,)))
        for register in registers:
            register.clear(lanes)

    def step(lanes: Lanes) -> Any:
        machine.demand(sources, lanes, "an mbarrier operand")
        barriers = machine.mbarriers
        slots = barriers.find(lanes, locate(lanes))
        given = np.broadcast_to(read(lanes), (lanes.count,))
        if by_parity:
            if int(given.max()) > 1:
                raise ins.error("CD-B3", f"expected a phase parity of 0 or 1, got {given.max()}")
            over = barriers.passed(slots, given, None)
        else:
            over = barriers.passed(slots, None, given)
        there = lanes.where(over, total)
        if there is not None:
            barriers.learn(there, slots[over], relaxed)
        if there is lanes:
            finish(lanes, True)
            return None
        barriers.poll(lanes, slots, ins.pc)
        again = barriers.refuse(lanes, ins.pc) if tries else np.zeros(lanes.count, np.bool_)
        asleep = again & ~over
        machine.polled = True
        if not anywhere(asleep):
            finish(lanes, over)
            return None

        def sleep(scheduler: Any, arrived: Lanes, pc: int, stack: Any) -> None:
            sleeping = arrived.where(asleep, total)
            awake = arrived.where(~asleep, total)
            assert sleeping is not None
            barriers.sleep(sleeping, slots[asleep], pc, stack, finish, relaxed)
            if awake is not None:
                finish(awake, over[~asleep])
                scheduler.add(awake, pc + 1, stack)

        return sleep

    return step


@instruction("mbarrier.pending_count")
def _pending_count(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("mbarrier.pending_count")
    mods.type("b64")
    mods.done()
    ins.expect(2)
    mask = np.uint64((1 << PENDING_BITS) - 1)
    return machine.pure(
        ins,
        [(ins.operands[0], TYPES["u32"])],
        [(ins.operands[1], TYPES["b64"])],
        lambda state: (state & mask).astype(np.uint32),
    )
