"""Tiles whose columns `cute-tile` cuts to what a warp reads of a row: coordinates, masks, vectors,
halves of rows and gathered rows still mean what the program says.
"""

import numpy as np
import pytest

import cutedialect as cute


@cute.kernel
def program(X, b, c, Y, Z, *, tile):
    """Y = X + b + 3 c at odd places, -1 at even ones; Z = right half of X's rows times the left."""
    i, j = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, j)).to(cute.f32)
    y = x + cute.row_vector(b, j, tile[1]) + 3.0 * cute.column_vector(c, i, tile[0])
    place = cute.coord(x, 0, i * tile[0]) * Y.shape[1] + cute.coord(x, 1, j * tile[1])
    y = cute.where(place % 2 == 1, y, -1.0)
    cute.copy(y, cute.local_tile(Y, tile, (i, j)), mask=place % 3 != 0)
    width = Y.shape[1] // 2
    parts = X.slice(1, 0, width), X.slice(1, width, 2 * width)
    left, right = (cute.local_tile(part, tile, (i, j)).load() for part in parts)
    cute.copy(left * right, cute.local_tile(Z, tile, (i, j)))


@cute.kernel
def gather(X, rows, Y, *, tile):
    i, j = cute.tile_index(Y, tile)
    at = cute.local_tile(rows, (tile[0],), (i,))
    cute.copy(cute.local_tile(X, tile, (at, j)), cute.local_tile(Y, tile, (i, j)))


TILES = ((4, 1024), (16, 768), (6, 2048), (1, 4096), (2, 2048), (8, 1000))


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("seed", range(3))
def test_tiles_longer_than_what_a_warp_reads(seed, arch):
    rng = np.random.default_rng(seed)
    tile = TILES[rng.integers(len(TILES))]
    rows, columns = int(rng.integers(1, 30)), 2 * int(rng.integers(1, 700))
    x = rng.integers(-9, 10, (rows, columns)).astype(np.float32)
    b, c = (rng.integers(-9, 10, n).astype(np.float32) for n in (columns, rows))
    y, z = np.full_like(x, 7), np.zeros((rows, columns // 2), np.float32)
    program(x, b, c, y, z, tile=tile, arch=arch, backend="emulator")
    place = np.arange(x.size).reshape(x.shape)
    exact = np.where(place % 2 == 1, x + b + 3 * c[:, None], -1)
    assert np.array_equal(y, np.where(place % 3 != 0, exact, 7))
    assert np.array_equal(z, x[:, : columns // 2] * x[:, columns // 2 :])

    at = rng.integers(0, rows, rows).astype(np.int32)
    if seed == 0:
        tile = 4, 16384  # more than registers hold
    gather(x, at, y, tile=tile, arch=arch, backend="emulator")
    assert np.array_equal(y, x[at])


def test_what_is_reduced_or_transposed_stays_whole():
    @cute.kernel
    def reduced(X, Y, *, tile=(4, 1024)):
        i, j = cute.tile_index(Y, tile)
        x = cute.local_tile(X, tile, (i, j)).load()
        cute.copy(x - cute.row_sum(x), cute.local_tile(Y, tile, (i, j)))

    @cute.kernel
    def selected(X, Y, *, tile=(4, 1024)):
        at = cute.tile_index(Y, tile)
        x = cute.local_tile(X, tile, at).load()
        cute.copy(cute.where(cute.coord(x, 1) > 3, x, 0), cute.local_tile(Y, tile, at))

    x = np.zeros((8, 1500), np.float32)
    remarks = [cute.compile(k, x, x, arch="sm_80").remarks for k in (reduced, selected)]
    told = [[r for r in each if "leave lanes idle" in r.message] for each in remarks]
    assert [len(each) for each in told] == [0, 1]
