"""Steps of ops by which CTAs of a cluster send each other register tiles (`pipeline.steps`).

    cluster_scatter: exchange_drain; exchange_expect; exchange_send; exchange_wait full;
                     exchange_load; barrier; exchange_tell
    cluster_sum:     exchange_expect; exchange_wait full; exchange_load; barrier; exchange_tell
                     else exchange_send; exchange_wait empty
    cluster_reduce:  exchange_expect; exchange_send; exchange_wait full; exchange_load

Where each CTA keeps a part of a sum it sends again only when all have read what it sent before.
Where the first one gets all, the others send, and wait until it has read that.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects.cute import (
    BarrierOp,
    ClusterReduceOp,
    ClusterScatterOp,
    ClusterSumOp,
    KernelOp,
    fragment_of,
)
from cutedialect.dialects.pipeline import (
    ExchangeDrainOp,
    ExchangeExpectOp,
    ExchangeLoadOp,
    ExchangeSendOp,
    ExchangeTellOp,
    ExchangeWaitOp,
    RoleOp,
    StepsOp,
)

SLOT_BYTES = 16
"""What a thread sends of an element at once (PTX ISA 9.7.9.12)."""
_WORD_BYTES = 4
Exchanging = ClusterReduceOp | ClusterScatterOp | ClusterSumOp


def steps_of_cluster(op: Exchanging, exchange: SSAValue) -> StepsOp:
    """What its threads do, with those of other CTAs."""
    count = op.count.value.data
    if isinstance(op, ClusterReduceOp):
        come = count * SLOT_BYTES
        return StepsOp(
            [
                ExchangeExpectOp(exchange, come),
                ExchangeSendOp(exchange, come),
                ExchangeWaitOp(exchange, "full"),
                ExchangeLoadOp(exchange),
            ]
        )
    if isinstance(op, ClusterScatterOp):
        come = count * _bytes(op, op.result)
        return StepsOp(
            [
                ExchangeDrainOp(exchange),
                ExchangeExpectOp(exchange, come),
                ExchangeSendOp(exchange, come),
                ExchangeWaitOp(exchange, "full"),
                ExchangeLoadOp(exchange),
                BarrierOp(),
                ExchangeTellOp(exchange, 0, count),
            ]
        )
    come = (count - 1) * _bytes(op, op.acc)
    return StepsOp(
        [
            ExchangeExpectOp(exchange, come),
            ExchangeWaitOp(exchange, "full"),
            ExchangeLoadOp(exchange),
            BarrierOp(),
            ExchangeTellOp(exchange, 1, count - 1),
        ],
        otherwise=[ExchangeSendOp(exchange, come), ExchangeWaitOp(exchange, "empty")],
    )


def _bytes(op: Exchanging, tile: SSAValue) -> int:
    """What all threads of the team send of a tile of 32-bit elements, those of copies, too."""
    around = op.parent_op()
    while not isinstance(around, RoleOp | KernelOp):
        assert around is not None
        around = around.parent_op()
    if isinstance(around, RoleOp):
        threads = len(around.warp_range) // around.teams * WARP_SIZE
    else:
        assert around.threads is not None
        threads = around.threads.value.data
    return _WORD_BYTES * threads * fragment_of(tile).values
