"""The gradient of attention's queries as sums in memory, to which CTAs add in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from cutedialect.atoms import WARP_SIZE
from cutedialect.frontend import functions as cute
from cutedialect.frontend.atomics import atomic_add
from cutedialect.frontend.local_tiles import local_tile
from cutedialect.frontend.scalar import Scalar
from cutedialect.frontend.tensor_layouts import make_layout, make_tensor
from cutedialect.frontend.tile import Tensor, Tile, View
from cutedialect.layout import Layout, TiledCopy

# A block of an accumulator of which each thread of a warp holds two neighbors of a row, and those
# eight rows below.
_ROWS, _COLUMNS, _HALF, _PAIR = 16, 8, 8, 2
_BLOCK = _ROWS * _COLUMNS
_VALUES = _BLOCK // WARP_SIZE
# Threads that read sums again, and columns of 16 bits of a result that fill lines of memory.
_THREADS, _LINE_COLUMNS = 128, 64


@dataclass(frozen=True)
class SumTile:
    """How a tile (rows, columns) of sums lies in memory: by blocks of an accumulator, in which
    `vector` of the four values of a thread, 1 or 4, lie side by side, and those of the next thread
    behind them. So each atomic of a warp adds to whole lines, from the registers that a multiply
    leaves.
    """

    rows: int
    columns: int
    vector: int

    def within(self, sums: Tensor) -> Tensor:
        """Sums (..., rows, columns) as tiles (..., tiles, rows of a tile, columns)."""
        *heads, count, _ = sums.shape
        *strides, _, _ = sums.layout.stride
        apart = self.vector * WARP_SIZE
        below, beside = (_PAIR, 1) if self.vector == _VALUES else (_PAIR * apart, apart)
        rows = _HALF, _ROWS // _HALF, self.rows // _ROWS
        columns = _PAIR, _COLUMNS // _PAIR, self.columns // _COLUMNS
        by_rows = self.vector * columns[1], below, _ROWS * self.columns
        by_columns = beside, self.vector, _BLOCK
        shape = *heads, count // self.rows, rows, columns
        by_tiles = self.rows * self.columns
        return make_tensor(sums, make_layout(shape, (*strides, by_tiles, by_rows, by_columns)))

    @property
    def threads(self) -> int:
        """How many read a tile again."""
        return gcd(_THREADS, self.rows * self.columns // _VALUES)

    @property
    def copy(self) -> TiledCopy:
        """That of these threads: vectors of sums, of which a warp stores results in whole lines."""
        width = gcd(self.columns, _LINE_COLUMNS)
        lanes = width // _PAIR
        rows = min(_HALF, self.threads // lanes)
        blocks = self.threads // lanes // rows
        height = _ROWS * blocks
        threads = Layout((lanes, rows, blocks), (_PAIR * height, 1, _ROWS))
        values = Layout((_PAIR, _ROWS // _HALF, _HALF // rows), (height, _HALF, rows))
        tv = Layout((threads.shape, values.shape), (threads.stride, values.stride))
        return TiledCopy(tv, (height, width))


@dataclass(frozen=True)
class AddedSums:
    """A gradient of which a trip adds tiles to memory; `tiles` are None where another kernel has
    it.
    """

    tiles: Tensor | None
    shape: tuple[int, int]

    @staticmethod
    def of(sums: Tensor | None, tile: SumTile) -> AddedSums:
        """Sums (..., rows, columns) in memory."""
        shape = tile.rows, tile.columns
        return AddedSums(None if sums is None else tile.within(sums), shape)

    def multiply(self, a: Tile, b: View) -> Tile | None:
        """The product of two tiles."""
        if self.tiles is None:
            return None
        product = cute.zeros(self.shape)
        cute.tile_gemm(a, b, product)
        return product

    def add(self, product: Tile | None, place: Sequence[Scalar | int]) -> None:
        """Add a product to the tile in a place."""
        if self.tiles is not None and product is not None:
            atomic_add(product, local_tile(self.tiles, (None, None), place))
