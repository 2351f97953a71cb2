"""The `pipeline` dialect: rings of shared-memory stages, the verbs of their producer and consumer, and
the roles that warps play.

A ring is named, not stored: what a verb becomes (commit groups, mbarriers) follows from its kind.
`rings.py` holds rings, their states and what producer and consumer say, `completions.py` where what
runs beside threads is over, `starts.py` what comes before the roles, `steps.py` how threads exchange
what they hold, `roles.py` the roles, `turns.py` the order of a role's instances, `messages.py` numbers
that roles tell each other.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from cutedialect.dialects.effects import declared

from .completions import CompleteOp
from .messages import RESPONSE_WORDS, ReceiveOp, RequestOp, ResponseOp, SendOp
from .rings import (
    AdvanceOp,
    BarrierOp,
    BarrierType,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateOp,
    DrainOp,
    ExpectOp,
    IndexOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    RingType,
    StateOp,
    StateType,
)
from .roles import RoleOp
from .starts import (
    ExchangeDrainOp,
    ExchangeOp,
    ExchangeType,
    StartArriveOp,
    StartOp,
    StartWaitOp,
)
from .steps import (
    ACCESSES,
    STEPS,
    ExchangeExpectOp,
    ExchangeLoadOp,
    ExchangeSendOp,
    ExchangeTellOp,
    ExchangeWaitOp,
    ScratchLoadOp,
    ScratchStoreOp,
    StepsOp,
)
from .turns import InstanceOp, TurnPassOp, TurnWaitOp

Pipeline = Dialect(
    "pipeline",
    declared(
        [
            CreateOp,
            StateOp,
            IndexOp,
            AdvanceOp,
            BarrierOp,
            ProducerAcquireOp,
            ExpectOp,
            ProducerCommitOp,
            ConsumerWaitOp,
            ConsumerReleaseOp,
            DrainOp,
            CompleteOp,
            ExchangeOp,
            ExchangeDrainOp,
            StartOp,
            StartArriveOp,
            StartWaitOp,
            StepsOp,
            ScratchStoreOp,
            ScratchLoadOp,
            ExchangeExpectOp,
            ExchangeSendOp,
            ExchangeWaitOp,
            ExchangeLoadOp,
            ExchangeTellOp,
            RoleOp,
            InstanceOp,
            TurnWaitOp,
            TurnPassOp,
            SendOp,
            ReceiveOp,
            RequestOp,
            ResponseOp,
        ]
    ),
    [RingType, StateType, BarrierType, ExchangeType],
)

__all__ = [
    "ACCESSES",
    "RESPONSE_WORDS",
    "STEPS",
    "AdvanceOp",
    "BarrierOp",
    "BarrierType",
    "CompleteOp",
    "ConsumerReleaseOp",
    "ConsumerWaitOp",
    "CreateOp",
    "DrainOp",
    "ExchangeDrainOp",
    "ExchangeExpectOp",
    "ExchangeLoadOp",
    "ExchangeOp",
    "ExchangeSendOp",
    "ExchangeTellOp",
    "ExchangeType",
    "ExchangeWaitOp",
    "ExpectOp",
    "IndexOp",
    "InstanceOp",
    "Pipeline",
    "ProducerAcquireOp",
    "ProducerCommitOp",
    "ReceiveOp",
    "RequestOp",
    "ResponseOp",
    "RingType",
    "RoleOp",
    "ScratchLoadOp",
    "ScratchStoreOp",
    "SendOp",
    "StartArriveOp",
    "StartOp",
    "StartWaitOp",
    "StateOp",
    "StateType",
    "StepsOp",
    "TurnPassOp",
    "TurnWaitOp",
]
