"""Loops whose number of trips is known, none of them included, and what follows them."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("trips", [0, 1, 3])
def test_multiplies_in_a_loop_of_known_trips(trips, target) -> None:
    @cute.kernel
    def program(A, B, C):
        acc = cute.zeros((64, 32))
        a, b = cute.local_tile(A, (64, 32), (0, None)), cute.local_tile(B, (32, 32), (None, 0))
        for k in cute.range(trips):
            cute.gemm(a[k], b[k], acc)
        cute.copy(acc, cute.local_tile(C, (64, 32), (0, 0)))

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, s).astype(np.float16) for s in ((64, 96), (96, 32)))
    c = np.ones((64, 32), np.float32)
    program(a, b, c, arch=target, backend="emulator")
    depth = 32 * trips
    np.testing.assert_array_equal(c, a[:, :depth].astype(np.float32) @ b[:depth])


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a", "sm_100a"])
def test_tiles_of_batches_that_threads_load_ahead(target) -> None:
    """Rows that begin at any element go through registers, some trips ahead: behind the last trip
    there is no batch to load.
    """

    @cute.kernel
    def program(A, B, C):
        m, n = cute.tile_index(C, (64, 32))
        acc = cute.zeros((64, 32))
        a = cute.local_tile(A, (64, 64), (None, m, 0))
        for batch in cute.range(a.tiles):
            cute.gemm(a[batch], cute.local_tile(B, (64, 32), (0, n)), acc)
        cute.copy(acc, cute.local_tile(C, (64, 32), (m, n)))

    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (3, 64, 65)).astype(np.float16)[:, :, :64]
    b = rng.integers(-2, 3, (64, 32)).astype(np.float16)
    c = np.ones((64, 32), np.float32)
    program(a, b, c, arch=target, backend="emulator")
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b).sum(0))
