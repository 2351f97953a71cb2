"""Elements of register tiles by their places: gathered and scattered within a tile, counted, and
tiles of other shapes made of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod

from cutedialect.dialects.cute import PutOp, TakeOp

from .dtypes import DType, f32, i32
from .functions import coord, full, where
from .local_tiles import as_extent
from .modes import (
    checked_shape,
    joined,
    matrix_of_modes,
    mode_or_last,
    mode_within,
    of_lines,
    of_modes,
    reshaped,
    row_major,
)
from .parts import broadcast_to, permute
from .reductions import matrix_of, mode_of
from .tile import Tile, View, broadcast_shape, elementwise
from .trace import current, error


def take_along(tile: object, indices: object, mode: int | None = None) -> Tile:
    """The elements of a tile that numbers name along a mode: of (M,N) and numbers (M,K) element
    (i, `indices[i, j]`) along mode 1, (M,K); along mode 0 of numbers (K,N) element
    (`indices[i, j]`, j). The extents across the mode may be 1 on either side. Both have as many
    modes, one to five; where none is given, it is the last of two or more.

    A number that is none of a place gives 0. Threads exchange the tile through shared memory.
    """
    source, numbers = tile_of(tile), _numbers(indices)
    at = _mode_of_both(source, numbers, mode)
    if len(source.shape) > 2:
        shape = list(broadcast_shape(_without(source, at), _without(numbers, at)))
        shape[at] = numbers.shape[at]
        return of_modes(taken_at(matrix_of_modes(source), _flat(source, numbers, at, shape)), shape)
    if len(source.shape) == 1:
        column = take_along(source[:, None], numbers[:, None], 0)
        return of_modes(column, numbers.shape)
    source, numbers = _across(source, numbers, at)
    return _in_words(source, lambda wide: _taken(wide, numbers, at))


def put_along(
    tile: object, indices: object, values: object, mode: int | None = None, *, add: bool = False
) -> Tile:
    """The tile with other elements where numbers name them along a mode: of (M,N), numbers (M,K)
    and values (M,K) element (i, `indices[i, j]`) is value (i,j) along mode 1. The tile stays. All
    have as many modes, one to five; where none is given, it is the last of two or more.

    A number that is none of a place puts nothing. Two values for one place are an error of the
    program, which the emulator reports, unless `add` adds them to the element, in any order:
    floats are then rounded in any order, too, and of 16 bits in f32. Elements outside of the tensor
    have numbers as others do: give them -1 where they should put nothing.
    """
    source, numbers = tile_of(tile), _numbers(indices)
    at = _mode_of_both(source, numbers, mode)
    if _without(numbers, at) != _without(source, at):
        raise error(
            f"expected numbers of as many lines along mode {at} as the tile {source.shape} has, "
            f"got {numbers.shape}",
            code="CD-P2",
        )
    given = _values(values, numbers, source.dtype)
    if add and source.dtype.bits == 64:
        raise error(
            f"expected a tile of at most 32 bits to add to, got {source.dtype.name}", code="CD-P3"
        )
    word, shape = _word(source.dtype), source.shape
    along = at if len(shape) <= 2 else None
    places = numbers if along is not None else _flat(source, numbers, at, numbers.shape)

    def put(wide: Tile) -> Tile:
        values = given.to(word).use()
        made = PutOp(wide.use(), places.use(), values, along, "add" if add else None)
        return Tile(current().insert(made).results[0])

    return of_modes(_in_words(matrix_of_modes(source), put), shape)


def histogram(tile: object, bins: int, mode: int | None = None) -> Tile:
    """How often each number below `bins` is an element of a tile of integers, i32: (M,N) gives
    (1,bins), or (M,bins) of each row with mode 1, (bins,N) of each column with mode 0, and so for
    tiles of more modes; one of one mode gives (bins,).

    Other numbers are not counted. Elements outside of the tensor are 0 and count: give them -1
    first, with `cute.where` on `cute.coord`.
    """
    source = tile_of(tile)
    if source.dtype.kind == "f":
        raise error(
            f"expected a tile of integers to count, got {source.dtype.name}; convert it with "
            ".to(cute.i32)",
            code="CD-P3",
        )
    return _counted(source, as_extent(bins), mode)


@of_lines
def _counted(source: Tile, count: int, mode: int | None) -> Tile:
    numbers, ones = source.to(i32), full(source.shape, 1, i32)
    at = None if mode is None else mode_of(mode)
    shape = (1, count) if at is None else (source.shape[0], count)
    shape = (count, source.shape[1]) if at == 0 else shape
    made = PutOp(full(shape, 0, i32).use(), numbers.use(), ones.use(), at, "add")
    return Tile(current().insert(made).results[0])


def reshape(tile: object, shape: Sequence[int]) -> Tile:
    """The elements of a tile, row by row, as one of another shape of one to five modes. Where the
    last mode stays, they stay with their threads; else threads exchange them.
    """
    source = tile_of(tile)
    wanted = checked_shape([as_extent(extent) for extent in shape])
    if prod(wanted) != prod(source.shape):
        raise error(
            f"expected a shape with {prod(source.shape)} elements, got {tuple(shape)}", code="CD-P2"
        )
    return source if wanted == source.shape else reshaped(source, wanted)


def tile_of(tile: object) -> Tile:
    """A tile, or that of a view."""
    source = tile.load() if isinstance(tile, View) else tile
    if not isinstance(source, Tile):
        raise error(f"expected a tile, got {type(tile).__name__}")
    return source


def taken_at(tile: Tile, numbers: Tile) -> Tile:
    """The elements of a matrix whose row-major numbers a tile has."""
    return _in_words(tile, lambda wide: _taken(wide, numbers, None))


def stack(tiles: Sequence[object], mode: int = 0) -> Tile:
    """Tiles of one shape as one with another mode, along which they follow each other: of two tiles
    (M,N) a tile (2,M,N), or (M,N,2) with mode -1.
    """
    parts = [tile_of(each) for each in tiles]
    if not parts or any(part.shape != parts[0].shape for part in parts):
        shown = ", ".join(str(part.shape) for part in parts) or "none"
        raise error(f"expected tiles of one shape to stack, got {shown}", code="CD-P2")
    rank = len(parts[0].shape) + 1
    at = mode_within(mode, rank)
    whole = concatenate([reshape(part, (1, *part.shape)) for part in parts], 0)
    return permute(whole, [*range(1, at + 1), 0, *range(at + 1, rank)])


def split(tile: object, parts: int | Sequence[int], mode: int = -1) -> tuple[Tile, ...]:
    """A tile as parts one behind the other along a mode: so many equal ones, or of such extents."""
    source = tile_of(tile)
    at = mode_within(mode, len(source.shape))
    extent = source.shape[at]
    if isinstance(parts, int):
        is_whole = parts > 0 and extent % parts == 0
        counts = [extent // parts] * parts if is_whole else []
    else:
        counts = [as_extent(count) for count in parts]
    if sum(counts) != extent:
        raise error(
            f"expected parts that add up to the {extent} elements along mode {at} of a tile "
            f"{source.shape}, got {parts}",
            code="CD-P4",
        )
    ends = list(itertools.accumulate(counts, initial=0))
    whole = [slice(None)] * len(source.shape)
    return tuple(
        source[(*whole[:at], slice(first, end), *whole[at + 1 :])]
        for first, end in itertools.pairwise(ends)
    )


@of_lines
def flip(tile: object, mode: int = 1) -> Tile:
    """A tile whose elements along a mode are in reverse order."""
    source, at = matrix_of(tile), mode_of(mode)
    return take_along(source, source.shape[at] - 1 - coord(source, at), at)


def concatenate(tiles: Sequence[object], mode: int = 1) -> Tile:
    """Tiles one behind the other along a mode, of the type of the first one."""
    given = [tile_of(each) for each in tiles]
    if not given:
        raise error("expected a tile or more to concatenate, got none", code="CD-P1")
    if any(len(tile.shape) != 2 for tile in given):
        return joined(given, mode)
    parts, at = [matrix_of(each) for each in given], mode_of(mode)
    across = parts[0].shape[1 - at]
    total = sum(part.shape[at] for part in parts)
    whole = (across, total) if at else (total, across)
    result, first = full(whole, 0, parts[0].dtype), 0
    for part in parts:
        if part.shape[1 - at] != across or part.dtype != parts[0].dtype:
            raise error(
                f"expected tiles of {parts[0].dtype.name} with {across} lines, got "
                f"{part.dtype.name} of shape {part.shape}",
                code="CD-P2",
            )
        place, last = coord(result, at), first + part.shape[at]
        there = (place >= first) & (place < last)
        result = where(there, take_along(part, place - first, at), result)
        first = last
    return result


def _word(dtype: DType) -> DType:
    """The type in which threads exchange elements of a type: of 32 bits where it is narrower."""
    if dtype.bits >= 32:
        return dtype
    return f32 if dtype.kind == "f" else i32


def _in_words(tile: Tile, made: Callable[[Tile], Tile]) -> Tile:
    """What is made of a tile whose elements are words, in the tile's type."""
    return made(tile.to(_word(tile.dtype))).to(tile.dtype)


def _taken(tile: Tile, numbers: Tile, mode: int | None) -> Tile:
    return Tile(current().insert(TakeOp(tile.use(), numbers.use(), mode)).results[0])


def _mode_of_both(tile: Tile, numbers: Tile, mode: object) -> int:
    """The mode along which numbers name places of a tile that has as many modes."""
    rank = len(tile.shape)
    if len(numbers.shape) != rank:
        broadcast_shape(tile.shape, numbers.shape)
    named = mode_or_last(mode, tile.shape)
    return mode_of(named) if rank == 2 else mode_within(named, rank)


def _without(tile: Tile, mode: int) -> tuple[int, ...]:
    """The shape of a tile with an extent of 1 in a mode."""
    return (*tile.shape[:mode], 1, *tile.shape[mode + 1 :])


def _flat(tile: Tile, numbers: Tile, mode: int, shape: Sequence[int]) -> Tile:
    """The row-major numbers, as a matrix, of what numbers along a mode name for places of a shape;
    -1 where they name none.
    """
    wide = broadcast_to(numbers, shape)
    places = [
        wide if at == mode else coord(wide, at) if extent > 1 else None
        for at, extent in enumerate(tile.shape)
    ]
    inside = (wide >= 0) & (wide < tile.shape[mode])
    return matrix_of_modes(where(inside, row_major(places, tile.shape), -1))


def _numbers(indices: object) -> Tile:
    """Numbers of places, in i32."""
    numbers = tile_of(indices)
    if numbers.dtype.kind in ("f", "b"):
        raise error(
            f"expected a tile of integers to name places, got {numbers.dtype.name}; convert it "
            "with .to(cute.i32)",
            code="CD-P3",
        )
    return numbers.to(i32)


def _values(values: object, numbers: Tile, dtype: DType) -> Tile:
    """A value for each number."""
    if not isinstance(values, Tile) or values.shape == numbers.shape:
        given = tile_of(values) if not isinstance(values, int | float) else None
        if given is None:
            return full(numbers.shape, values, dtype)  # pyright: ignore[reportArgumentType]
        if given.shape == numbers.shape:
            return given.to(dtype)
    got = values.shape if isinstance(values, Tile) else type(values).__name__
    raise error(
        f"expected a value for each of the numbers {numbers.shape}, got {got}", code="CD-P2"
    )


def _across(source: Tile, numbers: Tile, mode: int) -> tuple[Tile, Tile]:
    """A tile and numbers with as many lines, one of which may be repeated."""
    across = 1 - mode
    counts = source.shape[across], numbers.shape[across]
    if counts[0] != counts[1] and 1 not in counts:
        raise error(
            f"expected numbers of as many lines as the tile {source.shape} has along mode {mode}, "
            f"got {numbers.shape}",
            code="CD-P2",
        )

    def repeated(tile: Tile) -> Tile:
        shape = list(tile.shape)
        shape[across] = max(counts)
        if tuple(shape) == tile.shape:
            return tile
        return elementwise(lambda value: value, (tile,), (shape[0], shape[1]), tile.dtype)

    return repeated(source), repeated(numbers)
