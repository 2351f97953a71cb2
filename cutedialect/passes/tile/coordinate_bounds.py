"""Which tile coordinates may lie in front of a tensor, or behind the end of a mode that is dropped.

What hangs over the end of a tiled mode is masked wherever a tile is copied. In front of it, and
along batch modes, only coordinates that the program computes from data, arguments or differences
can lie, so that the others are copied without a look: `cute-tile` marks the rest, before work items
become block indices. `in_bounds` on a kernel promises that there are none.

    %t = cute.local_tile %a, [*, 64], (%b, %i) {guard = array<i64: 0>}   // of mode 0
    %s = cute.slice %a, 0, (%first, %end) {guard}                        // %first may be negative
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr, i64
from xdsl.ir import BlockArgument, SSAValue

from cutedialect.dialects import cute
from cutedialect.dialects.cute.views import GUARD
from cutedialect.dialects.walks import walk
from cutedialect.passes.analysis.memory_views import constant_of

IN_BOUNDS = "in_bounds"
"""On a kernel: its coordinates lie in their tensors, as the program promises."""

_COUNTS = (
    cute.TileIndexOp,
    cute.DimOp,
    cute.BlockIdxOp,
    cute.ClusterRankOp,
    cute.GridDimOp,
    cute.SearchOp,
    arith.RemUIOp,
    arith.DivUIOp,
)
# Not negative where both operands are.
_OF_BOTH = (
    arith.AddiOp,
    arith.MuliOp,
    arith.DivSIOp,
    arith.CeilDivSIOp,
    arith.FloorDivSIOp,
    arith.RemSIOp,
    arith.MinSIOp,
    arith.OrIOp,
)


def mark_coordinates(kernel: cute.KernelOp) -> None:
    """Put `guard` on the views of a kernel whose coordinates have to be looked at."""
    for op in walk(kernel):
        if isinstance(op, cute.SliceOp) and not is_nonnegative(op.first):
            op.attributes[GUARD] = UnitAttr()
        elif isinstance(op, cute.LocalTileOp | cute.IndexedTileOp):
            modes = [mode for mode in range(len(op.coords)) if _is_guarded(op, mode)]
            if modes:
                op.attributes[GUARD] = DenseArrayBase.from_list(i64, modes)


def _is_guarded(op: cute.LocalTileOp | cute.IndexedTileOp, mode: int) -> bool:
    extent, coord = op.tile.get_values()[mode], op.coords[mode]
    if extent < 0:
        return False
    if not is_nonnegative(coord):
        return True
    at = constant_of(coord)
    if at is not None and at * extent >= 1 << 31:
        return True
    return extent == 0 and not _is_below(coord, op.memref, mode)


def is_nonnegative(value: SSAValue) -> bool:
    """Whether a scalar of the tile level is known not to be negative."""
    if isinstance(value, BlockArgument):
        loop = value.owner.parent_op()
        return isinstance(loop, scf.ForOp) and value.index == 0 and is_nonnegative(loop.lb)
    op = value.owner
    match op:
        case arith.ConstantOp():
            return isinstance(op.value, IntegerAttr) and op.value.value.data >= 0
        case arith.MaxSIOp():
            return any(is_nonnegative(each) for each in op.operands)
        case cute.ClusterBoundOp():
            return is_nonnegative(op.source)
        case arith.SelectOp():
            return is_nonnegative(op.lhs) and is_nonnegative(op.rhs)
        case arith.SubiOp():
            return _is_remainder(op)
        case _ if isinstance(op, _OF_BOTH):
            return all(is_nonnegative(each) for each in op.operands)
        case _:
            return isinstance(op, _COUNTS)


def _is_remainder(op: arith.SubiOp) -> bool:
    """Whether a difference is x - (x // d) * d with a positive d, as Python's `%` is traced."""
    whole = op.rhs.owner
    if not isinstance(whole, arith.MuliOp):
        return False
    quotient = whole.lhs.owner
    return (
        isinstance(quotient, arith.FloorDivSIOp)
        and quotient.lhs is op.lhs
        and quotient.rhs is whole.rhs
        and is_nonnegative(whole.rhs)
    )


def _is_below(coord: SSAValue, tensor: SSAValue, mode: int) -> bool:
    """Whether a coordinate that is not negative is known to lie in a mode of a tensor."""
    root = tensor
    while isinstance(op := root.owner, cute.SliceOp) and op.mode.value.data != mode:
        root = op.source
    type_ = root.type
    extent = type_.shape[mode]
    if isinstance(coord, BlockArgument):
        loop = coord.owner.parent_op()
        return isinstance(loop, scf.ForOp) and _is_extent(loop.ub, root, mode)
    op = coord.owner
    if isinstance(op, cute.TileIndexOp):
        number = list(op.results).index(coord)  # pyright: ignore[reportArgumentType]
        is_same = op.memref is root and number == mode and op.run is None
        return is_same and op.tile.get_values()[mode] == 1
    number = constant_of(coord)
    return number is not None and isinstance(extent, int) and number < extent


def _is_extent(value: SSAValue, tensor: SSAValue, mode: int) -> bool:
    op = value.owner
    return isinstance(op, cute.DimOp) and op.memref is tensor and op.mode.value.data == mode
