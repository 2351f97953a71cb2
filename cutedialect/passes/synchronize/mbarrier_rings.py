"""The part of `cute-synchronize` for kernels with roles: a buffer that crosses roles becomes a ring
with mbarriers, and asynchronous readers and writers of one role get what completes them.

    copy g, s (load); use s (main)
    =>
    acquire; copy g, s[i] signal full[i]; commit; advance (load)
    wait; use s[j]; release; advance (main)

Buffers that one op reads together share a ring. A ring lives where its buffer is written: its
stage and phase go on across the loops around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import (
    AllocSmemOp,
    BarrierOp,
    CopyOp,
    GemmOp,
    KernelOp,
    MemRefType,
    StageOp,
)
from cutedialect.dialects.cute_nvgpu import (
    ProxyFenceOp,
    SimtAsyncCopyType,
    Sm90MmaType,
    Sm100MmaType,
    TmaLoadType,
    TmaStoreCommitOp,
    TmaStoreType,
    TmaStoreWaitOp,
    WgmmaFenceOp,
    WgmmaWaitOp,
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
from cutedialect.dialects.pipeline import BarrierOp as FullBarrierOp
from cutedialect.passes.bind.multiply_pairs import half_type, is_paired
from cutedialect.passes.remarks import remark
from cutedialect.passes.roles.assign_warp_roles import MAIN, Role, is_of_pair
from cutedialect.passes.roles.resource_plan import buffer_bytes, room
from cutedialect.passes.synchronize.accumulator_rings import insert_accumulator_rings
from cutedialect.passes.synchronize.multiply_groups import (
    MultiplyGroups,
    group_multiplies,
    is_warpgroup_multiply,
)
from cutedialect.passes.synchronize.ring_buffers import ring_type
from cutedialect.passes.synchronize.ring_edges import Edge, depth, edges_of


def insert_rings(kernel: KernelOp, roles: Sequence[Role], stages: int) -> None:
    """Give every edge between or within roles its barriers."""
    edges = edges_of(kernel)
    deepest = max((depth(edge.block) for edge in edges), default=0)
    given = {edge.block: stages if depth(edge.block) == deepest else 1 for edge in edges}
    groups = group_multiplies(kernel, given)
    _complete_stores(kernel)
    waiting = [edge for edge in edges if 0 < depth(edge.block) < deepest]
    more = sum(buffer_bytes(alloc) for edge in waiting for alloc in edge.buffers)
    left = room(kernel, [(a, given[e.block]) for e in edges for a in e.buffers])
    if left >= more:
        given |= {edge.block: 2 for edge in waiting}
    elif waiting:
        remark(
            "cute-synchronize",
            waiting[0].writers[0],
            "one stage for what stays while a loop runs, so that the next tile's waits: a second "
            f"one takes {more} bytes of shared memory, got {max(left, 0)}",
        )
    insert_accumulator_rings(kernel, roles)
    for edge in edges:
        _insert_ring(kernel, edge, roles, given[edge.block], groups)


def _place(op: Operation, like: Operation, role: str) -> Operation:
    op.location = like.location
    op.attributes["role"] = StringAttr(role)
    return op


def _before(op: Operation, new: Sequence[Operation], role: str) -> None:
    block = op.parent
    assert block is not None
    for each in new:
        block.insert_op_before(_place(each, op, role), op)


def _after(op: Operation, new: Sequence[Operation], role: str) -> None:
    block = op.parent
    assert block is not None
    last = op
    for each in new:
        block.insert_op_after(_place(each, op, role), last)
        last = each


# Within one role


def _complete_stores(kernel: KernelOp) -> None:
    """Shared memory that threads write and TMA stores: fences, and waits before it is reused.

    Buffers that are filled one after the other and then stored take one step. Buffers of an even
    number of steps have two stages that take turns: before the threads meet for a step, the storing
    one waits until the step before has been read. Where `cute-overlap` hides what precedes the
    first step, two steps become one that fills both stages, behind one wait. Elsewhere the sooner
    the first of them leaves the better.
    """
    assert kernel.schedule is not None
    at_once = kernel.schedule.data.overlaps_multiplies
    blocks = [_store_steps(block) for block in _blocks_of(kernel)]
    buffers: dict[AllocSmemOp, list[_StoreStep]] = {}
    for step in [step for steps in blocks for step in steps]:
        for writer in step.writers:
            assert isinstance(writer.destination.owner, AllocSmemOp)
            buffers.setdefault(writer.destination.owner, []).append(step)
    take_turns = {alloc for alloc, used in buffers.items() if len(used) % 2 == 0}
    for alloc in take_turns:
        copies = [
            (writer, store)
            for step in buffers[alloc]
            for writer, store in zip(step.writers, step.stores, strict=True)
            if writer.destination is alloc.result
        ]
        _take_turns(kernel, alloc, copies)
    for steps in blocks:
        asked: set[int | None] = set()
        stored: set[AllocSmemOp] = set()
        for step in _joined(steps, take_turns) if at_once else steps:
            first, last, store = step.writers[0], step.writers[-1], step.stores[-1]
            warps = step.warps
            read = TmaStoreWaitOp(0, True, warps)
            if not at_once and step.buffers <= take_turns:
                _after(last, [ProxyFenceOp(), read, BarrierOp(warps)], MAIN)
            else:
                if not at_once or warps not in asked or step.buffers & stored:
                    _before(first, [read, BarrierOp(warps)], MAIN)
                    asked.add(warps)
                _after(last, [ProxyFenceOp(), BarrierOp(warps)], MAIN)
            _after(store, [TmaStoreCommitOp(warps)], MAIN)
            stored |= step.buffers
    last_op = kernel.body.block.last_op
    assert last_op is not None
    for warps in dict.fromkeys(step.warps for steps in blocks for step in steps):
        _after(last_op, [TmaStoreWaitOp(0, True, warps)], MAIN)


def _joined(steps: Sequence[_StoreStep], staged: set[AllocSmemOp]) -> list[_StoreStep]:
    """The steps of a block, of which two that fill the stages of the same buffers after each other
    become one: all writes, then all stores.
    """
    found: list[_StoreStep] = []
    for step in steps:
        last = found[-1] if found else None
        if (
            last is None
            or last.buffers != step.buffers
            or not step.buffers <= staged
            or len(last.writers) > len(last.buffers)
        ):
            found.append(step)
            continue
        for store in last.stores:
            store.detach()
            block = step.stores[0].parent
            assert block is not None
            block.insert_op_before(store, step.stores[0])
        found[-1] = _StoreStep(last.writers + step.writers, last.stores + step.stores, step.buffers)
    return found


@dataclass
class _StoreStep:
    """Buffers that threads write, and the TMA stores of each, in the same order."""

    writers: list[CopyOp]
    stores: list[CopyOp]
    buffers: set[AllocSmemOp]

    @property
    def warps(self) -> int | None:
        atom = self.stores[0].atom
        assert isinstance(atom, TmaStoreType)
        return atom.warps


def _store_steps(block: Block) -> list[_StoreStep]:
    """The steps of a block: writes of buffers up to the first store, and the stores up to the next
    write.
    """
    stored = {
        op.source
        for op in block.ops
        if isinstance(op, CopyOp) and isinstance(op.atom, TmaStoreType)
    }
    steps: list[_StoreStep] = []
    for op in block.ops:
        if not isinstance(op, CopyOp):
            continue
        if op.destination in stored:
            alloc = op.destination.owner
            assert isinstance(alloc, AllocSmemOp)
            if not steps or steps[-1].stores:
                steps.append(_StoreStep([], [], set()))
            steps[-1].writers.append(op)
            steps[-1].buffers.add(alloc)
        elif isinstance(op.atom, TmaStoreType):
            if not steps:
                raise PassFailedException(op, "expected a write of the buffer that TMA stores")
            steps[-1].stores.append(op)
    for step in steps:
        written = [writer.destination for writer in step.writers]
        if written != [store.source for store in step.stores] or len(step.buffers) != len(written):
            raise PassFailedException(
                step.writers[0], "expected one TMA store after each write of its buffer"
            )
    return steps


def _blocks_of(kernel: KernelOp) -> list[Block]:
    """The blocks in which tiles are stored by TMA."""
    found = [
        op.parent
        for op in kernel.body.block.walk()
        if isinstance(op, CopyOp) and isinstance(op.atom, TmaStoreType)
    ]
    return list(dict.fromkeys(block for block in found if block is not None))


def _take_turns(
    kernel: KernelOp, alloc: AllocSmemOp, copies: Sequence[tuple[CopyOp, CopyOp]]
) -> None:
    """Let the steps use two stages of a buffer, one after the other."""
    ring = AllocSmemOp(ring_type(alloc.result.type, 2))
    ring.location = alloc.location
    ring.result.name_hint = alloc.result.name_hint
    kernel.body.block.insert_op_before(ring, alloc)
    for turn, (writer, store) in enumerate(copies):
        index = arith.ConstantOp(IntegerAttr(turn % 2, i32))
        stage = StageOp(ring.result, index.result)
        _before(writer, [index, stage], MAIN)
        writer.operands[1] = stage.result
        store.operands[0] = stage.result
    alloc.detach()
    alloc.erase()


# Between roles


def _insert_ring(
    kernel: KernelOp, edge: Edge, roles: Sequence[Role], stages: int, groups: MultiplyGroups
) -> None:
    reader = next(role for role in roles if role.name == edge.consumer)
    peers = tuple(
        dict.fromkeys(
            writer.atom.multicast
            for writer in edge.writers
            if isinstance(writer.atom, TmaLoadType) and writer.atom.multicast is not None
        )
    )
    # A CTA counts once, though it is in every group.
    released = 1 + sum(extent - 1 for extent, _ in peers)
    loader = next(role for role in roles if role.name == edge.producer)
    filled = _filled(edge, loader.warps)
    pairs = any(is_of_pair(op) for reader in edge.readers for op in reader.walk())
    total = sum(
        buffer_bytes(alloc)
        for alloc, writer in zip(edge.buffers, edge.writers, strict=True)
        if isinstance(writer.atom, TmaLoadType)
    ) * (2 if pairs else 1)
    # Of instances that take turns with work items, one reads a stage.
    teams = reader.instances if depth(edge.block) else 1
    create = CreateOp(
        "+".join(filled),
        stages,
        sum(filled.values()),
        reader.warps // teams * released,
        total or None,
        peers,
        pairs,
    )
    first = kernel.body.block.first_op
    assert first is not None
    rings: dict[AllocSmemOp, SSAValue] = {}
    for alloc in edge.buffers:
        type_ = alloc.result.type
        if is_paired(alloc):
            assert isinstance(type_, MemRefType)
            type_ = half_type(type_)
        ring = AllocSmemOp(ring_type(type_, stages))
        ring.location = alloc.location
        ring.result.name_hint = alloc.result.name_hint
        kernel.body.block.insert_op_before(ring, alloc)
        rings[alloc] = ring.result
    after_allocs = _last_alloc(kernel)
    producer = StateOp("producer", create.ring)
    consumer = StateOp("consumer", create.ring)
    create.location = edge.writers[0].location
    kernel.body.block.insert_op_after(create, after_allocs)
    _after(create, [producer], edge.producer)
    _after(producer, [consumer], edge.consumer)
    _load(edge, create, producer, rings)
    _use(edge, create, consumer, rings, groups)
    for alloc in edge.buffers:
        alloc.detach()
        alloc.erase()


def _filled(edge: Edge, warps: int) -> dict[str, int]:
    """The ways in which the loading warps fill a stage, and the arrivals that each makes."""
    arrivals = {"tma": 1, "cp_async": 32 * warps, "threads": warps}
    used = {_way(writer) for writer in edge.writers}
    return {kind: count for kind, count in arrivals.items() if kind in used}


def _way(writer: CopyOp) -> str:
    if isinstance(writer.atom, TmaLoadType):
        return "tma"
    return "cp_async" if isinstance(writer.atom, SimtAsyncCopyType) else "threads"


def _is_read_by_multiplies(edge: Edge) -> bool:
    """Whether tensor cores read the buffers, through the asynchronous proxy (PTX ISA 8.9)."""
    return any(
        isinstance(op, GemmOp) and isinstance(op.atom, Sm90MmaType | Sm100MmaType)
        for reader in edge.readers
        for op in reader.walk()
    )


def _last_alloc(kernel: KernelOp) -> Operation:
    return [op for op in kernel.body.block.ops if isinstance(op, AllocSmemOp)][-1]


def _load(edge: Edge, create: CreateOp, state: StateOp, rings: dict[AllocSmemOp, SSAValue]) -> None:
    ring = create.ring
    full = FullBarrierOp(ring, state.state)
    index = IndexOp(state.state)
    _before(edge.writers[0], [ProducerAcquireOp(ring, state.state), full, index], edge.producer)
    for writer in edge.writers:
        alloc = writer.destination.owner
        assert isinstance(alloc, AllocSmemOp)
        stage = StageOp(rings[alloc], index.index)
        copy = CopyOp(
            writer.source,
            stage.result,
            atom=writer.atom,
            tv=writer.tv,
            descriptor=writer.descriptor,
            barrier=full.barrier if isinstance(writer.atom, TmaLoadType) else None,
        )
        block = writer.parent
        assert block is not None
        block.insert_op_before(_place(stage, writer, edge.producer), writer)
        block.insert_op_before(_place(copy, writer, edge.producer), writer)
        if writer is edge.writers[-1]:
            ending = [ProducerCommitOp(ring, state.state), AdvanceOp(state.state)]
            if "threads" in create.kinds and _is_read_by_multiplies(edge):
                ending.insert(0, ProxyFenceOp())
            _after(copy, ending, edge.producer)
        writer.detach()
        writer.erase()


def _use(
    edge: Edge,
    create: CreateOp,
    state: StateOp,
    rings: dict[AllocSmemOp, SSAValue],
    groups: MultiplyGroups,
) -> None:
    ring = create.ring
    index = IndexOp(state.state)
    start = edge.readers[0]
    if is_warpgroup_multiply(start) and not isinstance(start.prev_op, WgmmaFenceOp):
        # Behind a wait, the assembler wants the multiplies that follow to begin anew (C7519).
        _before(start, [WgmmaFenceOp()], edge.consumer)
    while isinstance(start.prev_op, WgmmaFenceOp):
        start = start.prev_op
    _before(start, [ConsumerWaitOp(ring, state=state.state), index], edge.consumer)
    if "cp_async" in create.kinds and _is_read_by_multiplies(edge):
        # The copies arrive by themselves: no thread could fence between them and the barrier.
        _before(start, [ProxyFenceOp()], edge.consumer)
    for alloc in edge.buffers:
        stage = StageOp(rings[alloc], index.index)
        _before(start, [stage], edge.consumer)
        alloc.result.replace_all_uses_with(stage.result)
    # What multiplies read is free when their group is done.
    end = max(map(groups.end_of, edge.readers), key=edge.block.get_operation_index)
    advance = AdvanceOp(state.state)
    if isinstance(end, GemmOp) and isinstance(end.atom, Sm100MmaType):
        release = ConsumerReleaseOp(ring, state.state, commits=True)
        _after(end, [release, advance], edge.consumer)
        return
    if end not in groups.trailing:
        _after(end, [ConsumerReleaseOp(ring, state.state), advance], edge.consumer)
        return
    # One group may be at work: the stage before is free, and the last one after the loop.
    loop = end.parent_op()
    assert isinstance(loop, scf.ForOp)
    later = arith.CmpiOp(loop.body.block.args[0], loop.lb, "ne")
    _after(
        end, [later, ConsumerReleaseOp(ring, state.state, later.result, 1), advance], edge.consumer
    )
    done = loop.next_op
    assert isinstance(done, WgmmaWaitOp)
    ran = arith.CmpiOp(loop.lb, loop.ub, "slt")
    _after(done, [ran, ConsumerReleaseOp(ring, state.state, ran.result, 1)], edge.consumer)
