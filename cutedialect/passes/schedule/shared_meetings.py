"""Meetings that do two things: where warps that have decided something together meet again behind
the first that one side of the branch does, they do that before, and decide when they meet. A step
of `cute-overlap-tiles`.

    y = any x; if y { ... } else { meet until stores have been read; write buffer; meet; store it }
    =>
    meet until stores have been read; write buffer; y = any x; if y { ... } else { store it }

What is written in vain on the other side nobody reads.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.cute import (
    AnyOp,
    BarrierOp,
    CopyOp,
    MapOp,
    MemRefType,
)
from cutedialect.dialects.cute_nvgpu import TmaStoreWaitOp
from cutedialect.dialects.effects import RMEM, Unit, effects_of, space_of, used_by


def share_meetings(around: Operation) -> None:
    """Let conditions inside of an op be decided where the warps that decide meet anyway."""
    for decision in [op for op in around.walk() if isinstance(op, AnyOp)]:
        branch = decision.next_op
        if (
            isinstance(branch, scf.IfOp)
            and [use.operation for use in decision.result.uses] == [branch]
            and branch.false_region.blocks
        ):
            _share(decision, branch)


def _share(decision: AnyOp, branch: scf.IfOp) -> None:
    early: list[Operation] = []
    op = branch.false_region.block.first_op
    while op is not None and not (isinstance(op, BarrierOp) and not _is_of_stores(op)):
        if not _may_be_in_vain(op):
            return
        early.append(op)
        op = op.next_op
    if op is None or op.warps != decision.warps:
        return
    written = {_buffer(each.destination) for each in early if isinstance(each, CopyOp)}
    touched = {
        _buffer(value)
        for value in used_by(*branch.true_region.block.ops)
        if isinstance(value.type, MemRefType) and value.type.space == "smem"
    }
    if not written or written & touched:
        return
    block = decision.parent
    assert block is not None
    for each in early:
        each.detach()
        block.insert_op_before(each, decision)
    op.detach()
    op.erase()


def _may_be_in_vain(op: Operation) -> bool:
    """Whether an op only computes, or writes registers to shared memory."""
    if isinstance(op, BarrierOp):
        return _is_of_stores(op)
    effects = effects_of(op)
    is_free = not effects.orders or effects.fences or effects.completes is not None
    return (
        is_free
        and (not op.regions or isinstance(op, MapOp))
        and effects.unit is Unit.THREADS
        and all(space_of(value) == RMEM for value in effects.reads)
        and all(space_of(value) == "smem" for value in effects.writes)
    )


def _is_of_stores(op: BarrierOp) -> bool:
    """Whether warps meet to know that stores have read their buffer."""
    before = op.prev_op
    return isinstance(before, TmaStoreWaitOp) and before.warps == op.warps


def _buffer(value: SSAValue) -> SSAValue:
    """What a view is a view of."""
    owner = value.owner
    while isinstance(owner, Operation) and owner.operands:
        if not isinstance(owner.operands[0].type, MemRefType):
            break
        value = owner.operands[0]
        owner = value.owner
    return value
