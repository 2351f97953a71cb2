"""Tiles of rows that a tile numbers: `cute.local_tile(X, (bm, bk), (rows, k))` with a tile of row
numbers as the coordinate of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import SSAValue

from cutedialect.dialects.cute import IndexedTileOp, LocalTileOp, PixelTileOp, TransposeOp

from .dtypes import i32, i64
from .functions import coord, where
from .pixels import FoundPixels, pixel_operands
from .tile import Tensor, Tile, View, Views, as_matrix, as_matrix_extents, tile_origins
from .trace import current, error

# No row has this number, nor any from this one on.
_NO_ROW = -1
_MOST_ROWS = 1 << 31


class IndexedView(View):
    """A tile of a tensor whose rows are numbered: loads gather them, `cute.copy` into it and
    `cute.atomic_add` scatter. Everything else takes the tile that `load` gives.
    """

    is_indexed: ClassVar[bool] = True

    @property
    def T(self) -> View:
        """The tile with its two modes exchanged, an operand of a multiply."""
        turned = current().insert(TransposeOp(self.use())).results[0]
        return TurnedRows(turned, self)


class TurnedRows(View):
    """The transpose of a tile whose rows are numbered: a multiply takes it, and `load` turns what
    it gathers.
    """

    is_indexed: ClassVar[bool] = True

    def __init__(self, value: SSAValue, rows: IndexedView) -> None:
        last = len(rows.shape) - 1
        origins = {last - mode: at for mode, at in rows.origins.items()}
        super().__init__(value, rows.tensor, origins)
        self.turned_rows: View = rows

    @property
    def T(self) -> View:
        """The tile of rows again."""
        return self.turned_rows

    def load(self) -> Tile:
        """Read the rows into registers, and exchange the modes there."""
        return self.turned_rows.load().T


class IndexedViews(Views):
    """The tiles of numbered rows along one mode, indexed by a run-time tile number."""

    def __init__(
        self,
        tensor: Tensor,
        tile: Sequence[int],
        coords: Sequence[SSAValue | None],
        mode: int,
        rows: Tile,
    ) -> None:
        super().__init__(tensor, tile, coords, mode)
        self.rows = rows

    def view(self, coords: Sequence[SSAValue]) -> View:
        """The tile of these rows at tile coordinates."""
        return _view(self.tensor, self.tile, coords, self.rows)


def indexed_view(
    tensor: Tensor,
    tile: Sequence[int],
    coords: Sequence[SSAValue | None],
    mode: int,
    rows: Tile | View | FoundPixels,
) -> IndexedView | IndexedViews:
    """The tile at tile coordinates, that of `mode` being `rows`; a coordinate of None leaves the
    run of tiles along its mode.
    """
    extents = as_matrix_extents(tile)
    kept = [at for at, extent in enumerate(extents) if extent != 0]
    if type(tensor) is not Tensor:
        raise error(
            f"expected a tensor in memory, got {tensor.name}, whose rows go through a table of "
            "pages already",
            code="CD-P14",
        )
    if len(kept) > 2 or mode != kept[0]:
        raise error(
            f"expected a tile of numbers as the coordinate of the rows of a tile of {tensor.name} "
            f"of one or two modes, got it as that of mode {mode} of a tile "
            f"{tuple(extent for extent in tile if extent != 0)}",
            code="CD-P2",
        )
    found = rows if isinstance(rows, FoundPixels) else None
    numbers = _row_numbers(rows.rows if isinstance(rows, FoundPixels) else rows, extents[mode])
    if None in coords:
        return IndexedViews(tensor, extents, coords, coords.index(None), numbers)
    return _view(tensor, extents, [each for each in coords if each is not None], numbers, found)


def _view(
    tensor: Tensor,
    tile: Sequence[int],
    coords: Sequence[SSAValue],
    rows: Tile,
    found: FoundPixels | None = None,
) -> IndexedView:
    pixels = None
    if found is not None and found.images is not None and found.window is not None:
        place, offsets = pixel_operands(found)
        kept = [extent for extent in tile if extent != 0]
        if len(kept) == 2 and kept[1] > 0:
            images = found.images.value
            op = PixelTileOp(images, kept, [*place, coords[-1]], offsets, found.window)
            pixels = current().insert(op, tensor.name).results[0]
    op = IndexedTileOp(tensor.value, tile, coords, rows.use(), pixels=pixels)
    made = current().insert(op, tensor.name)
    origins = tile_origins(tile, coords)
    # Where rows begin has no answer.
    origins.pop(0)
    return IndexedView(made.results[0], tensor, origins)


def _row_numbers(rows: Tile | View, count: int) -> Tile:
    """The numbers as i32, which nothing changes from here on; what a view has behind the end of its
    tensor numbers no row.
    """
    if rows.dtype not in (i32, i64):
        raise error(f"expected row numbers of i32 or i64, got {rows.dtype.name}", code="CD-P3")
    if rows.shape not in ((count,), (count, 1)):
        raise error(
            f"expected the numbers of {count} rows, as the tile has, got a tile of shape "
            f"{rows.shape}",
            code="CD-P2",
        )
    numbers = as_matrix(_load_inside(rows) if isinstance(rows, View) else rows)
    assert isinstance(numbers, Tile)
    if numbers.dtype == i64:
        numbers = where((numbers >= 0) & (numbers < _MOST_ROWS), numbers, _NO_ROW)
    return numbers.to(i32)


def _load_inside(view: View) -> Tile:
    """The elements of a view of numbers; behind the end of its tensor the number of no row."""
    made = view.value.owner
    loaded = view.load()
    if not isinstance(made, LocalTileOp):
        raise error(
            "expected row numbers as a tile of a tensor, got a view that is transposed or made of "
            "several; load it, and give what lies outside the number -1",
            code="CD-P2",
        )
    mode = next(at for at, extent in enumerate(made.tile.get_values()) if extent != 0)
    origin = view.origins.get(0)
    if origin is None:
        return loaded
    return where(coord(loaded, 0, origin) < view.tensor.dim(mode), loaded, _NO_ROW)
