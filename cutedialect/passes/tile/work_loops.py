"""Loops over work items: the items from a first one on, so many apart, or the next one that no
other CTA has claimed.

    for item = first to total step n { body }
    while item < total { next = claim; body; item = next }

Where one thread loads for the CTA, it claims as well, before it loads, and behind that tells the
other roles through a ring of two slots: the next item is known before the one at work is done.
Where several threads load, each for a ring, the first of them claims when it has loaded what an
item begins with, and tells the other loading threads too.
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UnitAttr, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import (
    AllocSmemOp,
    ClaimOp,
    KernelOp,
    LaunchOp,
    MemRefType,
    TileIndexOp,
    WorkspaceOp,
)
from cutedialect.dialects.pipeline import (
    AdvanceOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateOp,
    IndexOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ReceiveOp,
    RoleOp,
    SendOp,
    StateOp,
)
from cutedialect.layout import Layout
from cutedialect.passes.scalar_ops import ScalarBuilder
from cutedialect.passes.tile.launch_arguments import add_argument

_ALIGNMENT = 16
# Where one thread loads everything, it is a part of an item ahead of the others.
_SLOTS = 2
# Where it loads what an item begins with, the next one's is there while all others are at work on
# this one: it claims when they have begun, not earlier, so that the last items come to who is free.
_SLOTS_AHEAD = 1
_COUNTER = MemRefType.get(i32, "gmem", _ALIGNMENT, Layout((1,), (1,)))


WORK = "work_items"
"""The attribute of a loop whose trips are work items of a CTA."""


def is_work_loop(op: Operation) -> bool:
    """Whether the trips of a loop are work items, which share no tile that they store."""
    return WORK in op.attributes


def work_loop(
    index: TileIndexOp, build: ScalarBuilder, first: SSAValue, total: SSAValue, step: SSAValue
) -> tuple[ScalarBuilder, SSAValue]:
    """Move everything from `index` on into a loop; returns the item's number."""
    body = Block(arg_types=[i32])
    loop = build.insert(scf.ForOp(first, total, step, [], body))
    loop.attributes[WORK] = UnitAttr()
    _move(index, body)
    _end(body, scf.YieldOp(), index)
    return ScalarBuilder(InsertPoint.before(index), index), body.args[0]


def claim_loop(
    kernel: KernelOp, index: TileIndexOp, first: SSAValue, total: SSAValue
) -> tuple[ScalarBuilder, SSAValue]:
    """Move everything from `index` on into a loop that runs while there are items, beginning with
    `first`; returns the item's number.
    """
    if kernel.schedule is not None and kernel.schedule.data.cluster not in (None, (1, 1)):
        raise PassFailedException(
            index,
            f"expected cluster = (1,1) with the scheduler dynamic, got "
            f"{kernel.schedule.data.cluster}; take persistent",
        )
    counter = add_argument(kernel, _COUNTER, "claims", _zeroed_counter)
    before, body = Block(arg_types=[i32]), Block(arg_types=[i32])
    loop = scf.WhileOp([first], [i32], Region(before), Region(body))
    loop.attributes[WORK] = UnitAttr()
    ScalarBuilder(InsertPoint.before(index), index).insert(loop)
    runs = arith.CmpiOp(before.args[0], total, "slt")
    runs.location = index.location
    before.add_op(runs)
    _end(before, scf.ConditionOp(runs.result, before.args[0]), index)
    _move(index, body)
    claim = ClaimOp(counter, total)
    ScalarBuilder(InsertPoint.before(index), index).insert(claim)
    _end(body, scf.YieldOp(claim.result), index)
    return ScalarBuilder(InsertPoint.before(index), index), body.args[0]


def share_claims(kernel: KernelOp) -> None:
    """Let the first role whose one thread loads claim for the others; a step of `cute-synchronize`,
    on roles that each have the loop.
    """
    roles = [op for op in kernel.body.block.ops if isinstance(op, RoleOp)]
    claims = [(role, op) for role in roles for op in role.walk() if isinstance(op, ClaimOp)]
    if not claims:
        return
    loading = [each for each in claims if each[0].elect is not None]
    if not loading or any(role.teams > 1 for role in roles):
        raise PassFailedException(
            claims[0][1],
            "expected the scheduler dynamic for roles of which one thread loads every tile and one "
            "team computes, got others; take persistent",
        )
    teller, claim = loading[0]
    told = [each for each in claims if each[1] is not claim]
    alone = len(loading) == 1
    slots = _SLOTS if alone else _SLOTS_AHEAD
    type_ = MemRefType.get(i32, "smem", 8, Layout((slots,), (1,)))
    ring = CreateOp("threads", slots, 1, sum(len(role.warp_range) for role, _ in told))
    memory = AllocSmemOp(type_)
    memory.result.name_hint = "claimed"
    first = kernel.body.block.first_op
    assert first is not None
    for op in (memory, ring):
        op.location = kernel.location
    kernel.body.block.insert_op_before(memory, first)
    kernel.body.block.insert_op_before(ring, roles[0])
    state = _state(teller, "producer", ring)
    index = IndexOp(state.state)
    _insert(
        _last(claim),
        ProducerAcquireOp(ring.ring, state.state),
        index,
        SendOp(claim.result, memory.result, index.index),
        ProducerCommitOp(ring.ring, state.state),
        AdvanceOp(state.state),
    )
    if not alone:
        claim.detach()
        _insert(index, claim)
    for role, other in told:
        state = _state(role, "consumer", ring)
        index = IndexOp(state.state)
        receive = ReceiveOp(memory.result, index.index)
        _insert(
            _last(other),
            ConsumerWaitOp(ring.ring, state=state.state),
            index,
            receive,
            ConsumerReleaseOp(ring.ring, state.state),
            AdvanceOp(state.state),
        )
        other.result.replace_all_uses_with(receive.result)
        other.detach()
        other.erase()


def _last(op: Operation) -> Operation:
    """The end of an op's block."""
    last = None if op.parent is None else op.parent.last_op
    assert last is not None
    return last


def _state(role: RoleOp, side: str, ring: CreateOp) -> StateOp:
    state = StateOp(side, ring.ring)
    first = role.body.block.first_op
    assert first is not None
    _insert(first, state)
    return state


def _insert(before: Operation, *ops: Operation) -> None:
    block = before.parent
    assert block is not None
    for op in ops:
        op.location = before.location
        block.insert_op_before(op, before)


def _move(index: TileIndexOp, body: Block) -> None:
    """Everything from `index` on but the buffers, to the end of a block."""
    moved: list[Operation] = []
    op: Operation | None = index
    while op is not None:
        if not isinstance(op, AllocSmemOp):
            moved.append(op)
        op = op.next_op
    for op in moved:
        op.detach()
        body.add_op(op)


def _end(block: Block, ending: Operation, like: Operation) -> None:
    ending.location = like.location
    block.add_op(ending)


def _zeroed_counter(launch: LaunchOp) -> WorkspaceOp:
    del launch
    return WorkspaceOp([], _COUNTER, True)
