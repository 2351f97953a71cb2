"""The part of `cute-synchronize` for buffers in tensor memory that two roles update in turn, one by
multiplies and the other by threads: a ring of one stage hands the buffer over and takes it back.

    copy z, t (correction); for j { copy t, x; copy f(x), t (correction); gemm a, b, t (mma) }
    copy t, y (correction)
    =>
    copy z, t; for j { acquire; copy t, x; copy f(x), t; commit; advance }
    acquire; copy t, y
    for j { wait; gemm a, b, t; release by a commit; advance }

Who waits for the stage to be empty without filling it has the buffer as the last multiply has left
it. Each trip hands the buffer over once, whether a branch has changed it or not.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import AllocTmemOp, GemmOp, KernelOp, SubviewOp
from cutedialect.dialects.pipeline import (
    AdvanceOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    StateOp,
)
from cutedialect.passes.roles.assign_warp_roles import Role
from cutedialect.passes.roles.crossing_tiles import role_of
from cutedialect.passes.roles.role_plan import is_corrected
from cutedialect.passes.synchronize.accumulator_rings import last_alloc, stand_like


def insert_in_place_rings(kernel: KernelOp, roles: Sequence[Role]) -> None:
    """Give every buffer that two roles update in turn its ring."""
    for alloc in [op for op in kernel.body.block.ops if isinstance(op, AllocTmemOp)]:
        if is_corrected(alloc):
            _insert_ring(kernel, alloc, roles)


def _insert_ring(kernel: KernelOp, alloc: AllocTmemOp, roles: Sequence[Role]) -> None:
    users = _users(alloc)
    gemms = [op for op in users if isinstance(op, GemmOp)]
    others = [op for op in users if not isinstance(op, GemmOp)]
    block = gemms[0].parent
    assert block is not None
    gemms.sort(key=block.get_operation_index)
    loop = block.parent_op()
    threads = _one_role(alloc, others, roles)
    multiplying = _one_role(alloc, gemms, roles)
    if not isinstance(loop, scf.ForOp) or threads.instances > 1:
        raise PassFailedException(
            alloc, "expected one role to correct an accumulator in each trip of a loop"
        )
    create = CreateOp("tmem", 1, threads.warps, 1)
    create.location = alloc.location
    kernel.body.block.insert_op_after(create, last_alloc(kernel))
    filling, reading = StateOp("producer", create.ring), StateOp("consumer", create.ring)
    for state, role in ((filling, threads.name), (reading, multiplying.name)):
        stand_like(state, alloc, role)
        kernel.body.block.insert_op_after(state, create)
    # Where threads touch the buffer: in each block around it the first of the ops in a row.
    before, trip, behind = _phases(loop, others)
    # Who has read it behind the loop has waited for the last multiply.
    outside = behind or before
    if outside:
        _put(outside[0], threads.name, ProducerAcquireOp(create.ring, filling.state))
    start = trip[0] if trip else gemms[0]
    _put(start, threads.name, ProducerAcquireOp(create.ring, filling.state))
    _put(
        gemms[0],
        threads.name,
        ProducerCommitOp(create.ring, filling.state),
        AdvanceOp(filling.state),
        like=trip[-1] if trip else None,
    )
    _put(gemms[0], multiplying.name, ConsumerWaitOp(create.ring, reading.state))
    after = gemms[-1]
    for op in (
        ConsumerReleaseOp(create.ring, reading.state, commits=True),
        AdvanceOp(reading.state),
    ):
        stand_like(op, gemms[-1], multiplying.name)
        block.insert_op_after(op, after)
        after = op


def _users(alloc: AllocTmemOp) -> list[Operation]:
    """The ops that read or write a buffer or a part of it."""
    found: list[Operation] = []
    pending = [use.operation for use in alloc.result.uses]
    while pending:
        op = pending.pop()
        if isinstance(op, SubviewOp):
            pending += [use.operation for use in op.result.uses]
        else:
            found.append(op)
    return found


def _one_role(alloc: AllocTmemOp, ops: Sequence[Operation], roles: Sequence[Role]) -> Role:
    names = {role_of(op) for op in ops}
    found = [role for role in roles if role.name in names]
    if len(names) != 1 or len(found) != 1:
        raise PassFailedException(
            alloc,
            "expected one role to correct an accumulator, and one to multiply into it, got "
            f"{', '.join(sorted(map(str, names)))}",
        )
    return found[0]


def _phases(
    loop: scf.ForOp, ops: Sequence[Operation]
) -> tuple[list[Operation], list[Operation], list[Operation]]:
    """Where threads touch the buffer in front of the loop, in its trips and behind it: the ops of
    the block that do so or hold what does, in order.
    """
    outer, inner = loop.parent, loop.body.block
    assert outer is not None
    before: set[Operation] = set()
    trip: set[Operation] = set()
    behind: set[Operation] = set()
    at = outer.get_operation_index
    for op in ops:
        place = outer.find_ancestor_op_in_block(op)
        if place is loop:
            within = inner.find_ancestor_op_in_block(op)
            assert within is not None
            trip.add(within)
        elif place is None:
            raise PassFailedException(op, "expected uses of an accumulator around one loop")
        else:
            (before if at(place) < at(loop) else behind).add(place)
    return _sorted(outer, before), _sorted(inner, trip), _sorted(outer, behind)


def _sorted(block: Block, ops: set[Operation]) -> list[Operation]:
    return sorted(ops, key=block.get_operation_index)


def _put(before: Operation, role: str, *ops: Operation, like: Operation | None = None) -> None:
    """Insert ops of a role in front of one, in the place of their trip that another one has."""
    block = before.parent
    assert block is not None
    for op in ops:
        stand_like(op, like or before, role)
        op.location = before.location
        block.insert_op_before(op, before)
