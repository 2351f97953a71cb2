"""What a read of a loop's last trip is for: followed through numbers, too."""

import ml_dtypes
import numpy as np

import cutedialect as cute


@cute.kernel
def stopped(T, A, B, n, Y):
    """A loop that the smallest numbers of columns, which come from other warps, end."""
    i, j = cute.tile_index(Y, (64, 32))
    tile = cute.local_tile(T, (32, 64), (0, j, 0)).T.load()
    least = cute.min(tile, mode=-2)
    kept = cute.full((1, 32), -1, cute.i8)
    for _ in cute.range(n + 3, 0, -2):
        acc = cute.zeros((64, 32), cute.f32)
        rows = cute.local_tile(A, (64, 48), (i, None))
        columns = cute.local_tile(B, (48, 32), (None, j))
        for k in cute.range(rows.tiles):
            cute.gemm(rows[k], columns[k], acc)
        cute.break_if(cute.any(least > 0))
        kept.assign(cute.minimum(cute.maximum(least, -2), 2))
    cute.copy(tile, cute.local_tile(Y, (64, 32), (i, j)))


def test_what_becomes_a_number_is_followed():
    rng = np.random.default_rng(0)
    tiles = rng.integers(-5, 6, (2, 64, 128)).astype(np.int8)
    a = rng.integers(-3, 4, (45, 104)).astype(ml_dtypes.bfloat16)
    b = rng.integers(-3, 4, (104, 64)).astype(ml_dtypes.bfloat16)
    got = np.zeros((55, 48), np.int8)[:, :46]
    stopped(tiles, a, b, 2, got, arch="sm_90a", backend="emulator")
    assert np.array_equal(got[:, :32], tiles[0, :32, :55].T)
