"""`cute.local_tile`: the tile of a tensor at tile coordinates, or a run of tiles along a mode."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeVar, overload

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from cutedialect.layout import LayoutError, TiledCopy

from .pixels import FoundPixels
from .scalar import Scalar, as_i32
from .tile import Tensor, Tile, View, Views
from .trace import current, error

_Made = TypeVar("_Made", View, Views)


@overload
def local_tile(
    tensor: Tensor,
    tile: Sequence[int | None],
    coord: Sequence[int | Scalar | Tile | View | FoundPixels],
    copy: TiledCopy | None = None,
) -> View: ...


@overload
def local_tile(
    tensor: Tensor,
    tile: Sequence[int | None],
    coord: Sequence[int | Scalar | Tile | View | FoundPixels | None],
    copy: TiledCopy | None = None,
) -> Views: ...


def local_tile(
    tensor: Tensor,
    tile: Sequence[int | None],
    coord: Sequence[object],
    copy: TiledCopy | None = None,
) -> View | Views:
    """The tile at `coord`, in tiles; a coordinate of None leaves the run of tiles along that mode.

    `tile` speaks of the last modes of the tensor; earlier (batch) modes take one coordinate each
    and are not modes of the tile. A tile extent of None is the whole mode, which must be static,
    and takes no coordinate. Where a tile has more than two modes, those of extent 1 are none of it.

    The coordinate of the tile's rows, its first mode, may be a tile (or a view of a tensor) of as
    many row numbers, i32 or i64: loads then gather these rows of the tensor, and `cute.copy` and
    `cute.atomic_add` scatter to them. Rows that the tensor does not have, and what a view has
    behind the end of its own tensor, read 0 and are not written; of equal numbers any may be
    written last. It may also be what `cute.Pixels` finds.

    `copy` is the tiled copy by which threads load and store the tile, or bring it to a multiply:
    its threads are those of the kernel, and its tiler divides the tile. Default: chosen for it.
    """
    if not isinstance(tensor, Tensor):
        raise error(f"expected a tensor to tile, got {type(tensor).__name__}")
    tile = _several(tile, "a tile of extents", "(64, 64)")
    coord = _several(coord, "coordinates", "(m, n)")
    if not 0 < len(tile) <= tensor.rank:
        raise error(
            f"expected a tile of 1 to {tensor.rank} modes for {tensor.name}, got {len(tile)}",
            code="CD-P2",
        )
    batch = tensor.rank - len(tile)
    extents: list[int] = [0] * batch
    for position, extent in enumerate(tile):
        if extent is None and not isinstance(tensor.memref.shape[batch + position], int):
            raise error(
                f"expected a static extent of mode {batch + position} of {tensor.name} for a tile "
                "extent of None, got a run-time one; give the extent",
                code="CD-P4",
            )
        extents.append(-1 if extent is None else as_extent(extent))
    wanted = sum(extent >= 0 for extent in extents)
    if len(coord) != wanted:
        raise error(
            f"expected {wanted} coordinates for {tensor.name}, got {len(coord)}", code="CD-P2"
        )
    values: list[SSAValue | None] = []
    open_mode: int | None = None
    rows: tuple[int, Tile | View | FoundPixels] | None = None
    given = iter(coord)
    for mode, extent in enumerate(extents):
        at = 0 if extent < 0 else next(given)
        if at is None:
            if open_mode is not None:
                raise error("expected at most one coordinate of None", code="CD-P4")
            open_mode = mode
            values.append(None)
        elif isinstance(at, Tile | View | FoundPixels):
            if rows is not None:
                raise error("expected at most one tile of row numbers", code="CD-P4")
            rows = mode, at
            values.append(current().constant(0, IntegerType(32)))
        else:
            values.append(as_i32(at, "a tile coordinate"))
    if rows is not None:
        from .indexed_rows import indexed_view

        if copy is not None:
            raise error("expected no tiled copy for a tile of row numbers, got one", code="CD-P4")
        return indexed_view(tensor, extents, values, *rows)
    if open_mode is not None:
        return _checked(Views(tensor, extents, values, open_mode, copy), copy)
    return _checked(
        tensor.view(extents, [value for value in values if value is not None], copy), copy
    )


def _several(value: object, what: str, example: str) -> tuple[Any, ...]:
    """A tuple of what is given for each mode."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        got = f"{value!r}" if isinstance(value, int) else type(value).__name__
        raise error(
            f"expected {what} such as {example}, one for each mode, got {got}; of a vector it is "
            "(64,) at (m,)",
            code="CD-P1",
        )
    return tuple(value)


def _checked(made: _Made, copy: object) -> _Made:
    """A view, or a run of them, that a tiled copy can move."""
    if copy is None:
        return made
    if not isinstance(copy, TiledCopy):
        raise error(f"expected a TiledCopy, got {type(copy).__name__}")
    try:
        copy.tv_layout(made.shape)
    except LayoutError as why:
        raise error(str(why), code="CD-P4") from why
    return made


def as_extent(extent: object) -> int:
    """A tile extent that a program gives, checked."""
    if isinstance(extent, bool | Scalar) or not hasattr(extent, "__index__"):
        raise error(f"expected tile extents to be ints or None, got {type(extent).__name__}")
    number = operator.index(extent)  # pyright: ignore[reportArgumentType]
    if number <= 0:
        raise error(f"expected positive tile extents, got {number}", code="CD-P4")
    return number
