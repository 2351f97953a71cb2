"""Rings with mbarriers: two for each stage, and a role's place in the ring in two registers, or of
one stage in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from cutedialect.atoms import target
from cutedialect.dialects import pipeline, ptx
from cutedialect.dialects.pipeline.rings import sharing_ctas

from .lowering import Handler, KernelLowering
from .scalar_builder import Scalar, ScalarBuilder

_BARRIER_BYTES = 8
_LANES = 31


@dataclass(frozen=True)
class Ring:
    """The barriers of a ring: byte offsets of the first full and the first empty one."""

    op: pipeline.CreateOp
    stages: int
    full: int
    empty: int


@dataclass
class State:
    """Phase and, where it `has_stage`, stage; what was read last is known until the state or the
    block changes.
    """

    ring: Ring
    registers: SSAValue
    has_stage: bool
    block: Block | None = None
    known: tuple[Scalar, Scalar] = (0, 0)

    def place(self, builder: ScalarBuilder) -> tuple[Scalar, Scalar]:
        """(stage, phase), read where the state stands now."""
        block = builder.levels[-1].block
        if self.block is not block:
            stage: Scalar = 0
            if self.has_stage:
                stage = builder.assume_nonnegative(builder.get(self.registers, 1))
            phase = builder.assume_nonnegative(builder.get(self.registers, 0))
            self.known, self.block = (stage, phase), block
        return self.known

    def move(self, builder: ScalarBuilder, stage: Scalar, phase: Scalar) -> None:
        builder.set(self.registers, 0, phase)
        if self.has_stage:
            builder.set(self.registers, 1, stage)
        self.block = None

    def barriers(self, builder: ScalarBuilder) -> SSAValue:
        """What the offsets of the barriers of a stage count from."""
        return builder.smem(builder.mul(self.place(builder)[0], _BARRIER_BYTES))

    def wait(self, builder: ScalarBuilder, first: int) -> None:
        """Wait for the phase of the stage, at the full or the empty barriers."""
        _, phase = self.place(builder)
        address = self.barriers(builder)
        builder.emit(ptx.MbarrierWaitOp(address, builder.value(phase, "b32"), first))


def _start(self: KernelLowering, op: pipeline.StartOp) -> None:
    """One thread makes all barriers, then every thread that may use them knows."""
    builder = self.builder
    _make_barriers(self)
    if op.cluster is not None:
        # The fence has released the barriers, so the arrival need not (PTX ISA 9.7.13.5).
        builder.emit(ptx.ClusterArriveOp("aligned" if op.shows else "relaxed.aligned"))
        builder.emit(ptx.ClusterWaitOp("aligned"))
    else:
        builder.emit(ptx.BarSyncOp())


def _start_arrive(self: KernelLowering, _op: pipeline.StartArriveOp) -> None:
    """Make the barriers of exchanges, and tell the cluster."""
    _make_barriers(self)
    # The fence has released the barriers, so the arrival need not (PTX ISA 9.7.13.5).
    self.builder.emit(ptx.ClusterArriveOp("relaxed.aligned"))


def _start_wait(self: KernelLowering, _op: pipeline.StartWaitOp) -> None:
    self.builder.emit(ptx.ClusterWaitOp("aligned"))


def _make_barriers(self: KernelLowering) -> None:
    """One thread makes the barriers of rings and exchanges that nobody has made yet, in front of
    which it fetches the tensor maps that they need.
    """
    builder, rings = self.builder, self.rings.values()
    maps = [map_ for arg, map_ in self.maps.items() if arg.first_use is not None] if rings else []
    others = [barrier for each in self.unmade for barrier in each.barriers]
    self.unmade.clear()

    def make() -> None:
        for map_ in maps:
            builder.emit(ptx.PrefetchTensorMapOp(map_))
        base = builder.smem_base()
        barriers = [
            (first + _BARRIER_BYTES * stage, count.value.data)
            for ring in rings
            for first, count in ((ring.full, ring.op.producers), (ring.empty, ring.op.consumers))
            for stage in range(ring.stages if count.value.data else 0)
        ]
        for offset, count in (*barriers, *others):
            builder.emit(ptx.MbarrierInitOp(base, count, offset))
        builder.emit(ptx.FenceOp("mbarrier_init.release.cluster"))

    self.context.by_one_thread(make)


def _create(self: KernelLowering, op: pipeline.CreateOp) -> None:
    stages = op.ring.type.data
    sides = 2 if op.is_released else 1
    full = self.context.smem.take(sides * _BARRIER_BYTES * stages, _BARRIER_BYTES)
    self.rings[op.ring] = Ring(op, stages, full, full + _BARRIER_BYTES * stages)


def _state(self: KernelLowering, op: pipeline.StateOp) -> None:
    """Before the first stage; a producer finds the barriers of the first round passed."""
    ring = self.rings[op.ring]
    # Beside accumulators in registers ptxas spilled some where the place is the phase alone.
    has_stage = ring.stages > 1 or not target(self.context.arch).tmem_columns
    state = State(ring, self.context.registers("b32", 1 + has_stage), has_stage)
    state.move(self.builder, 0, 1 if op.side.data == "producer" else 0)
    self.states[op.state] = state


def _index(self: KernelLowering, op: pipeline.IndexOp) -> None:
    self.scalars[op.index] = self.states[op.state].place(self.builder)[0]


def _advance(self: KernelLowering, op: pipeline.AdvanceOp) -> None:
    count = 1 if op.count is None else self.scalars[op.count]
    _move_on(self.builder, self.states[op.state], count)


def _move_on(builder: ScalarBuilder, state: State, count: Scalar = 1) -> None:
    """To the next stage, or the one `count` on; after the last the first, in the other phase. Of
    a place without a stage the phase alone changes, and of two stages it does with what was the
    number of the stage.
    """
    stage, phase = state.place(builder)
    stages = state.ring.stages
    if count == 1 and (stages == 2 or not state.has_stage):
        phase = builder.pure("xor.b32", phase, stage if state.has_stage else 1)
        stage = builder.pure("xor.b32", stage, 1)
    elif count != 1:
        far = builder.assume_nonnegative(builder.add(stage, count))
        rounds = builder.div(far, stages)
        stage = builder.rem(far, stages)
        phase = builder.pure("and.b32", builder.pure("xor.b32", phase, rounds), 1)
    else:
        following = builder.add(stage, 1)
        wraps = builder.equal(following, stages)
        stage = builder.pure("selp.b32", 0, following, wraps)
        phase = builder.pure("selp.b32", builder.pure("xor.b32", phase, 1), phase, wraps)
    state.move(builder, stage, phase)


def _full_barrier(self: KernelLowering, op: pipeline.BarrierOp) -> None:
    state = self.states[op.state]
    address = state.barriers(self.builder)
    if state.ring.op.is_paired:
        address = self.builder.mapped(address, _leader_of_pair(self.builder))
    self.barriers[op.barrier] = address, state.ring.full


def _leader_of_pair(builder: ScalarBuilder) -> Scalar:
    """The even CTA of a pair, which multiplies for both."""
    return builder.pure("and.b32", builder.special("cluster_ctarank"), ~1)


def is_first_cta(builder: ScalarBuilder) -> Scalar:
    return builder.equal(builder.special("cluster_ctarank"), 0)


def is_even_cta(builder: ScalarBuilder) -> Scalar:
    odd = builder.pure("and.b32", builder.special("cluster_ctarank"), 1)
    return builder.equal(odd, 0)


def _wait(self: KernelLowering, op: pipeline.ConsumerWaitOp) -> None:
    """A stage is full."""
    state = self.states[op.state]
    state.wait(self.builder, state.ring.full)


def _acquire(self: KernelLowering, op: pipeline.ProducerAcquireOp) -> None:
    """The stage is empty."""
    builder, context, state = self.builder, self.context, self.states[op.state]
    ring = state.ring
    waits = is_first_cta(builder) if ring.op.is_led else True
    context.when(waits, lambda: state.wait(builder, ring.empty))


def _expect(self: KernelLowering, op: pipeline.ExpectOp) -> None:
    """So many bytes will come."""
    builder, context, state = self.builder, self.context, self.states[op.state]
    ring = state.ring
    assert ring.op.bytes is not None
    expect = ptx.MbarrierExpectTxOp(state.barriers(builder), ring.op.bytes.value.data, ring.full)
    expects = is_even_cta(builder) if ring.op.is_paired else True
    context.when(expects, lambda: context.by_one_thread(lambda: builder.emit(expect)))


def _drain(self: KernelLowering, op: pipeline.DrainOp) -> None:
    """Wait until every stage is empty. All CTAs of a cluster fill equally many stages."""
    context, state = self.context, self.states[op.state]
    ring, builder = state.ring, context.builder

    def wait_for_all() -> None:
        body = Block(arg_types=[ptx.reg("b32")])
        builder.push(body, repeats=True)
        state.wait(builder, ring.empty)
        _move_on(builder, state)
        builder.pop()
        zero, stages = (builder.value(each, "b32") for each in (0, ring.stages))
        builder.emit(ptx.ForOp(zero, stages, 1, body))

    # Readers release stages that are led to the first CTA alone.
    context.when(is_first_cta(builder) if ring.op.is_led else True, wait_for_all)


def _commit(self: KernelLowering, op: pipeline.ProducerCommitOp) -> None:
    """What threads wrote is there: one lane of each warp arrives, and for `cp.async` every lane
    when its copies are done. TMA says it by itself.
    """
    builder, state = self.builder, self.states[op.state]
    ring = state.ring
    if "tcgen05" in ring.op.kinds:
        _commit_multiplies(self, op, state, ring.full)
    if "tmem" in ring.op.kinds or "threads" in ring.op.kinds:
        _arrive(self, state)
    if "cp_async" in ring.op.kinds:
        builder.emit(ptx.CpAsyncMbarrierArriveOp(state.barriers(builder), ring.full))


def _commit_multiplies(
    self: KernelLowering,
    op: pipeline.ProducerCommitOp | pipeline.ConsumerReleaseOp,
    state: State,
    first: int,
    pred: Scalar = True,
) -> None:
    """The tensor core arrives when it is done, for a pair in both CTAs. A multicast commit with
    nothing to track is said to signal its own CTA alone (FlashAttention, AI/DEBUG_2CTA.md), which
    the PTX manual leaves open: behind a loop without trips the thread arrives instead.
    """
    builder, ring = self.builder, state.ring
    address = state.barriers(builder)
    releases_own = isinstance(op, pipeline.ConsumerReleaseOp) and "tcgen05" in ring.op.kinds
    group, mask = _signaled(builder, ring, not releases_own)
    guard = builder.guard(pred)

    def commit() -> None:
        builder.emit(ptx.Tcgen05CommitOp(address, first, group, mask, guard))

    def arrive() -> None:
        rank = builder.special("cluster_ctarank")
        for each in (rank, builder.pure("or.b32", rank, 1)):
            place = builder.mapped(address, each)
            builder.emit(ptx.MbarrierArriveOp(place, first, pred=guard, cluster=True))

    multiplied = True if op.multiplied is None else self.scalars[op.multiplied]
    self.context.when(multiplied, commit, arrive)


def _release(self: KernelLowering, op: pipeline.ConsumerReleaseOp) -> None:
    """A stage was read: one lane of each warp arrives, or the tensor core does when it has read it,
    here or in every CTA that writes it.
    """
    state = self.states[op.state]
    ring = state.ring
    if op.commits is not None:
        pred = True if op.pred is None else self.scalars[op.pred]
        _commit_multiplies(self, op, state, ring.empty, pred)
        return
    _arrive(self, state, op)


def _signaled(
    builder: ScalarBuilder, ring: Ring, tells_others: bool = True
) -> tuple[int, SSAValue | None]:
    """(CTA group, mask of the cluster's CTAs) of a commit: those that write the ring's stages, or
    wait for them; no mask where no other CTA is told.
    """
    group = 2 if ring.op.is_paired else 1
    if not tells_others or (not ring.op.peer_groups and group == 1):
        return group, None
    rank = builder.special("cluster_ctarank")
    bits: Scalar = 0
    if group == 2:
        bits = builder.pure("shl.b32", 3, rank)
    for extent, step in ring.op.peer_groups:
        _, first = _peers(builder, extent, step)
        # The CTAs of a pair are neighbors, and each is in a group of its own.
        pattern = sum(2**group - 1 << i * step for i in range(extent))
        bits = builder.pure("or.b32", bits, builder.pure("shl.b32", pattern, first))
    return group, builder.value(builder.pure("cvt.u16.u32", bits), "b16")


def _peers(builder: ScalarBuilder, extent: int, step: int) -> tuple[Scalar, Scalar]:
    """This CTA's number in its group of peers, and the cluster rank of the first one."""
    rank = builder.special("cluster_ctarank")
    mine = builder.rem(builder.div(rank, step), extent)
    return mine, builder.sub(rank, builder.mul(mine, step))


def _arrive(
    self: KernelLowering, state: State, release: pipeline.ConsumerReleaseOp | None = None
) -> None:
    """One lane of each warp arrives at the full barrier of a stage, or at the empty one: in this
    CTA and its peers, or in the leading CTA of the pair or cluster.
    """
    builder, ring = self.builder, state.ring
    peers: Sequence[tuple[int, int]] = ()
    leader: Scalar | None = _leader_of_pair(builder) if ring.op.is_paired else None
    if release is not None:
        peers = ring.op.peer_groups
        leader = 0 if ring.op.is_led else leader
    stage, _ = state.place(builder)
    if release is not None and release.back is not None:
        back = release.back.value.data
        before = builder.add(stage, -back)
        wraps = builder.pure("setp.lt.s32", before, 0)
        behind = builder.add(stage, ring.stages - back)
        stage = builder.pure("selp.b32", behind, before, wraps)
    at = builder.mul(stage, _BARRIER_BYTES)
    if not self.context.team.elected:
        builder.emit(ptx.BarWarpSyncOp(builder.value(0xFFFFFFFF, "b32")))
    elif peers:
        raise ValueError("expected whole warps to release the stages of other CTAs, got one thread")
    lane = builder.pure("and.b32", builder.thread_index(), _LANES)
    base = builder.smem_base()
    if peers:
        leader = _peer(builder, lane, peers)
    if leader is not None:
        base = builder.mapped(base, leader)
    count = sharing_ctas(peers)
    arrives = builder.pure("setp.lt.s32", lane, count)
    if release is not None and release.pred is not None:
        arrives = builder.both(self.scalars[release.pred], arrives)
    first = ring.full if release is None else ring.empty
    guard = builder.guard(arrives)
    address = builder.value(builder.total([base, at]), "b32")
    cluster = leader is not None
    builder.emit(ptx.MbarrierArriveOp(address, first, pred=guard, cluster=cluster))


def _peer(builder: ScalarBuilder, lane: Scalar, peers: Sequence[tuple[int, int]]) -> Scalar:
    """The cluster rank that a lane tells: the groups' ranks one after the other, ours once."""
    result: Scalar = 0
    start = 0
    for number, (extent, step) in enumerate(peers):
        mine, first = _peers(builder, extent, step)
        skipped = 1 if number else 0
        index = builder.add(lane, skipped - start)
        if number:
            index = builder.add(index, mine)
        index = builder.rem(index, extent)
        other = builder.add(first, builder.mul(index, step))
        if number:
            chosen = builder.pure("setp.ge.s32", lane, start)
            result = builder.pure("selp.b32", other, result, chosen)
        else:
            result = other
        start += extent - skipped
    return result


HANDLERS: dict[type[Operation], Handler] = {
    pipeline.StartOp: _start,
    pipeline.StartArriveOp: _start_arrive,
    pipeline.StartWaitOp: _start_wait,
    pipeline.CreateOp: _create,
    pipeline.StateOp: _state,
    pipeline.IndexOp: _index,
    pipeline.AdvanceOp: _advance,
    pipeline.BarrierOp: _full_barrier,
    pipeline.ProducerAcquireOp: _acquire,
    pipeline.ExpectOp: _expect,
    pipeline.ProducerCommitOp: _commit,
    pipeline.DrainOp: _drain,
    pipeline.ConsumerWaitOp: _wait,
    pipeline.ConsumerReleaseOp: _release,
}
