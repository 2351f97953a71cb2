"""Where what an op makes lies otherwise than its user was promised, a conversion stands between."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute


@cute.kernel
def row_sums_of_both(A, B, X, Y, *, tile=(64, 64, 32)):
    """Y = row sums of A B, plus those of X, which is loaded in a layout of its own."""
    bm, bn, bk = tile
    acc, total = cute.zeros((bm, bn)), cute.zeros((bm, 1))
    a, b = cute.local_tile(A, (bm, bk), (0, None)), cute.local_tile(B, (bk, bn), (None, 0))
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    total.assign(cute.row_sum(acc))
    total += cute.row_sum(cute.local_tile(X, (bm, bn), (0, 0)).to(cute.f32))
    cute.copy(total, cute.local_tile(Y, (bm, 1), (0, 0)))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_reduction_is_converted_for_its_user(arch):
    rng = np.random.default_rng(0)
    a, b, x = (rng.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(3))
    y = np.zeros((64, 1), np.float32)
    row_sums_of_both(a, b, x, y, arch=arch, backend="emulator")
    exact = (a.astype(np.float64) @ b + x).sum(1, keepdims=True)
    np.testing.assert_array_equal(y, exact)


@cute.kernel
def any_above(X, Y, limit, *, tile=(32, 32)):
    """Y = 1 in the tiles of X that hold a number above the limit, else 2."""
    m = cute.tile_index(X, (tile[0],))
    found = cute.any(cute.local_tile(X, tile, (m, 0)).load() > limit)
    with cute.when(found):
        cute.copy(cute.full((1,), 1.0), cute.local_tile(Y, (1,), (m,)))
    with cute.otherwise():
        cute.copy(cute.full((1,), 2.0), cute.local_tile(Y, (1,), (m,)))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_condition_of_any_element_is_one_of_the_whole_tile(arch):
    x = np.zeros((96, 32), np.float32)
    x[33, 31] = x[95, 7] = 5
    y = np.zeros(3, np.float32)
    any_above(x, y, 4.0, arch=arch, backend="emulator")
    np.testing.assert_array_equal(y, [2, 1, 1])
