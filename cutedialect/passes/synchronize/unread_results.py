"""Which buffers of results TMA may still read where threads of a role write them again: found from
the order of stores, waits and meetings alone, whoever placed them.

    copy s, g {tma}; commit; copy y, s  =>  copy s, g {tma}; commit; wait for reads; meet; copy y, s

A buffer, or a stage of one, is free when the thread that issued its store has waited until TMA has
read it, and the warps that write it have met that thread since.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects.cute import AllocSmemOp, CopyOp, StageOp
from cutedialect.dialects.cute_nvgpu import TmaStoreType, TmaStoreWaitOp
from cutedialect.dialects.effects import ALL, effects_of
from cutedialect.passes.analysis.memory_views import constant_of


@dataclass(frozen=True)
class _Unread:
    """What TMA may still read: a stage of a buffer, or all of it (None), stored by one thread of so
    many warps, or of the role (None), which `is_waited` for it.
    """

    alloc: AllocSmemOp
    stage: int | None
    warps: int | None
    is_waited: bool = False


def unread_write(
    part: Block, buffers: Collection[AllocSmemOp]
) -> tuple[CopyOp, set[int | None]] | None:
    """The first write of a role to one of some `buffers` in shared memory that TMA may still read,
    and for how many warps one thread issues what reads it; None where all writes come behind reads.
    """
    order = _Order(buffers)
    order.follow(part, frozenset())
    return order.early


class _Order:
    """The order of stores and writes of a role."""

    def __init__(self, buffers: Collection[AllocSmemOp]) -> None:
        self.buffers = buffers
        self.early: tuple[CopyOp, set[int | None]] | None = None

    def follow(self, block: Block, state: frozenset[_Unread]) -> frozenset[_Unread]:
        for op in block.ops:
            state = self._control(op, state) if op.regions else self._op(op, state)
        return state

    def _control(self, op: Operation, state: frozenset[_Unread]) -> frozenset[_Unread]:
        if isinstance(op, scf.IfOp):
            sides = [
                self.follow(each.block, state) if each.blocks else state for each in op.regions
            ]
            return frozenset().union(*sides)
        if not isinstance(op, scf.ForOp | scf.WhileOp):
            return state
        while True:
            end = state
            for region in op.regions:
                end = self.follow(region.block, end)
            if end <= state:
                return state
            state |= end

    def _op(self, op: Operation, state: frozenset[_Unread]) -> frozenset[_Unread]:
        if isinstance(op, TmaStoreWaitOp) and op.pending.value.data == 0:
            warps = None if op.warps is None else op.warps.value.data
            return frozenset(
                replace(each, is_waited=True) if each.warps == warps else each for each in state
            )
        if isinstance(op, CopyOp):
            return self._copy(op, state)
        meets = effects_of(op).meets if state else 0
        if meets:
            return frozenset(
                each for each in state if not each.is_waited or meets not in (ALL, each.warps)
            )
        return state

    def _copy(self, op: CopyOp, state: frozenset[_Unread]) -> frozenset[_Unread]:
        if isinstance(op.atom, TmaStoreType):
            alloc, stage = _place(op.source)
            if alloc is None or alloc not in self.buffers:
                return state
            return state | {_Unread(alloc, stage, op.atom.warps)}
        alloc, stage = _place(op.destination)
        warps = {
            each.warps
            for each in state
            if each.alloc is alloc and (stage == each.stage or None in (stage, each.stage))
        }
        if warps and self.early is None:
            self.early = op, warps
        return state


def _place(value: SSAValue) -> tuple[AllocSmemOp | None, int | None]:
    """The buffer in shared memory that a tile is, and the stage of it where that is a constant."""
    owner, stage = value.owner, None
    if isinstance(owner, StageOp):
        stage = constant_of(owner.index)
        owner = owner.source.owner
    return owner if isinstance(owner, AllocSmemOp) else None, stage
