"""What each warp touches of a tile: by the thread-value layout of what it holds, or of a copy."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute, cute_nvgpu
from cutedialect.dialects.cute import FragmentType, MemRefType
from cutedialect.layout import Layout, flatten
from cutedialect.layout.errors import LayoutError

from . import regions
from .events import Engine, Row
from .nodes import View
from .regions import Granules

_WARPGROUP = 4
# Ops of which each warp may touch a part of its own.
_SHARING = (cute.CopyOp, cute.GemmOp, cute.LoadOp)


def _by_warpgroup(parts: tuple[int, ...]) -> tuple[int, ...]:
    """What the warps of each warpgroup touch together."""
    result: list[int] = []
    for first in range(0, len(parts), _WARPGROUP):
        group = parts[first : first + _WARPGROUP]
        mask = 0
        for part in group:
            mask |= part
        result += [mask] * len(group)
    return tuple(result)


def _held(
    type_: Any, layout: Layout, granules: Granules, warps: int, is_stored: bool = False
) -> tuple[int, ...] | None:
    """What each warp touches of a tile that it holds, or gets, as a register tile of a type."""
    if not isinstance(type_, FragmentType) or type_.tv is None:
        return None
    return regions.by_warp(type_.tv, type_.shape, layout, granules, warps, is_stored)


def _tiled(
    op: cute.CopyOp, layout: Layout, granules: Granules, warps: int
) -> tuple[int, ...] | None:
    """What each warp touches of a tile that threads copy between memories, by the thread-value
    layout of the copy, which is repeated over the tile.
    """
    if isinstance(op.atom, cute_nvgpu.AlignedStoreType):
        groups = op.atom.groups
        # A group of warps reads whole lines, which run along the second mode.
        if groups == 1 or warps % groups or memory_type(op.source).stride[-1] != 1:
            return None
        lines = regions.split_mode(layout, granules, groups)
        return (
            None if lines is None else tuple(part for part in lines for _ in range(warps // groups))
        )
    shifts = isinstance(op.atom, cute_nvgpu.OperandCopyType) and op.atom.form == "shift"
    if op.tiled is None or shifts:
        return None
    shape = memory_type(op.destination).shape
    try:
        tv = op.tiled.data.tv_layout(shape)
    except LayoutError:
        return None
    return regions.by_warp(tv, shape, layout, granules, warps)


def shares_of(
    op: Operation, row: Row, value: SSAValue, view: View, warps: int
) -> tuple[int, ...] | None:
    """What each warp touches of a tile; None where each may touch all of it."""
    if type(op) not in _SHARING:
        return None
    layout, granules = view.layout, view.granules
    match op:
        case cute.LoadOp():
            return _held(op.result.type, layout, granules, warps)
        case cute.CopyOp() if row.engine is Engine.BULK_STORE:
            atom, shares = op.atom, None
            if isinstance(atom, cute_nvgpu.TmaStoreType) and atom.warps is not None:
                groups = warps // atom.warps
                shares = regions.split_mode(layout, granules, groups, atom.along)
                idle = tuple(0 for _ in range(atom.warps - 1))
                shares = shares and tuple(part for share in shares for part in (share, *idle))
            return shares or (
                regions.whole(layout, granules), *(0 for _ in range(warps - 1)),
            )  # fmt: skip
        case cute.CopyOp():
            other = op.source if value is op.destination else op.destination
            own = _held(other.type, layout, granules, warps, value is op.destination)
            return own if own is not None else _tiled(op, layout, granules, warps)
        case cute.GemmOp() if row.engine is Engine.WGMMA:
            acc = op.acc.type
            assert isinstance(acc, FragmentType)
            if acc.tv is None:
                return None
            mode = 0 if value is op.a else 1
            rows = regions.rows_by_warp(acc.tv, acc.shape, mode, layout, granules, warps)
            return None if rows is None else _by_warpgroup(rows)
        case _:
            return None


def memory_type(value: SSAValue) -> MemRefType:
    """The type of a tile in memory."""
    type_ = value.type
    assert isinstance(type_, MemRefType)
    return type_


def is_placed(op: cute.MakeViewOp) -> bool:
    """Whether numbers say where the elements of a view lie from one value on."""
    numbers = flatten(memory_type(op.result).stride)
    begins = op.offset is None or isinstance(op.offset.type, IntegerType)
    return begins and all(isinstance(number, int) for number in numbers)
