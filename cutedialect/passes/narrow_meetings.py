"""A step of `cute-pipeline`: warpgroups that decide for themselves.

    y = any x {local}; if y { what each warpgroup does alone } else { likewise }
    =>
    y = any x {local, warps = 4}; ...

A branch on a local condition may be taken by some warpgroups and not by others, which then need not
meet to know it, if nothing in it makes all warps of the role meet either.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation, SSAValue
from xdsl.traits import is_side_effect_free

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    AnyOp,
    BarrierOp,
    ConvertOp,
    CopyOp,
    ExtractOp,
    FillOp,
    FragmentType,
    LoadOp,
    MapOp,
    MemRefType,
    ReduceOp,
)
from cutedialect.dialects.cute_nvgpu import (
    ProxyFenceOp,
    TmaLoadType,
    TmaStoreCommitOp,
    TmaStoreType,
    TmaStoreWaitOp,
)
from cutedialect.dialects.pipeline import RoleOp
from cutedialect.passes.thread_layouts import GROUP_WARPS, threads_along


def narrow_meetings(role: RoleOp) -> None:
    """Narrow the local conditions of a role of several warpgroups."""
    if len(role.warp_range) // role.teams <= GROUP_WARPS:
        return
    for op in list(role.walk()):
        if not isinstance(op, AnyOp) or op.local is None:
            continue
        branches = set(_branches(op.result))
        if branches and all(_is_done_alone(inner) for inner in _inside(branches)):
            op.properties["warps"] = IntegerAttr(GROUP_WARPS, i32)


def _branches(value: SSAValue) -> Iterator[scf.IfOp]:
    """The branches that depend on a value."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, scf.IfOp):
            yield op
        for result in op.results:
            yield from _branches(result)


def _inside(branches: set[scf.IfOp]) -> Iterator[Operation]:
    for branch in branches:
        for region in branch.regions:
            yield from region.walk()


def _is_done_alone(op: Operation) -> bool:
    """Whether a warpgroup needs no other one for an op."""
    match op:
        case AnyOp() | BarrierOp() | TmaStoreCommitOp() | TmaStoreWaitOp():
            return op.warps is not None and op.warps.value.data <= GROUP_WARPS
        case ReduceOp():
            type_ = op.source.type
            assert isinstance(type_, FragmentType)
            if type_.tv is None:
                return False
            along = threads_along(type_.tv, type_.shape, op.mode.value.data)
            apart = all(divisor * extent <= 32 * GROUP_WARPS for divisor, extent in along)
            return apart or op.local is not None
        case CopyOp():
            if isinstance(op.atom, TmaStoreType):
                return op.atom.warps is not None and op.atom.warps <= GROUP_WARPS
            return not isinstance(op.atom, TmaLoadType)
        case LoadOp():
            return isinstance(op.source.type, MemRefType) and op.source.type.space == "gmem"
        case MapOp() | FillOp() | ConvertOp() | ExtractOp() | AllocFragmentOp() | ProxyFenceOp():
            return True
        case scf.ForOp() | scf.IfOp() | scf.YieldOp():
            return True
        case _:
            return is_side_effect_free(op) or isinstance(op.parent_op(), MapOp)
