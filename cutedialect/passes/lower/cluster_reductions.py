"""Reductions over the CTAs of a cluster: each sends its element to all of them, whose barriers
count the bytes as they land, and combines what it got in the order of the ranks.

    thread i of the first `count`: st.async element -> slot of our rank in CTA i, counted at `full`
    all: wait for `full`, combine slot by slot

A reduction stands outside of loops and has its own slots, so that nothing is written twice. A CTA
ends behind its last wait, when it has got all that others send it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation

from cutedialect.dialects import cute, ptx
from cutedialect.dialects.walks import ops_of

from .context import Context, array_class, fail
from .elementwise import Fragment
from .lowering import Handler, KernelLowering
from .reductions import combiner
from .scalar_builder import Scalar

_BARRIER_BYTES = 8
# `st.async` moves four registers at once (PTX ISA 9.7.9.12).
_REGISTERS = 4
_SLOT = 4 * _REGISTERS


@dataclass
class ClusterReductions:
    """The offsets of each reduction's barrier and of its slots; whether the CTAs have met."""

    full: dict[cute.ClusterReduceOp, int] = field(default_factory=dict)
    slots: dict[cute.ClusterReduceOp, int] = field(default_factory=dict)
    have_met: bool = False


def prepare(context: Context, kernel: Operation) -> ClusterReductions:
    """Make the barriers of a kernel's reductions over clusters, and tell the cluster."""
    found = ClusterReductions()
    for op in ops_of(kernel, cute.ClusterReduceOp):
        found.full[op] = context.smem.take(_BARRIER_BYTES, _BARRIER_BYTES)
        found.slots[op] = context.smem.take(_SLOT * op.count.value.data, _SLOT)
    builder = context.builder

    def make() -> None:
        base = builder.smem_base()
        for offset in found.full.values():
            builder.emit(ptx.MbarrierInitOp(base, 1, offset))
        builder.emit(ptx.FenceOp("mbarrier_init.release.cluster"))

    context.by_one_thread(make)
    # The fence has released the barriers, so the arrival need not (PTX ISA 9.7.13.5).
    builder.emit(ptx.ClusterArriveOp("relaxed.aligned"))
    return found


def _cluster_reduce(self: KernelLowering, op: cute.ClusterReduceOp) -> None:
    if not isinstance(op.parent_op(), cute.KernelOp):
        raise fail(op, "expected a reduction over a cluster outside of loops, branches and roles")
    builder, context, made = self.builder, self.context, self.reductions
    assert made is not None
    if not made.have_met:
        # What is loaded is on its way while the other CTAs of the cluster begin.
        builder.emit(ptx.ClusterWaitOp("aligned"))
        made.have_met = True
    source, count = self.fragment(op, op.source), op.count.value.data
    full, slots, cls = made.full[op], made.slots[op], array_class(source.array)
    element = context.registers(cls, _REGISTERS)
    context.move(source.array, [0] * _REGISTERS, element, range(_REGISTERS))
    base = builder.smem_base()
    mine = builder.pure("mul.lo.s32", builder.special("cluster_ctarank"), _SLOT)
    context.by_one_thread(
        lambda: builder.emit(ptx.MbarrierExpectTxOp(base, count * _SLOT, full)) and None
    )

    def send() -> None:
        there = builder.mapped(base, builder.thread_index())
        at = builder.value(builder.total([there, mine]), "b32")
        builder.emit(ptx.StAsyncOp(element, at, there, slots, full, _SLOT))

    context.when(builder.pure("setp.lt.u32", builder.thread_index(), count), send)
    builder.emit(ptx.MbarrierWaitOp(base, builder.value(0, "b32"), full))
    parts = context.registers(cls, count)
    builder.emit(
        ptx.LdOp(
            f"shared.{cls}",
            parts,
            [base],
            [0] * count,
            [slots + _SLOT * rank for rank in range(count)],
            range(count),
        )
    )
    arithmetic = "s32" if cls == "b32" else cls
    combine = combiner(builder, op.kind.data, arithmetic)
    total: Scalar = builder.emit(ptx.GetOp(parts, 0)).results[0]
    for rank in range(1, count):
        total = combine(total, builder.emit(ptx.GetOp(parts, rank)).results[0])
    result = context.registers(cls, 1)
    builder.emit(ptx.SetOp(result, 0, builder.value(total, cls)))
    type_ = cute.fragment_of(op.result)
    self.fragments[op.result] = Fragment(type_, result)


def _cluster_rank(self: KernelLowering, op: cute.ClusterRankOp) -> None:
    rank = self.builder.special("cluster_ctarank")
    self.scalars[op.result] = self.builder.assume_nonnegative(rank)


HANDLERS: dict[type[Operation], Handler] = {
    cute.ClusterReduceOp: _cluster_reduce,
    cute.ClusterRankOp: _cluster_rank,
}
