"""Loops that follow each other, and multiplies beside them, add into one accumulator in tensor
memory: the first multiply of all that run begins it, whichever loops have a trip.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute


@cute.kernel
def taps_of_constant_trips(X, W, Y):
    """Nine taps, as a convolution of 3 x 3 that Python unrolls: no room for nine accumulators."""
    acc, w = cute.zeros((128, 128)), cute.local_tile(W, (64, 128), (None, 0))
    for tap in range(9):
        x = cute.local_tile(X.slice(0, tap, tap + 128), (128, 64), (0, None))
        for c in cute.range(x.tiles):
            cute.gemm(x[c], w[tap * x.tiles + c], acc)
    cute.copy(acc, cute.local_tile(Y, (128, 128), (0, 0)))


def test_an_unrolled_convolution_multiplies_into_tensor_memory() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-1, 2, (128 + 9, 128)).astype(np.float16)
    w = rng.integers(-1, 2, (9 * 128, 128)).astype(np.float16)
    y = np.zeros((128, 128), np.float32)
    taps_of_constant_trips(x, w, y, arch="sm_100a", backend="emulator")
    parts = w.astype(np.float64).reshape(9, 128, 128)
    np.testing.assert_array_equal(y, sum(x[r : r + 128] @ parts[r] for r in range(9)))
    kernel = cute.compile(taps_of_constant_trips, x, w, y, arch="sm_100a")
    assert "tcgen05.mma" in kernel.ptx
    assert "mma.sync" not in kernel.ptx


@pytest.mark.parametrize("trips", [(0, 0, 0), (0, 2, 0), (1, 0, 2), (0, 0, 1), (2, 1, 1)])
@pytest.mark.parametrize("beside", [(), (0,), (1,), (3,), (0, 2)])
@pytest.mark.some(3)
def test_any_of_them_may_be_the_first(trips, beside) -> None:
    @cute.kernel
    def program(A, B, Y, first, second, third):
        i, j = cute.tile_index(Y, (128, 64))
        acc = cute.zeros((128, 64))
        for at, count in enumerate((first, second, third, None)):
            if at in beside:
                a = cute.local_tile(A, (128, 64), (i, 4))
                cute.gemm(a, cute.local_tile(B, (64, 64), (4, j)), acc)
            if count is None:
                break
            for k in cute.range(count):
                a = cute.local_tile(A, (128, 64), (i, k + at))
                cute.gemm(a, cute.local_tile(B, (64, 64), (k + at, j)), acc)
        cute.copy(acc, cute.local_tile(Y, (128, 64), (i, j)))

    rng = np.random.default_rng(1)
    a = rng.integers(-1, 2, (256, 320)).astype(np.float16)
    b = rng.integers(-1, 2, (320, 128)).astype(np.float16)
    y = np.full((256, 128), 7, np.float32)
    blocks = [at + k for at, count in enumerate(trips) for k in range(count)] + [4] * len(beside)
    wanted = np.zeros_like(y)
    for k in blocks:
        wanted += a[:, 64 * k : 64 * k + 64].astype(np.float32) @ b[64 * k : 64 * k + 64]
    program(a, b, y, *trips, arch="sm_100a", backend="emulator")
    np.testing.assert_array_equal(y, wanted)
    kernel = cute.compile(program, a, b, y, *trips, arch="sm_100a")
    assert "tcgen05.mma" in kernel.ptx
    # Sums of several products in registers would be additions.
    assert "add.f32" not in kernel.ptx
