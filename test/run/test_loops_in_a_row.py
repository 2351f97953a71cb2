"""Loops of multiplies that follow each other, as the taps of a convolution that Python unrolls: of
what shared memory has no rings for, they share one.
"""

import re

import numpy as np
import pytest

import cutedialect as cute

TAPS, ROWS = 8, 128


@cute.kernel
def convolution(X, W, Y):
    """Y[p] = the sum of X[p + r] W[r] over the taps r, channels in a loop for each."""
    m, n = cute.tile_index(Y, (128, 128))
    acc, w = cute.zeros((128, 128)), cute.local_tile(W, (64, 128), (None, n))
    for tap in range(TAPS):
        x = cute.local_tile(X.slice(0, tap, tap + ROWS), (128, 64), (m, None))
        for c in cute.range(x.tiles):
            cute.gemm(x[c], w[tap * x.tiles + c], acc)
    cute.copy(acc, cute.local_tile(Y, (128, 128), (m, n)))


@pytest.mark.some(2)
@pytest.mark.parametrize("channels", [64, 128, 320])
def test_they_share_the_stages_of_a_ring(channels):
    """One trip of a loop, fewer than there are stages, more."""
    rng = np.random.default_rng(channels)
    x = rng.integers(-1, 2, (ROWS + TAPS, channels)).astype(np.float16)
    w = rng.integers(-1, 2, (TAPS * channels, 128)).astype(np.float16)
    y = np.zeros((ROWS, 128), np.float32)
    convolution(x, w, y, arch="sm_90a", backend="emulator")
    parts = w.astype(np.float64).reshape(TAPS, channels, 128)
    assert np.array_equal(y, sum(x[r : r + ROWS] @ parts[r] for r in range(TAPS)))
    kernel = cute.compile(convolution, x, w, y, arch="sm_90a")
    assert "wgmma.mma_async" in kernel.ptx
    told = [re.search(r"tiles of \d+ loops share (\d) stages", r.message) for r in kernel.remarks]
    assert [found for found in told if found]
