"""What each op reads, writes, starts, completes and waits for: a table by class of op and by atom,
made from the PTX ISA manual alone (9.3), whose sections the rows name. An op or an atom without a
row is undecided: a program that has it is never passed.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import NamedTuple

from xdsl.dialects import arith, func, scf
from xdsl.ir import Attribute, Operation

from cutedialect.dialects import cute, cute_nvgpu, pipeline


class Engine(Enum):
    """Who does an access, which says how it completes and through which proxy it goes."""

    THREADS = "threads"
    """In program order, through the generic proxy."""
    CP_ASYNC = "cp.async"
    """With a group of the thread, through the generic proxy (9.7.9.25.3)."""
    BULK_LOAD = "bulk load"
    """With bytes at an mbarrier, through the async proxy (9.7.9.25.4, 9.7.9.27)."""
    BULK_STORE = "bulk store"
    """With a bulk group of the thread, through the async proxy (9.7.9.25.4)."""
    WGMMA = "wgmma"
    """With a group of the warpgroup; shared memory through the async proxy (9.7.15)."""
    TCGEN05 = "tcgen05"
    """With a commit to an mbarrier; shared memory through the async proxy (9.7.16.6)."""

    # Members are keys of what each step of a run looks up, and an enum's own hash is a function.
    __hash__ = object.__hash__


# Those that access shared memory through the generic proxy (PTX ISA 8.9).
GENERIC = frozenset((Engine.THREADS, Engine.CP_ASYNC))


class Does(Enum):
    """What an op does beside its accesses."""

    NOTHING = "nothing"
    HOLDS = "holds"
    """It is what the ops inside of it are: control flow, a role."""
    GIVES = "gives"
    """It gives a number, a view or a buffer."""
    MAKES = "makes"
    """It makes a ring, or a place in one."""
    ACQUIRE = "acquire"
    EXPECT = "expect"
    DRAIN = "drain"
    COMMIT = "commit"
    WAIT = "wait"
    RELEASE = "release"
    ADVANCE = "advance"
    BARRIER = "barrier"
    TURN_WAIT = "turn wait"
    TURN_PASS = "turn pass"
    PROXY_FENCE = "proxy fence"
    TENSOR_FENCE = "tcgen05 fence"
    GROUP_COMMIT = "group commit"
    GROUP_WAIT = "group wait"
    WGMMA_FENCE = "wgmma fence"
    SEND = "send"
    RECEIVE = "receive"
    REQUEST = "request"
    RESPOND = "respond"
    CLAIM = "claim"
    GATHER = "gather"
    """CTAs work together; one of them goes on in a way of its own."""
    LEAVE = "leave"
    """Waits until other CTAs have read what this one sent."""
    SEND_ALL = "send all"
    """Sends to other CTAs, as they do to this one."""
    EXPECT_ALL = "expect all"
    AWAIT_ALL = "await all"
    """Waits for what other CTAs send, or until they have read this one's."""
    TELL = "tell"
    """Tells other CTAs that what they sent is read."""
    START = "start"
    """Makes mbarriers; all threads of the CTA or cluster meet."""
    TAKE = "take"
    """Takes columns of tensor memory."""
    FIND = "find"
    """Finds where they are."""
    GIVE_BACK = "give back"
    """Gives them back."""

    __hash__ = object.__hash__


class Row(NamedTuple):
    """A row: section of the manual (PTX ISA 9.3; "" for what is no instruction that touches
    memory), names of the operands that are read and written, and what the op does beside. The
    engine is that of the atom where it is None; of a commit or wait that of the group.
    """

    section: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    does: Does = Does.NOTHING
    engine: Engine | None = Engine.THREADS


_HOLDS = Row("", does=Does.HOLDS)
_GIVES = Row("", does=Does.GIVES)
_MAKES = Row("", does=Does.MAKES)

ROWS: dict[type[Operation], Row] = {
    # Control flow, numbers, views and buffers.
    scf.ForOp: _HOLDS,
    scf.IfOp: _HOLDS,
    scf.WhileOp: _HOLDS,
    scf.YieldOp: _HOLDS,
    scf.ConditionOp: _HOLDS,
    cute.YieldOp: _HOLDS,
    func.ReturnOp: _HOLDS,
    pipeline.RoleOp: _HOLDS,
    pipeline.StepsOp: _HOLDS,
    cute.DimOp: _GIVES,
    cute.CoordOp: _GIVES,
    cute.BrevOp: _GIVES,
    cute.InlinePtxOp: _GIVES,
    cute.StrideOp: _GIVES,
    cute.BlockIdxOp: _GIVES,
    cute.GridDimOp: _GIVES,
    cute.ClusterRankOp: _GIVES,
    cute.LocalTileOp: _GIVES,
    cute.IndexedTileOp: _GIVES,
    cute.PixelTileOp: _GIVES,
    cute.TransposeOp: _GIVES,
    cute.SubviewOp: _GIVES,
    cute.StageOp: _GIVES,
    cute.SliceOp: _GIVES,
    cute.MakeViewOp: _GIVES,
    cute.ConcatOp: _GIVES,
    cute.GroupSizeOp: _GIVES,
    cute.MemberOp: _GIVES,
    cute.FindOp: _GIVES,
    cute.SearchOp: _GIVES,
    cute.ReadOp: _GIVES,
    cute.AllocFragmentOp: _GIVES,
    cute.AllocSmemOp: _GIVES,
    cute.AllocTmemOp: _GIVES,
    pipeline.InstanceOp: _GIVES,
    pipeline.IndexOp: _GIVES,
    pipeline.BarrierOp: _GIVES,
    cute.ClaimOp: Row("9.7.13.6", does=Does.CLAIM),
    cute.CancelLaunchOp: Row("9.7.13.17", does=Does.CLAIM),
    cute.LastArrivalOp: Row("9.7.13.6", does=Does.GATHER),
    cute.ClusterSumOp: Row("9.7.13.3", reads=("acc",), writes=("acc",), does=Does.GATHER),
    cute.ClusterScatterOp: Row("9.7.13.3", reads=("acc",), does=Does.GATHER),
    cute.PrintfOp: Row(""),
    cute.AssertOp: Row(""),
    # Registers.
    cute.FillOp: Row("", writes=("fragment",)),
    cute.MapOp: Row("", reads=("inputs",)),
    cute.ExtractOp: Row("", reads=("source",)),
    cute.UnpackOp: Row("", reads=("source",)),
    cute.ConvertOp: Row("9.7.9.6", reads=("source",)),
    cute_nvgpu.RoundToTf32Op: Row("", reads=("source",)),
    cute.ReduceOp: Row("9.7.9.6", reads=("source",)),
    cute.ScanOp: Row("9.7.9.6", reads=("tiles",)),
    cute.SortOp: Row("9.7.9.6", reads=("tiles",)),
    cute.TakeOp: Row("9.7.9.8", reads=("source", "indices")),
    cute.PutOp: Row("9.7.9.11", reads=("source", "indices", "values")),
    cute.ClusterReduceOp: Row("9.7.9.12", reads=("source",)),
    cute.AnyOp: Row("9.7.13.1", reads=("source",), does=Does.GIVES),
    # Memory.
    cute.LoadOp: Row("9.7.9.8", reads=("source",)),
    cute.CopyOp: Row("9.7.9", reads=("source", "mask"), writes=("destination",), engine=None),
    cute.CombineOp: Row("9.7.13.6", reads=("source", "destination"), writes=("destination",)),
    cute.FetchOp: Row(
        "9.7.13.5", reads=("source", "destination", "expected"), writes=("destination",)
    ),
    cute.GemmOp: Row("9.7.14", reads=("a", "b", "acc"), writes=("acc",), engine=None),
    cute_nvgpu.TmaPrefetchOp: Row("9.7.9.27"),
    # Groups, fences and barriers.
    cute_nvgpu.CpAsyncCommitOp: Row("9.7.9.25.3", does=Does.GROUP_COMMIT, engine=Engine.CP_ASYNC),
    cute_nvgpu.CpAsyncWaitOp: Row("9.7.9.25.3", does=Does.GROUP_WAIT, engine=Engine.CP_ASYNC),
    cute_nvgpu.TmaStoreCommitOp: Row(
        "9.7.9.25.4", does=Does.GROUP_COMMIT, engine=Engine.BULK_STORE
    ),
    cute_nvgpu.TmaStoreWaitOp: Row("9.7.9.25.4", does=Does.GROUP_WAIT, engine=Engine.BULK_STORE),
    cute_nvgpu.WgmmaFenceOp: Row("9.7.15.7", does=Does.WGMMA_FENCE),
    cute_nvgpu.WgmmaCommitOp: Row("9.7.15.7", does=Does.GROUP_COMMIT, engine=Engine.WGMMA),
    cute_nvgpu.WgmmaWaitOp: Row("9.7.15.7", does=Does.GROUP_WAIT, engine=Engine.WGMMA),
    cute_nvgpu.ProxyFenceOp: Row("9.7.13.4", does=Does.PROXY_FENCE),
    cute_nvgpu.Tcgen05FenceOp: Row("9.7.16.6.3", does=Does.TENSOR_FENCE),
    cute_nvgpu.FenceTensorMapsOp: Row("9.7.13.14"),
    cute_nvgpu.WriteOnesOp: Row("9.7.9.11", writes=("tile",)),
    cute_nvgpu.TmemAllocOp: Row("9.7.16.7.1", does=Does.TAKE),
    cute_nvgpu.TmemAddressOp: Row("9.7.9.8", does=Does.FIND),
    cute_nvgpu.TmemDeallocOp: Row("9.7.16.7.1", does=Does.GIVE_BACK),
    cute.BarrierOp: Row("9.7.13.1", does=Does.BARRIER),
    # Rings of mbarriers.
    pipeline.CreateOp: Row("9.7.13.15", does=Does.MAKES),
    pipeline.StateOp: _MAKES,
    pipeline.StartOp: Row("9.7.13.15", does=Does.START),
    pipeline.StartArriveOp: Row("9.7.13.3"),
    pipeline.StartWaitOp: Row("9.7.13.3", does=Does.START),
    pipeline.ExchangeOp: Row("9.7.13.15", does=Does.MAKES),
    pipeline.ExchangeDrainOp: Row("9.7.13.15", does=Does.LEAVE),
    pipeline.AdvanceOp: Row("", does=Does.ADVANCE),
    pipeline.ProducerAcquireOp: Row("9.7.13.15", does=Does.ACQUIRE),
    pipeline.ExpectOp: Row("9.7.13.15", does=Does.EXPECT),
    pipeline.DrainOp: Row("9.7.13.15", does=Does.DRAIN),
    pipeline.ProducerCommitOp: Row("9.7.13.15", does=Does.COMMIT),
    pipeline.ConsumerWaitOp: Row("9.7.13.15", does=Does.WAIT),
    pipeline.ConsumerReleaseOp: Row("9.7.13.15", does=Does.RELEASE),
    pipeline.ScratchStoreOp: Row("9.7.9.11"),
    pipeline.ScratchLoadOp: Row("9.7.9.8"),
    pipeline.ExchangeSendOp: Row("9.7.9.12", does=Does.SEND_ALL),
    pipeline.ExchangeExpectOp: Row("9.7.13.15", does=Does.EXPECT_ALL),
    pipeline.ExchangeWaitOp: Row("9.7.13.15", does=Does.AWAIT_ALL),
    pipeline.ExchangeLoadOp: Row("9.7.9.8"),
    pipeline.ExchangeTellOp: Row("9.7.13.15", does=Does.TELL),
    pipeline.TurnWaitOp: Row("9.7.13.1", does=Does.TURN_WAIT),
    pipeline.TurnPassOp: Row("9.7.13.1", does=Does.TURN_PASS),
    pipeline.SendOp: Row("9.7.9.11", writes=("slots",), does=Does.SEND),
    pipeline.ReceiveOp: Row("9.7.9.8", reads=("slots",), does=Does.RECEIVE),
    pipeline.RequestOp: Row(
        "9.7.13.17.1", writes=("slots",), does=Does.REQUEST, engine=Engine.BULK_LOAD
    ),
    pipeline.ResponseOp: Row("9.7.13.17.2", reads=("slots",), does=Does.RESPOND),
}

# Copies and multiplies by their atoms; None stands for plain moves between registers.
ATOMS: dict[type[Attribute] | None, tuple[Engine, str]] = {
    None: (Engine.THREADS, ""),
    cute_nvgpu.UniversalCopyType: (Engine.THREADS, "9.7.9.8"),
    cute_nvgpu.AlignedStoreType: (Engine.THREADS, "9.7.9.11"),
    cute_nvgpu.OperandCopyType: (Engine.THREADS, "9.7.9.8"),
    cute_nvgpu.LdsmType: (Engine.THREADS, "9.7.14.5.15"),
    cute_nvgpu.StsmType: (Engine.THREADS, "9.7.14.5.15"),
    cute_nvgpu.SimtAsyncCopyType: (Engine.CP_ASYNC, "9.7.9.25.3"),
    cute_nvgpu.TmaLoadType: (Engine.BULK_LOAD, "9.7.9.27"),
    cute_nvgpu.BulkLoadType: (Engine.BULK_LOAD, "9.7.9.25.4"),
    cute_nvgpu.TmaStoreType: (Engine.BULK_STORE, "9.7.9.27"),
    cute_nvgpu.BulkStoreType: (Engine.BULK_STORE, "9.7.9.25.4"),
    # A load and its `wait::ld`, a store and its `wait::st` are one op each.
    cute_nvgpu.TmemLoadType: (Engine.THREADS, "9.7.16.8.1"),
    cute_nvgpu.TmemStoreType: (Engine.THREADS, "9.7.16.8.2"),
    cute_nvgpu.Sm80MmaType: (Engine.THREADS, "9.7.14.5"),
    cute_nvgpu.Sm90MmaType: (Engine.WGMMA, "9.7.15"),
    cute_nvgpu.Sm100MmaType: (Engine.TCGEN05, "9.7.16.10.9"),
}


def row_of(op: Operation) -> Row | None:
    """The row of an op; None where it is undecided."""
    kind = type(op)
    row = ROWS.get(kind)
    return row if row is not None and row.engine is not None else _row(kind, atom_class(op))


@cache
def _row(kind: type[Operation], atom: type[Attribute] | None) -> Row | None:
    """The row of ops of a class, with the engine of an atom."""
    row = ROWS.get(kind)
    if row is None:
        return _GIVES if kind.dialect_name() in (arith.Arith.name, "math") else None
    found = ATOMS.get(atom)
    return None if found is None else row._replace(engine=found[0])


def atom_class(op: Operation) -> type[Attribute] | None:
    """The class of the atom of a copy or multiply."""
    atom = op.properties.get("atom")
    return None if atom is None else type(atom)


def operands_of(op: Operation, names: tuple[str, ...]) -> list[object]:
    """The operands of an op that some names mean, those that are absent left out."""
    found: list[object] = []
    for name in names:
        value = getattr(op, name)
        if isinstance(value, tuple | list):
            found.extend(value)
        elif value is not None:
            found.append(value)
    return found
