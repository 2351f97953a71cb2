"""The gated half of a feed-forward layer, silu(X W1) * (X W2), in one kernel.

Two matrix multiplies share the operand X. The program says no more than that: a tile of X comes to
shared memory once for both, and on Hopper one ring holds the three tiles of a step.
"""

from __future__ import annotations

import sys

import numpy as np

import cutedialect as cute


@cute.kernel
def gated_mlp(X, W1, W2, Y, *, tile=(128, 128, 64)):
    """Y = silu(X W1) * (X W2); every tile of Y is one work item."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    gX = cute.local_tile(X, (bm, bk), (m, None))
    g1, g2 = (cute.local_tile(W, (bk, bn), (None, n)) for W in (W1, W2))
    gate, up = cute.zeros((bm, bn), cute.f32), cute.zeros((bm, bn), cute.f32)
    for k in cute.range(gX.tiles):
        x = gX[k]
        cute.gemm(x, g1[k], gate)
        cute.gemm(x, g2[k], up)
    out = cute.silu(gate) * up
    cute.copy(out.to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


def main() -> int:
    rng = np.random.default_rng(0)
    good = True
    for m, n, k in ((128, 128, 128), (100, 200, 72)):
        x = rng.standard_normal((m, k)).astype(np.float16)
        w1, w2 = (rng.standard_normal((k, n)).astype(np.float16) / 8 for _ in range(2))
        y = np.empty((m, n), np.float16)
        gated_mlp(x, w1, w2, y)
        gate, up = (x.astype(np.float64) @ w.astype(np.float64) for w in (w1, w2))
        exact = gate / (1 + np.exp(-gate)) * up
        error = np.abs(y - exact).max() / np.abs(exact).max()
        good &= error < 1e-3
        print(f"{m} x {n} x {k}: relative error {error:.1e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
