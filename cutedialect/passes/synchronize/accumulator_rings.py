"""The part of `cute-synchronize` for tensor memory: an accumulator that one role multiplies into
and another one reads becomes a ring.

    for k { gemm a, b, t (mma) }; copy t, y (main)
    =>
    acquire; for k { gemm a, b, t[i] }; commit; advance (mma)
    wait; copy t[j], y; release; advance (main)

A stage is full when a commit behind its multiplies has signaled, and empty when all warps that read
it have arrived. Where tensor memory holds two stages and work items follow each other, the next one
is multiplied while the last is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import (
    AllocSmemOp,
    AllocTmemOp,
    GemmOp,
    KernelOp,
    StageOp,
    SubviewOp,
)
from cutedialect.dialects.pipeline import (
    AdvanceOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateOp,
    IndexOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    StateOp,
)
from cutedialect.passes.roles.assign_warp_roles import Role, is_of_pair
from cutedialect.passes.roles.crossing_tiles import role_of
from cutedialect.passes.roles.role_plan import is_corrected
from cutedialect.passes.schedule.trips import order_of, set_place, stage_of
from cutedialect.passes.synchronize.ring_buffers import ring_type
from cutedialect.passes.synchronize.ring_edges import depth

# Where a multiply has its accumulator among its operands.
_ACCUMULATOR = 2


def insert_accumulator_rings(kernel: KernelOp, roles: Sequence[Role], stages: int) -> None:
    """Give every buffer in tensor memory that is multiplied into its ring, of so many stages in
    loops, but for those that have one.
    """
    for alloc in [op for op in kernel.body.block.ops if isinstance(op, AllocTmemOp)]:
        uses = [(use.operation, use.index) for use in alloc.result.uses]
        is_filled = any(isinstance(op, GemmOp) and index == _ACCUMULATOR for op, index in uses)
        if is_filled and not is_corrected(alloc):
            _insert_ring(kernel, alloc, roles, stages)


def last_alloc(kernel: KernelOp) -> Operation:
    """The last buffer of a kernel, behind which rings are made."""
    allocs = AllocSmemOp | AllocTmemOp
    return [op for op in kernel.body.block.ops if isinstance(op, allocs)][-1]


def _insert_ring(kernel: KernelOp, alloc: AllocTmemOp, roles: Sequence[Role], most: int) -> None:
    multiplies, readers = _users(alloc)
    if not multiplies or not readers:
        raise PassFailedException(
            alloc, "expected multiplies into tensor memory and copies out of it, got none"
        )
    block = _common_block(kernel, [*multiplies, *readers])
    writing = _places(block, multiplies)
    reading = _places(block, readers)
    stages = most if depth(block) else 1
    writer, reader = (
        next(role for role in roles if role.name == _role_of(users[0]))
        for users in (multiplies, readers)
    )
    teams = reader.instances if depth(block) else 1
    pairs = any(is_of_pair(op) for op in multiplies)
    arriving = reader.warps // teams * (2 if pairs else 1)
    create = CreateOp("tcgen05", stages, 1, arriving, pair=pairs)
    create.location = alloc.location
    ring = AllocTmemOp(ring_type(alloc.result.type, stages))
    ring.location = alloc.location
    ring.result.name_hint = alloc.result.name_hint
    top = kernel.body.block
    top.insert_op_before(ring, alloc)
    producer, consumer = StateOp("producer", create.ring), StateOp("consumer", create.ring)
    top.insert_op_after(create, last_alloc(kernel))
    for state, role in ((producer, writer.name), (consumer, reader.name)):
        stand_like(state, alloc, role)
        top.insert_op_after(state, create)
    for role, state, places, users, begin, end in (
        (writer.name, producer, writing, multiplies, ProducerAcquireOp(create.ring, producer.state),
         ProducerCommitOp(create.ring, producer.state)),
        (reader.name, consumer, reading, readers, ConsumerWaitOp(create.ring, consumer.state),
         ConsumerReleaseOp(create.ring, consumer.state)),
    ):  # fmt: skip
        index = IndexOp(state.state)
        stage = StageOp(ring.result, index.index)
        for op in (begin, index, stage):
            stand_like(op, places[0], role)
            block.insert_op_before(op, places[0])
        after = places[-1]
        for op in (end, AdvanceOp(state.state)):
            stand_like(op, after, role)
            block.insert_op_after(op, after)
            after = op
        for user in users:
            for number, operand in enumerate(user.operands):
                if operand is alloc.result:
                    user.operands[number] = stage.result
    alloc.detach()
    alloc.erase()


def _users(alloc: AllocTmemOp) -> tuple[list[Operation], list[Operation]]:
    """The multiplies into a buffer, and the ops that read it or show a part of it."""
    multiplies: list[Operation] = []
    readers: list[Operation] = []
    for use in alloc.result.uses:
        op = use.operation
        (multiplies if isinstance(op, GemmOp) else readers).append(op)
    return multiplies, readers


def _role_of(op: Operation) -> str | None:
    """The role of an op, or of who uses what it shows of a buffer."""
    users = (use.operation for result in op.results for use in result.uses)
    return role_of(op) or next((role_of(user) for user in users), None)


def stand_like(op: Operation, like: Operation, role: str) -> None:
    """Give an op a role, and the location and the place in its trip of another one."""
    op.location = like.location
    op.attributes["role"] = StringAttr(role)
    if order_of(like) is not None:
        set_place(op, stage_of(like), order_of(like) or 0)


def _common_block(kernel: KernelOp, ops: Sequence[Operation]) -> Block:
    """The innermost block in which all ops stand, or ops that hold them."""
    block = ops[0].parent
    while block is not None:
        if all(block.find_ancestor_op_in_block(op) is not None for op in ops):
            return block
        around = block.parent_op()
        block = None if around is None or around is kernel else around.parent
    raise PassFailedException(ops[0], "expected uses of tensor memory in one kernel")


def _places(block: Block, ops: Sequence[Operation]) -> list[Operation]:
    """The ops of a block that are `ops` or hold them, or read what a view of theirs shows."""
    found: set[Operation] = set()
    pending = list(ops)
    while pending:
        op = pending.pop()
        place = block.find_ancestor_op_in_block(op)
        assert place is not None
        if isinstance(op, SubviewOp):
            pending += [use.operation for use in op.result.uses]
        found.add(place)
    return sorted(found, key=block.get_operation_index)
