"""Sums over the CTAs of a cluster, added in the order of the ranks. Where each CTA keeps a part of
the sum, all send all of them the parts of theirs, and a barrier of each counts the bytes as they
land:

    wait for `empty`; part i of the tile: st.async -> room of our rank in CTA i, counted at `full`
    expect the bytes of all at `full`, wait, add room by room; arrive at `empty` of all

A CTA ends when all have read what it sent, and sends again only then. Where the first CTA gets the
whole sum, it alone has room:

    rank > 0: st.async tile -> room of rank - 1 in CTA 0, counted at `full`; wait for `empty`
    rank = 0: expect the bytes of all at `full`, wait, add room by room; arrive at all `empty`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute, ptx
from cutedialect.dialects.pipeline import RoleOp
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.anchors import anchored

from .context import Context, array_class
from .elementwise import Fragment, extract
from .lowering import Handler, KernelLowering
from .scalar_builder import Scalar

_BARRIER_BYTES = 8
_VECTOR = 4
_WORD = 4
# Elements of a part that a thread loads before it adds them.
_AT_ONCE = 32


SumOp = cute.ClusterSumOp | cute.ClusterScatterOp


@dataclass(frozen=True)
class ClusterSum:
    """The offsets of a sum's two barriers, the CTAs that arrive at the second one, and the register
    with the parity of their phase.
    """

    full: int
    empty: int
    readers: int
    phase: SSAValue

    @property
    def barriers(self) -> tuple[tuple[int, int], ...]:
        """The offsets of the barriers, with how many threads arrive at each."""
        return (self.full, 1), (self.empty, self.readers)


@anchored(cute.ClusterSumOp, cute.ClusterScatterOp, otherwise=dict)
def prepare(kernel: Operation, context: Context) -> dict[SumOp, ClusterSum]:
    """Take memory for the barriers of every sum of a kernel."""
    found: dict[SumOp, ClusterSum] = {}
    for op in ops_of(kernel, cute.ClusterSumOp, cute.ClusterScatterOp):
        full = context.smem.take(2 * _BARRIER_BYTES, _BARRIER_BYTES)
        phase = context.registers("b32", 1)
        context.fill(phase, 0)
        readers = op.count.value.data if isinstance(op, cute.ClusterScatterOp) else 1
        found[op] = ClusterSum(full, full + _BARRIER_BYTES, readers, phase)
    return found


@anchored(cute.ClusterScatterOp)
def leave(role: RoleOp, self: KernelLowering) -> None:
    """At a role's end: the others have read what was sent, and arrive here no more."""
    for op in ops_of(role, cute.ClusterScatterOp):
        self.builder.at(op)
        _wait_until_read(self, self.sums[op])


def _wait_until_read(self: KernelLowering, made: ClusterSum) -> None:
    """All have read what was sent the last time, if anything was."""
    builder = self.builder
    phase = builder.emit(ptx.GetOp(made.phase, 0)).results[0]
    before = builder.value(builder.pure("xor.b32", phase, 1), "b32")
    builder.emit(ptx.MbarrierWaitOp(builder.smem_base(), before, made.empty))


def _cluster_scatter(self: KernelLowering, op: cute.ClusterScatterOp) -> None:
    builder, context, made = self.builder, self.context, self.sums[op]
    tile, type_ = self.fragment(op, op.acc), op.result.type
    count, (_, columns) = op.count.value.data, type_.shape
    base, rank = builder.smem_base(), builder.special("cluster_ctarank")
    stride = _VECTOR * _WORD * context.threads
    _wait_until_read(self, made)
    parts = [extract(context, op, tile, type_, (0, part * columns)).array for part in range(count)]
    values = _values(parts[0])
    size = stride * (values // _VECTOR)
    room = context.smem.take(count * size, 128)
    context.by_one_thread(
        lambda: builder.emit(ptx.MbarrierExpectTxOp(base, count * size, made.full)) and None
    )
    mine = builder.pure("mul.lo.s32", builder.thread_index(), _VECTOR * _WORD)
    place = builder.total([builder.pure("mul.lo.s32", rank, size), mine])
    for other, part in enumerate(parts):
        there = builder.mapped(base, other)
        at = builder.value(builder.total([there, place]), "b32")
        builder.emit(ptx.StAsyncOp(part, at, there, room, made.full, stride))
    phase = builder.emit(ptx.GetOp(made.phase, 0)).results[0]
    builder.emit(ptx.MbarrierWaitOp(base, phase, made.full))
    total = context.registers(array_class(parts[0]), values)
    at = builder.value(builder.total([base, mine]), "b32")
    rooms = [room + other * size for other in range(count)]
    _add_parts(self, total, at, rooms, stride, keeps=False)
    # All have read their parts.
    context.barrier()

    def tell() -> None:
        # Threads beyond the others tell nobody, but have an address.
        other = builder.pure("min.s32", builder.thread_index(), count - 1)
        there = builder.mapped(base, other)
        builder.emit(ptx.MbarrierArriveOp(there, made.empty, cluster=True))

    context.when(builder.pure("setp.lt.u32", builder.thread_index(), count), tell)
    turned = builder.value(builder.pure("xor.b32", phase, 1), "b32")
    builder.emit(ptx.SetOp(made.phase, 0, turned))
    self.fragments[op.result] = Fragment(type_, total)


def _cluster_sum(self: KernelLowering, op: cute.ClusterSumOp) -> None:
    builder, context, made = self.builder, self.context, self.sums[op]
    tile = self.fragment(op, op.acc)
    others = op.count.value.data - 1
    stride = _VECTOR * _WORD * context.threads
    size = stride * (_values(tile.array) // _VECTOR)
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
            _add_parts(self, tile.array, at, [room + part * size], stride)
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


def _add_parts(
    self: KernelLowering,
    array: SSAValue,
    at: SSAValue,
    rooms: Sequence[int],
    stride: int,
    keeps: bool = True,
) -> None:
    """Add what lies in rooms of shared memory to the registers, or to nothing, some at a time."""
    builder, context, values, cls = self.builder, self.context, _values(array), array_class(array)
    count = min(values, max(_VECTOR, _AT_ONCE // len(rooms) // _VECTOR * _VECTOR))
    part = context.registers(cls, count * len(rooms))
    add = "add.f32" if cls == "f32" else "add.s32"
    for first in range(0, values, count):
        size = min(count, values - first)
        vectors = range(first // _VECTOR, (first + size) // _VECTOR)
        offsets = [room + each * stride for room in rooms for each in vectors]
        builder.emit(
            ptx.LdOp(
                f"shared.v{_VECTOR}.{cls}",
                part,
                [at],
                [0] * len(offsets),
                offsets,
                range(size * len(rooms)),
            )
        )
        for each in range(size):
            found = [
                builder.emit(ptx.GetOp(part, number * size + each)).results[0]
                for number in range(len(rooms))
            ]
            if keeps:
                found.insert(0, builder.emit(ptx.GetOp(array, first + each)).results[0])
            total: Scalar = found[0]
            for other in found[1:]:
                total = builder.pure(add, total, other)
            builder.emit(ptx.SetOp(array, first + each, builder.value(total, cls)))


def _values(array: SSAValue) -> int:
    """Registers of an array, which are stored four at a time."""
    type_ = array.type
    if type_.count % _VECTOR:
        raise ValueError(
            f"expected a tile of which each thread holds a multiple of {_VECTOR} elements, got "
            f"{type_.count}"
        )
    return type_.count


HANDLERS: dict[type[Operation], Handler] = {
    cute.ClusterSumOp: _cluster_sum,
    cute.ClusterScatterOp: _cluster_scatter,
}
