"""Rings with mbarriers: two for each stage, and a role's place in the ring in two registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Block, SSAValue

from cutedialect.dialects import ptx
from cutedialect.dialects.pipeline import ConsumerReleaseOp, CreateOp

from .context import Context
from .scalar_builder import Scalar, ScalarBuilder

_BARRIER_BYTES = 8
_LANES = 31


@dataclass(frozen=True)
class Ring:
    """The barriers of a ring: byte offsets of the first full and the first empty one."""

    op: CreateOp
    stages: int
    full: int
    empty: int

    @property
    def is_in_tensor_memory(self) -> bool:
        """Whether `tcgen05` instructions of both sides are to be ordered by its barriers."""
        return not {"tcgen05", "tmem"}.isdisjoint(self.op.kinds)


@dataclass
class State:
    """Stage and phase; what was read last is known until the state or the block changes."""

    registers: SSAValue
    stages: int
    block: Block | None = None
    known: tuple[Scalar, Scalar] = (0, 0)


def make_ring(context: Context, op: CreateOp) -> Ring:
    """Take memory for the barriers of a ring."""
    type_ = op.ring.type
    sides = 2 if op.is_released else 1
    offset = context.smem.take(sides * _BARRIER_BYTES * type_.data, _BARRIER_BYTES)
    return Ring(op, type_.data, offset, offset + _BARRIER_BYTES * type_.data)


def initialize(
    context: Context,
    rings: Sequence[Ring],
    maps: Sequence[SSAValue],
    others: Sequence[tuple[int, int]] = (),
    publishes: bool = False,
) -> None:
    """One thread makes all barriers, then every thread that may use them knows, and, if that
    `publishes` more, what others have written to shared memory. The `others` are offsets, each with
    how many threads arrive there, maybe of other CTAs.
    """
    builder = context.builder

    def make() -> None:
        for map_ in maps:
            builder.emit(ptx.PrefetchTensorMapOp(map_))
        base = builder.smem_base()
        for ring in rings:
            for first, count in (
                (ring.full, ring.op.producers.value.data),
                (ring.empty, ring.op.consumers.value.data),
            ):
                for stage in range(ring.stages if count else 0):
                    builder.emit(ptx.MbarrierInitOp(base, count, first + _BARRIER_BYTES * stage))
        for offset, count in others:
            builder.emit(ptx.MbarrierInitOp(base, count, offset))
        builder.emit(ptx.FenceOp("mbarrier_init.release.cluster"))

    context.by_one_thread(make)
    if others or any(_is_shared(ring.op) for ring in rings):
        # The fence has released the barriers, so the arrival need not (PTX ISA 9.7.13.5).
        builder.emit(ptx.ClusterArriveOp("aligned" if publishes else "relaxed.aligned"))
        builder.emit(ptx.ClusterWaitOp("aligned"))
    else:
        builder.emit(ptx.BarSyncOp())


def _is_shared(op: CreateOp) -> bool:
    """Whether other CTAs of the cluster signal the barriers of a ring."""
    return bool(op.peer_groups) or op.is_paired or op.is_led


def make_state(context: Context, side: str, stages: int) -> State:
    """A state before the first stage; a producer finds the barriers of the first round passed."""
    registers = context.registers("b32", 2)
    builder = context.builder
    for index, value in enumerate((0, 1 if side == "producer" else 0)):
        builder.emit(ptx.SetOp(registers, index, builder.value(value, "b32")))
    return State(registers, stages)


def place(builder: ScalarBuilder, state: State) -> tuple[Scalar, Scalar]:
    """(stage, phase), read where the state stands now."""
    block = builder.levels[-1].block
    if state.block is not block:
        stage, phase = (
            builder.emit(ptx.GetOp(state.registers, index)).results[0] for index in range(2)
        )
        state.known = builder.assume_nonnegative(stage), builder.assume_nonnegative(phase)
        state.block = block
    return state.known


def advance(builder: ScalarBuilder, state: State, count: Scalar = 1) -> None:
    """The next stage, or the one `count` on; after the last the first, in the other phase."""
    stage, phase = place(builder, state)
    if count != 1:
        far = builder.assume_nonnegative(builder.pure("add.s32", stage, count))
        rounds = builder.pure("div.u32", far, state.stages)
        _stand(
            builder,
            state,
            builder.pure("rem.u32", far, state.stages),
            builder.pure("and.b32", builder.pure("xor.b32", phase, rounds), 1),
        )
        return
    following = builder.pure("add.s32", stage, 1)
    wraps = builder.pure("setp.eq.s32", following, state.stages)
    _stand(
        builder,
        state,
        builder.pure("selp.b32", 0, following, wraps),
        builder.pure("selp.b32", builder.pure("xor.b32", phase, 1), phase, wraps),
    )


def _stand(builder: ScalarBuilder, state: State, stage: Scalar, phase: Scalar) -> None:
    for index, value in enumerate((stage, phase)):
        builder.emit(ptx.SetOp(state.registers, index, builder.value(value, "b32")))
    state.block = None


def barrier(builder: ScalarBuilder, first: int, state: State) -> tuple[SSAValue, int]:
    """Address of the barrier of the state's stage: register and offset."""
    stage, _ = place(builder, state)
    at = builder.pure("mul.lo.s32", stage, _BARRIER_BYTES)
    address = builder.total([builder.smem_base(), at])
    return builder.value(address, "b32"), first


def wait_full(context: Context, ring: Ring, state: State) -> None:
    """A stage is full; what the tensor core made comes before what follows."""
    wait(context.builder, ring.full, state)
    if ring.is_in_tensor_memory:
        context.builder.emit(ptx.Tcgen05FenceOp("after_thread_sync"))
        if ring.op.is_paired:
            _pass_on(context, ring, state)


def _pass_on(context: Context, ring: Ring, state: State) -> None:
    """The even CTA of a pair tells the odd one that a stage is full. A multicast of the commit does
    where it covers a multiply, which one behind another commit, or a loop without trips, does not.
    """
    builder = context.builder
    rank = builder.special("cluster_ctarank")
    address, offset = barrier(builder, ring.full, state)

    def arrive() -> None:
        builder.emit(ptx.Tcgen05FenceOp("before_thread_sync"))
        other = builder.mapped(address, builder.pure("add.s32", rank, 1))
        builder.emit(ptx.MbarrierArriveOp(other, offset, cluster=True))

    context.when(_leads(builder), lambda: context.by_one_thread(arrive))


def wait(builder: ScalarBuilder, first: int, state: State) -> None:
    """Wait for the phase of the state's stage."""
    _, phase = place(builder, state)
    address, offset = barrier(builder, first, state)
    builder.emit(ptx.MbarrierWaitOp(address, builder.value(phase, "b32"), offset))


def acquire(context: Context, ring: Ring, state: State) -> None:
    """The stage is empty; for TMA, so many bytes will come."""
    builder = context.builder
    if ring.op.is_led:
        context.when(_is_first(builder), lambda: wait(builder, ring.empty, state))
    else:
        wait(builder, ring.empty, state)
    if ring.is_in_tensor_memory:
        builder.emit(ptx.Tcgen05FenceOp("after_thread_sync"))
    if "tma" in ring.op.kinds:
        assert ring.op.bytes is not None
        size = ring.op.bytes.value.data
        address, offset = barrier(builder, ring.full, state)

        def expect() -> None:
            builder.emit(ptx.MbarrierExpectTxOp(address, size, offset))

        if ring.op.is_paired:
            context.when(_leads(builder), lambda: context.by_one_thread(expect))
        else:
            context.by_one_thread(expect)


def leading_rank(builder: ScalarBuilder) -> Scalar:
    """The even CTA of a pair, which multiplies for both."""
    return builder.pure("and.b32", builder.special("cluster_ctarank"), ~1)


def _is_first(builder: ScalarBuilder) -> Scalar:
    return builder.pure("setp.eq.s32", builder.special("cluster_ctarank"), 0)


def _leads(builder: ScalarBuilder) -> Scalar:
    odd = builder.pure("and.b32", builder.special("cluster_ctarank"), 1)
    return builder.pure("setp.eq.s32", odd, 0)


def drain(context: Context, ring: Ring, state: State) -> None:
    """Wait until every stage is empty: others, or the tensor core, arrive at these barriers, so the
    CTA has to outlive the last of them. All CTAs of a cluster fill equally many stages.
    """
    is_committed = any(
        isinstance(use.operation, ConsumerReleaseOp) and use.operation.commits is not None
        for use in ring.op.ring.uses
    )
    if not (_is_shared(ring.op) or is_committed):
        return
    builder = context.builder
    if ring.op.is_led:
        # Readers release stages to the first CTA alone.
        context.when(_is_first(builder), lambda: _drain(builder, ring, state))
    else:
        _drain(builder, ring, state)


def _drain(builder: ScalarBuilder, ring: Ring, state: State) -> None:
    body = Block(arg_types=[ptx.reg("b32")])
    builder.push(body, repeats=True)
    wait(builder, ring.empty, state)
    advance(builder, state)
    builder.pop()
    zero, stages = (builder.value(each, "b32") for each in (0, ring.stages))
    builder.emit(ptx.ForOp(zero, stages, 1, body))


def commit(context: Context, ring: Ring, state: State) -> None:
    """What threads wrote is there: one lane of each warp arrives, and for `cp.async` every lane
    when its copies are done. TMA says it by itself.
    """
    if "tcgen05" in ring.op.kinds:
        builder = context.builder
        address, offset = barrier(builder, ring.full, state)
        group = 2 if ring.op.is_paired else 1
        builder.emit(ptx.Tcgen05CommitOp(address, offset, group))
    if "tmem" in ring.op.kinds:
        context.builder.emit(ptx.Tcgen05FenceOp("before_thread_sync"))
        _arrive(context, ring.full, state, ())
    if "threads" in ring.op.kinds:
        _arrive(context, ring.full, state, ())
    if "cp_async" in ring.op.kinds:
        address, offset = barrier(context.builder, ring.full, state)
        context.builder.emit(ptx.CpAsyncMbarrierArriveOp(address, offset))


def release(
    context: Context, ring: Ring, state: State, back: int = 0, condition: Scalar = True
) -> None:
    """A stage was read: one lane of each warp arrives, here or in every CTA that writes it."""
    if ring.is_in_tensor_memory:
        context.builder.emit(ptx.Tcgen05FenceOp("before_thread_sync"))
    leader = None
    if ring.op.is_paired:
        leader = leading_rank(context.builder)
    elif ring.op.is_led:
        leader = 0
    _arrive(context, ring.empty, state, ring.op.peer_groups, back, condition, leader)


def release_by_commit(context: Context, ring: Ring, state: State, condition: Scalar = True) -> None:
    """The tensor core releases a stage that it has read, here and in every CTA that writes it."""
    builder = context.builder
    address, offset = barrier(builder, ring.empty, state)
    guard = None if condition is True else builder.value(condition, "pred")
    group, mask = _signaled(builder, ring)
    builder.emit(ptx.Tcgen05CommitOp(address, offset, group, mask, guard))


def _signaled(builder: ScalarBuilder, ring: Ring) -> tuple[int, SSAValue | None]:
    """(CTA group, mask of the cluster's CTAs) of a commit: those that write the ring's stages."""
    group = 2 if ring.op.is_paired else 1
    if not ring.op.peer_groups and group == 1:
        return group, None
    rank = builder.special("cluster_ctarank")
    bits: Scalar = 0
    if group == 2:
        bits = builder.pure("shl.b32", 3, rank)
    for extent, step in ring.op.peer_groups:
        mine = builder.pure("rem.u32", builder.pure("div.u32", rank, step), extent)
        base = builder.pure("sub.s32", rank, builder.pure("mul.lo.s32", mine, step))
        # The CTAs of a pair are neighbors, and each is in a group of its own.
        pattern = sum(2**group - 1 << i * step for i in range(extent))
        bits = builder.pure("or.b32", bits, builder.pure("shl.b32", pattern, base))
    return group, builder.value(builder.pure("cvt.u16.u32", bits), "b16")


def _arrive(
    context: Context,
    first: int,
    state: State,
    peers: Sequence[tuple[int, int]],
    back: int = 0,
    condition: Scalar = True,
    leader: Scalar | None = None,
) -> None:
    """One lane of each warp arrives at the barrier of a stage: in this CTA and its peers, or in the
    leading CTA of the pair or cluster.
    """
    builder = context.builder
    stage, _ = place(builder, state)
    if back:
        before = builder.pure("add.s32", stage, -back)
        wraps = builder.pure("setp.lt.s32", before, 0)
        stage = builder.pure(
            "selp.b32", builder.pure("add.s32", stage, state.stages - back), before, wraps
        )
    at = builder.pure("mul.lo.s32", stage, _BARRIER_BYTES)
    if not context.elected:
        builder.emit(ptx.BarWarpSyncOp(builder.value(0xFFFFFFFF, "b32")))
    elif peers:
        raise ValueError("expected whole warps to release the stages of other CTAs, got one thread")
    lane = builder.pure("and.b32", builder.thread_index(), _LANES)
    builder.assume_nonnegative(lane)
    base: Scalar = builder.smem_base()
    count = 1
    if peers:
        count = 1 + sum(extent - 1 for extent, _ in peers)
        base = builder.mapped(base, _peer(builder, lane, peers))
    elif leader is not None:
        base = builder.mapped(base, leader)
    pred = builder.both(condition, builder.pure("setp.lt.s32", lane, count))
    guard = None if pred is True else builder.value(pred, "pred")
    builder.emit(
        ptx.MbarrierArriveOp(
            builder.value(builder.total([base, at]), "b32"),
            first,
            pred=guard,
            cluster=bool(peers) or leader is not None,
        )
    )


def _peer(builder: ScalarBuilder, lane: Scalar, peers: Sequence[tuple[int, int]]) -> Scalar:
    """The cluster rank that a lane tells: the groups' ranks one after the other, ours once."""
    rank = builder.special("cluster_ctarank")
    result: Scalar = rank
    start = 0
    for number, (extent, step) in enumerate(peers):
        mine = builder.pure("rem.u32", builder.pure("div.u32", rank, step), extent)
        base = builder.pure("sub.s32", rank, builder.pure("mul.lo.s32", mine, step))
        skipped = 1 if number else 0
        index = builder.pure("add.s32", lane, skipped - start)
        if number:
            index = builder.pure("add.s32", index, mine)
        index = builder.pure("rem.u32", index, extent)
        other = builder.pure("add.s32", base, builder.pure("mul.lo.s32", index, step))
        if number:
            chosen = builder.pure("setp.ge.s32", lane, start)
            result = builder.pure("selp.b32", other, result, chosen)
        else:
            result = other
        start += extent - skipped
    return result
