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

from cutedialect.dialects.cute import AllocSmemOp, CopyOp, KernelOp
from cutedialect.dialects.cute_nvgpu import ProxyFenceOp, TmaStoreCommitOp, TmaStoreWaitOp
from cutedialect.dialects.effects import Unit, effects_of
from cutedialect.dialects.pipeline import ConsumerReleaseOp, CreateOp
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.insertion import erase
from cutedialect.passes.roles.assign_warp_roles import Role
from cutedialect.passes.roles.crossing_tiles import role_of
from cutedialect.passes.roles.resource_plan import stages_of_results
from cutedialect.passes.synchronize.ring_ends import (
    RoleEnd,
    insert_ring,
    ring_of,
    role_among,
)


@dataclass
class _Step:
    """A write of a buffer, the store of what was written, and the ring between them."""

    writer: CopyOp
    store: CopyOp
    ring: _Ring | None = None


@dataclass
class _Ring:
    """A ring of buffers, and where the role that writes and the one that stores stand in it."""

    buffer: Operation
    filling: RoleEnd
    storing: RoleEnd
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
    erase(*steps)


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
    expected = "expected one role to write a result, and one to store it by TMA"
    writing = role_among(roles, [step.writer for step in steps], expected)
    storing = role_among(roles, [step.store for step in steps], expected)
    arriving = 1 if storing.elect else storing.warps
    create = insert_ring(kernel, CreateOp("threads", stages, writing.warps, arriving), alloc)
    buffer = ring_of(alloc, stages)
    kernel.body.block.insert_op_before(buffer, alloc)
    ends = RoleEnd.of(create, "producer", writing), RoleEnd.of(create, "consumer", storing)
    return _Ring(buffer, *ends, stages)


def _fill(step: _Step, ring: _Ring) -> None:
    """Write a stage when it is free, and say so: TMA reads what threads have written."""
    end = ring.filling
    index, stage = end.stage_of(ring.buffer)
    end.before(step.writer, *end.begins(), index, stage)
    step.writer.operands[1] = stage.result
    end.behind(step.writer, ProxyFenceOp(), *end.ends())


def _store(steps: Sequence[_Step]) -> None:
    """The stores of a block: each waits for its stage, and releases that of the one before."""
    waiting: RoleEnd | None = None
    for step in steps:
        ring = step.ring
        assert ring is not None
        end = ring.storing
        index, stage = end.stage_of(ring.buffer)
        end.before(step.store, *end.begins(), index, stage)
        step.store.operands[0] = stage.result
        behind: list[Operation] = [TmaStoreCommitOp()]
        if waiting is not None:
            # That stage is one back: its state has gone on.
            behind += [TmaStoreWaitOp(1, True), ConsumerReleaseOp(*waiting.operands, None, 1)]
        waiting = end
        if ring.stages == 1 or step is steps[-1]:
            behind += [TmaStoreWaitOp(0, True), ConsumerReleaseOp(*end.operands)]
            waiting = None
        end.behind(step.store, *behind, *end.goes_on())
