"""Transpose: rows are read and written coalesced on either side.

The program says only that the transposed tile goes to the transposed place. Where rows of both
sides are whole vectors, each thread turns blocks of them in its registers; else loads and stores
want different thread layouts, and `cute-partition` brings the tile through shared memory.
"""

from __future__ import annotations

import sys

import numpy as np

import cutedialect as cute


@cute.kernel
def transpose(X, Y, *, tile=(64, 64)):
    """Y = X transposed."""
    rows, columns = tile
    i, j = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, (rows, columns), (i, j)))
    cute.copy(x.T, cute.local_tile(Y, (columns, rows), (j, i)))


def tile_for(rows, columns):
    """Tiles whose stores are long where rows of either side are not whole vectors: what two tiles
    write of a sector costs more than what they read of one. Elements that are moved one by one take
    the registers of larger tiles.
    """
    if rows % 8 == columns % 8 == 0:
        return 128, 128
    return (256, 64) if rows % 2 == columns % 2 == 0 else (256, 32)


def main() -> int:
    rng = np.random.default_rng(0)
    good = True
    for shape, dtype in (((128, 192), np.float32), ((70, 133), np.float32), ((96, 64), np.float16)):
        x = rng.integers(-100, 100, shape).astype(dtype)
        y = np.zeros(shape[::-1], dtype)
        transpose(x, y)
        same = np.array_equal(y, x.T)
        good &= same
        print(f"transpose {shape[0]} x {shape[1]} {x.dtype}: {'exact' if same else 'WRONG'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
