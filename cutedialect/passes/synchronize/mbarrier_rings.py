"""The part of `cute-synchronize` for kernels with roles: a buffer that crosses roles becomes a ring
with mbarriers, and asynchronous readers and writers of one role get what completes them.

    copy g, s (load); use s (main)
    =>
    acquire; copy g, s[i] signal full[i]; commit; advance (load)
    wait; use s[j]; release; advance (main)

A ring lives where its buffers are written: its stage and phase go on across the loops around it.
Which buffers share one, and how many stages it has, is planned before roles are split
(`ring_edges.py`). Edges that take turns in the stages of one go through them in the order of the
program, of which all roles are projections. What a multiply reads is free when its group is done,
which may be behind the wait for the next tile: the state advances in front of that wait then, and
the release names a stage so many steps back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

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
from cutedialect.dialects.cute.storage import is_paired
from cutedialect.dialects.cute_nvgpu import (
    ProxyFenceOp,
    SimtAsyncCopyType,
    TmaLoadType,
    TmemStoreType,
    WgmmaFenceOp,
    WgmmaWaitOp,
)
from cutedialect.dialects.effects import Unit, effects_of, is_pure, space_of
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
from cutedialect.dialects.pipeline.rings import sharing_ctas, widest_groups
from cutedialect.dialects.walks import index_in_block, ops_behind, ops_of, walk
from cutedialect.passes.analysis.memory_views import root_of
from cutedialect.passes.analysis.mma_choice import is_warpgroup_multiply
from cutedialect.passes.analysis.multiply_pairs import half_type
from cutedialect.passes.analysis.resource_plan import Buffer, buffer_bytes
from cutedialect.passes.analysis.ring_edges import (
    FILLS,
    GUARDED,
    READS,
    READS_EARLY,
    Ring,
    is_over_loops,
    is_read_by_multiplies,
    numbers_of,
    sites_of,
)
from cutedialect.passes.rewriting import block_of, erase, insert_after, insert_before, ring_of
from cutedialect.passes.roles.assign_warp_roles import Role
from cutedialect.passes.synchronize.multiply_groups import MultiplyGroups, group_multiplies
from cutedialect.passes.synchronize.ring_ends import RingEnd, insert_ring
from cutedialect.passes.synchronize.tma_stores import complete_stores

# Of a fence that orders reads of threads beside multiplies.
_OF_READS = "of_reads"
# How a stage is filled by copies of each kind of atom, else by threads.
_WAYS = {TmaLoadType: "tma", TmemStoreType: "tmem", SimtAsyncCopyType: "cp_async"}
# What stands where a role waits for stages, beside views of these.
_WAITS = (ConsumerWaitOp, ProducerAcquireOp, IndexOp, ProxyFenceOp)
# Readers of an edge, in one block, and which ring each buffer that they read becomes a stage of.
_Use = tuple[Sequence[Operation], Mapping[SSAValue, SSAValue]]


def insert_rings(
    kernel: KernelOp,
    roles: Sequence[Role],
    rings: Sequence[Ring],
    results: Mapping[AllocSmemOp, int],
) -> None:
    """Give the multiplies of each role their waits, every edge between roles its barriers, and
    buffers of results, which have so many stages, theirs.
    """
    parts = {each.role.data: each for each in kernel.body.block.ops if isinstance(each, RoleOp)}
    staged: dict[Buffer, int] = {}
    turns: dict[Buffer, int] = {}
    for ring in [each for each in rings if each.stages > 1]:
        into = turns if _takes_turns(ring) else staged
        for number, edge in ring.edges.items():
            into |= dict.fromkeys(edge.buffers, number)
    groups = MultiplyGroups(staged, turns)
    for part in parts.values():
        group_multiplies(part.body.block, groups)
        complete_stores(kernel, part.body.block, results)
    by_name = {role.name: role for role in roles}
    for ring in rings:
        _Insertion.of(ring, by_name, parts, groups).run(kernel)
    _drop_repeated_fences(kernel)
    for op in walk(kernel.body.block):
        for name in (FILLS, READS, *READS_EARLY, GUARDED):
            op.attributes.pop(name, None)


@dataclass(frozen=True)
class _Insertion:
    """A ring on its way into the role that fills it and those that read it. What its barriers count
    follows from its first edge, whose `number` this is; other edges take turns in its stages.
    """

    ring: Ring
    number: int
    loader: Role
    readers: Sequence[Role]
    filling: Block
    readings: Sequence[Block]
    groups: MultiplyGroups

    @classmethod
    def of(
        cls,
        ring: Ring,
        roles: Mapping[str, Role],
        parts: Mapping[str, RoleOp],
        groups: MultiplyGroups,
    ) -> _Insertion:
        """A ring between the parts of a kernel that its roles play."""
        number, edge = next(iter(ring.edges.items()))
        loader, *readers = (roles[name] for name in (edge.producer, *edge.consumers))
        filling, *readings = (parts[role.name].body.block for role in (loader, *readers))
        return cls(ring, number, loader, readers, filling, readings, groups)

    @cached_property
    def writers(self) -> list[CopyOp]:
        """The copies that fill a stage."""
        return _writers(self.filling, self.number)

    @cached_property
    def sites(self) -> Sequence[Sequence[Operation]]:
        """Where readers of a stage stand, those of one block together."""
        return [site for reading in self.readings for site in sites_of(reading, self.number)]

    @cached_property
    def multiplies(self) -> list[GemmOp]:
        """The multiplies among the readers."""
        return [op for site in self.sites for reader in site for op in ops_of(reader, GemmOp)]

    @property
    def commits(self) -> bool:
        """Whether the tensor core says that a stage was read."""
        return any(effects_of(op).unit is Unit.TCGEN05 for op in self.multiplies)

    @property
    def arrivals(self) -> dict[str, int]:
        """The ways in which the loading warps fill a stage, and the arrivals that each makes."""
        used = {_WAYS.get(type(writer.atom), "threads") for writer in self.writers}
        warps = self.loader.warps
        # A warp whose threads store to shared and to tensor memory arrives once for both.
        tmem = 0 if "threads" in used else warps
        arrivals = {"tma": 1, "cp_async": 32 * warps, "threads": warps, "tmem": tmem}
        return {kind: count for kind, count in arrivals.items() if kind in used}

    def created(self) -> CreateOp:
        """The ring with what its barriers count."""
        by_tma = [writer.atom for writer in self.writers if isinstance(writer.atom, TmaLoadType)]
        peers = widest_groups(atom.multicast for atom in by_tma if atom.multicast is not None)
        pairs = any(op.is_paired for op in self.multiplies)
        edge = self.ring.edges[self.number]
        # Writers need not stand in the order of the buffers.
        sizes: dict[SSAValue, int] = {alloc.result: buffer_bytes(alloc) for alloc in edge.buffers}
        total = sum(
            writer.counted(sizes[writer.destination])
            for writer in self.writers
            if isinstance(writer.atom, TmaLoadType)
        ) * (2 if pairs else 1)
        # Of instances that take turns with work items, one reads a stage.
        consumers = sharing_ctas(peers) * sum(
            reader.warps // (reader.instances if self.ring.depth else 1) for reader in self.readers
        )
        kinds, producers = "+".join(self.arrivals), sum(self.arrivals.values())
        # What threads of a pair write is told to the CTA that multiplies for both.
        producers *= 2 if pairs and "tma" not in self.arrivals else 1
        return CreateOp(kinds, self.ring.stages, producers, consumers, total or None, peers, pairs)

    def buffers(self) -> dict[int, dict[SSAValue, SSAValue]]:
        """The stages that each edge's buffers become, by its number: those of the first one."""
        stages: list[SSAValue] = []
        for alloc in self.ring.edges[self.number].buffers:
            type_ = alloc.result.type
            if is_paired(alloc):
                assert isinstance(type_, MemRefType)
                type_ = half_type(type_)
            stages.append(ring_of(alloc, self.ring.stages, type_).result)
        results = {n: [a.result for a in edge.buffers] for n, edge in self.ring.edges.items()}
        return {n: dict(zip(of_edge, stages, strict=True)) for n, of_edge in results.items()}

    def run(self, kernel: KernelOp) -> None:
        """Put the ring into the kernel and its verbs into both roles."""
        create, stored = self.created(), self.buffers()
        insert_ring(kernel, create, self.writers[0])
        producer = RingEnd.at_start(self.filling, create, "producer")
        is_async = any(map(is_read_by_multiplies, self.sites))
        for number, buffers in stored.items():
            _load(_writers(self.filling, number), producer, buffers, is_async)
        for reading in self.readings:
            consumer = RingEnd.at_start(reading, create, "consumer")
            self.read(reading, consumer, stored)
            self.read_early(reading, create, consumer, stored[self.number])
        erase(*(alloc for edge in self.ring.edges.values() for alloc in edge.buffers))

    def read(
        self, reading: Block, end: RingEnd, stored: Mapping[int, Mapping[SSAValue, SSAValue]]
    ) -> None:
        """Let the readers of a role wait for their stages and release them."""
        groups, commits = self.groups, self.commits
        if _takes_turns(self.ring):
            turns = [(sites_of(reading, n)[0], buffers) for n, buffers in stored.items()]
            _use_in_turns(turns, end, groups, commits)
            return
        for use in [(site, stored[n]) for n in stored for site in sites_of(reading, n)]:
            if _guard_of(use) is not None:
                _use_guarded(use, end, groups)
            elif not commits and groups.end_of(use[0]) in groups.trailing:
                _use_while_next_works(use, end, groups)
            else:
                _use_in_turns([use], end, groups, commits)

    def read_early(
        self,
        reading: Block,
        create: CreateOp,
        end: RingEnd,
        buffers: Mapping[SSAValue, SSAValue],
    ) -> None:
        """Let readers that go ahead of those that release wait at a place of their own."""
        for name in READS_EARLY:
            sites = sites_of(reading, self.number, name)
            if sites:
                ahead = RingEnd(create, StateOp("consumer", create.ring))
                insert_after(end.state, ahead.state)
                for site in sites:
                    _use_early((site, buffers), ahead, end, self.groups)


def _takes_turns(ring: Ring) -> bool:
    """Whether several edges of one block share a ring."""
    return len(ring.edges) > 1 and not is_over_loops(ring.edges.values())


def _writers(filling: Block, number: int) -> list[CopyOp]:
    """The copies of a role that fill an edge."""
    return [op for op in ops_of(filling, CopyOp) if number in numbers_of(op, FILLS)]


def _load(
    writers: Sequence[CopyOp], end: RingEnd, buffers: Mapping[SSAValue, SSAValue], is_async: bool
) -> None:
    """Fill a stage when it is free, and say so."""
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
    fences = [ProxyFenceOp()] if "threads" in end.ring.kinds and is_async else []
    insert_after(writers[-1], *fences, *end.ends())
    erase(*writers)


def _use_while_next_works(use: _Use, end: RingEnd, groups: MultiplyGroups) -> None:
    """Let readers of a stage, multiplies of which one group may be at work, release that of the
    trip before, and the last one after the loop.
    """
    _wait_in_front(_place_of_wait(use), use, end)
    last = groups.end_of(use[0])
    loop = last.parent_op()
    assert isinstance(loop, scf.ForOp)
    later = arith.CmpiOp(loop.body.block.args[0], loop.lb, "ne")
    release = ConsumerReleaseOp(*end.operands, later.result, 1)
    insert_after(last, later, release, *end.goes_on())
    done = loop.next_op
    assert isinstance(done, WgmmaWaitOp)
    ran = arith.CmpiOp(loop.lb, loop.ub, "slt")
    insert_after(done, ran, ConsumerReleaseOp(*end.operands, ran.result, 1))


def _use_in_turns(
    turns: Sequence[_Use], end: RingEnd, groups: MultiplyGroups, commits: bool
) -> None:
    """Let the readers of each edge, in one block, wait for its stage of a ring, and release it."""
    starts = [_place_of_wait(turn) for turn in turns]
    at = index_in_block
    ends = [groups.end_of(readers) for readers, _ in turns]
    # Whether a tile is still read when the next one is waited for.
    is_late = [at(done) > at(start) for done, start in zip(ends, starts[1:], strict=False)]
    is_late.append(False)
    waits = [(at(start), turn, False) for turn, start in enumerate(starts)]
    releases = [(at(done), turn, True) for turn, done in enumerate(ends)]
    advanced = released = 0
    last: dict[Operation, Operation] = {}
    for _, turn, is_release in sorted(waits + releases):
        if is_release:
            back = (advanced - turn) or None
            ops: list[Operation] = _fences_behind(turns[turn], end)
            ops.append(ConsumerReleaseOp(*end.operands, None, back, commits))
            released += 1
            if not is_late[turn]:
                ops += end.goes_on()
                advanced += 1
            insert_after(last.get(ends[turn], ends[turn]), *ops)
            last[ends[turn]] = ops[-1]
            continue
        if turn and is_late[turn - 1]:
            insert_before(starts[turn], *end.goes_on())
            advanced += 1
        if turn - released >= end.ring.stages:
            raise PassFailedException(
                turns[turn][0][0], f"expected at most {end.ring.stages} tiles in use at one time"
            )
        _wait_in_front(starts[turn], turns[turn], end)


def _guard_of(use: _Use) -> scf.IfOp | None:
    """The branch that readers stand in where a trip does something for the one before."""
    branch = use[0][0].parent_op()
    return branch if isinstance(branch, scf.IfOp) and GUARDED in branch.attributes else None


def _use_guarded(use: _Use, end: RingEnd, groups: MultiplyGroups) -> None:
    """Let the readers of a branch wait for their stage, and release it where they are done, behind
    the branch, if it was taken.
    """
    branch = _guard_of(use)
    assert branch is not None
    _wait_in_front(_place_of_wait(use), use, end)
    one, none = (arith.ConstantOp(IntegerAttr(each, i32)) for each in (1, 0))
    count = arith.SelectOp(branch.cond, one, none)
    release = ConsumerReleaseOp(*end.operands, branch.cond)
    advance = AdvanceOp(end.state.state, count.result)
    insert_after(groups.end_of(use[0]), release, one, none, count, advance)


def _use_early(use: _Use, ahead: RingEnd, end: RingEnd, groups: MultiplyGroups) -> None:
    """Let readers wait for a stage that others of their trip release later, at another end of the
    ring: what threads read is fenced in front of that, or where the block ends.
    """
    _wait_in_front(_place_of_wait(use), use, ahead)
    done = groups.end_of(use[0])
    insert_after(done, *ahead.goes_on())
    fences = _fences_behind(use, ahead)
    if fences:
        behind = list(ops_behind(done))
        releases = (op for op in behind if isinstance(op, ConsumerReleaseOp) and op.pred is None)
        of_mine = (op for op in releases if op.state is end.state.state)
        for fence in fences:
            fence.attributes[_OF_READS] = UnitAttr()
        insert_before(next(of_mine, behind[-1]), *fences)


def _place_of_wait(use: _Use) -> Operation:
    """In front of which op readers wait for what they read. Views stand behind the wait too: those
    that stand far in front of the first reader move there, since what is done between would wait
    without a need, maybe for itself.
    """
    readers, _ = use
    block = block_of(readers[0])
    start = min(readers, key=index_in_block)
    if is_warpgroup_multiply(start) and not isinstance(start.prev_op, WgmmaFenceOp):
        # Behind a wait, the assembler wants the multiplies that follow to begin anew (C7519).
        insert_before(start, WgmmaFenceOp())
    while isinstance(start.prev_op, WgmmaFenceOp):
        start = start.prev_op
    at = index_in_block
    views = [op for op in _with_views(use) if op.parent is block and at(op) < at(start)]
    views.sort(key=at)
    if views and any(map(_acts, takewhile(lambda op: op is not start, ops_behind(views[0])))):
        for view in views:
            view.detach()
            insert_before(start, view)
    return views[0] if views else start


def _acts(op: Operation) -> bool:
    """Whether an op does more than to wait, or to show what is there."""
    return not is_pure(op) and not isinstance(op, _WAITS)


def _wait_in_front(start: Operation, use: _Use, end: RingEnd) -> None:
    """Wait for a stage of a ring in front of `start`, and let the readers read it."""
    readers, buffers = use
    reading = _with_views(use)
    index = end.index()
    insert_before(start, *end.begins(), index)
    if "cp_async" in end.ring.kinds and is_read_by_multiplies(readers):
        # The copies arrive by themselves: no thread could fence between them and the barrier.
        insert_before(start, ProxyFenceOp())
    for buffer, whole in buffers.items():
        stage = StageOp(whole, index.index)
        insert_before(start, stage)
        buffer.replace_uses_with_if(stage.result, lambda use: use.operation in reading)


def _fences_behind(use: _Use, end: RingEnd) -> list[Operation]:
    """What orders the reads of threads in front of copies of TMA into the stage that they release:
    these come through another proxy, for which an arrival orders nothing (PTX ISA 8.9).
    """
    readers, buffers = use
    ops = [op for reader in readers for op in walk(reader)]
    places = {*buffers, *buffers.values()}
    if "tma" not in end.ring.kinds:
        return []
    if all(map(_reads_by_threads, ops)):
        return [ProxyFenceOp()]
    if not any(root_of(value) in places for op in ops for value in _read_by_threads(op)):
        return []
    fence = ProxyFenceOp()
    fence.attributes[_OF_READS] = UnitAttr()
    return [fence]


def drop_covered_fences(role: RoleOp) -> None:
    """Erase the fences of reads beside multiplies behind which a role has fenced anyway: what
    threads write for multiplies, or for TMA.
    """
    for fence in ops_of(role, ProxyFenceOp):
        if fence.attributes.pop(_OF_READS, None) is None:
            continue
        before = fence.prev_op
        while before is not None and not isinstance(before, ProxyFenceOp):
            before = None if any(map(_read_by_threads, walk(before))) else before.prev_op
        if before is not None:
            erase(fence)


def _read_by_threads(op: Operation) -> list[SSAValue]:
    """What threads read of shared memory in an op."""
    if not _reads_by_threads(op):
        return []
    return [value for value in effects_of(op).reads if space_of(value) == "smem"]


def _drop_repeated_fences(kernel: KernelOp) -> None:
    """Erase the fences that follow another one with nothing but verbs of rings between."""
    for fence in ops_of(kernel, ProxyFenceOp):
        before = fence.prev_op
        while isinstance(before, AdvanceOp | ConsumerReleaseOp | ProducerCommitOp):
            before = before.prev_op
        if isinstance(before, ProxyFenceOp):
            erase(fence)


def _reads_by_threads(op: Operation) -> bool:
    if isinstance(op, GemmOp):
        return not is_read_by_multiplies([op])
    return not (isinstance(op, CopyOp) and op.descriptor is not None)


def _with_views(use: _Use) -> set[Operation]:
    """Readers, the ops inside of them, and the views of buffers through which they read these."""
    readers, buffers = use
    found = {inner for op in readers for inner in walk(op)}
    pending = list(found)
    while pending:
        for value in pending.pop().operands:
            made = value.owner
            if not (type(made) is SubviewOp or type(made) is TransposeOp) or made in found:
                continue
            if root_of(value) in buffers:
                found.add(made)
                pending.append(made)
    return found
