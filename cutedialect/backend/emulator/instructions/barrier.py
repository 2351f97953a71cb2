"""bar / barrier.cta, memory fences and the instructions that only spend time (PTX ISA 9.7.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..barriers import Waiter
from ..lanes import Array, Lanes, everywhere
from ..module import Instruction
from ..types import TYPES
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step

_HEADS = ("bar", "barrier", "bar.cta", "barrier.cta")


def _head(ins: Instruction) -> str:
    parts = ins.opcode.split(".")
    return ".".join(parts[:2]) if len(parts) > 1 and parts[1] == "cta" else parts[0]


@instruction(*_HEADS)
def _bar(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers(_head(ins))
    action = mods.take("sync", "arrive", "red")
    mods.has("aligned")
    reduction = mods.take("popc", "and", "or") if action == "red" else None
    types = mods.types()
    mods.done()
    if action is None or (action != "red" and types) or (action == "red" and reduction is None):
        raise ins.unsupported("expected .sync, .arrive or .red")
    operands = list(ins.operands)
    target = operands.pop(0) if action == "red" else None
    vote_operand = operands.pop() if action == "red" else None
    if not 1 <= len(operands) <= 2:
        raise ins.malformed("expected a barrier number and at most a thread count")
    u32 = TYPES["u32"]
    ids = machine.read(ins, operands[0], u32)
    count = machine.read(ins, operands[1], u32) if len(operands) == 2 else None
    if action == "arrive" and count is None:
        raise ins.malformed("bar.arrive needs a thread count")
    sources = machine.sources(*operands)
    if vote_operand is not None:
        sources += machine.sources(vote_operand)
    vote = machine.read(ins, vote_operand, TYPES["pred"]) if vote_operand is not None else None
    result_type = u32 if reduction == "popc" else TYPES["pred"]
    write = machine.write(ins, target, result_type) if target is not None else None
    registers = machine.sources(target) if target is not None else []

    def finish(lanes: Lanes, true: int, every: int) -> None:
        assert write is not None
        value: Any = {"popc": true, "and": true == every, "or": true > 0}[reduction or "popc"]
        write(lanes, np.array([value], result_type.dtype))
        for register in registers:
            register.clear(lanes)

    def step(lanes: Lanes) -> Any:
        machine.demand(sources, lanes, "a barrier operand")
        expected = None
        if count is not None:
            counts = count(lanes)
            expected = int(counts[0])
            if not everywhere(counts == expected):
                raise ins.error("CD-G3", "threads give different thread counts to one barrier")
            if expected == 0 or expected % 32:
                raise ins.error(
                    "CD-G3", f"expected a positive multiple of 32 as thread count, got {expected}"
                )
        numbers = ids(lanes)
        if int(numbers.max()) > 15:
            raise ins.error("CD-G3", f"expected a barrier number in 0..15, got {numbers.max()}")
        if action == "sync" and machine.barriers.passes_at_once(lanes, numbers, expected):
            machine.progress = True
            if machine.ordering is not None:
                machine.ordering.meet_by_cta()
            return None
        ballots: Array = None
        if vote is not None:
            ballots = np.broadcast_to(vote(lanes), (lanes.count,))

        def arrive(scheduler: Any, arriving: Lanes, pc: int, stack: Any) -> None:
            def sleep(members: Array, positions: Array) -> Waiter:
                if ballots is None:
                    return Waiter(members, pc, stack)
                return Waiter(members, pc, stack, ballots[positions], finish)

            machine.barriers.arrive(
                scheduler, arriving, numbers, expected, None if action == "arrive" else sleep
            )
            if action == "arrive":
                scheduler.add(arriving, pc + 1, stack)

        return arrive

    return step


@instruction("membar", "fence")
def _fence(ins: Instruction, machine: Machine) -> Step:
    """All memory here is sequentially consistent, so plain fences order nothing further."""
    mods = ins.modifiers(ins.opcode.split(".")[0])
    mods.take("sc", "acq_rel", "acquire", "release")
    mods.take("cta", "gl", "sys", "gpu", "cluster")
    mods.done()
    return lambda lanes: None


@instruction("fence.proxy", "membar.proxy")
def _proxy_fence(ins: Instruction, machine: Machine) -> Step:
    """``fence.proxy.async`` makes the ordinary stores that a warp knows of visible to asynchronous
    operations. The other proxies have no memory of their own here."""
    mods = ins.modifiers(".".join(ins.opcode.split(".")[:2]))
    kind = mods.take("alias", "async", "async::generic", "tensormap::generic")
    mods.take("release", "acquire")
    mods.take("cta", "cluster", "gpu", "sys")
    space = mods.take(
        "global", "shared::cta", "shared::cluster", "sync_restrict::shared::cta",
        "sync_restrict::shared::cluster",
    )  # fmt: skip
    mods.take("cluster")
    mods.done()
    if kind is None:
        raise ins.unsupported("expected .alias, .async or .tensormap::generic")
    if kind != "async" or space == "global" or machine.ordering is None:
        return lambda lanes: None
    ordering = machine.ordering
    return lambda lanes: ordering.fence_proxy(lanes.warps)


@instruction("fence.mbarrier_init")
def _init_fence(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("fence.mbarrier_init")
    fine = mods.has("release") and mods.has("cluster")
    mods.done()
    if not fine:
        raise ins.unsupported("expected .release.cluster")
    ordering = machine.ordering
    if ordering is None:
        return lambda lanes: None
    return lambda lanes: ordering.fence_initialization(lanes.warps)


@instruction("nanosleep")
def _nanosleep(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("nanosleep")
    mods.type("u32")
    mods.done()

    def step(lanes: Lanes) -> None:
        machine.polled = True

    return step
