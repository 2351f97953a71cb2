"""A step of `cute-synchronize`: warps and warpgroups that decide for themselves.

    y = any x {local}; if y { what each warp does in registers and tensor memory } else { likewise }
    =>
    y = any x {local, warps = 1}; ...

    y = any x {local}; if y { what each warpgroup does alone } else { likewise }
    =>
    y = any x {local, warps = 4}; ...

A branch on a local condition may be taken by some warps and not by others, which then need not meet
to know it, if nothing in it makes them meet either, and if no row of x is held by several of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import SSAValue

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects.cute import AnyOp, FragmentType, KernelOp
from cutedialect.dialects.effects import RMEM, effects_of
from cutedialect.dialects.pipeline import RoleOp
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.thread_layouts import GROUP_WARPS, modes_of
from cutedialect.passes.anchors import anchored


@anchored(AnyOp)
def narrow_meetings(around: KernelOp | RoleOp) -> None:
    """Narrow the local conditions of a role, or of a kernel without roles."""
    has_groups = isinstance(around, RoleOp) and (
        len(around.warp_range) // around.teams > GROUP_WARPS
    )
    # Inner conditions first: what they decide is a part of the outer branches.
    for op in reversed(list(ops_of(around, AnyOp))):
        if op.local is None:
            continue
        branches = set(_branches(op.result))
        effects = [effects_of(inner) for branch in branches for inner in walk(branch)]
        if not branches:
            continue
        # A warp needs no other one, nor memory but the lanes of tensor memory that it alone reaches
        # (PTX ISA 9.7.16.8.1); a warpgroup no other one.
        if _has_rows_of(1, op.source) and all(
            each.stays_within(1) and each.touches_only(RMEM, "tmem") and not each.fences
            for each in effects
        ):
            op.properties["warps"] = IntegerAttr(1, i32)
        elif (
            has_groups
            and _has_rows_of(GROUP_WARPS, op.source)
            and all(each.stays_within(GROUP_WARPS) for each in effects)
        ):
            op.properties["warps"] = IntegerAttr(GROUP_WARPS, i32)


def _has_rows_of(warps: int, value: SSAValue) -> bool:
    """Whether every row of a register tile is held by threads of some `warps` neighbors alone."""
    type_ = value.type
    assert isinstance(type_, FragmentType)
    if type_.tv is None:
        return False
    threads = 1
    for extent, stride in modes_of(type_.tv[0]):
        threads *= extent
        if threads > warps * WARP_SIZE and not 0 < stride < type_.shape[0]:
            return False
    return True


def _branches(value: SSAValue) -> Iterator[scf.IfOp | scf.ForOp]:
    """The branches and loops that depend on a value."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, scf.IfOp | scf.ForOp):
            yield op
        for result in op.results:
            yield from _branches(result)
