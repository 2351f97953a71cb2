"""The part of `cute-synchronize` for results that one role writes to shared memory and another one
stores by TMA: a ring for each buffer.

    copy y, s (correction); copy s, g {tma} (epilogue); copy z, s; copy s, h {tma}
    =>
    acquire; copy y, s[i]; fence; commit; advance; acquire; copy z, s[i]; ... (correction)
    wait; copy s[j], g; commit; wait; copy s[j], h; commit; bulk wait 1; release (epilogue)

A stage is free when TMA has read it, for which the thread that stores waits: where there are two
stages, one store later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import AllocSmemOp, CopyOp, KernelOp, StageOp
from cutedialect.dialects.cute_nvgpu import ProxyFenceOp, TmaStoreCommitOp, TmaStoreWaitOp
from cutedialect.dialects.effects import Unit, effects_of
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
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.roles.assign_warp_roles import Role
from cutedialect.passes.roles.crossing_tiles import role_of
from cutedialect.passes.roles.resource_plan import stages_of_results
from cutedialect.passes.synchronize.accumulator_rings import last_alloc, stand_like
from cutedialect.passes.synchronize.ring_buffers import ring_type


@dataclass
class _Step:
    """A write of a buffer, the store of what was written, and the ring between them."""

    writer: CopyOp
    store: CopyOp
    ring: _Ring | None = None


@dataclass
class _Ring:
    """A ring, and where the role that writes and the one that stores stand in it."""

    create: CreateOp
    buffer: AllocSmemOp
    filling: StateOp
    storing: StateOp
    stages: int


def insert_store_rings(kernel: KernelOp, roles: Sequence[Role]) -> None:
    """Give every buffer that one role fills and another one stores its ring."""
    stages = stages_of_results(kernel)
    steps: dict[AllocSmemOp, list[_Step]] = {}
    order: list[_Step] = []
    for store in ops_of(kernel.body.block, CopyOp):
        alloc = store.source.owner
        if effects_of(store).unit is not Unit.TMA_STORE or not isinstance(alloc, AllocSmemOp):
            continue
        writer = _writer_of(alloc, store)
        if role_of(writer) != role_of(store):
            order.append(_Step(writer, store))
            steps.setdefault(alloc, []).append(order[-1])
    for alloc, mine in steps.items():
        ring = _made(kernel, alloc, mine, roles, stages[alloc])
        for step in mine:
            step.ring = ring
            _fill(step, ring)
    blocks: dict[Block | None, list[_Step]] = {}
    for step in order:
        blocks.setdefault(step.store.parent, []).append(step)
    for together in blocks.values():
        _store(together)
    for alloc in steps:
        alloc.detach()
        alloc.erase()


def _writer_of(alloc: AllocSmemOp, store: CopyOp) -> CopyOp:
    """The copy that has filled a buffer in front of the store of it."""
    op = store.prev_op
    while op is not None:
        if isinstance(op, CopyOp) and op.destination is alloc.result:
            return op
        op = op.prev_op
    raise PassFailedException(store, "expected a write of the buffer that TMA stores")


def _made(
    kernel: KernelOp, alloc: AllocSmemOp, steps: Sequence[_Step], roles: Sequence[Role], stages: int
) -> _Ring:
    """The ring of a buffer."""
    names = [{role_of(s.writer) for s in steps}, {role_of(s.store) for s in steps}]
    found = [[role for role in roles if role.name in each] for each in names]
    if any(len(each) != 1 for each in (*names, *found)):
        raise PassFailedException(
            alloc, "expected one role to write a result, and one to store it by TMA"
        )
    ((writing,), (storing,)) = found
    top = kernel.body.block
    create = CreateOp("threads", stages, writing.warps, 1 if storing.elect else storing.warps)
    buffer = AllocSmemOp(ring_type(alloc.result.type, stages))
    buffer.result.name_hint = alloc.result.name_hint
    create.location = buffer.location = alloc.location
    top.insert_op_after(create, last_alloc(kernel))
    top.insert_op_before(buffer, alloc)
    filling, reading = StateOp("producer", create.ring), StateOp("consumer", create.ring)
    for state, role in ((filling, writing), (reading, storing)):
        stand_like(state, alloc, role.name)
        top.insert_op_after(state, create)
    return _Ring(create, buffer, filling, reading, stages)


def _fill(step: _Step, ring: _Ring) -> None:
    """Write a stage when it is free, and say so: TMA reads what threads have written."""
    state, create = ring.filling.state, ring.create.ring
    index = IndexOp(state)
    stage = StageOp(ring.buffer.result, index.index)
    _put_before(step.writer, ProducerAcquireOp(create, state), index, stage)
    step.writer.operands[1] = stage.result
    _put_behind(step.writer, ProxyFenceOp(), ProducerCommitOp(create, state), AdvanceOp(state))


def _store(steps: Sequence[_Step]) -> None:
    """The stores of a block: each waits for its stage, and releases that of the one before."""
    waiting: _Ring | None = None
    for step in steps:
        ring = step.ring
        assert ring is not None
        state, create = ring.storing.state, ring.create.ring
        index = IndexOp(state)
        stage = StageOp(ring.buffer.result, index.index)
        _put_before(step.store, ConsumerWaitOp(create, state), index, stage)
        step.store.operands[0] = stage.result
        behind: list[Operation] = [TmaStoreCommitOp()]
        if waiting is not None:
            # That stage is one back: its state has gone on.
            behind += [
                TmaStoreWaitOp(1, True),
                ConsumerReleaseOp(waiting.create.ring, waiting.storing.state, None, 1),
            ]
        waiting = ring
        if ring.stages == 1 or step is steps[-1]:
            behind += [TmaStoreWaitOp(0, True), ConsumerReleaseOp(create, state)]
            waiting = None
        _put_behind(step.store, *behind, AdvanceOp(state))


def _put_before(place: Operation, *ops: Operation) -> None:
    """Insert ops of the role of another one in front of it."""
    block, role = place.parent, role_of(place)
    assert block is not None
    assert role is not None
    for op in ops:
        stand_like(op, place, role)
        block.insert_op_before(op, place)


def _put_behind(place: Operation, *ops: Operation) -> None:
    """Insert ops of the role of another one behind it."""
    block, role = place.parent, role_of(place)
    assert block is not None
    assert role is not None
    after = place
    for op in ops:
        stand_like(op, place, role)
        block.insert_op_after(op, after)
        after = op
