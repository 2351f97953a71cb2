"""CTAs that count each other, or take work items: one thread does it for all, and tells the others
what it saw.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute, pipeline, ptx

from .lowering import Handler, KernelLowering
from .scalar_builder import Scalar

_COUNTER = 4


def _last_arrival(self: KernelLowering, op: cute.LastArrivalOp) -> None:
    """All threads meet, so that what they wrote comes before the arrival of one; and meet again, so
    that what the others wrote comes before what they read. One who works alone does not arrive.
    """
    builder, context = self.builder, self.context
    counters, index = self.view(op, op.counters), self.scalars[op.index]
    total = self.scalars[op.total]
    root, moved = context.scratch_at(_COUNTER)
    place = builder.value(builder.total([builder.smem_base(), moved]), "b32")
    before = context.registers("b32", 1)
    context.fill(before, builder.pure("sub.s32", total, 1))

    def arrive() -> None:
        offset = builder.product64(index, _COUNTER)
        at = builder.value(builder.pure("add.s64", counters.root, offset), "b64")
        one = builder.value(1, "b32")
        old = builder.emit(ptx.AtomOp("acq_rel.gpu.global.add.u32", at, 0, [one])).results[0]
        builder.emit(ptx.StScalarOp("shared.b32", old, place, root))
        last = builder.pure("setp.eq.s32", old, builder.pure("sub.s32", total, 1))
        zero = builder.value(0, "b32")
        context.when(last, lambda: _emit(self, ptx.StScalarOp("global.b32", zero, at, 0)))

    def meet() -> None:
        context.barrier()
        first = builder.pure("setp.eq.s32", builder.thread_index(), 0)
        context.when(first, arrive)
        context.barrier()
        seen = builder.emit(ptx.LdScalarOp("shared.b32", place, root, "b32")).results[0]
        builder.emit(ptx.SetOp(before, 0, seen))

    context.when(builder.pure("setp.gt.s32", total, 1), meet)
    seen = builder.emit(ptx.GetOp(before, 0)).results[0]
    last = builder.pure("sub.s32", total, 1)
    self.scalars[op.result] = builder.pure("setp.eq.s32", seen, last)


def _claim(self: KernelLowering, op: cute.ClaimOp) -> None:
    """One thread counts. As often as there are items, some CTA does: the last count wraps to 0."""
    builder, context = self.builder, self.context
    counter, total = self.view(op, op.counter), self.scalars[op.total]
    last = builder.value(builder.pure("sub.s32", total, 1), "b32")
    at = builder.value(counter.root, "b64")

    def count() -> Scalar:
        old = builder.emit(ptx.AtomOp("relaxed.gpu.global.inc.u32", at, 0, [last])).results[0]
        return builder.pure("add.s32", old, builder.special("nctaid.x"))

    if context.team.elected:
        self.scalars[op.result] = count()
        return
    root, moved = context.scratch_at(_COUNTER)
    place = builder.value(builder.total([builder.smem_base(), moved]), "b32")

    def tell() -> None:
        builder.emit(ptx.StScalarOp("shared.b32", builder.value(count(), "b32"), place, root))

    # All have read what was told before.
    context.barrier()
    context.when(builder.pure("setp.eq.s32", builder.thread_index(), 0), tell)
    context.barrier()
    told = builder.emit(ptx.LdScalarOp("shared.b32", place, root, "b32")).results[0]
    self.scalars[op.result] = builder.uniform(told)


def _slot(
    self: KernelLowering,
    op: pipeline.SendOp | pipeline.ReceiveOp | pipeline.RequestOp | pipeline.ResponseOp,
    words: int = 1,
) -> tuple[SSAValue, int]:
    """Address of the slot of a stage, of so many words: register and offset."""
    builder, slots = self.builder, self.view(op, op.slots)
    moved = builder.pure("mul.lo.s32", self.scalars[op.index], _COUNTER * words)
    address = builder.total([builder.smem_base(), moved])
    assert isinstance(slots.root, int)
    return builder.value(address, "b32"), slots.root


def _send(self: KernelLowering, op: pipeline.SendOp) -> None:
    at, offset = _slot(self, op)
    value = self.builder.value(self.scalars[op.value], "b32")

    def store() -> None:
        _emit(self, ptx.StScalarOp("shared.b32", value, at, offset))

    self.context.by_one_thread(store)


def _receive(self: KernelLowering, op: pipeline.ReceiveOp) -> None:
    at, offset = _slot(self, op)
    load = ptx.LdScalarOp("shared.b32", at, offset, "b32")
    told = self.builder.uniform(self.builder.emit(load).results[0])
    self.scalars[op.result] = self.builder.assume_nonnegative(told)


def _request(self: KernelLowering, op: pipeline.RequestOp) -> None:
    builder, context = self.builder, self.context
    at, offset = _slot(self, op, pipeline.RESPONSE_WORDS)
    barrier, first = self.barriers[op.barrier]
    assert isinstance(op.barrier.owner, pipeline.BarrierOp)
    is_led = self.rings[op.barrier.owner.ring].op.is_led

    def ask() -> None:
        _emit(self, ptx.TryCancelOp(at, barrier, offset, first, everywhere=is_led))

    leads: Scalar = True
    if is_led:
        leads = builder.pure("setp.eq.s32", builder.special("cluster_ctarank"), 0)
    context.when(leads, lambda: context.by_one_thread(ask))


def _response(self: KernelLowering, op: pipeline.ResponseOp) -> None:
    """The number of the cluster's first CTA, divided by their count."""
    builder = self.builder
    at, offset = _slot(self, op, pipeline.RESPONSE_WORDS)
    ctas = cluster_size(op)
    otherwise = builder.pure("mul.lo.s32", self.scalars[op.otherwise], ctas)
    query = ptx.QueryCancelOp(at, builder.value(otherwise, "b32"), offset)
    first = builder.assume_nonnegative(builder.uniform(builder.emit(query).results[0]))
    self.scalars[op.result] = builder.assume_nonnegative(builder.pure("div.u32", first, ctas))


def cluster_size(op: Operation) -> int:
    """CTAs of a cluster of the kernel around an op."""
    kernel = op.parent_op()
    while kernel is not None and not isinstance(kernel, cute.KernelOp):
        kernel = kernel.parent_op()
    return 1 if kernel is None or kernel.cluster is None else kernel.cluster.value.data


def _emit(self: KernelLowering, op: Operation) -> None:
    self.builder.emit(op)


HANDLERS: dict[type[Operation], Handler] = {
    cute.LastArrivalOp: _last_arrival,
    cute.ClaimOp: _claim,
    pipeline.SendOp: _send,
    pipeline.ReceiveOp: _receive,
    pipeline.RequestOp: _request,
    pipeline.ResponseOp: _response,
}
