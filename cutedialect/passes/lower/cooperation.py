"""CTAs that count each other, or take work items: one thread does it for all, and tells the others
what it saw.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute, pipeline, ptx

from .lowering import Handler, KernelLowering
from .rings import is_first_cta
from .scalar_builder import Scalar

_COUNTER = 4


def _scratch(self: KernelLowering) -> tuple[SSAValue, int]:
    """Where threads tell each other a word, in shared memory: register and offset."""
    root, moved = self.context.scratch_at(_COUNTER)
    return self.builder.smem(moved), root


def _last_arrival(self: KernelLowering, op: cute.LastArrivalOp) -> None:
    """All threads meet, so that what they wrote comes before the arrival of one; and meet again, so
    that what the others wrote comes before what they read. One who works alone does not arrive.
    """
    builder, context = self.builder, self.context
    counters, index = self.view(op, op.counters), self.scalars[op.index]
    total = self.scalars[op.total]
    place, root = _scratch(self)
    before = context.registers("b32", 1)
    context.fill(before, builder.sub(total, 1))

    def arrive() -> None:
        offset = builder.product64(index, _COUNTER)
        at = builder.value(builder.pure("add.s64", counters.root, offset), "b64")
        one = builder.value(1, "b32")
        old = builder.result(ptx.AtomOp("acq_rel.gpu.global.add.u32", at, 0, [one]))
        builder.emit(ptx.StScalarOp("shared.b32", old, place, root))
        last = builder.equal(old, builder.sub(total, 1))
        reset = ptx.StScalarOp("global.b32", builder.value(0, "b32"), at, 0)
        context.when(last, lambda: builder.emit(reset))

    def meet() -> None:
        context.synchronize()
        context.when(builder.equal(builder.thread_index(), 0), arrive)
        context.synchronize()
        seen = builder.result(ptx.LdScalarOp("shared.b32", place, root, "b32"))
        builder.set(before, 0, seen)

    context.when(builder.pure("setp.gt.s32", total, 1), meet)
    last = builder.sub(total, 1)
    self.scalars[op.result] = builder.equal(builder.get(before, 0), last)


def _claim(self: KernelLowering, op: cute.ClaimOp) -> None:
    """One thread counts. As often as there are items, some CTA does: the last count wraps to 0."""
    builder, context = self.builder, self.context
    counter, total = self.view(op, op.counter), self.scalars[op.total]
    last = builder.value(builder.sub(total, 1), "b32")
    at = builder.value(counter.root, "b64")

    def count() -> Scalar:
        old = builder.result(ptx.AtomOp("relaxed.gpu.global.inc.u32", at, 0, [last]))
        return builder.add(old, builder.special("nctaid.x"))

    if context.team.elected:
        self.scalars[op.result] = count()
        return
    place, root = _scratch(self)

    def tell() -> None:
        builder.emit(ptx.StScalarOp("shared.b32", builder.value(count(), "b32"), place, root))

    # All have read what was told before.
    context.synchronize()
    context.when(builder.equal(builder.thread_index(), 0), tell)
    context.synchronize()
    told = builder.result(ptx.LdScalarOp("shared.b32", place, root, "b32"))
    self.scalars[op.result] = builder.uniform(told)


def _slot(
    self: KernelLowering,
    op: pipeline.SendOp | pipeline.ReceiveOp | pipeline.RequestOp | pipeline.ResponseOp,
    words: int = 1,
) -> tuple[SSAValue, int]:
    """Address of the slot of a stage, of so many words: register and offset."""
    root = self.view(op, op.slots).root
    assert isinstance(root, int)
    moved = self.builder.mul(self.scalars[op.index], _COUNTER * words)
    return self.builder.smem(moved), root


def _send(self: KernelLowering, op: pipeline.SendOp) -> None:
    at, offset = _slot(self, op)
    store = ptx.StScalarOp(
        "shared.b32", self.builder.value(self.scalars[op.value], "b32"), at, offset
    )
    self.context.by_one_thread(lambda: self.builder.emit(store))


def _receive(self: KernelLowering, op: pipeline.ReceiveOp) -> None:
    load = ptx.LdScalarOp("shared.b32", *_slot(self, op), "b32")
    told = self.builder.uniform(self.builder.result(load))
    self.scalars[op.result] = self.builder.assume_nonnegative(told)


def _request(self: KernelLowering, op: pipeline.RequestOp) -> None:
    context = self.context
    at, offset = _slot(self, op, pipeline.RESPONSE_WORDS)
    barrier, first = self.barriers[op.barrier]
    assert isinstance(op.barrier.owner, pipeline.BarrierOp)
    is_led = self.rings[op.barrier.owner.ring].op.is_led
    ask = ptx.TryCancelOp(at, barrier, offset, first, everywhere=is_led)
    leads = is_first_cta(self.builder) if is_led else True
    context.when(leads, lambda: context.by_one_thread(lambda: self.builder.emit(ask)))


def _response(self: KernelLowering, op: pipeline.ResponseOp) -> None:
    """The number of the cluster's first CTA, divided by their count."""
    builder, cluster = self.builder, self.kernel.cluster
    at, offset = _slot(self, op, pipeline.RESPONSE_WORDS)
    ctas = 1 if cluster is None else cluster.value.data
    otherwise = builder.mul(self.scalars[op.otherwise], ctas)
    query = ptx.QueryCancelOp(at, builder.value(otherwise, "b32"), offset)
    first = builder.assume_nonnegative(builder.uniform(builder.result(query)))
    self.scalars[op.result] = builder.div(first, ctas)


HANDLERS: dict[type[Operation], Handler] = {
    cute.LastArrivalOp: _last_arrival,
    cute.ClaimOp: _claim,
    pipeline.SendOp: _send,
    pipeline.ReceiveOp: _receive,
    pipeline.RequestOp: _request,
    pipeline.ResponseOp: _response,
}
