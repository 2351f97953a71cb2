"""Lines of register tiles in order: elements become integers that are in the order of these,
perhaps with their places behind them, and threads sort these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from cutedialect.dialects.cute import SortOp

from .dtypes import DType, f16, f32, i16, i32, i64
from .functions import coord, where
from .modes import of_lines
from .places import take_along
from .reductions import matrix_of, mode_of
from .tile import Tile, View
from .trace import current, error

# Bits of a place beside a key of 16 bits in a word.
_PLACE_BITS = 16
PLACES = 1 << _PLACE_BITS
"""The places that words with keys of 16 bits tell apart."""
# By the bits of a float: what every NaN counts as, behind infinity.
_NAN = {16: 0x7FFF, 32: 0x7FC00000, 64: 0x7FF8 << 48}


@overload
def sort(
    tile: Tile | View, mode: int = 1, *, descending: bool = False, values: None = None
) -> Tile: ...


@overload
def sort(
    tile: Tile | View, mode: int = 1, *, descending: bool = False, values: Tile | View
) -> tuple[Tile, Tile]: ...


@overload
def sort(
    tile: Tile | View, mode: int = 1, *, descending: bool = False, values: Sequence[Tile | View]
) -> tuple[Tile, tuple[Tile, ...]]: ...


@of_lines
def sort(tile: Any, mode: int = 1, *, descending: bool = False, values: Any = None) -> Any:
    """The elements of a tile in order along a mode: of each row with mode 1, the least first, or
    the greatest with `descending`.

    A NaN counts as the greatest, whatever its sign and bits, and is given as one NaN; -0 stands in
    front of 0. With `values`, a tile or a tuple of tiles of the same shape, their elements go where
    those of the tile go, which come as a second result; the sort is stable then: equal elements
    stay in the order in which they were. Elements outside of the tensor are 0: give them what
    sorts last, with `cute.where` on `cute.coord`.

    A line of n elements takes log2(n) (log2(n) + 1) / 2 exchanges of its threads; one whose length
    is no power of two is sorted as one of the next power.
    """
    source, at = matrix_of(tile), mode_of(mode)
    if values is None:
        return _sorted(source, at, descending)
    given = [matrix_of(v) for v in ([values] if isinstance(values, Tile | View) else values)]
    for value in given:
        if value.shape != source.shape:
            raise error(
                f"expected values of the tile's shape {source.shape}, got {value.shape}",
                code="CD-P2",
            )
    found, places = _ordered(source, at, descending)
    moved = tuple(take_along(value, places, at) for value in given)
    return (found, moved[0]) if isinstance(values, Tile | View) else (found, moved)


@of_lines
def argsort(tile: object, mode: int = 1, *, descending: bool = False) -> Tile:
    """The coordinates along a mode, i32, of the elements in order, as `cute.sort` has them. It is
    stable: of equal elements the first comes first.
    """
    return _ordered(matrix_of(tile), mode_of(mode), descending)[1]


def largest(tile: Tile, k: int, mode: int) -> tuple[Tile, Tile]:
    """The `k` largest elements of each line along a mode in falling order, and their places."""
    return _ordered(tile, mode, True, k)


def _sorted(tile: Tile, mode: int, descending: bool) -> Tile:
    """The elements in order."""
    dtype = _held(tile.dtype)
    keys = keys_of(tile.to(dtype), descending)
    most = (1 << keys.dtype.bits - 1) - 1
    (found,) = _network([_padded(keys, mode, most)], mode)
    return elements_of(_cut(found, mode, tile.shape[mode]), dtype, descending).to(tile.dtype)


def _ordered(
    tile: Tile, mode: int, descending: bool, leading: int | None = None
) -> tuple[Tile, Tile]:
    """The elements in order, or the first of them, and where they were."""
    dtype, extent = _held(tile.dtype), tile.shape[mode]
    count = extent if leading is None else leading
    # Signed keys of 16 bits have room for places in a word.
    bits = tile.dtype.bits + (tile.dtype.kind == "u")
    narrow = bits <= 16 and extent <= PLACES
    if narrow and tile.dtype.kind == "f":
        dtype = f16 if tile.dtype.bits == 8 else tile.dtype
    keys = keys_of(tile.to(dtype), descending)
    if keys.dtype.bits == 64:
        whole = _padded(keys, mode, (1 << 63) - 1)
        ordered = _network([whole, coord(whole, mode)], mode, leading)
        found, places = (_cut(each, mode, count) for each in ordered)
    elif narrow:
        both = _padded(keys, mode, (1 << 15) - 1)
        both = with_places(both, coord(both, mode))
        both = _cut(_network([both], mode, leading)[0], mode, count)
        found, places = parted(both)
    else:
        wide = _padded(keys, mode, (1 << 31) - 1).to(i64) << 32
        wide = wide | coord(wide, mode).to(i64)
        wide = _cut(_network([wide], mode, leading)[0], mode, count)
        found, places = (wide >> 32).to(i32), wide.to(i32)
    return elements_of(found, dtype, descending).to(tile.dtype), places


def with_places(keys: Tile, places: Tile) -> Tile:
    """Words of keys of 16 bits, with the places behind them, of which there are `PLACES`."""
    return keys << _PLACE_BITS | places


def parted(words: Tile) -> tuple[Tile, Tile]:
    """The keys and the places of words."""
    return words >> _PLACE_BITS, words & PLACES - 1


def _held(dtype: DType) -> DType:
    """The type whose bits are sorted."""
    if dtype.bits >= 32:
        return dtype
    return f32 if dtype.kind == "f" else i32


def keys_of(tile: Tile, descending: bool) -> Tile:
    """Signed integers in the order of elements: of 32 or 64 bits, or the low 16 of 32."""
    dtype = tile.dtype
    if dtype.kind == "f":
        bits = tile.bitcast(i64 if dtype.bits == 64 else i32 if dtype.bits == 32 else i16)
        bits = bits.to(i32) if dtype.bits == 16 else bits
        bits = where(tile != tile, _NAN[dtype.bits], bits)
        keys = _turned(bits, dtype)
    elif dtype.kind == "u" and dtype.bits >= 32:
        keys = tile.bitcast(i64 if dtype.bits == 64 else i32) ^ -(1 << dtype.bits - 1)
    else:
        keys = tile
    if descending:
        keys = ~keys
    return keys


def elements_of(keys: Tile, dtype: DType, descending: bool) -> Tile:
    """The elements that keys are of."""
    if descending:
        keys = ~keys
    if dtype.kind == "f":
        bits = _turned(keys, dtype)
        return (bits.to(i16) if dtype.bits == 16 else bits).bitcast(dtype)
    if dtype.kind == "u" and dtype.bits >= 32:
        return (keys ^ -(1 << dtype.bits - 1)).bitcast(dtype)
    return keys


def _turned(bits: Tile, dtype: DType) -> Tile:
    """The bits of floats as integers in their order, and back: of negative ones all but the sign
    are turned.
    """
    return bits ^ ((bits >> dtype.bits - 1) & ((1 << dtype.bits - 1) - 1))


def _padded(keys: Tile, mode: int, most: int) -> Tile:
    """Lines as long as a power of two, with what sorts behind all others."""
    extent = keys.shape[mode]
    whole = 1 << (extent - 1).bit_length()
    if whole == extent:
        return keys
    from .functions import full

    shape = (keys.shape[0], whole) if mode else (whole, keys.shape[1])
    places = coord(full(shape, 0, i32), mode)
    return where(places < extent, take_along(keys, places, mode), most)


def _cut(tile: Tile, mode: int, extent: int) -> Tile:
    """The first elements of lines."""
    if tile.shape[mode] == extent:
        return tile
    return tile[:, :extent] if mode else tile[:extent, :]


def _network(tiles: Sequence[Tile], mode: int, leading: int | None = None) -> tuple[Tile, ...]:
    """The elements of tiles in order; of some leading ones alone where fewer are asked for."""
    if leading == tiles[0].shape[mode]:
        leading = None
    op = current().insert(SortOp([tile.use() for tile in tiles], mode, leading))
    return tuple(Tile(value) for value in op.results)
