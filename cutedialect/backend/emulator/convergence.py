"""Instructions that a warp executes together: they run for the warps whose named threads have all
come to them, and put the others to sleep at the same place until the missing ones come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .lanes import Array, Lanes, anywhere, everywhere

if TYPE_CHECKING:
    from .machine import Machine, Step
    from .module import Instruction
    from .scheduler import Scheduler, Stack

ALL = 0xFFFFFFFF
WARPGROUP_WAIT = "for the other threads of the warpgroup"


def whole_warps(ins: Instruction, machine: Machine, run: Callable[[Lanes], Any]) -> Step:
    """For ``.aligned`` matrix instructions: all 32 threads of a warp. CD-G4 if some have exited.
    ``run`` returns what a step does, for a set of whole warps."""

    def gather(scheduler: Scheduler, lanes: Lanes, pc: int, stack: Stack) -> None:
        lanes = scheduler.join_blocked(lanes, pc, stack)
        present = machine.present_bits(lanes)
        alive = machine.alive_bits()
        broken = (present != 0) & (alive != ALL)
        if anywhere(broken):
            lane = int(lanes.index[np.argmax(broken[lanes.index >> 5])])
            raise ins.error(
                "CD-G4",
                f"{ins.opcode} needs all 32 threads of the warp, but some have exited or do not "
                f"exist ({machine.describe_lane(lane)})",
            )
        _divide(scheduler, machine, lanes, (present == ALL)[lanes.index >> 5], pc, stack, run,
                "for the other threads of the warp (.aligned)")  # fmt: skip

    def step(lanes: Lanes) -> Any:
        if lanes.whole:
            return run(lanes)
        return gather

    return step


def whole_warpgroups(ins: Instruction, machine: Machine, run: Callable[[Lanes], None]) -> Step:
    """For the wgmma instructions: all 128 threads of a warpgroup. CD-C5 if some have exited, CD-C6
    if the warp is in no warpgroup."""
    state = machine.wgmma

    def gather(scheduler: Scheduler, lanes: Lanes, pc: int, stack: Stack) -> None:
        lanes = scheduler.join_blocked(lanes, pc, stack)
        groups = state.of_warp[lanes.index >> 5]
        if anywhere(groups < 0):
            lane = int(lanes.index[np.argmax(groups < 0)])
            raise ins.error(
                "CD-C6",
                f"{ins.opcode} needs a warpgroup of four warps that starts at a multiple of four, "
                f"but the CTA has {machine.warps} warps ({machine.describe_lane(lane)})",
            )
        present = np.bincount(groups, minlength=len(state.first_lane))
        alive = machine.alive[state.lanes_of(np.flatnonzero(present)).index]
        if not everywhere(alive):
            lane = int(state.lanes_of(np.flatnonzero(present)).index[np.argmin(alive)])
            raise ins.error(
                "CD-C5",
                f"{ins.opcode} needs all 128 threads of the warpgroup, but some have exited or do "
                f"not exist ({machine.describe_lane(lane)})",
            )
        _divide(scheduler, machine, lanes, (present == 128)[groups], pc, stack, run,
                WARPGROUP_WAIT)  # fmt: skip

    def step(lanes: Lanes) -> Any:
        if state.of(lanes) is not None:
            return run(lanes)
        return gather

    return step


def named_lanes(
    ins: Instruction, machine: Machine, read_mask: Callable[[Lanes], Array],
    sources: list[Any], run: Callable[[Lanes], None],
) -> Step:  # fmt: skip
    """For ``.sync`` instructions with a member mask: every living thread of the mask."""

    def masks_of(lanes: Lanes) -> Array:
        machine.demand(sources, lanes, "a member mask")
        masks = np.broadcast_to(read_mask(lanes), (lanes.count,)).view(np.uint32)
        own = masks >> (lanes.index & 31).astype(np.uint32) & np.uint32(1)
        if not everywhere(own):
            lane = int(lanes.index[np.argmin(own)])
            raise ins.error(
                "CD-I8",
                f"{machine.describe_lane(lane)} executes {ins.opcode} with member mask "
                f"{int(masks[np.argmin(own)]):#010x}, which does not name its own lane",
            )
        return masks

    def gather(scheduler: Scheduler, lanes: Lanes, pc: int, stack: Stack) -> None:
        lanes = scheduler.join_blocked(lanes, pc, stack)
        warp = lanes.index >> 5
        needed = masks_of(lanes) & machine.alive_bits()[warp]
        ready = needed & ~machine.present_bits(lanes)[warp] == 0
        _divide(scheduler, machine, lanes, ready, pc, stack, run,
                "for other threads of the member mask")  # fmt: skip

    def step(lanes: Lanes) -> Any:
        if lanes.whole:
            masks_of(lanes)
            return run(lanes)
        needed = masks_of(lanes) & machine.alive_bits()[lanes.index >> 5]
        if everywhere(needed & ~machine.present_bits(lanes)[lanes.index >> 5] == 0):
            return run(lanes)
        return gather

    return step


def _divide(
    scheduler: Scheduler, machine: Machine, lanes: Lanes, ready: Array, pc: int,
    stack: Stack, run: Callable[[Lanes], Any], reason: str,
) -> None:  # fmt: skip
    going = lanes.where(ready, machine.total)
    waiting = lanes.where(~ready, machine.total)
    if waiting is not None:
        scheduler.block(waiting, pc, stack, reason)
    if going is not None:
        taken = run(going)
        if taken is None:
            scheduler.add(going, pc + 1, stack)
        else:
            taken(scheduler, going, pc, stack)
