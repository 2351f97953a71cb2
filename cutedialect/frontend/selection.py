"""The largest and least elements of rows and where they are."""

from __future__ import annotations

from .dtypes import f32, i32
from .functions import coord, full, where
from .modes import of_lines
from .reductions import modes_of, reduce, shaped
from .sorting import PLACES, elements_of, keys_of, largest, parted, with_places
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
    first, -inf among them. As in `cute.sort` a NaN counts as the largest and is given as one NaN,
    and 0 stands in front of -0. Floats of 8 bits are given in f32.

    For small `k` such as that of routing to experts it takes the maximum of floats `k` times, as
    integers in their order; for a larger one it sorts runs of the next power of two p and merges
    them, each time with half of the elements: some log2(p)^2 / 2 + log2(p) exchanges of all,
    instead of a sort's log2(n)^2 / 2 of a row of n. Elements outside of the tensor are 0: give
    them -inf first (`cute.where` on `cute.coord`), and they are chosen where a row has fewer than
    `k` others alone.
    """
    source, (at,) = _loaded(tile), modes_of((mode,))
    columns = source.shape[at]
    if isinstance(k, bool) or not isinstance(k, int) or not 0 < k <= columns:
        raise error(f"expected k in 1..{columns}, got {k!r}", code="CD-P4")
    if source.dtype.kind != "f" or k > _FEW:
        return largest(source, k, at)
    return _maxima(source, k, at)


def _maxima(source: Tile, k: int, mode: int) -> tuple[Tile, Tile]:
    """The `k` largest floats of each line and their places, one after the other. What is chosen
    becomes the least integer, which no float has as its key.
    """
    shape = (source.shape[0], k) if mode else (k, source.shape[1])
    rest, at = keys_of(source, descending=False), coord(source, mode)
    least = -1 << rest.dtype.bits - 1
    # Keys of 16 bits have room for places in a word: then those of equal keys differ, too.
    has_room = source.dtype.bits == 16 and source.shape[mode] <= PLACES
    if has_room:
        rest = with_places(rest, PLACES - 1 - at)
    keys, places = full(shape, 0, rest.dtype), full(shape, 0, i32)
    for number in range(k):
        top = reduce(rest, mode, "max")
        here = coord(keys, mode) == number
        keys.assign(where(here, top, keys))
        if has_room:
            rest = where(rest == top, least, rest)
            continue
        place = reduce(where(rest == top, at, _NOWHERE), mode, "min")
        places.assign(where(here, place, places))
        rest = where(at == place, least, rest)
    if has_room:
        keys, places = parted(keys)
        places = PLACES - 1 - places
    return elements_of(keys, source.dtype, descending=False), places


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
