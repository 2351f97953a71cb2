"""Tiles that CTAs of a cluster share: all of them one, some of them another of the same stage."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute


@cute.kernel
def program(A, B, C, D):
    """A B for each tile of C: the tile of A is that of all CTAs, B's that of a column of them."""
    i, j = cute.tile_index(C, (64, 64))
    acc = cute.zeros((64, 64), cute.f32)
    cute.gemm(cute.local_tile(A, (64, 64), (0, 0)), cute.local_tile(B, (64, 64), (0, j)), acc)
    d = cute.local_tile(D, (64, 64), (None, 0))
    for k in cute.range(d.tiles):
        tile = d[k]
        cute.gemm(tile, tile.T, acc)
    cute.copy(acc, cute.local_tile(C, (64, 64), (i, j)))


@pytest.mark.some(4)
@pytest.mark.parametrize("trips", [0, 1, 3])
@pytest.mark.parametrize("cluster", ["(2,2)", "(2,1)", "(4,1)"])
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_a_group_inside_of_another_is_told_once(arch, cluster, trips):
    """A stage that two copies multicast to is free when each CTA has said so once."""
    rng = np.random.default_rng(trips)
    a, b, d = (
        rng.integers(-1, 2, shape).astype(np.float16)
        for shape in ((64, 64), (64, 136), (64 * trips, 64))
    )
    c = np.full((280, 136), np.nan, np.float32)
    schedule = f"cluster = {cluster}, stages = 2"
    program(a, b, c, d, arch=arch, backend="emulator", schedule=schedule)
    one = a.astype(np.float32) @ b.astype(np.float32)
    other = sum((t @ t.T for t in d.astype(np.float32).reshape(trips, 64, 64)), np.zeros((64, 64)))
    rows = np.arange(280) % 64
    columns = np.arange(136) % 64
    assert np.array_equal(c, one[rows] + other[rows][:, columns])
