"""mbarriers of rings as integers: phases, pending arrivals and bytes (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from dataclasses import dataclass

from cutedialect.dialects import pipeline
from cutedialect.dialects.pipeline import ConsumerReleaseOp, CreateOp

from .clocks import Clock, joined
from .nodes import Event, RingPlan

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
        tells_pair=op.is_paired and op.is_in_tensor_memory,
        is_shared=op.is_shared,
        is_signaled=op.is_released and (op.is_shared or any(signals)),
        releases=peers * pair * (cluster if op.is_led else 1),
        commits=peers,
        copies=pair if "tma" in kinds else 1,
    )
