"""mbarriers of rings as integers: phases, pending arrivals and bytes (PTX ISA 9.7.13.15); and what
ops say of the stages, groups, bytes and partners that they signal or wait for, by class of op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute, cute_nvgpu, pipeline
from cutedialect.dialects.pipeline import ConsumerReleaseOp, CreateOp

from .clocks import Clock, joined
from .events import Engine
from .exchanges import EXCHANGES, note_step
from .findings import Undecided
from .nodes import Event, RingPlan, Skeleton
from .shares import memory_type

AT_A_STATE = frozenset(
    (
        pipeline.ProducerAcquireOp,
        pipeline.ExpectOp,
        pipeline.DrainOp,
        pipeline.ProducerCommitOp,
        pipeline.ConsumerWaitOp,
        pipeline.ConsumerReleaseOp,
        pipeline.AdvanceOp,
    )
)
"""Ops that name the state of a ring that they are at."""


@dataclass(slots=True)
class MBarrier:
    """One mbarrier: how many phases are complete, and what the last one has passed on."""

    count: int
    pending: int
    bytes: int = 0
    phases: int = 0
    awaited: int = 0
    clock: Clock = 0
    gathered: Clock = 0
    last: Event | None = None

    def gather(self, clock: Clock, carries: Clock) -> None:
        """An arrival of the present phase passes on what a clock says."""
        self.gathered = joined(self.gathered, clock, carries) if self.gathered else clock

    def complete(self) -> None:
        """End the phase where nothing is pending."""
        if self.pending == 0 and self.bytes == 0:
            self.phases += 1
            self.pending = self.count
            self.clock, self.gathered = self.gathered, 0


class Ring:
    """The barriers of a ring. CTAs of a cluster run the same program: what one does to its peers,
    they do to it, so that an arrival here stands for those of all.
    """

    def __init__(self, plan: RingPlan, column: int) -> None:
        self.plan, self.column = plan, column
        self.stages = plan.stages
        self.full = [MBarrier(plan.producers, plan.producers) for _ in range(plan.stages)]
        self.empty = [MBarrier(plan.consumers, plan.consumers) for _ in range(plan.stages)]
        self.loads = 0

    @property
    def name(self) -> str:
        """How messages call it."""
        return self.plan.name


def plan_of(op: CreateOp, cluster: int) -> RingPlan:
    """What the barriers of a ring count in a cluster of so many CTAs."""
    kinds = frozenset(op.kinds)
    peers = len({0} | {i * step for extent, step in op.peer_groups for i in range(extent)})
    pair = 2 if op.is_paired else 1
    hint = op.ring.name_hint
    signals = (
        type(use.operation) is ConsumerReleaseOp and use.operation.commits is not None
        for use in op.ring.uses
    )
    return RingPlan(
        name=f"ring %{hint}" if hint else f"a ring of {op.stages} stages ({op.kind.data})",
        stages=op.stages,
        producers=op.producers.value.data,
        consumers=op.consumers.value.data,
        expected_bytes=0 if op.bytes is None else op.bytes.value.data,
        kinds=kinds,
        is_released=op.is_released,
        is_in_tensor_memory=op.is_in_tensor_memory,
        is_led=op.is_led,
        tells_pair=op.is_paired and "tcgen05" in kinds,
        tells_readers=op.tells_readers,
        is_shared=op.is_shared,
        is_signaled=op.is_released and (op.is_shared or any(signals)),
        releases=peers * pair * (cluster if op.is_led else 1),
        commits=peers,
        stores=pair if op.is_written else 1,
        copies=pair if "tma" in kinds else 1,
    )


class Named(NamedTuple):
    """What ops name: by value, the ring and the slot of the state of a barrier, and the number of
    an exchange; and the number of the role that they are in.
    """

    found: Skeleton
    barriers: Mapping[SSAValue, tuple[int, int]]
    exchanges: Mapping[SSAValue, int]
    role: int


def note_counts(event: Event, named: Named) -> None:
    """Fill in what the op of an event says of it."""
    note = _NOTES.get(type(event.op))
    if note is not None:
        note(event, event.op, named)


def _release(event: Event, op: pipeline.ConsumerReleaseOp, named: Named) -> None:
    event.count = 0 if op.back is None else op.back.value.data
    event.is_read = op.commits is not None


def _tensor_fence(event: Event, op: cute_nvgpu.Tcgen05FenceOp, named: Named) -> None:
    event.is_before = op.is_before


def _start(event: Event, op: pipeline.StartOp, named: Named) -> None:
    event.shows, event.is_of_cluster = op.shows, op.cluster is not None


def _barrier(event: Event, op: cute.BarrierOp, named: Named) -> None:
    event.role_names, event.is_of_cluster = op.role_names, op.cluster is not None


def _give_back(event: Event, op: cute_nvgpu.TmemDeallocOp, named: Named) -> None:
    event.is_of_cluster = op.pair is not None


def _leave(event: Event, op: pipeline.ExchangeDrainOp, named: Named) -> None:
    event.exchange = named.exchanges.get(op.exchange, -1)


def _exchange(event: Event, op: Any, named: Named) -> None:
    note_step(event, op, named.exchanges[op.exchange], named.found)


def _group_wait(event: Event, op: Any, named: Named) -> None:
    event.count = op.pending.value.data


def _store_wait(event: Event, op: cute_nvgpu.TmaStoreWaitOp, named: Named) -> None:
    event.count, event.is_read = op.pending.value.data, op.read is not None


def _request(event: Event, op: pipeline.RequestOp, named: Named) -> None:
    event.ring, event.state = named.barriers[op.barrier]


def _copy(event: Event, op: cute.CopyOp, named: Named) -> None:
    """The barrier and the bytes of a bulk load, and who issues bulk stores."""
    if event.engine is Engine.BULK_LOAD:
        if op.barrier is None or op.barrier not in named.barriers:
            raise Undecided(op, "the barrier that the load signals is not known")
        event.ring, event.state = named.barriers[op.barrier]
        type_ = memory_type(op.destination)
        event.count = op.counted(type_.layout.size() * type_.bits // 8)
        event.is_of_cluster = getattr(op.atom, "multicast", None) is not None
    elif event.engine is Engine.BULK_STORE:
        event.warps = getattr(op.atom, "warps", None) or 0


def _turn(event: Event, op: Any, named: Named) -> None:
    event.is_read = op.outside is not None
    named.found.turns[named.role] = event.warps


_NOTES: dict[type[Operation], Callable[[Event, Any, Named], None]] = {
    pipeline.ConsumerReleaseOp: _release,
    cute_nvgpu.Tcgen05FenceOp: _tensor_fence,
    pipeline.StartOp: _start,
    cute.BarrierOp: _barrier,
    cute_nvgpu.TmemDeallocOp: _give_back,
    pipeline.ExchangeDrainOp: _leave,
    **dict.fromkeys(EXCHANGES, _exchange),
    cute_nvgpu.WgmmaWaitOp: _group_wait,
    cute_nvgpu.CpAsyncWaitOp: _group_wait,
    cute_nvgpu.TmaStoreWaitOp: _store_wait,
    pipeline.RequestOp: _request,
    cute.CopyOp: _copy,
    pipeline.TurnWaitOp: _turn,
    pipeline.TurnPassOp: _turn,
}
