"""Register tiles of one mode, and of three to five. Elements lie as a matrix: those of one mode as
a column, others with all modes but the last as its rows, row-major, so that elementwise functions
and whatever leaves the last mode alone are those of the matrix; other changes of shape go through
shared memory, as `cute.take_along` does.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from math import prod
from typing import Any, TypeVar

from xdsl.ir import SSAValue

from .dtypes import DType, i32
from .scalar import Scalar
from .tile import Tile, View, broadcast_shape, elementwise
from .trace import Scope, error

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])
MOST_MODES = 5


class TileOfModes(Tile):
    """A register tile whose modes stand beside the matrix that its elements lie in."""

    def __init__(
        self,
        value: SSAValue,
        modes: tuple[int, ...],
        mutable: bool = False,
        scope: Scope | None = None,
    ) -> None:
        super().__init__(value, mutable, scope)
        self.modes = modes

    @property
    def shape(self) -> tuple[int, ...]:
        return self.modes

    @property
    def matrix(self) -> Tile:
        """The tile as the matrix that its elements lie in."""
        return Tile(self.value, self.mutable, self.scope)

    @property
    def T(self) -> Tile:
        """Of one mode (n,) a row (1,n), as of a view; of more than two there is `.mT`."""
        if len(self.modes) <= 2:
            return self.matrix.T
        raise error(
            f"expected t.mT, which exchanges the last two modes, or cute.permute of a tile "
            f"{self.shape}, got .T, which is of two modes",
            code="CD-P2",
        )

    @property
    def mT(self) -> Tile:
        """The tile with its last two modes exchanged."""
        if len(self.modes) == 1:
            raise error(
                f"expected v[:, None] or v[None, :] of a tile {self.shape}, got .mT, which is of "
                "two modes or more",
                code="CD-P2",
            )
        if len(self.modes) == 2:
            return self.matrix.T
        order = tuple(range(len(self.modes)))
        return permuted(self, (*order[:-2], order[-1], order[-2]))


def folded(shape: Sequence[int]) -> tuple[int, int]:
    """The shape of the matrix in which a tile of a shape lies."""
    return (shape[0], 1) if len(shape) == 1 else (prod(shape[:-1]), shape[-1])


def matrix_of_modes(tile: Tile) -> Tile:
    """The matrix of a tile of any modes."""
    return tile.matrix if isinstance(tile, TileOfModes) else tile


def of_modes(matrix: Tile, shape: Sequence[int]) -> Tile:
    """A matrix as a tile of a shape that lies in it so."""
    assert matrix.shape == folded(shape)
    value = matrix.to(matrix.dtype)
    return value if len(shape) == 2 else TileOfModes(value.value, tuple(shape), scope=value.scope)


def on_matrices(
    function: Callable[..., SSAValue], inputs: Sequence[Tile], shape: tuple[int, ...], dtype: DType
) -> Tile:
    """An elementwise function of tiles that broadcast to a shape of one mode or more than two."""
    matrices = [_stretched(tile, shape) for tile in inputs]
    return of_modes(elementwise(function, matrices, folded(shape), dtype), shape)


def _stretched(tile: Tile, shape: tuple[int, ...]) -> Tile:
    """A tile as a matrix that broadcasts to that of a shape."""
    from .places import take_along

    mine, matrix = tile.shape, matrix_of_modes(tile)
    if mine[:-1] == shape[:-1] or set(mine[:-1]) == {1}:
        return matrix
    # Rows repeat in front of others, for which each row of the result takes one of the tile's.
    digits = _digits(_coordinate((folded(shape)[0], 1), 0), shape[:-1])
    number = row_major(
        [d if n > 1 else None for d, n in zip(digits, mine, strict=False)], mine[:-1]
    )
    return take_along(matrix, number, 0)


def _coordinate(shape: tuple[int, int], mode: int) -> Tile:
    from .functions import coord, full

    return coord(full(shape, 0, i32), mode)


def coordinate_of_modes(tile: Tile, mode: int) -> Tile:
    """The coordinate of each element along a mode."""
    at, whole = mode_within(mode, len(tile.shape)), folded(tile.shape)
    if len(tile.shape) == 1:
        return of_modes(_coordinate(whole, 0), tile.shape)
    if at == len(tile.shape) - 1:
        return of_modes(_coordinate(whole, 1), tile.shape)
    return of_modes(_digits(_coordinate(whole, 0), tile.shape[:-1])[at], tile.shape)


def _digits(number: Tile, extents: Sequence[int]) -> list[Tile]:
    """The coordinates of a row-major number."""
    found: list[Tile] = []
    for extent in reversed(extents[1:]):
        found.append(number % extent)
        number = number // extent
    return [number, *reversed(found)]


def row_major(coords: Sequence[Tile | None], extents: Sequence[int]) -> Any:
    """The row-major number of coordinates, of which None is 0."""
    total: Any = 0
    for at, extent in zip(coords, extents, strict=True):
        total = total * extent + (0 if at is None else at)
    return total


def _gathered(
    tile: Tile, shape: Sequence[int], coords: Callable[[list[Tile]], Sequence[Tile]]
) -> Tile:
    """A tile of a shape whose element at a place is the tile's at the coordinates of that place."""
    from .places import taken_at

    whole = folded(shape)
    row = _coordinate(whole, 0)
    place = [row] if len(shape) == 1 else [*_digits(row, shape[:-1]), _coordinate(whole, 1)]
    number = row_major(coords(place), tile.shape)
    return of_modes(taken_at(matrix_of_modes(tile), number), shape)


def reshaped(tile: Tile, shape: tuple[int, ...]) -> Tile:
    """The elements in row-major order as a tile of another shape."""
    matrix = matrix_of_modes(tile)
    if folded(shape) == matrix.shape:
        return of_modes(matrix, shape)
    if 1 in matrix.shape and folded(shape) == matrix.shape[::-1]:
        return of_modes(matrix.T, shape)

    def coords(place: list[Tile]) -> Sequence[Tile]:
        return _digits(row_major(place, shape), tile.shape)

    return _gathered(tile, shape, coords)


def permuted(tile: Tile, modes: Sequence[int]) -> Tile:
    """The tile with its modes in another order: mode i of the result is mode `modes[i]`."""
    if tuple(modes) == tuple(range(len(modes))):
        return tile
    shape = [tile.shape[mode] for mode in modes]
    where = [modes.index(mode) for mode in range(len(modes))]
    return _gathered(tile, shape, lambda place: [place[at] for at in where])


def part_of_modes(tile: Tile, keys: tuple[object, ...]) -> Tile:
    """A part with constant bounds, places of modes, which it is without, and modes of extent 1
    between: `t[:, None, 2:6]`, `t[0, :, -1]`.
    """
    from .parts import bounds_of

    rank = len(tile.shape)
    named = [key for key in keys if key is not None]
    if len(named) > rank or not all(isinstance(key, slice) or type(key) is int for key in named):
        raise error(
            f"expected a slice or a number for each mode of a tile {tile.shape} and None between, "
            f"as in t[:, None, 2:6], got {len(named)} keys",
            code="CD-P2",
        )
    keys = (*keys, *[slice(None)] * (rank - len(named)))
    bounds = [_slice_of(key) for key in keys if key is not None]
    cut = [bounds_of(key, n) for key, n in zip(bounds, tile.shape, strict=True)]
    firsts, counts = [first for first, _ in cut], [count for _, count in cut]
    extents = iter(counts)
    shape = [1 if key is None else next(extents) for key in keys]
    kept = [n for key, n in zip(keys, shape, strict=True) if type(key) is not int]
    return reshaped(_cut_out(tile, firsts, counts), checked_shape(kept))


def _slice_of(key: Any) -> slice:
    """A key of a mode as a slice."""
    return slice(key, key + 1 or None) if type(key) is int else key


def _cut_out(tile: Tile, firsts: Sequence[int], counts: Sequence[int]) -> Tile:
    """The part of a tile that begins at coordinates and has extents."""
    if tuple(counts) == tile.shape:
        return tile
    if len(counts) <= 2:
        keys = [slice(first, first + n) for first, n in zip(firsts, counts, strict=True)]
        return of_modes(matrix_of_modes(tile)[tuple(keys)], counts)
    if tuple(counts[:-1]) == tile.shape[:-1]:
        return of_modes(matrix_of_modes(tile).columns(firsts[-1], counts[-1]), counts)

    def coords(place: list[Tile]) -> Sequence[Tile]:
        return [at + first for at, first in zip(place, firsts, strict=True)]

    return _gathered(tile, counts, coords)


def checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape of one to five modes."""
    if not 1 <= len(shape) <= MOST_MODES:
        raise error(
            f"expected a shape of 1 to {MOST_MODES} modes, got {tuple(shape)}", code="CD-P2"
        )
    return tuple(shape)


def mode_within(mode: object, rank: int) -> int:
    """A mode from the front, given from there or from the end."""
    if type(mode) is not int or not -rank <= mode < rank:
        raise error(f"expected a mode in 0..{rank - 1} of {rank} modes, got {mode!r}", code="CD-P4")
    return mode % rank


def mode_or_last(mode: object, shape: tuple[int, ...]) -> object:
    """A mode, or the last one of two or more."""
    if mode is None and len(shape) == 1:
        raise error(
            f"expected mode=0, the only one of a tile {shape}, got no mode, which stands for 1",
            code="CD-P4",
        )
    return -1 if mode is None else mode


def of_lines(function: _FunctionT) -> _FunctionT:
    """Let a function of matrices along a mode, its parameter `mode`, take tiles of one mode and of
    more than two: those that are named become the rows of a matrix, also of the tiles beside the
    first argument. Where the mode has a default of 1, that is the last of more than two, and of one
    mode it has to be said.
    """
    signature = inspect.signature(function)
    first, default = next(iter(signature.parameters)), signature.parameters["mode"].default

    @wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        given = signature.bind(*args, **options).arguments
        given = {name: _loaded(value) for name, value in given.items()}
        of_tiles = {name: tiles for name in given if (tiles := _tiles_in(given[name]))}
        main = of_tiles.get(first, ())
        if all(len(tile.shape) == 2 for tile in main):
            return function(**given)
        mode = given.pop("mode", None if default == 1 else default)
        if default == 1:
            mode = mode_or_last(mode, main[0].shape)
        drops = given.pop("keepdims", True) is False

        def called(matrices: Sequence[Tile], mode: int | None) -> Any:
            lines = iter(matrices)
            for name, tiles in of_tiles.items():
                is_one = isinstance(given[name], Tile)
                given[name] = next(lines) if is_one else tuple(next(lines) for _ in tiles)
            return function(**given, mode=mode)

        return _along(called, [tile for tiles in of_tiles.values() for tile in tiles], mode, drops)

    return run  # pyright: ignore[reportReturnType]


def _loaded(value: Any) -> Any:
    """An argument with the tiles of its views."""
    if isinstance(value, tuple | list):
        loaded = [_loaded(one) for one in value]
        return tuple(loaded) if isinstance(value, tuple) else loaded
    return value.load() if isinstance(value, View) else value


def _tiles_in(value: Any) -> Sequence[Tile]:
    """The tiles of an argument that is one, or several."""
    tiles = value if isinstance(value, tuple | list) else [value]
    return tiles if all(isinstance(tile, Tile) for tile in tiles) else ()


def _along(called: Callable[..., Any], tiles: Sequence[Tile], mode: object, drops: bool) -> Any:
    """What a function of matrices gives for tiles along modes, or of all elements without one."""
    rank, shape = len(tiles[0].shape), broadcast_shape(*(tile.shape for tile in tiles))
    if mode is None:
        whole = called([matrix_of_modes(tile) for tile in tiles], None)
        is_tile = isinstance(whole, Tile) and (rank == 1 or not drops)
        return reshaped(whole, (*(1,) * (rank - 1), whole.shape[1])) if is_tile else whole
    numbers = mode if isinstance(mode, Sequence) else (mode,)
    modes = tuple(mode_within(number, rank) for number in numbers)
    if rank == 1:
        return each_of(
            called([matrix_of_modes(tile) for tile in tiles], 0),
            lambda made: of_modes(made, made.shape[:1]),
        )
    others = [at for at in range(rank) if at not in modes]
    order = [*others, *modes]
    wide = [_stretched_to(tile, shape) for tile in tiles]
    return each_of(
        called([_lines(tile, order, len(others)) for tile in wide], 1),
        lambda made: _of_lines(made, shape, order, modes, drops),
    )


def _stretched_to(tile: Tile, shape: tuple[int, ...]) -> Tile:
    """A tile whose modes of extent 1 are repeated to a shape."""
    if tile.shape == shape:
        return tile
    return elementwise(lambda value: value, (tile,), shape, tile.dtype)


def each_of(made: Any, function: Callable[[Tile], Tile]) -> Any:
    """A function of a tile, or of each of a tuple."""
    return (
        tuple(each_of(one, function) for one in made) if isinstance(made, tuple) else function(made)
    )


def _lines(tile: Tile, order: Sequence[int], count: int) -> Tile:
    """A tile as a matrix whose rows are the lines along the modes behind the first ones."""
    moved = permuted(tile, order)
    return reshaped(moved, (prod(moved.shape[:count]), prod(moved.shape[count:])))


def _of_lines(
    made: Tile, shape: tuple[int, ...], order: list[int], modes: tuple[int, ...], drops: bool
) -> Tile:
    """What a function made of lines as a tile whose modes are those in front of it."""
    count = prod(shape[mode] for mode in modes)
    if made.shape[1] == 1 != count or drops:
        kept = [n for at, n in enumerate(shape) if at not in modes]
        whole = [1 if at in modes else n for at, n in enumerate(shape)]
        return reshaped(made, (tuple(kept) or (1, 1)) if drops else tuple(whole))
    if made.shape[1] != count and len(modes) == 1:
        shape = tuple(made.shape[1] if at in modes else n for at, n in enumerate(shape))
    moved = reshaped(made, tuple(shape[at] for at in order))
    return permuted(moved, [order.index(at) for at in range(len(order))])


def joined(tiles: Sequence[Tile], mode: int) -> Tile:
    """Tiles of one mode, or of more than two, one behind the other along a mode."""
    from .places import concatenate

    rank = len(tiles[0].shape)
    if any(len(tile.shape) != rank for tile in tiles):
        broadcast_shape(*(tile.shape for tile in tiles))
    at = mode_within(mode, rank)
    across = [(*tile.shape[:at], *tile.shape[at + 1 :]) for tile in tiles]
    if len(set(across)) > 1:
        shown = ", ".join(str(tile.shape) for tile in tiles)
        raise error(f"expected tiles that differ along mode {at} alone, got {shown}", code="CD-P2")
    total = sum(tile.shape[at] for tile in tiles)
    if rank == 1:
        return of_modes(joined_rows([matrix_of_modes(tile) for tile in tiles]), (total,))
    if at == rank - 1:
        whole = concatenate([matrix_of_modes(tile) for tile in tiles], 1)
        return of_modes(whole, (*across[0], total))
    order = [at, *(other for other in range(rank) if other != at)]
    moved = concatenate([matrix_of_modes(permuted(tile, order)) for tile in tiles], 0)
    first = of_modes(moved, (total, *across[0]))
    return permuted(first, [order.index(other) for other in range(rank)])


def parts_of(view: View) -> Iterator[View]:
    """The matrices in memory of a view of more than two modes, in row-major order."""
    if view.cut is None:
        raise error(
            f"expected a view of a tensor's own modes, got one of shape {view.shape} that is "
            "transposed or gathered",
            code="CD-P2",
        )
    extents, coords = view.cut
    kept = [mode for mode, extent in enumerate(extents) if extent]
    counts = dict(zip(kept, view.shape, strict=True))
    for place in itertools.product(*(range(counts[mode]) for mode in kept[:-2])):
        inner, at = list(extents), list(coords)
        for mode, number in zip(kept[:-2], place, strict=True):
            inner[mode] = 0
            at[mode] = (Scalar(coords[mode]) * counts[mode] + number).use()
        yield view.tensor.view(inner, at)


def loaded_parts(view: View) -> Tile:
    """A view of more than two modes in registers."""
    return of_modes(joined_rows([part.load() for part in parts_of(view)]), view.shape)


def joined_rows(tiles: Sequence[Tile]) -> Tile:
    """Matrices one below the other."""
    from .places import concatenate

    return concatenate(tiles, 0)


def rows_of(tile: Tile, count: int) -> list[Tile]:
    """The matrices of a tile of more than two modes, in row-major order."""
    matrix = matrix_of_modes(tile)
    height = matrix.shape[0] // count
    return [matrix[at * height : (at + 1) * height, :] for at in range(count)]


def as_stored(source: Tile, shape: tuple[int, ...]) -> Tile:
    """A tile as it is stored to a view of a shape of other modes, where those of extent 1 are left
    out: a row or a column (n,1) to a vector (n,).
    """
    mine, theirs = ([n for n in extents if n != 1] for extents in (source.shape, shape))
    return reshaped(source, shape) if mine == theirs else source


def matrices(value: Tile | View, what: str) -> list[Tile | View]:
    """What is multiplied or copied for each place of the modes in front of the last two."""
    if len(value.shape) <= 2:
        raise error(f"expected {what} of more than two modes, got {value.shape}", code="CD-P2")
    if isinstance(value, View):
        return list(parts_of(value))
    return list(rows_of(value, prod(value.shape[:-2])))
