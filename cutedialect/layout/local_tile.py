"""The piece of a tensor's layout that one block or one thread works on, with its offset."""

from __future__ import annotations

from typing import Any

from .composed_layout import AnyLayout, ComposedLayout
from .divide_product import zipped_divide
from .errors import LayoutError
from .int_tuple import extent, idx2crd, is_tuple, to_text
from .layout import Layout
from .modes import dice, slice_and_offset


def local_tile(
    layout: AnyLayout, tiler: Any, coord: Any, proj: tuple[Any, ...] | None = None
) -> tuple[Any, Any]:
    """(layout, offset) of the tile at `coord`; `None` in it keeps all tiles of that mode.

    `proj` selects the modes of tiler and coordinate that the layout has, for operands of a
    contraction: `(1, None, 1)` is (M, K) of an (M, N, K) tile.

    >>> layout, offset = local_tile(Layout((256, 64), (64, 1)), (128, 32), (1, None))
    >>> print(layout, offset)
    (128,32,2):(64,1,32) 8192
    """
    if proj is not None:
        if not is_tuple(tiler) or not is_tuple(coord):
            raise LayoutError(f"expected a tuple tiler and coordinate for proj {to_text(proj)}")
        tiler, coord = dice(proj, tiler), dice(proj, coord)
    divided = zipped_divide(layout, tiler)
    tiles = divided.inner if isinstance(divided, ComposedLayout) else divided
    rests = len(tiles[1]) if is_tuple(tiles[1].shape) else 1
    if is_tuple(coord) and len(coord) < rests:
        coord = coord + (None,) * (rests - len(coord))
    inner = (None,) * len(tiles[0]) if is_tuple(tiles[0].shape) else None
    return slice_and_offset((inner, coord), divided)


def local_partition(
    layout: AnyLayout, threads: Layout, index: int, proj: tuple[Any, ...] | None = None
) -> tuple[Any, Any]:
    """(layout, offset) of the elements of one thread, when `threads` repeats over the layout.

    `threads` maps a thread's coordinate in its tile to its index; the extents of its modes are
    the tile. `proj` drops modes as in `local_tile`.

    >>> layout, offset = local_partition(Layout((8, 8), (8, 1)), Layout((2, 4), (4, 1)), 5)
    >>> print(layout, offset)
    (4,2):(16,4) 9
    """
    if not threads.is_static():
        raise LayoutError(f"expected a static layout of threads, got {threads}")
    flat: list[int] = []
    for mode in threads:
        strides = [d for d in mode.offsets() if d]
        step = min(strides, default=0)
        if mode.offsets() != [i * step for i in range(mode.size())]:
            raise LayoutError(f"expected one stride in each mode of {threads}, got {mode}")
        flat.append(index // step % mode.size() if step else 0)
    tiler: Any = tuple(extent(mode.shape) for mode in threads)
    coord: Any = tuple(flat)
    if proj is not None:
        tiler, coord = dice(proj, tiler), dice(proj, coord)
    divided = zipped_divide(layout, tiler)
    rests = divided.inner[1] if isinstance(divided, ComposedLayout) else divided[1]
    return slice_and_offset((idx2crd(coord, tiler), (None,) * len(rests)), divided)


def inner_partition(layout: AnyLayout, tiler: Any, coord: Any) -> tuple[Any, Any]:
    """(layout, offset) of the tile at `coord`: what a block works on. `None` keeps a mode of tiles.

    >>> layout, offset = inner_partition(Layout((8, 8), (8, 1)), (4, 2), (1, 3))
    >>> print(layout, offset)
    (4,2):(8,1) 38
    """
    return local_tile(layout, tiler, coord)


def outer_partition(layout: AnyLayout, tiler: Any, coord: Any) -> tuple[Any, Any]:
    """(layout, offset) of the elements at `coord` of every tile: what a thread works on when the
    tile is the threads. Together over all coordinates they are the layout.

    >>> layout, offset = outer_partition(Layout((8, 8), (8, 1)), (4, 2), (1, 1))
    >>> print(layout, offset)
    (2,4):(32,2) 9
    """
    divided = zipped_divide(layout, tiler)
    tiles = divided.inner if isinstance(divided, ComposedLayout) else divided
    extents = len(tiles[0]) if is_tuple(tiles[0].shape) else 1
    if is_tuple(coord) and len(coord) < extents:
        coord = coord + (None,) * (extents - len(coord))
    rests = (None,) * len(tiles[1]) if is_tuple(tiles[1].shape) else None
    return slice_and_offset((coord, rests), divided)
