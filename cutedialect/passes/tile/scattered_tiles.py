"""What follows a product of which each CTA of a cluster has a part of the columns: its tiles get
the columns of that part.

    y = map acc                                  part = cluster_scatter acc of 4
    d = local_tile(D, [64, 64], (m, n))    =>    y = map part
    copy y, d                                    d = local_tile(D, [64, 16], (m, 4 n + rank))
                                                 copy y, d

That is done where each element of the product goes its own way: through maps, from and to tiles of
tensors that have the columns too, or one that all columns have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cutedialect.dialects import cute
from cutedialect.dialects.walks import walk
from cutedialect.passes.rewriting import ScalarBuilder
from cutedialect.passes.tile.resized_tiles import (
    View,
    fragment_shape,
    kept_modes,
    resize_tiles,
    resize_view,
)

# A thread has two neighboring columns of eight in the layouts of MMA atoms.
_COLUMNS = 8


def is_cut(following: Sequence[Operation], acc: SSAValue, parts: int) -> bool:
    """Whether ops that follow the sum of a register tile can have a part of its columns each."""
    columns = cute.shape_of(acc.type)[1]
    inside = set(_all(following))
    return columns % (_COLUMNS * parts) == 0 and all(_allows(op, columns, inside) for op in inside)


def cut_columns(
    build: ScalarBuilder, following: Sequence[Operation], acc: SSAValue, parts: int, rank: SSAValue
) -> None:
    """Add up a register tile over the cluster, and leave the ops that follow the part of `rank`."""
    columns = cute.shape_of(acc.type)[1]
    width = columns // parts
    ops = list(_all(following))
    inside = set(ops)
    count = build.constant(parts)
    start = build.mul(rank, width)
    part = build.value(cute.ClusterScatterOp(acc, parts))
    acc.replace_uses_with_if(part, lambda use: use.operation in inside)

    def extents(value: SSAValue) -> dict[int, int]:
        return {1: width} if fragment_shape(value)[1:] == (columns,) else {}

    def resize(op: View) -> None:
        mode = _column_mode(op, columns)
        if mode is not None:
            place = ScalarBuilder(InsertPoint.before(op), op)
            tile, coords = list(op.tile.get_values()), list(op.coords)
            tile[mode] = width
            coords[mode] = place.add(place.mul(coords[mode], count), rank)
            resize_view(op, tile, coords)

    resize_tiles(ops, extents, resize, start)


def _all(following: Iterable[Operation]) -> Iterator[Operation]:
    for each in following:
        yield from walk(each)


def _allows(op: Operation, columns: int, inside: set[Operation]) -> bool:
    """Whether an op does the same with a part of the columns as with all."""
    tiles = [value for value in (*op.operands, *op.results) if _is_tile(value)]
    match op:
        case cute.LocalTileOp() | cute.TransposeOp():
            is_counted = isinstance(op, cute.TransposeOp) or op.of is None
            return is_counted and not tiles and op.result.has_one_use()
        case cute.LoadOp():
            return _is_whole(op.result, columns) and _is_tiled(op.source, inside)
        case cute.CopyOp():
            return (
                isinstance(op.destination.type, cute.MemRefType)
                and op.mask is None
                and cute.shape_of(op.source.type)[1:] == (columns,)
                and _is_tiled(op.destination, inside)
            )
        case cute.MapOp():
            return all(_is_whole(tile, columns) for tile in tiles)
        case _:
            return not tiles or isinstance(op, cute.YieldOp)


def _is_tile(value: SSAValue) -> bool:
    return isinstance(value.type, cute.FragmentType)


def _is_whole(tile: SSAValue, columns: int) -> bool:
    """Whether a register tile has all columns, or one that all have in common."""
    shape = cute.shape_of(tile.type)
    return len(shape) == 2 and shape[1] in (columns, 1)


def _is_tiled(view: SSAValue, inside: set[Operation]) -> bool:
    """Whether a view of memory is a tile of a tensor, maybe transposed, that is made inside."""
    while isinstance(view.owner, cute.TransposeOp) and view.owner in inside:
        view = view.owner.source
    return isinstance(view.owner, cute.LocalTileOp) and view.owner in inside


def _column_mode(op: View, columns: int) -> int | None:
    """The mode of a tensor along which its tile has the columns; None where it has none."""
    # A tile of one mode is a column.
    modes: list[int | None] = [*kept_modes(op), None][:2]
    view: SSAValue = op.result
    while isinstance(user := next(iter(view.uses)).operation, cute.TransposeOp):
        modes.reverse()
        view = user.result
    return modes[1] if cute.shape_of(view.type)[1:] == (columns,) else None
