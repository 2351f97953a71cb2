"""Rings, roles, barriers and fences: the verbs of the pipeline, and the ops that are one
instruction.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from cutedialect.dialects import cute, cute_nvgpu, pipeline, ptx
from cutedialect.passes.rewriting import block_of

from . import cluster_sums, tensor_memory
from .lowering import Handler, KernelLowering
from .ones import write_ones
from .rings import (
    acquire,
    advance,
    commit,
    drain,
    initialize,
    leading_rank,
    make_ring,
    make_state,
    place,
    release,
    release_by_commit,
    wait_full,
)
from .rings import barrier as ring_barrier
from .roles import lower_roles, sink_past_loops
from .scalar_builder import Scalar

# Registers of a tile that a wait is tied to.
_MOST_TIED = 8


def _barrier(self: KernelLowering, op: cute.BarrierOp) -> None:
    self.context.barrier(None if op.warps is None else op.warps.value.data)


def _create(self: KernelLowering, op: pipeline.CreateOp) -> None:
    self.rings[op.ring] = make_ring(self.context, op)


def _nothing(self: KernelLowering, op: Operation) -> None:
    """One CTA barrier in `consumer_wait` orders both directions, so these need no instruction."""
    del self, op


def _role(self: KernelLowering, op: pipeline.RoleOp) -> None:
    """The first role lowers all of them, side by side; the barriers are made before."""
    block = block_of(op)
    roles = [each for each in block.ops if isinstance(each, pipeline.RoleOp)]
    self.done.update(roles)
    used = [map_ for arg, map_ in self.maps.items() if arg.first_use is not None]
    self.tensor.group = 2 if any(role.pair is not None for role in roles) else 1
    if self.tensor.used:
        tensor_memory.begin(self, roles)
    kernel = op.parent_op()
    assert kernel is not None
    self.sums = cluster_sums.prepare(kernel, self.context)
    others = [barrier for each in self.sums.values() for barrier in each.barriers]
    write_ones(kernel, self.context)
    rings = list(self.rings.values())
    initialize(self.context, rings, used, others, publishes=bool(self.context.ones))
    if self.tensor.used:
        tensor_memory.ready(self)
    self.context.wait_for_launch()
    lower_roles(self.context, roles, lambda role: _run_role(self, role))


def _run_role(self: KernelLowering, role: pipeline.RoleOp) -> None:
    block = role.body.block
    sink_past_loops(block)
    self.run(block)
    cluster_sums.leave(role, self)
    for op in block.ops:
        if isinstance(op, pipeline.StateOp) and op.side.data == "producer":
            self.builder.at(op)
            drain(self.context, self.rings[op.ring], self.states[op.state])
    if role in self.tensor.readers:
        tensor_memory.end(self, role)


def _state(self: KernelLowering, op: pipeline.StateOp) -> None:
    self.states[op.state] = make_state(self.context, op.side.data, self.rings[op.ring].stages)


def _index(self: KernelLowering, op: pipeline.IndexOp) -> None:
    self.scalars[op.index] = place(self.builder, self.states[op.state])[0]


def _advance(self: KernelLowering, op: pipeline.AdvanceOp) -> None:
    count: Scalar = 1 if op.count is None else self.scalars[op.count]
    advance(self.builder, self.states[op.state], count)


def _full_barrier(self: KernelLowering, op: pipeline.BarrierOp) -> None:
    ring, state = self.rings[op.ring], self.states[op.state]
    address, offset = ring_barrier(self.builder, ring.full, state)
    if ring.op.is_paired:
        address = self.builder.mapped(address, leading_rank(self.builder))
    self.barriers[op.barrier] = address, offset


def _acquire(self: KernelLowering, op: pipeline.ProducerAcquireOp) -> None:
    acquire(self.context, self.rings[op.ring], self.states[op.state])


def _release(self: KernelLowering, op: pipeline.ConsumerReleaseOp) -> None:
    back = 0 if op.back is None else op.back.value.data
    condition: Scalar = True if op.pred is None else self.scalars[op.pred]
    ring, state = self.rings[op.ring], self.states[op.state]
    if op.commits is not None:
        release_by_commit(self.context, ring, state, condition)
    else:
        release(self.context, ring, state, back, condition)


def _instance(self: KernelLowering, op: pipeline.InstanceOp) -> None:
    self.scalars[op.index] = self.context.instance


def _turn(self: KernelLowering, op: pipeline.TurnWaitOp | pipeline.TurnPassOp) -> None:
    condition: Scalar = True if op.pred is None else self.scalars[op.pred]
    passes = isinstance(op, pipeline.TurnPassOp)
    context = self.context
    if op.warps is None:
        context.when(condition, lambda: context.turn(passes))
        return
    warps, outside = op.warps.value.data, op.outside is not None
    context.when(condition, lambda: context.group_turn(passes, warps, outside))


def _emits(make: Callable[[Operation], Operation]) -> Callable[[KernelLowering, Operation], None]:
    """A handler for an op that is one instruction."""

    def handle(self: KernelLowering, op: Operation) -> None:
        self.builder.emit(make(op))

    return handle


def _commit(self: KernelLowering, op: pipeline.ProducerCommitOp) -> None:
    commit(self.context, self.rings[op.ring], self.states[op.state])


def _wait(self: KernelLowering, op: pipeline.ConsumerWaitOp) -> None:
    wait_full(self.context, self.rings[op.ring], self.states[op.state])


def _cp_async_wait(self: KernelLowering, op: cute_nvgpu.CpAsyncWaitOp) -> None:
    self.builder.emit(ptx.CpAsyncWaitOp(op.pending.value.data))


def _wgmma_wait(self: KernelLowering, op: cute_nvgpu.WgmmaWaitOp) -> None:
    """A store under a condition that never holds, of which only the hardware knows, ties the wait
    to what is to come before it.
    """
    for value in op.after:
        array = self.fragment(op, value).array
        whole = array.type.count  # type: ignore[union-attr]
        # A few registers, spread over the tile, hold the wait back as well as all.
        tied = range(whole - 1, -1, -max(1, whole // _MOST_TIED))[::-1]
        count = len(tied)
        never = self.builder.pure("setp.eq.s32", self.builder.special("nctaid.y"), 0)
        guards, guard = self.context.guards([never] * count)
        base = [self.builder.smem_base()]
        zeros = [0] * count
        self.builder.emit(ptx.StOp("shared.b32", array, base, zeros, zeros, tied, guards, guard))
    self.builder.emit(ptx.WgmmaWaitOp(op.pending.value.data))


HANDLERS: dict[type[Operation], Handler] = {
    cute.BarrierOp: _barrier,
    pipeline.CreateOp: _create,
    pipeline.RoleOp: _role,
    pipeline.StateOp: _state,
    pipeline.IndexOp: _index,
    pipeline.AdvanceOp: _advance,
    pipeline.BarrierOp: _full_barrier,
    pipeline.InstanceOp: _instance,
    pipeline.TurnWaitOp: _turn,
    pipeline.TurnPassOp: _turn,
    pipeline.ProducerAcquireOp: _acquire,
    pipeline.ProducerCommitOp: _commit,
    pipeline.ConsumerWaitOp: _wait,
    pipeline.ConsumerReleaseOp: _release,
    cute_nvgpu.WgmmaFenceOp: _emits(lambda op: ptx.WgmmaFenceOp()),
    cute_nvgpu.WgmmaCommitOp: _emits(lambda op: ptx.WgmmaCommitOp()),
    cute_nvgpu.WgmmaWaitOp: _wgmma_wait,
    cute_nvgpu.CpAsyncCommitOp: _emits(lambda op: ptx.CpAsyncCommitOp()),
    cute_nvgpu.CpAsyncWaitOp: _cp_async_wait,
    cute_nvgpu.ProxyFenceOp: _emits(lambda op: ptx.FenceOp("proxy.async.shared::cta")),
}
