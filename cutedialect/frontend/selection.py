"""The largest and least elements of rows and where they are."""

from __future__ import annotations

from .dtypes import f32, i32
from .functions import coord, full, inf, where
from .modes import of_lines
from .reductions import modes_of, reduce, shaped
from .sorting import largest
from .tile import Tile, View
from .trace import error

_NOWHERE = 2**31 - 1
# Maxima that take less than a sort of the row.
_FEW = 16


@of_lines
def argmax(tile: object, mode: int = 1, *, keepdims: bool = True) -> Tile:
    """The coordinate of the maximum along a mode, i32: (M,N) gives (M,1) along mode 1, (1,N) along
    mode 0. The first of equal ones; a NaN counts as the largest. Without `keepdims` a vector
    is left: (N,) along mode 0.
    """
    return _place("max", tile, mode, keepdims)


@of_lines
def argmin(tile: object, mode: int = 1, *, keepdims: bool = True) -> Tile:
    """The coordinate of the minimum along a mode, i32, with the shapes of `cute.argmax`. The first
    of equal ones; a NaN counts as the least. Elements outside of the tensor are 0.
    """
    return _place("min", tile, mode, keepdims)


def _place(kind: str, tile: object, mode: int, keepdims: bool) -> Tile:
    source, modes = _loaded(tile), modes_of(mode)
    if len(modes) != 1:
        raise error(f"expected one mode, 0 or 1, for a coordinate, got {mode!r}", code="CD-P4")
    (number,) = modes
    return shaped(_outermost(kind, source, coord(source, number), number)[1], modes, keepdims)


@of_lines
def top_k(tile: object, k: int, mode: int = 1) -> tuple[Tile, Tile]:
    """The `k` largest elements of each row in falling order, and their columns, i32: (M,N) gives
    two tiles (M,k), or (k,N) along mode 0. No place is chosen twice: the first of equal ones comes
    first, -inf among them; a NaN counts as the largest. Floats of 8 bits are given in f32.

    For small `k` such as that of routing to experts it takes the maximum of floats `k` times, for a
    larger one it sorts runs of the next power of two p and merges them, each time with half of the
    elements: some log2(p)^2 / 2 + log2(p) exchanges of all, instead of a sort's log2(n)^2 / 2 of a
    row of n. Elements outside of the tensor are 0: give them -inf
    first (`cute.where` on `cute.coord`), and they are chosen where a row has fewer than `k` others
    alone.
    """
    source, (at,) = _loaded(tile), modes_of((mode,))
    columns = source.shape[at]
    if isinstance(k, bool) or not isinstance(k, int) or not 0 < k <= columns:
        raise error(f"expected k in 1..{columns}, got {k!r}", code="CD-P4")
    if source.dtype.kind != "f" or k > _FEW:
        return largest(source, k, at)
    shape = (source.shape[0], k) if at else (k, source.shape[1])
    values, places = full(shape, 0.0, source.dtype), full(shape, 0, i32)
    rest, left = source, coord(source, at)
    for number in range(k):
        top, place = _outermost("max", rest, left, at)
        here = coord(values, at) == number
        values.assign(where(here, top, values))
        places.assign(where(here, place, places))
        # What is chosen is -inf from here on, and has no column among others that are.
        rest, left = where(left == place, -inf, rest), where(left == place, _NOWHERE, left)
    return values, places


def _outermost(kind: str, source: Tile, places: Tile, mode: int) -> tuple[Tile, Tile]:
    """The maximum or minimum along a mode, and the first of the places of those that are it."""
    found = reduce(source, mode, kind)
    is_it = (source == found) | (source != source)
    return found, reduce(where(is_it, places, _NOWHERE), mode, "min")


def _loaded(tile: object) -> Tile:
    source = tile.load() if isinstance(tile, View) else tile
    if not isinstance(source, Tile) or len(source.shape) != 2:
        raise error("expected a tile of rank 2", code="CD-P2")
    # Of the floats of 8 bits one has no infinity, and a maximum in the other could not stay one.
    return source.to(f32) if source.dtype.kind == "f" and source.dtype.bits == 8 else source
