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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.cute import (
    AllocSmemOp,
    CopyOp,
    GemmOp,
    KernelOp,
    MemRefType,
    StageOp,
    SubviewOp,
    TransposeOp,
)
from cutedialect.dialects.cute_nvgpu import (
    ProxyFenceOp,
    SimtAsyncCopyType,
    Sm90MmaType,
    Sm100MmaType,
    TmaLoadType,
    WgmmaFenceOp,
    WgmmaWaitOp,
)
from cutedialect.dialects.effects import Unit, effects_of
from cutedialect.dialects.pipeline import (
    AdvanceOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateOp,
    IndexOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    RoleOp,
    StateOp,
)
from cutedialect.dialects.pipeline import BarrierOp as FullBarrierOp
from cutedialect.passes.bind.multiply_pairs import half_type, is_paired
from cutedialect.passes.insertion import insert_after, insert_before
from cutedialect.passes.remarks import remark
from cutedialect.passes.roles.assign_warp_roles import Role, is_of_pair
from cutedialect.passes.roles.resource_plan import buffer_bytes, room, stages_of_results
from cutedialect.passes.synchronize.memory_views import root_of
from cutedialect.passes.synchronize.multiply_groups import (
    MultiplyGroups,
    group_multiplies,
    is_warpgroup_multiply,
)
from cutedialect.passes.synchronize.ring_buffers import ring_type
from cutedialect.passes.synchronize.ring_edges import (
    FILLS,
    READS,
    READS_EARLY,
    Edge,
    depth,
    edges_of,
    fills,
    mark_reader,
    reading_sites,
    stages_of,
)
from cutedialect.passes.synchronize.tma_store_waits import complete_stores


@dataclass
class Ring:
    """What becomes of an edge: a ring of so many stages, so many loops and branches deep. The ops
    that fill and read it carry its number, so that their copies in each role are found.
    """

    edge: Edge
    number: int
    stages: int
    depth: int


def plan_rings(kernel: KernelOp, stages: int) -> list[Ring]:
    """The rings of a kernel that is not split yet; the ops at their ends are marked."""
    edges = edges_of(kernel)
    deepest = max((depth(edge.block) for edge in edges), default=0)
    given = {edge.block: stages if depth(edge.block) == deepest else 1 for edge in edges}
    waiting = [edge for edge in edges if 0 < depth(edge.block) < deepest]
    more = sum(buffer_bytes(alloc) for edge in waiting for alloc in edge.buffers)
    staged = [(a, stages_of(edge, given[edge.block])) for edge in edges for a in edge.buffers]
    left = room(kernel, [*stages_of_results(kernel).items(), *staged])
    if left >= more:
        given |= {edge.block: 2 for edge in waiting}
    elif waiting:
        remark(
            "cute-synchronize",
            waiting[0].writers[0],
            "one stage for what stays while a loop runs, so that the next tile's waits: a second "
            f"one takes {more} bytes of shared memory, got {max(left, 0)}",
        )
    rings = [
        Ring(edge, number, stages_of(edge, given[edge.block]), depth(edge.block))
        for number, edge in enumerate(edges)
    ]
    for ring in rings:
        for writer in ring.edge.writers:
            writer.attributes[FILLS] = IntegerAttr(ring.number, i32)
        for reader in ring.edge.readers:
            mark_reader(reader, ring.number)
    return rings


def insert_rings(kernel: KernelOp, roles: Sequence[Role], rings: Sequence[Ring]) -> None:
    """Give the multiplies of each role their waits, and every edge between roles its barriers."""
    parts = {each.role.data: each for each in kernel.body.block.ops if isinstance(each, RoleOp)}
    staged = {a: ring.number for ring in rings if ring.stages > 1 for a in ring.edge.buffers}
    groups = MultiplyGroups()
    for part in parts.values():
        group_multiplies(part.body.block, staged, groups)
        complete_stores(kernel, part.body.block)
    for ring in rings:
        _insert_ring(kernel, ring, roles, parts, groups)
    for op in kernel.body.block.walk():
        op.attributes.pop(FILLS, None)
        op.attributes.pop(READS, None)
        op.attributes.pop(READS_EARLY, None)


def _insert_ring(
    kernel: KernelOp,
    ring: Ring,
    roles: Sequence[Role],
    parts: Mapping[str, RoleOp],
    groups: MultiplyGroups,
) -> None:
    edge = ring.edge
    reader = next(role for role in roles if role.name == edge.consumer)
    loader = next(role for role in roles if role.name == edge.producer)
    filling, reading = parts[loader.name].body.block, parts[reader.name].body.block
    writers = [op for op in filling.walk() if isinstance(op, CopyOp) and fills(op, ring.number)]
    peers = tuple(
        dict.fromkeys(
            writer.atom.multicast
            for writer in writers
            if isinstance(writer.atom, TmaLoadType) and writer.atom.multicast is not None
        )
    )
    # A CTA counts once, though it is in every group.
    released = 1 + sum(extent - 1 for extent, _ in peers)
    filled = _filled(writers, loader.warps)
    sites = reading_sites(reading, ring.number)
    pairs = any(is_of_pair(op) for site in sites for one in site for op in one.walk())
    total = sum(
        buffer_bytes(alloc)
        for alloc, writer in zip(edge.buffers, writers, strict=True)
        if isinstance(writer.atom, TmaLoadType)
    ) * (2 if pairs else 1)
    # Of instances that take turns with work items, one reads a stage.
    teams = reader.instances if ring.depth else 1
    create = CreateOp(
        "+".join(filled),
        ring.stages,
        sum(filled.values()),
        reader.warps // teams * released,
        total or None,
        peers,
        pairs,
    )
    buffers: dict[SSAValue, SSAValue] = {}
    for alloc in edge.buffers:
        type_ = alloc.result.type
        if is_paired(alloc):
            assert isinstance(type_, MemRefType)
            type_ = half_type(type_)
        whole = AllocSmemOp(ring_type(type_, ring.stages))
        whole.location = alloc.location
        whole.result.name_hint = alloc.result.name_hint
        kernel.body.block.insert_op_before(whole, alloc)
        buffers[alloc.result] = whole.result
    create.location = writers[0].location
    kernel.body.block.insert_op_after(create, _last_alloc(kernel))
    producer = StateOp("producer", create.ring)
    consumer = StateOp("consumer", create.ring)
    for state, block in ((producer, filling), (consumer, reading)):
        state.location = create.location
        assert block.first_op is not None
        block.insert_op_before(state, block.first_op)
    is_async = any(_is_read_by_multiplies(site) for site in sites)
    commits = any(
        effects_of(each).unit is Unit.TCGEN05 for site in sites for op in site for each in op.walk()
    )
    _load(writers, create, producer, buffers, is_async)
    for site in sites:
        _use(site, create, consumer, buffers, groups, commits)
    early = reading_sites(reading, ring.number, READS_EARLY)
    if early:
        # It goes ahead of the one that releases.
        ahead = StateOp("consumer", create.ring)
        insert_after(consumer, ahead)
        for site in early:
            _use(site, create, ahead, buffers, groups, commits, releases=False)
    for alloc in edge.buffers:
        alloc.detach()
        alloc.erase()


def _filled(writers: Sequence[CopyOp], warps: int) -> dict[str, int]:
    """The ways in which the loading warps fill a stage, and the arrivals that each makes."""
    arrivals = {"tma": 1, "cp_async": 32 * warps, "threads": warps}
    used = {_way(writer) for writer in writers}
    return {kind: count for kind, count in arrivals.items() if kind in used}


def _way(writer: CopyOp) -> str:
    if isinstance(writer.atom, TmaLoadType):
        return "tma"
    return "cp_async" if isinstance(writer.atom, SimtAsyncCopyType) else "threads"


def _is_read_by_multiplies(readers: Sequence[Operation]) -> bool:
    """Whether tensor cores read the buffers, through the asynchronous proxy (PTX ISA 8.9)."""
    return any(
        isinstance(op, GemmOp) and isinstance(op.atom, Sm90MmaType | Sm100MmaType)
        for reader in readers
        for op in reader.walk()
    )


def _last_alloc(kernel: KernelOp) -> Operation:
    return [op for op in kernel.body.block.ops if isinstance(op, AllocSmemOp)][-1]


def _load(
    writers: Sequence[CopyOp],
    create: CreateOp,
    state: StateOp,
    buffers: Mapping[SSAValue, SSAValue],
    is_async: bool,
) -> None:
    ring = create.ring
    full = FullBarrierOp(ring, state.state)
    index = IndexOp(state.state)
    insert_before(writers[0], ProducerAcquireOp(ring, state.state), full, index)
    for writer in writers:
        stage = StageOp(buffers[writer.destination], index.index)
        copy = CopyOp(
            writer.source,
            stage.result,
            atom=writer.atom,
            tv=writer.tv,
            descriptor=writer.descriptor,
            barrier=full.barrier if isinstance(writer.atom, TmaLoadType) else None,
        )
        if READS in writer.attributes:
            copy.attributes[READS] = writer.attributes[READS]
        insert_before(writer, stage, copy)
        if writer is writers[-1]:
            insert_after(copy, ProducerCommitOp(ring, state.state), AdvanceOp(state.state))
            if "threads" in create.kinds and is_async:
                insert_after(copy, ProxyFenceOp())
        writer.detach()
        writer.erase()


def _with_views(
    readers: Sequence[Operation], buffers: Mapping[SSAValue, SSAValue]
) -> set[Operation]:
    """Ops, those inside of them, and the views of buffers through which they read these."""
    found = {inner for op in readers for inner in op.walk()}
    pending = list(found)
    while pending:
        for value in pending.pop().operands:
            made = value.owner
            if not isinstance(made, SubviewOp | TransposeOp) or made in found:
                continue
            if root_of(value) in buffers:
                found.add(made)
                pending.append(made)
    return found


def _use(
    readers: Sequence[Operation],
    create: CreateOp,
    state: StateOp,
    buffers: Mapping[SSAValue, SSAValue],
    groups: MultiplyGroups,
    commits: bool,
    releases: bool = True,
) -> None:
    ring = create.ring
    index = IndexOp(state.state)
    block = readers[0].parent
    assert block is not None
    reading = _with_views(readers, buffers)
    start = min((op for op in reading if op.parent is block), key=block.get_operation_index)
    if is_warpgroup_multiply(start) and not isinstance(start.prev_op, WgmmaFenceOp):
        # Behind a wait, the assembler wants the multiplies that follow to begin anew (C7519).
        insert_before(start, WgmmaFenceOp())
    while isinstance(start.prev_op, WgmmaFenceOp):
        start = start.prev_op
    insert_before(start, ConsumerWaitOp(ring, state=state.state), index)
    if "cp_async" in create.kinds and _is_read_by_multiplies(readers):
        # The copies arrive by themselves: no thread could fence between them and the barrier.
        insert_before(start, ProxyFenceOp())
    for buffer, whole in buffers.items():
        stage = StageOp(whole, index.index)
        insert_before(start, stage)
        buffer.replace_uses_with_if(stage.result, lambda use: use.operation in reading)
    # What multiplies read is free when their group is done.
    end = max(map(groups.end_of, readers), key=block.get_operation_index)
    advance = AdvanceOp(state.state)
    if not releases:
        insert_after(end, advance)
        return
    if commits:
        release = ConsumerReleaseOp(ring, state.state, commits=True)
        insert_after(end, release, advance)
        return
    if end not in groups.trailing:
        insert_after(end, ConsumerReleaseOp(ring, state.state), advance)
        return
    # One group may be at work: the stage before is free, and the last one after the loop.
    loop = end.parent_op()
    assert isinstance(loop, scf.ForOp)
    later = arith.CmpiOp(loop.body.block.args[0], loop.lb, "ne")
    insert_after(end, later, ConsumerReleaseOp(ring, state.state, later.result, 1), advance)
    done = loop.next_op
    assert isinstance(done, WgmmaWaitOp)
    ran = arith.CmpiOp(loop.lb, loop.ub, "slt")
    insert_after(done, ran, ConsumerReleaseOp(ring, state.state, ran.result, 1))
