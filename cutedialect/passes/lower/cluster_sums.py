"""Sums over the CTAs of a cluster. The others send their tiles to the first CTA, whose barrier
counts the bytes as they land; it adds them in the order of the ranks, and tells each that its room
is free.

    rank > 0: st.async tile -> room of rank - 1 in CTA 0, counted at `full`; wait for `empty`
    rank = 0: expect the bytes of all at `full`, wait, add room by room; arrive at all `empty`

A CTA leaves its sum when the first one has read its part, so that the memory of either outlives
what others do in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute, ptx
from cutedialect.dialects.walks import walk

from .context import Context
from .lowering import Handler, KernelLowering

_BARRIER_BYTES = 8
_VECTOR = 4
_WORD = 4
# Elements of a part that a thread loads before it adds them.
_AT_ONCE = 32


@dataclass(frozen=True)
class ClusterSum:
    """The offsets of a sum's two barriers, and the register with the parity of their phase."""

    full: int
    empty: int
    phase: SSAValue


def prepare(context: Context, kernel: Operation) -> dict[cute.ClusterSumOp, ClusterSum]:
    """Take memory for the barriers of every sum of a kernel."""
    found: dict[cute.ClusterSumOp, ClusterSum] = {}
    for op in walk(kernel):
        if isinstance(op, cute.ClusterSumOp):
            full = context.smem.take(2 * _BARRIER_BYTES, _BARRIER_BYTES)
            phase = context.registers("b32", 1)
            context.fill(phase, 0)
            found[op] = ClusterSum(full, full + _BARRIER_BYTES, phase)
    return found


def barriers(sums: dict[cute.ClusterSumOp, ClusterSum]) -> Iterator[int]:
    """The offsets of the barriers of some sums, each of which one thread arrives at."""
    for each in sums.values():
        yield from (each.full, each.empty)


def _cluster_sum(self: KernelLowering, op: cute.ClusterSumOp) -> None:
    builder, context, made = self.builder, self.context, self.sums[op]
    tile = self.fragment(op, op.acc)
    type_ = tile.array.type
    assert isinstance(type_, ptx.RegsType)
    if type_.count % _VECTOR:
        raise ValueError(
            f"expected a tile of which each thread holds a multiple of {_VECTOR} elements, got "
            f"{type_.count}"
        )
    others = op.count.value.data - 1
    stride = _VECTOR * _WORD * context.threads
    size = stride * (type_.count // _VECTOR)
    room = context.smem.take(others * size, 128)
    base = builder.smem_base()
    rank = builder.special("cluster_ctarank")
    mine = builder.pure("mul.lo.s32", builder.thread_index(), _VECTOR * _WORD)
    phase = builder.emit(ptx.GetOp(made.phase, 0)).results[0]
    is_first = builder.pure("setp.eq.s32", rank, 0)

    def expect() -> None:
        builder.emit(ptx.MbarrierExpectTxOp(base, others * size, made.full))

    def tell() -> None:
        # Threads beyond the others tell nobody, but have an address.
        other = builder.pure("add.s32", builder.thread_index(), 1)
        other = builder.pure("min.s32", other, others)
        there = builder.mapped(base, other)
        builder.emit(ptx.MbarrierArriveOp(there, made.empty, cluster=True))

    def add() -> None:
        context.by_one_thread(expect)
        builder.emit(ptx.MbarrierWaitOp(base, phase, made.full))
        at = builder.value(builder.total([base, mine]), "b32")
        for part in range(others):
            _add_part(self, tile.array, type_, at, room + part * size, stride)
        # All have read their parts.
        context.barrier()
        context.when(builder.pure("setp.lt.u32", builder.thread_index(), others), tell)

    def send() -> None:
        before = builder.pure("mul.lo.s32", builder.pure("add.s32", rank, -1), size)
        there = builder.mapped(base, 0)
        at = builder.value(builder.total([there, before, mine]), "b32")
        builder.emit(ptx.StAsyncOp(tile.array, at, there, room, made.full, stride))
        builder.emit(ptx.MbarrierWaitOp(base, phase, made.empty))

    context.when(is_first, add, send)
    turned = builder.pure("xor.b32", phase, 1)
    builder.emit(ptx.SetOp(made.phase, 0, builder.value(turned, "b32")))
    self.scalars[op.result] = is_first


def _add_part(
    self: KernelLowering, array: SSAValue, type_: ptx.RegsType, at: SSAValue, room: int, stride: int
) -> None:
    """Add what lies in a room of shared memory to the registers, some at a time."""
    builder, context = self.builder, self.context
    count = min(type_.count, _AT_ONCE)
    part = context.registers(type_.cls, count)
    add = "add.f32" if type_.cls == "f32" else "add.s32"
    for first in range(0, type_.count, count):
        size = min(count, type_.count - first)
        vectors = range(first // _VECTOR, (first + size) // _VECTOR)
        builder.emit(
            ptx.LdOp(
                f"shared.v{_VECTOR}.{type_.cls}",
                part,
                [at],
                [0] * len(vectors),
                [room + each * stride for each in vectors],
                range(size),
            )
        )
        for each in range(size):
            old = builder.emit(ptx.GetOp(array, first + each)).results[0]
            new = builder.emit(ptx.GetOp(part, each)).results[0]
            total = builder.value(builder.pure(add, old, new), type_.cls)
            builder.emit(ptx.SetOp(array, first + each, total))


HANDLERS: dict[type[Operation], Handler] = {cute.ClusterSumOp: _cluster_sum}
