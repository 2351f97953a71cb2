"""What an event says beside its tiles: how many groups or stages it means, whom it meets, and the
barriers and bytes of loads, by class of op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute, cute_nvgpu, pipeline

from .events import Engine
from .exchanges import EXCHANGES, note_step
from .nodes import Event, Skeleton
from .shares import memory_type


class Undecided(Exception):  # noqa: N818 - control flow of this package, never seen outside
    """An op of which the table says nothing, or whose accesses it cannot place."""

    def __init__(self, op: Operation, reason: str) -> None:
        super().__init__(reason)
        self.op = op


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
        event.count = type_.layout.size() * type_.bits // 8
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
