"""Tiles of rows that a register tile numbers, and of pixels of images: each row is a tile of one
row of the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from .cta import Fragment
from .memory import Combine, View


class IndexedRows:
    """Row r of the tile is the row `numbers[r]` of a tensor along `mode`, in the columns that the
    tile has at its coordinates, which count extents `of`; rows that the tensor does not have read
    0, and writes to them are lost. Rows are written in order. `places` are a mode and the
    coordinate of each row along it.
    """

    def __init__(
        self,
        tensor: View,
        tile: tuple[int, ...],
        coords: tuple[int, ...],
        mode: int,
        numbers: Fragment,
        of: tuple[int, ...],
        places: tuple[int, Fragment] | None = None,
    ) -> None:
        one, counted = ((*each[:mode], 0, *each[mode + 1 :]) for each in (tile, of))
        self.rows: list[View] = []
        for row, number in enumerate(numbers.read().reshape(-1)):
            at = list(coords)
            at[mode] = int(number)
            if places is not None:
                at[places[0]] = int(places[1].read().reshape(-1)[row])
            self.rows.append(tensor.local_tile(one, tuple(at), counted))
        width = self.rows[0].shape[0] if self.rows[0].shape else 1
        self.shape = len(self.rows), width

    def read(self) -> np.ndarray:
        """The elements of all rows."""
        return np.stack([row.read() for row in self.rows]).reshape(self.shape)

    def write(self, values: np.ndarray, combine: Combine | None = None) -> None:
        """Store the rows that there are, or combine what comes with what is there."""
        for row, each in zip(self.rows, values, strict=True):
            row.write(each.reshape(row.shape), combine)

    def subview(self, origin: Sequence[int], shape: Sequence[int]) -> IndexedRows:
        """Some of the rows, whole."""
        if origin[1] or shape[1] != self.shape[1]:
            raise ValueError(f"expected whole rows of a tile of numbered rows, got {shape}")
        part = object.__new__(IndexedRows)
        part.rows = self.rows[origin[0] : origin[0] + shape[0]]
        part.shape = shape[0], shape[1]
        return part

    def transpose(self) -> TurnedRows:
        """The tile with its rows as columns."""
        return TurnedRows(self)


class TurnedRows:
    """The transpose of such a tile, which is only read."""

    def __init__(self, tile: IndexedRows) -> None:
        self.tile = tile
        self.shape = tile.shape[::-1]

    def read(self) -> np.ndarray:
        """The elements of all rows."""
        return self.tile.read().T

    def transpose(self) -> IndexedRows:
        """The tile itself."""
        return self.tile


class PixelRows(IndexedRows):
    """The rows of a tile are the pixels of images (N, H, W, C) that a walk finds from a place on:
    the place is counted as a digit of W, then of H, then of N. A walk has lower and upper corners
    and steps of H and W. Each pixel is moved by `offsets`.
    """

    def __init__(
        self,
        images: View,
        tile: tuple[int, int],
        coords: tuple[int, ...],
        offsets: tuple[int, ...],
        walk: tuple[tuple[int, ...], ...],
    ) -> None:
        lower, upper, steps = walk
        counts = tuple(
            (int(extent) - 1 + high - low) // step + 1
            for extent, low, high, step in zip(images.shape[1:-1], lower, upper, steps, strict=True)
        )
        places = tuple(
            (at - low) // step for at, low, step in zip(coords[1:-1], lower, steps, strict=True)
        )
        number = int(np.ravel_multi_index(places, counts)) + coords[0] * prod(counts)
        dropped = (0,) * (len(coords) - 1)
        self.rows = []
        for at in range(number, number + tile[0]):
            image, inside = divmod(at, prod(counts))
            digits = np.unravel_index(inside, counts)
            pixel = (
                int(digit) * step + low + offset
                for digit, step, low, offset in zip(digits, steps, lower, offsets, strict=True)
            )
            place = (image, *pixel, coords[-1])
            self.rows.append(images.local_tile((*dropped, tile[1]), place, (*dropped, tile[1])))
        self.shape = tile
