"""mbarriers of rings as integers: phases, pending arrivals and bytes (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from cutedialect.dialects.pipeline import ConsumerReleaseOp, CreateOp

from .clocks import Clock
from .nodes import Event


@dataclass
class MBarrier:
    """One mbarrier: how many phases are complete, and what the last one has passed on."""

    count: int
    pending: int = 0
    bytes: int = 0
    phases: int = 0
    awaited: int = 0
    clock: Clock | None = None
    gathered: Clock | None = None
    last: Event | None = None

    def __post_init__(self) -> None:
        self.pending = self.count

    def gather(self, clock: Clock) -> None:
        """An arrival of the present phase passes on what a clock says."""
        if self.gathered is None:
            self.gathered = clock[:]
        else:
            self.gathered = list(map(max, self.gathered, clock))

    def complete(self) -> None:
        """End the phase where nothing is pending."""
        if self.pending == 0 and self.bytes == 0:
            self.phases += 1
            self.pending = self.count
            self.clock, self.gathered = self.gathered, None


@dataclass
class Ring:
    """The barriers of a ring. CTAs of a cluster run the same program: what one does to its peers,
    they do to it, so that an arrival here stands for those of all.
    """

    op: CreateOp
    column: int
    cluster: int
    full: list[MBarrier] = field(default_factory=list)
    empty: list[MBarrier] = field(default_factory=list)
    loads: int = 0

    def __post_init__(self) -> None:
        op = self.op
        self.stages = op.stages
        self.full = [MBarrier(op.producers.value.data) for _ in range(op.stages)]
        self.empty = [MBarrier(op.consumers.value.data) for _ in range(op.stages)]
        peers = len({0} | {i * step for extent, step in op.peer_groups for i in range(extent)})
        pair = 2 if op.is_paired else 1
        # Arrivals at a barrier for each of this CTA, of threads and of commits.
        self.releases = peers * pair * (self.cluster if op.is_led else 1)
        self.commits = peers
        # Whether its empty barriers get arrivals for which nobody waits but who fills it.
        self.is_signaled = op.is_released and (
            op.is_shared
            or any(
                isinstance(use.operation, ConsumerReleaseOp) and use.operation.commits is not None
                for use in op.ring.uses
            )
        )
        # Bytes that come to a stage for each that a copy of this CTA brings.
        self.copies = pair if "tma" in op.kinds else 1

    @property
    def expected_bytes(self) -> int:
        """Transaction bytes of a stage."""
        return 0 if self.op.bytes is None else self.op.bytes.value.data

    @property
    def name(self) -> str:
        """How messages call it."""
        hint = self.op.ring.name_hint
        uses = prod((self.stages,))
        return f"ring %{hint}" if hint else f"a ring of {uses} stages ({self.op.kind.data})"
