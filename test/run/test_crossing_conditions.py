"""Tiles of conditions that one role computes and another one reads: of attention, which rows see
no key, and which have a new largest score.
"""

import numpy as np
import pytest

import cutedialect as cute

# Rows at the top that see nothing.
HIDDEN = 20
UPDATES = "(load 1 @40: loads; mma 4 @216: multiplies updates; main * @240: rest)"
PLANS = {
    "corrected": ("sm_100a", 128, "corrected"),
    "split": ("sm_100a", 256, "split"),
    "updates apart": ("sm_90a", 64, UPDATES),
}


@cute.kernel
def attended(Q, K, V, Y, *, rows=128, way="of sums"):
    q, out = cute.local_tile(Q, (rows, 64), (0, 0)), cute.local_tile(Y, (rows, 64), (0, 0))
    k, v = (cute.local_tile(X, (64, 64), (None, 0)) for X in (K, V))
    o, total, m = cute.zeros((rows, 64)), cute.zeros((rows, 1)), cute.full((rows, 1), -cute.inf)
    # With "kept" each trip changes a tile of conditions.
    none = cute.full((rows, 1), True, "bool")
    row = cute.coord(total, 0)
    for j in cute.range(k.tiles):
        s = cute.zeros((rows, 64))
        cute.gemm(q, k[j].T, s)
        s.assign(cute.where(cute.coord(s, 1, j * 64) + HIDDEN <= row, s, -cute.inf))
        new = cute.maximum(m, cute.row_max(s))
        base = cute.where(new == -cute.inf, 0.0, new)
        p, r = cute.exp(s - base), cute.exp(m - base)
        total.assign(total * r + cute.row_sum(p))
        o.assign(cute.where(new > m, o * r, o) if way == "in the loop" else o * r)
        if way == "kept":
            none.assign(none & (new == -cute.inf))
        m.assign(new)
        cute.gemm(p.to(V.dtype), v[j], o)
    empty = none if way == "kept" else total == 0
    cute.copy(cute.where(empty, 0.0, o / total).to(Y.dtype), out)


@pytest.mark.some(1)
@pytest.mark.parametrize("way", ["of sums", "in the loop", "kept"])
@pytest.mark.parametrize("plan", PLANS)
def test_conditions_cross_roles(plan, way, every_stage):
    arch, rows, roles = PLANS[plan]
    rng = np.random.default_rng(rows)
    q, k, v = (rng.standard_normal((rows, 64)).astype(np.float16) for _ in range(3))
    q /= 8
    y = np.full_like(q, np.nan)
    schedule = f"roles = {roles}, warps = (4,1), stages = 2"
    attended(q, k, v, y, rows=rows, way=way, arch=arch, backend="emulator", schedule=schedule)
    seen = np.arange(rows) + HIDDEN <= np.arange(rows)[:, None]
    p = np.where(seen, np.exp(q.astype(np.float64) @ k.T), 0)
    total = p.sum(1, keepdims=True)
    want = p @ v / np.where(total == 0, 1, total)
    assert np.abs(y - want).max() < 2e-3
    assert "cute-assign-warp-roles" in every_stage
