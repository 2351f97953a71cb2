"""Tiles of shapes that no copy atom was made for: what a target takes, the other takes, too."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest

import cutedialect as cute


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")


DTYPES = (np.float16, np.float64, np.int8, np.float32)
SHAPES = [
    (64, 2),
    (16, 33),
    (2, 24),
    (3, 24),
    (24, 1),
    (4, 4),
    (1, 12),
    (260, 8),
    (5, 96),
    (48, 32),
]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("tile", "dtype"), list(zip(SHAPES, cycle(DTYPES), strict=False)))
def test_tiles_of_aligned_tensors(tile, dtype, target) -> None:
    """The tensors' rows are whole lines of 16 bytes, the tile's are not."""

    @cute.kernel
    def program(X, R, Y):
        i, j = cute.tile_index(Y, tile)
        x = cute.local_tile(X, tile, (i, j)).load()
        row = cute.row_vector(R, j, tile[1])
        cute.copy(x + row, cute.local_tile(Y, tile, (i, j)))

    rng = np.random.default_rng(0)
    shape = tile[0] + 1, 16 * (-(-tile[1] // 16)) + 16
    x = rng.integers(-9, 9, shape).astype(dtype)
    r = rng.integers(-9, 9, shape[1]).astype(dtype)
    y = np.zeros_like(x)
    program(x, r, y, arch=target, backend="emulator")
    np.testing.assert_array_equal(y, x + r)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_solve_of_small_systems(target) -> None:
    """Forward substitution on 4 x 4 systems: columns of a tile, one after the other."""

    @cute.kernel
    def solve(L, B, X, *, n=4):
        b = cute.tile_index(X, (1,))
        rest = cute.zeros((n, 1))
        rest.assign(cute.local_tile(B, (n, 1), (b, 0, 0)).load())
        for step in range(n):
            column = cute.local_tile(L, (n, 1), (b, 0, step)).load()
            at = cute.coord(rest, 0)
            x = cute.column_sum(cute.where(at == step, rest, 0.0))
            pivot = cute.column_sum(cute.where(at == step, column, 0.0))
            x = x / pivot
            cute.copy(x, cute.local_tile(X, (1, 1), (b, step, 0)))
            rest.assign(rest - column * x)

    rng = np.random.default_rng(0)
    lower = np.tril(rng.integers(-2, 3, (6, 4, 4))).astype(np.float32)
    lower[:, range(4), range(4)] = rng.choice([1.0, 2.0, -1.0], (6, 4))
    wanted = rng.integers(-4, 5, (6, 4, 1)).astype(np.float32)
    x = np.zeros_like(wanted)
    solve(lower, lower @ wanted, x, arch=target, backend="emulator")
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.some(9)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("wide", ["f16", "f32", "i32"])
@pytest.mark.parametrize("rows", [1, 3, 33])
def test_conversions_of_fewer_elements_than_a_register_holds(rows, wide, target) -> None:
    """Threads with 2, 6 or 66 bytes: the last register of four elements is half empty."""

    @cute.kernel
    def program(X, Y, *, dtype=cute.f16):
        i = cute.tile_index(Y, (rows,))
        x = cute.local_tile(X, (rows, 16), (i, 0)).load()
        cute.copy(x.to(dtype), cute.local_tile(Y, (rows, 16), (i, 0)))

    dtype = getattr(cute, wide)
    x = np.random.default_rng(0).integers(-9, 9, (rows + 1, 14)).astype(np.int8)
    y = np.zeros((rows + 1, 14), dtype.numpy)
    program(x, y, dtype=dtype, arch=target, backend="emulator")
    np.testing.assert_array_equal(y, x)


@pytest.mark.some(2)
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("warps", ["(2,2)", "(2,4)", "(4,2)"])
def test_warps_that_share_the_columns_of_uneven_blocks(warps, target) -> None:
    """No line of 128 bytes divides the columns of a tile: each warp's columns begin at a block of
    the layout in shared memory all the same, of operands, of results, and between multiplies.
    """
    rng = np.random.default_rng([ord(warps[1]), int(target[3:5])])
    columns = int(rng.choice([80, 96, 160, 48])) * (2 if warps == "(2,4)" else 1)
    m, n, k = 130, columns + 8, 72
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    schedule = f"tile = (128,{columns},32), warps = {warps}"
    got = cute.gemm(a, b, arch=target, backend="emulator", schedule=schedule)
    np.testing.assert_array_equal(got, a @ b)
    turned = cute.gemm(np.asfortranarray(a), b, arch=target, backend="emulator", schedule=schedule)
    np.testing.assert_array_equal(turned, a @ b)
