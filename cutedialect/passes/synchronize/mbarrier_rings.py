"""The part of `cute-synchronize` for kernels with roles: a buffer that crosses roles becomes a ring
with mbarriers, and asynchronous readers and writers of one role get what completes them.

    copy g, s (load); use s (main)
    =>
    acquire; copy g, s[i] signal full[i]; commit; advance (load)
    wait; use s[j]; release; advance (main)

Buffers that one op reads together share a ring. A ring lives where its buffer is written: its
stage and phase go on across the loops around it. Where shared memory does not hold a ring for each,
edges that follow each other take turns in the stages of one (`ring_turns.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects.cute import CopyOp, GemmOp, KernelOp, MemRefType, StageOp
from cutedialect.dialects.cute.storage import is_paired
from cutedialect.dialects.cute_nvgpu import (
    ProxyFenceOp,
    SimtAsyncCopyType,
    TmaLoadType,
    TmemStoreType,
    WgmmaWaitOp,
)
from cutedialect.dialects.effects import Unit, effects_of
from cutedialect.dialects.pipeline import BarrierOp as FullBarrierOp
from cutedialect.dialects.pipeline import ConsumerReleaseOp, CreateOp, RoleOp, StateOp
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.bind.multiply_pairs import half_type
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import block_of, erase, insert_after, insert_before
from cutedialect.passes.roles.assign_warp_roles import Role
from cutedialect.passes.roles.resource_plan import Buffer, buffer_bytes, room, stages_of_results
from cutedialect.passes.synchronize.multiply_groups import MultiplyGroups, group_multiplies
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
from cutedialect.passes.synchronize.ring_ends import RingEnd, insert_ring, ring_of
from cutedialect.passes.synchronize.ring_turns import (
    drop_repeated_fences,
    fences_behind,
    is_read_by_multiplies,
    place_of_wait,
    share_rings,
    use_in_turns,
    wait_in_front,
)
from cutedialect.passes.synchronize.tma_stores import complete_stores


@dataclass
class Ring:
    """What becomes of an edge, or of several that take turns, each with its number: a ring of so
    many stages, so many loops deep. The ops that fill and read an edge carry its
    number, so that their copies in each role are found.
    """

    edges: dict[int, Edge]
    stages: int
    depth: int

    @property
    def takes_turns(self) -> bool:
        return len(self.edges) > 1


def plan_rings(kernel: KernelOp, stages: int) -> list[Ring]:
    """The rings of a kernel that is not split yet; the ops at their ends are marked."""
    edges = edges_of(kernel)
    deepest = max((depth(edge.block) for edge in edges), default=0)
    given = {edge.block: stages if depth(edge.block) == deepest else 1 for edge in edges}
    waiting = [edge for edge in edges if 0 < depth(edge.block) < deepest]
    more = sum(buffer_bytes(alloc) for edge in waiting for alloc in edge.buffers)
    staged = [(a, stages_of(edge, given[edge.block])) for edge in edges for a in edge.buffers]
    results = list(stages_of_results(kernel).items())
    left = room(kernel, [*results, *staged])
    turns, shared = share_rings(kernel, edges, staged, results) if left < 0 else ([], 0)
    if left >= more:
        given |= {edge.block: 2 for edge in waiting}
    elif waiting and not turns:
        remark(
            "cute-synchronize",
            waiting[0].writers[0],
            "one stage for what stays while a loop runs, so that the next tile's waits: a second "
            f"one takes {more} bytes of shared memory, got {max(left, 0)}",
        )
    numbers = {id(edge): number for number, edge in enumerate(edges)}
    joined = {id(edge): turn for turn in turns for edge in turn}
    rings: list[Ring] = []
    for edge in edges:
        together = joined.get(id(edge), [edge])
        if edge is together[0]:
            stages = (
                min(shared, len(together))
                if len(together) > 1
                else stages_of(edge, given[edge.block])
            )
            found = {numbers[id(each)]: each for each in together}
            rings.append(Ring(found, stages, depth(edge.block)))
    for number, edge in enumerate(edges):
        for writer in edge.writers:
            writer.attributes[FILLS] = IntegerAttr(number, i32)
        for reader in edge.readers:
            mark_reader(reader, number)
    return rings


def insert_rings(kernel: KernelOp, roles: Sequence[Role], rings: Sequence[Ring]) -> None:
    """Give the multiplies of each role their waits, and every edge between roles its barriers."""
    parts = {each.role.data: each for each in kernel.body.block.ops if isinstance(each, RoleOp)}
    staged: dict[Buffer, int] = {}
    turns: dict[Buffer, int] = {}
    for ring in rings:
        into = turns if ring.takes_turns else staged
        for number, edge in ring.edges.items():
            if ring.stages > 1:
                into |= dict.fromkeys(edge.buffers, number)
    groups = MultiplyGroups()
    for part in parts.values():
        group_multiplies(part.body.block, staged, groups, turns)
        complete_stores(kernel, part.body.block)
    for ring in rings:
        _insert_ring(kernel, ring, roles, parts, groups)
    drop_repeated_fences(kernel)
    for op in walk(kernel.body.block):
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
    number, edge = next(iter(ring.edges.items()))
    reader = next(role for role in roles if role.name == edge.consumer)
    loader = next(role for role in roles if role.name == edge.producer)
    filling, reading = parts[loader.name].body.block, parts[reader.name].body.block
    writers = _writers(filling, number)
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
    sites = reading_sites(reading, number)
    pairs = any(op.is_paired for site in sites for one in site for op in ops_of(one, GemmOp))
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
        buffers[alloc.result] = ring_of(alloc, ring.stages, type_).result
    insert_ring(kernel, create, writers[0])
    producer = RingEnd(create, StateOp("producer", create.ring))
    consumer = RingEnd(create, StateOp("consumer", create.ring))
    for end, block in ((producer, filling), (consumer, reading)):
        end.state.location = create.location
        assert block.first_op is not None
        block.insert_op_before(end.state, block.first_op)
    is_async = any(is_read_by_multiplies(site) for site in sites)
    commits = any(
        effects_of(each).unit is Unit.TCGEN05 for site in sites for op in site for each in walk(op)
    )
    turns: list[tuple[Sequence[Operation], Mapping[SSAValue, SSAValue]]] = []
    for each, other in ring.edges.items():
        tiles: list[SSAValue] = [alloc.result for alloc in other.buffers]
        stored = dict(zip(tiles, list(buffers.values()), strict=True))
        _load(_writers(filling, each), producer, stored, is_async)
        if ring.takes_turns:
            turns.append((reading_sites(reading, each)[0], stored))
    if turns:
        use_in_turns(turns, consumer, groups, commits)
    else:
        for site in sites:
            _use(site, consumer, buffers, groups, commits)
    early = reading_sites(reading, number, READS_EARLY)
    if early:
        # It goes ahead of the one that releases.
        ahead = RingEnd(create, StateOp("consumer", create.ring))
        insert_after(consumer.state, ahead.state)
        for site in early:
            _use(site, ahead, buffers, groups, commits, releases=False)
    erase(*(alloc for each in ring.edges.values() for alloc in each.buffers))


def _writers(filling: Block, number: int) -> list[CopyOp]:
    """The copies of a role that fill an edge."""
    return [op for op in ops_of(filling, CopyOp) if fills(op, number)]


def _filled(writers: Sequence[CopyOp], warps: int) -> dict[str, int]:
    """The ways in which the loading warps fill a stage, and the arrivals that each makes."""
    arrivals = {"tma": 1, "cp_async": 32 * warps, "threads": warps, "tmem": warps}
    used = {_way(writer) for writer in writers}
    return {kind: count for kind, count in arrivals.items() if kind in used}


def _way(writer: CopyOp) -> str:
    if isinstance(writer.atom, TmaLoadType):
        return "tma"
    if isinstance(writer.atom, TmemStoreType):
        return "tmem"
    return "cp_async" if isinstance(writer.atom, SimtAsyncCopyType) else "threads"


def _load(
    writers: Sequence[CopyOp], end: RingEnd, buffers: Mapping[SSAValue, SSAValue], is_async: bool
) -> None:
    full, index = FullBarrierOp(*end.operands), end.index()
    insert_before(writers[0], *end.begins(), full, index)
    for writer in writers:
        stage = StageOp(buffers[writer.destination], index.index)
        copy = CopyOp(
            writer.source,
            stage.result,
            atom=writer.atom,
            tiled=writer.tiled,
            descriptor=writer.descriptor,
            barrier=full.barrier if isinstance(writer.atom, TmaLoadType) else None,
            origin=writer.origin,
        )
        if READS in writer.attributes:
            copy.attributes[READS] = writer.attributes[READS]
        insert_before(writer, stage, copy)
        if writer is writers[-1]:
            insert_after(copy, *end.ends())
            if "threads" in end.ring.kinds and is_async:
                insert_after(copy, ProxyFenceOp())
        erase(writer)


def _use(
    readers: Sequence[Operation],
    end: RingEnd,
    buffers: Mapping[SSAValue, SSAValue],
    groups: MultiplyGroups,
    commits: bool,
    releases: bool = True,
) -> None:
    block = block_of(readers[0])
    wait_in_front(place_of_wait(readers, buffers), readers, end, buffers)
    # What multiplies read is free when their group is done.
    last = max(map(groups.end_of, readers), key=block.get_operation_index)
    if not releases:
        insert_after(last, *end.goes_on())
        return
    if commits or last not in groups.trailing:
        insert_after(last, *fences_behind(readers, end), *end.ends(commits))
        return
    # One group may be at work: the stage before is free, and the last one after the loop.
    loop = last.parent_op()
    assert isinstance(loop, scf.ForOp)
    later = arith.CmpiOp(loop.body.block.args[0], loop.lb, "ne")
    release = ConsumerReleaseOp(*end.operands, later.result, 1)
    insert_after(last, later, release, *end.goes_on())
    done = loop.next_op
    assert isinstance(done, WgmmaWaitOp)
    ran = arith.CmpiOp(loop.lb, loop.ub, "slt")
    insert_after(done, ran, ConsumerReleaseOp(*end.operands, ran.result, 1))
