"""What the ops on the lines of tiles mean in NumPy, one element of each line after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .numpy_tiles import NumpyTiles, Tile, held_values, is_float, wide_values

_I32 = np.dtype(np.int32)


class NumpyLines(NumpyTiles):
    """The names of the language, those that see whole lines among them."""

    def cumsum(self, tile: Tile, mode: int = 1, **how: bool) -> Tile:
        return self._along(tile, mode, np.add, 0, **how)

    def cumprod(self, tile: Tile, mode: int = 1, **how: bool) -> Tile:
        return self._along(tile, mode, np.multiply, 1, **how)

    def cummax(self, tile: Tile, mode: int = 1, **how: bool) -> Tile:
        return self._along(tile, mode, np.maximum, -np.inf, **how)

    def cummin(self, tile: Tile, mode: int = 1, **how: bool) -> Tile:
        return self._along(tile, mode, np.minimum, np.inf, **how)

    def _along(self, tile: Tile, mode: int, by: Any, first: float, **how: bool) -> Tile:
        def combine(a: Any, b: Any) -> Any:
            return Tile(
                held_values(by(wide_values(a.values), wide_values(b.values)), a.dtype), self
            )

        return self.scan(_combined(tile), mode, combine, initial=first, **how)

    def scan(
        self,
        tile: Any,
        mode: int,
        combine: Callable[..., Any],
        reverse: bool = False,
        exclusive: bool = False,
        initial: Any = None,
    ) -> Any:
        is_one = isinstance(tile, Tile)
        tiles = [_combined(each) for each in ([tile] if is_one else tile)]
        arrays = [np.flip(each.values, mode) if reverse else each.values for each in tiles]
        firsts = [initial] if is_one else initial
        found: list[list[np.ndarray]] = []
        last: Sequence[Any] = ()
        for at in range(arrays[0].shape[mode]):
            now = [Tile(array.take([at], mode), self) for array in arrays]
            if exclusive:
                empty = (
                    [np.full_like(v.values, f) for v, f in zip(now, firsts, strict=True)]
                    if not last
                    else []
                )
                found.append([v.values for v in last] if last else empty)
            made = combine(*last, *now) if last else now
            last = [made] if isinstance(made, Tile) else made
            if not exclusive:
                found.append([v.values for v in last])
        results = [np.concatenate(each, mode) for each in zip(*found, strict=True)]
        turned = [np.flip(each, mode) if reverse else each for each in results]
        made_tiles = tuple(
            Tile(v.astype(t.dtype), self) for v, t in zip(turned, tiles, strict=True)
        )
        return made_tiles[0] if is_one else made_tiles

    def sort(
        self, tile: Tile, mode: int = 1, descending: bool = False, values: Tile | None = None
    ) -> Any:
        places = self.argsort(tile, mode, descending).values
        ordered = Tile(np.take_along_axis(tile.values, places, mode), self)
        if values is None:
            return ordered
        return ordered, Tile(np.take_along_axis(values.values, places, mode), self)

    def argsort(self, tile: Tile, mode: int = 1, descending: bool = False) -> Tile:
        keys = wide_values(tile.values) * (-1 if descending else 1)
        return Tile(np.argsort(keys, mode, kind="stable").astype(np.int32), self)

    def take_along(self, tile: Tile, numbers: Tile, mode: int = 1) -> Tile:
        at, inside = _places(tile, numbers, mode)
        found = np.take_along_axis(tile.values, at, mode)
        return Tile(np.where(inside, found, np.zeros((), tile.dtype)), self)

    def put_along(
        self, tile: Tile, numbers: Tile, values: Tile, mode: int = 1, add: bool = False
    ) -> Tile:
        made = wide_values(tile.values).copy()
        at, inside = _places(tile, numbers, mode)
        for place in zip(*np.nonzero(inside), strict=True):
            target = list(place)
            target[mode] = at[place]
            value = wide_values(values.values)[place]
            made[tuple(target)] = made[tuple(target)] + value if add else value
        return Tile(held_values(made, tile.dtype), self)

    def histogram(self, tile: Tile, bins: int, mode: int | None = None) -> Tile:
        equal = tile.values[..., None] == np.arange(bins)
        if mode is None:
            whole = (1,) * (tile.values.ndim - 1)
            counts = equal.reshape(-1, bins).sum(0).reshape(*whole, bins)
        else:
            counts = np.moveaxis(equal.sum(mode % tile.values.ndim), -1, mode)
        return Tile(counts.astype(_I32), self)

    def flip(self, tile: Tile, mode: int = 1) -> Tile:
        return Tile(np.flip(tile.values, mode), self)

    def reshape(self, tile: Tile, shape: tuple[int, ...]) -> Tile:
        return Tile(tile.values.reshape(shape), self)

    def permute(self, tile: Tile, modes: Sequence[int]) -> Tile:
        return Tile(tile.values.transpose(modes), self)

    def stack(self, tiles: Sequence[Tile], mode: int = 0) -> Tile:
        return Tile(np.stack([each.values for each in tiles], mode), self)

    def split(self, tile: Tile, parts: int, mode: int = -1) -> tuple[Tile, ...]:
        return tuple(Tile(part, self) for part in np.split(tile.values, parts, mode))

    def concatenate(self, tiles: Sequence[Tile], mode: int = 1) -> Tile:
        return Tile(np.concatenate([each.values for each in tiles], mode), self)


def _combined(tile: Tile) -> Tile:
    """A tile in the type in which its elements are combined, or in one that is rounded once."""
    if tile.dtype.itemsize > 1:
        return tile
    return tile.to(np.float32 if is_float(tile.dtype) else np.int32)


def _places(tile: Tile, numbers: Tile, mode: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of places, 0 where there is none, and which of them there are."""
    found = wide_values(numbers.values)
    inside = (found >= 0) & (found < tile.shape[mode])
    return np.where(inside, found, 0), inside
