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
# Columns of a result that a thread stores at once, of turned sums.
_STORED_COLUMNS = 8


@dataclass(frozen=True)
class SumTile:
    """How a tile (rows, columns) of sums lies in memory: by blocks of an accumulator, in which
    `vector` of the four values of a thread, 1 or 4, lie side by side, and those of the next thread
    behind them. So each atomic of a warp adds to whole lines, from the registers that a multiply
    leaves. Where sums are `turned`, the accumulator is of the transposed tile.
    """

    rows: int
    columns: int
    vector: int
    turned: bool = False

    def within(self, sums: Tensor) -> Tensor:
        """Sums (..., rows, columns) as tiles (..., tiles, rows of a tile, columns)."""
        *heads, count, _ = sums.shape
        *strides, _, _ = sums.layout.stride
        apart = self.vector * WARP_SIZE
        below, beside = (_PAIR, 1) if self.vector == _VALUES else (_PAIR * apart, apart)
        # Of the accumulator: its rows and columns, each with their strides.
        high, wide = (self.columns, self.rows) if self.turned else (self.rows, self.columns)
        modes = (
            ((_HALF, _ROWS // _HALF, high // _ROWS),
             (self.vector * (_COLUMNS // _PAIR), below, _ROWS * wide)),
            ((_PAIR, _COLUMNS // _PAIR, wide // _COLUMNS), (beside, self.vector, _BLOCK)),
        )  # fmt: skip
        rows, columns = modes[::-1] if self.turned else modes
        shape = *heads, count // self.rows, rows[0], columns[0]
        by_tiles = self.rows * self.columns
        return make_tensor(sums, make_layout(shape, (*strides, by_tiles, rows[1], columns[1])))

    @property
    def threads(self) -> int:
        """How many read a tile again."""
        if self.turned:
            return self._turned_copy[0].size()
        return gcd(_THREADS, self.rows * self.columns // _VALUES)

    @property
    def copy(self) -> TiledCopy:
        """That of these threads: vectors of sums, of which a warp stores results in whole lines."""
        if self.turned:
            threads, height, width = self._turned_copy
            values = Layout((_STORED_COLUMNS,), (height,))
        else:
            width = gcd(self.columns, _LINE_COLUMNS)
            lanes = width // _PAIR
            rows = min(_HALF, self.threads // lanes)
            blocks = self.threads // lanes // rows
            height = _ROWS * blocks
            threads = Layout((lanes, rows, blocks), (_PAIR * height, 1, _ROWS))
            values = Layout((_PAIR, _ROWS // _HALF, _HALF // rows), (height, _HALF, rows))
        tv = Layout((threads.shape, values.shape), (threads.stride, values.stride))
        return TiledCopy(tv, (height, width))

    @property
    def _turned_copy(self) -> tuple[Layout, int, int]:
        """Threads of the copy, and its rows and columns: each thread reads eight columns of a row,
        and those of a warp read sectors of memory and store lines.
        """
        halves, quarter = _ROWS // _HALF, _LINE_COLUMNS // _ROWS
        beside = gcd(self.columns // _ROWS, _THREADS // _ROWS)
        blocks = gcd(self.rows // _COLUMNS, _THREADS // _ROWS // beside)
        height, near = _COLUMNS * blocks, gcd(beside, quarter)
        shape = (_PAIR, halves, halves, near, halves, beside // near, blocks)
        stride = (1, _HALF * height, _PAIR, _ROWS * height, 2 * _PAIR, _ROWS * near * height, _HALF)
        return Layout(shape, stride), height, _ROWS * beside


@dataclass(frozen=True)
class AddedSums:
    """A gradient of which a trip adds tiles to memory; `tiles` are None where another kernel has
    it.
    """

    tiles: Tensor | None
    tile: SumTile

    @staticmethod
    def of(sums: Tensor | None, tile: SumTile) -> AddedSums:
        """Sums (..., rows, columns) in memory."""
        return AddedSums(None if sums is None else tile.within(sums), tile)

    def multiply(self, a: Tile, b: View) -> Tile | None:
        """The product of the transpose of a tile by another, itself transposed where sums are
        turned.
        """
        if self.tiles is None:
            return None
        shape = self.tile.rows, self.tile.columns
        if self.tile.turned:
            product = cute.zeros(shape[::-1])
            cute.tile_gemm(b.T, a, product)
        else:
            product = cute.zeros(shape)
            cute.tile_gemm(a.T, b, product)
        return product

    def add(self, product: Tile | None, place: Sequence[Scalar | int]) -> None:
        """Add a product to the tile in a place."""
        if self.tiles is not None and product is not None:
            into = local_tile(self.tiles, (None, None), place)
            atomic_add(product, into.T if self.tile.turned else into)
