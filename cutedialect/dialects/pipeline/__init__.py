"""The `pipeline` dialect: rings of shared-memory stages, the verbs of their producer and consumer, and
the roles that warps play.

A ring is named, not stored: what a verb becomes (commit groups, mbarriers) follows from its kind.
`rings.py` holds rings and their states, `verbs.py` what producer and consumer say, `roles.py` the
roles.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from .rings import (
    AdvanceOp,
    BarrierOp,
    BarrierType,
    CreateOp,
    IndexOp,
    RingType,
    StateOp,
    StateType,
)
from .roles import RoleOp
from .verbs import (
    ConsumerReleaseOp,
    ConsumerWaitOp,
    ProducerAcquireOp,
    ProducerCommitOp,
)

Pipeline = Dialect(
    "pipeline",
    [
        CreateOp,
        StateOp,
        IndexOp,
        AdvanceOp,
        BarrierOp,
        ProducerAcquireOp,
        ProducerCommitOp,
        ConsumerWaitOp,
        ConsumerReleaseOp,
        RoleOp,
    ],
    [RingType, StateType, BarrierType],
)

__all__ = [
    "AdvanceOp",
    "BarrierOp",
    "BarrierType",
    "ConsumerReleaseOp",
    "ConsumerWaitOp",
    "CreateOp",
    "IndexOp",
    "Pipeline",
    "ProducerAcquireOp",
    "ProducerCommitOp",
    "RingType",
    "RoleOp",
    "StateOp",
    "StateType",
]
