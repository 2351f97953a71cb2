"""The largest elements of rows and where they are."""

from __future__ import annotations

from .dtypes import i32
from .functions import coord, full, inf, where
from .reductions import reduce
from .tile import Tile, View
from .trace import error

_NOWHERE = 2**31 - 1


def argmax(tile: object, mode: int = 1) -> Tile:
    """The coordinate of the maximum along a mode, i32: (M,N) gives (M,1) along mode 1, (1,N) along
    mode 0. The first of equal ones; a NaN counts as the largest.
    """
    return _largest(_loaded(tile), mode)[1]


def top_k(tile: object, k: int) -> tuple[Tile, Tile]:
    """The `k` largest elements of each row in falling order, and their columns, i32: (M,N) gives
    two tiles (M,k). The first of equal ones comes first; a NaN counts as the largest.

    It takes the maximum `k` times, for small `k` such as that of routing to experts. Elements
    outside of the tensor are 0: give them -inf first (`cute.where` on `cute.coord`).
    """
    source = _loaded(tile)
    rows, columns = source.shape
    if isinstance(k, bool) or not isinstance(k, int) or not 0 < k <= columns:
        raise error(f"expected k in 1..{columns}, got {k!r}", code="CD-P4")
    if source.dtype.kind != "f":
        raise error(f"expected a tile of floats, got {source.dtype.name}", code="CD-P3")
    values, places = full((rows, k), 0.0, source.dtype), full((rows, k), 0, i32)
    rest = source
    for number in range(k):
        top, place = _largest(rest, 1)
        here = coord(values, 1) == number
        values.assign(where(here, top, values))
        places.assign(where(here, place, places))
        rest = where(coord(rest, 1) == place, -inf, rest)
    return values, places


def _largest(source: Tile, mode: int) -> tuple[Tile, Tile]:
    top = reduce(source, mode, "max")
    is_top = (source == top) | (source != source)
    return top, reduce(where(is_top, coord(source, mode), _NOWHERE), mode, "min")


def _loaded(tile: object) -> Tile:
    source = tile.load() if isinstance(tile, View) else tile
    if not isinstance(source, Tile) or len(source.shape) != 2:
        raise error("expected a tile of rank 2", code="CD-P2")
    return source
