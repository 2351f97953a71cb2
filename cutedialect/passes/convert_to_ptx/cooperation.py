"""CTAs that count each other: one thread arrives for all, and tells the others what it saw."""

from __future__ import annotations

from xdsl.ir import Operation

from cutedialect.dialects import cute, ptx

from .lowering import Handler, KernelLowering

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


def _emit(self: KernelLowering, op: Operation) -> None:
    self.builder.emit(op)


HANDLERS: dict[type[Operation], Handler] = {cute.LastArrivalOp: _last_arrival}
