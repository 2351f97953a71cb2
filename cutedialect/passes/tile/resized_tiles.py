"""Tiles with other extents, for the steps of `cute-tile` that pad, cut, join and share them: views
of tensors, what is transposed of them, register tiles, and the coordinates that maps ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cutedialect.dialects import cute
from cutedialect.dialects.cute.views import transposed_type
from cutedialect.passes.synchronize.memory_views import constant_of


def resize_view(
    op: cute.LocalTileOp | cute.IndexedTileOp,
    tile: Sequence[int],
    coords: Sequence[SSAValue] | None = None,
    memref: SSAValue | None = None,
    of: Sequence[int] | None = None,
) -> None:
    """Replace a view by one of other extents, also of another tensor or at other coordinates."""
    coords = list(op.coords) if coords is None else coords
    memref = op.memref if memref is None else memref
    again = (
        cute.LocalTileOp(memref, tile, coords, of)
        if isinstance(op, cute.LocalTileOp)
        else cute.IndexedTileOp(memref, tile, coords, op.rows, of, op.places)
    )
    again.attributes |= op.attributes
    again.location = op.location
    again.result.name_hint = op.result.name_hint
    Rewriter.replace_op(op, again)


def resize_transposed(op: cute.TransposeOp) -> None:
    """Let a transposed view have the extents of its source."""
    type_ = transposed_type(op.source.type)
    if isinstance(op.source.type, cute.MemRefType) and type_ != op.result.type:
        Rewriter.replace_value_with_new_type(op.result, type_)


def resize_fragment(value: SSAValue, extents: Mapping[int, int]) -> None:
    """Give a register tile other extents by its modes; anything else stays."""
    type_ = value.type
    if isinstance(type_, cute.FragmentType) and extents:
        shape = tuple(extents.get(mode, extent) for mode, extent in enumerate(type_.shape))
        Rewriter.replace_value_with_new_type(value, cute.FragmentType.get(type_.element, shape))


def coordinates_along(op: Operation, modes: Iterable[int]) -> list[cute.CoordOp]:
    """The coordinates along some modes that a map asks for."""
    if not isinstance(op, cute.MapOp):
        return []
    wanted = {*modes}
    found = [each for each in op.body.block.ops if isinstance(each, cute.CoordOp)]
    return [each for each in found if each.mode.value.data in wanted]


def count_from(coordinate: cute.CoordOp, start: SSAValue) -> None:
    """Let a coordinate count from an element of a longer tile, or of a row."""
    moved = arith.AddiOp(coordinate.result, start)
    moved.properties["overflowFlags"] = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])
    moved.location = coordinate.location
    Rewriter.insert_op(moved, InsertPoint.after(coordinate))
    coordinate.result.replace_uses_with_if(moved.result, lambda use: use.operation is not moved)


def tile_behind(view: SSAValue) -> cute.LocalTileOp | None:
    """The tile of a tensor that a view turns, or is; None where it is something else."""
    while isinstance(view.owner, cute.TransposeOp):
        view = view.owner.source
    return view.owner if isinstance(view.owner, cute.LocalTileOp) else None


def fragment_shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a register tile, () of anything else."""
    return value.type.shape if isinstance(value.type, cute.FragmentType) else ()


def size_of(value: SSAValue) -> int:
    """How many elements a register tile has, 0 of anything else."""
    return prod(fragment_shape(value)) if fragment_shape(value) else 0


def moved_by(op: Operation) -> list[cute.MemRefType]:
    """The tiles of memory that an op loads or stores."""
    values = op.operands if isinstance(op, cute.LoadOp | cute.CopyOp | cute.AtomicOp) else ()
    return [value.type for value in values if isinstance(value.type, cute.MemRefType)]


def origins_of(coord: SSAValue, extent: int) -> list[SSAValue]:
    """The first element of tiles of an extent at a coordinate, as a kernel computes it."""
    found: list[SSAValue] = [coord] if extent == 1 else []
    for use in coord.uses:
        op = use.operation
        if isinstance(op, arith.MuliOp) and constant_of(op.operands[1 - use.index]) == extent:
            found.append(op.result)
    return found
