"""What CTAs of a cluster add up or reduce, in the order of the ranks: `st.async` to rooms in each
other's shared memory, counted by a barrier there as the bytes land. Where each CTA keeps a part of
a sum, all send all of them the parts of theirs:

    wait for `empty`; part i of the tile: st.async -> room of our rank in CTA i, counted at `full`
    expect the bytes of all at `full`, wait, add room by room; arrive at `empty` of all

A CTA ends when all have read what it sent, and sends again only then. Where the first CTA gets the
whole sum, it alone has room:

    rank > 0: st.async tile -> room of rank - 1 in CTA 0, counted at `full`; wait for `empty`
    rank = 0: expect the bytes of all at `full`, wait, add room by room; arrive at all `empty`

A reduction of one element stands outside of loops and has its own room, so that nothing is written
twice, and a CTA ends behind its last wait, when it has got all that others send it:

    thread i of the first `count`: st.async element -> room of our rank in CTA i, counted at `full`
    all: wait for `full`, combine room by room
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute, pipeline, ptx

from .addresses import Address, memory_op
from .context import array_class, number_name
from .elementwise import Fragment, convert
from .lowering import Handler, KernelLowering
from .reductions import combiner
from .scalar_builder import Scalar, ScalarBuilder, array_type

_BARRIER_BYTES = 8
# `st.async` moves four registers at once (PTX ISA 9.7.9.12).
_VECTOR = 4
_WORD = 4
_SLOT = _VECTOR * _WORD
# Elements of a part that a thread loads before it adds them.
_AT_ONCE = 32


@dataclass
class Exchange:
    """The offsets of an exchange's barriers and of its room, the CTAs that arrive at the second
    barrier, and the register with the parity of their phase, which one without readers lacks; and
    that parity as this round has read it.
    """

    full: int
    empty: int
    room: int
    readers: int
    phase: SSAValue | None
    now: SSAValue | None = None

    @property
    def barriers(self) -> tuple[tuple[int, int], ...]:
        """The offsets of the barriers, with how many threads arrive at each."""
        full = self.full, 1
        return (full, (self.empty, self.readers)) if self.readers else (full,)

    def number(self, builder: ScalarBuilder) -> SSAValue:
        """The parity of the phase that this exchange waits for in this round."""
        if self.now is None:
            self.now = builder.value(0, "b32") if self.phase is None else builder.get(self.phase, 0)
        return self.now

    def move_on(self, builder: ScalarBuilder) -> None:
        """To the next round."""
        assert self.phase is not None
        builder.set(self.phase, 0, builder.pure("xor.b32", self.number(builder), 1))
        self.now = None


def _exchange(self: KernelLowering, op: pipeline.ExchangeOp) -> None:
    """Take memory for the barriers, and for the room of one that takes place once."""
    context, readers = self.context, op.readers.value.data
    full = context.smem.take((2 if readers else 1) * _BARRIER_BYTES, _BARRIER_BYTES)
    room = 0 if op.bytes is None else context.smem.take(op.bytes.value.data, _SLOT)
    phase = None
    if readers:
        phase = context.registers("b32", 1)
        context.fill(phase, 0)
    made = Exchange(full, full + _BARRIER_BYTES, room, readers, phase)
    self.exchanges[op.exchange] = made
    self.unmade.append(made)


def _drain(self: KernelLowering, op: pipeline.ExchangeDrainOp) -> None:
    """All have read what was sent the last time, if anything was."""
    builder, made = self.builder, self.exchanges[op.exchange]
    assert made.phase is not None
    before = builder.value(builder.pure("xor.b32", builder.get(made.phase, 0), 1), "b32")
    builder.emit(ptx.MbarrierWaitOp(builder.smem_base(), before, made.empty))


def _expect(self: KernelLowering, op: pipeline.ExchangeExpectOp) -> None:
    size, full = op.bytes.value.data, self.exchanges[op.exchange].full
    expect = ptx.MbarrierExpectTxOp(self.builder.smem_base(), size, full)
    self.context.by_one_thread(lambda: self.builder.emit(expect))


def _wait(self: KernelLowering, op: pipeline.ExchangeWaitOp) -> None:
    builder, made = self.builder, self.exchanges[op.exchange]
    barrier = made.full if op.side.data == "full" else made.empty
    builder.emit(ptx.MbarrierWaitOp(builder.smem_base(), made.number(builder), barrier))


def _tell(self: KernelLowering, op: pipeline.ExchangeTellOp) -> None:
    """A thread for each of the CTAs tells it."""
    builder, made = self.builder, self.exchanges[op.exchange]
    first, count = op.first.value.data, op.count.value.data

    def arrive() -> None:
        # Threads beyond the others tell nobody, but have an address.
        other = builder.add(builder.thread_index(), first)
        other = builder.pure("min.s32", other, first + count - 1)
        there = builder.mapped(builder.smem_base(), other)
        builder.emit(ptx.MbarrierArriveOp(there, made.empty, cluster=True))

    self.context.when(builder.pure("setp.lt.u32", builder.thread_index(), count), arrive)


def _exchange_of(
    self: KernelLowering, op: cute.ClusterSumOp | cute.ClusterScatterOp | cute.ClusterReduceOp
) -> Exchange:
    made = None if op.exchange is None else self.exchanges.get(op.exchange)
    if made is None:
        raise ValueError("expected the exchange by which CTAs do it (cute-expand-roles), got none")
    return made


def _send(
    self: KernelLowering,
    array: SSAValue,
    rank: Scalar,
    terms: Sequence[Scalar],
    room: int,
    full: int,
    stride: int = _SLOT,
) -> None:
    """The registers of each thread, so far behind a room of another CTA, counted at its barrier."""
    builder = self.builder
    there = builder.mapped(builder.smem_base(), rank)
    at = builder.value(builder.total([there, *terms]), "b32")
    builder.emit(ptx.StAsyncOp(array, at, there, room, full, stride))


def _cluster_scatter(self: KernelLowering, op: cute.ClusterScatterOp) -> None:
    builder, context, made = self.builder, self.context, _exchange_of(self, op)
    tile, type_ = self.fragment(op, op.acc), op.result.type
    count, (_, columns) = op.count.value.data, type_.shape
    builder.smem_base()
    rank = builder.special("cluster_ctarank")
    stride = _SLOT * context.threads
    context.synchronize(pipeline.ExchangeDrainOp)
    parts = [convert(context, tile, type_, (0, part * columns)).array for part in range(count)]
    values = _values(parts[0])
    size = stride * (values // _VECTOR)
    room = context.smem.take(count * size, 128)
    context.synchronize()
    mine = builder.mul(builder.thread_index(), _SLOT)
    place = builder.total([builder.mul(rank, size), mine])
    for other, part in enumerate(parts):
        _send(self, part, other, [place], room, made.full, stride)
    context.synchronize()
    total = context.registers(array_class(parts[0]), values)
    rooms = [room + other * size for other in range(count)]
    _add_parts(self, total, builder.smem(mine), rooms, stride, keeps=False)
    context.synchronize()
    made.move_on(builder)
    self.fragments[op.result] = Fragment(type_, total)


def _cluster_sum(self: KernelLowering, op: cute.ClusterSumOp) -> None:
    builder, context, made = self.builder, self.context, _exchange_of(self, op)
    array, others = self.fragment(op, op.acc).array, op.count.value.data - 1
    stride = _SLOT * context.threads
    size = stride * (_values(array) // _VECTOR)
    room = context.smem.take(others * size, 128)
    builder.smem_base()
    rank = builder.special("cluster_ctarank")
    mine = builder.mul(builder.thread_index(), _SLOT)
    made.number(builder)
    is_first = builder.equal(rank, 0)

    def add() -> None:
        context.synchronize()
        at = builder.smem(mine)
        for part in range(others):
            _add_parts(self, array, at, [room + part * size], stride)
        context.synchronize()

    def send() -> None:
        if context.steps is not None:
            context.steps = context.steps.otherwise
        context.synchronize()
        before = builder.mul(builder.add(rank, -1), size)
        _send(self, array, 0, [before, mine], room, made.full, stride)
        context.synchronize()

    steps = context.steps
    context.when(is_first, add, send)
    context.steps = steps
    made.move_on(builder)
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
    builder, values, cls = self.builder, _values(array), array_class(array)
    count = min(values, max(_VECTOR, _AT_ONCE // len(rooms) // _VECTOR * _VECTOR))
    part = self.context.registers(cls, count * len(rooms))
    combine = combiner(builder, "add", "s32" if cls == "b32" else cls)
    for first in range(0, values, count):
        size = min(count, values - first)
        vectors = range(first // _VECTOR, (first + size) // _VECTOR)
        places = [Address(at, room + each * stride) for room in rooms for each in vectors]
        loaded = range(size * len(rooms))
        memory_op(self.context, ptx.LdOp, f"shared.v{_VECTOR}.{cls}", part, places, loaded)
        for each in range(size):
            found = [builder.get(part, number * size + each) for number in range(len(rooms))]
            if keeps:
                found.insert(0, builder.get(array, first + each))
            builder.set(array, first + each, reduce(combine, found))


def _values(array: SSAValue) -> int:
    """Registers of an array, which are stored four at a time."""
    count = array_type(array).count
    if count % _VECTOR:
        raise ValueError(
            f"expected a tile of which each thread holds a multiple of {_VECTOR} elements, got "
            f"{count}"
        )
    return count


def _cluster_reduce(self: KernelLowering, op: cute.ClusterReduceOp) -> None:
    if not isinstance(op.parent_op(), cute.KernelOp):
        raise ValueError("expected a reduction over a cluster outside of loops, branches and roles")
    builder, context, made = self.builder, self.context, _exchange_of(self, op)
    source, count = self.fragment(op, op.source), op.count.value.data
    full, room, cls = made.full, made.room, array_class(source.array)
    element = context.registers(cls, _VECTOR)
    context.move(source.array, [0] * _VECTOR, element, range(_VECTOR))
    base = builder.smem_base()
    mine = builder.mul(builder.special("cluster_ctarank"), _SLOT)
    context.synchronize()
    thread = builder.thread_index()
    sends = builder.pure("setp.lt.u32", thread, count)
    context.when(sends, lambda: _send(self, element, thread, [mine], room, full))
    context.synchronize()
    parts = context.registers(cls, count)
    places = [Address(base, room + _SLOT * rank) for rank in range(count)]
    memory_op(context, ptx.LdOp, f"shared.{cls}", parts, places, range(count))
    is_unsigned = number_name(source.type.element).startswith("u")
    integer = "u32" if is_unsigned else "s32"
    combine = combiner(builder, op.kind.data, integer if cls == "b32" else cls)
    # Each is read when the ones before are combined.
    total: Scalar = builder.get(parts, 0)
    for rank in range(1, count):
        total = combine(total, builder.get(parts, rank))
    result = context.registers(cls, 1)
    builder.set(result, 0, total)
    self.fragments[op.result] = Fragment(cute.fragment_of(op.result), result)


def _cluster_rank(self: KernelLowering, op: cute.ClusterRankOp) -> None:
    self.scalars[op.result] = self.builder.special("cluster_ctarank")


HANDLERS: dict[type[Operation], Handler] = {
    pipeline.ExchangeOp: _exchange,
    pipeline.ExchangeDrainOp: _drain,
    pipeline.ExchangeExpectOp: _expect,
    pipeline.ExchangeWaitOp: _wait,
    pipeline.ExchangeTellOp: _tell,
    cute.ClusterSumOp: _cluster_sum,
    cute.ClusterScatterOp: _cluster_scatter,
    cute.ClusterReduceOp: _cluster_reduce,
    cute.ClusterRankOp: _cluster_rank,
}
