"""A GEMM whose epilogue multiplies again: Y = X + relu(X W) U, the adapter of a frozen layer.

The hidden tile relu(X W) is as wide as it gets, so that one work item has all of it, in registers,
where the second multiply takes it from: it never goes to memory. All tiles of a row of Y share it.
"""

from __future__ import annotations

import sys

import numpy as np

import cutedialect as cute


@cute.kernel
def adapter(X, W, U, Y, *, tile=(128, 64, 64), hidden=64):
    """A work item is `tile[0]` rows of Y, of which it computes `tile[1]` columns at a time."""
    bm, bn, bk = tile
    i, _ = cute.tile_index(Y, (bm, None))
    x, w = cute.local_tile(X, (bm, bk), (i, None)), cute.local_tile(W, (bk, hidden), (None, 0))
    u = cute.local_tile(U, (hidden, bn), (0, None))
    same, y = (cute.local_tile(Z, (bm, bn), (i, None)) for Z in (X, Y))
    acc = cute.zeros((bm, hidden))
    for k in cute.range(x.tiles):
        cute.gemm(x[k], w[k], acc)
    h = cute.relu(acc).to(X.dtype)
    for n in cute.range(u.tiles):
        out = cute.zeros((bm, bn))
        cute.gemm(h, u[n], out)
        cute.copy((out + same[n].to(cute.f32)).to(Y.dtype), y[n])


def reference(x, w, u):
    """The same in float64, with the hidden values rounded as the kernel does."""
    hidden = np.maximum(x.astype(np.float64) @ w.astype(np.float64), 0).astype(x.dtype)
    return x + hidden.astype(np.float64) @ u.astype(np.float64)


def main() -> int:
    rng = np.random.default_rng(0)
    good = True
    for rows, columns, hidden in ((256, 256, 64), (100, 200, 40)):
        x = rng.standard_normal((rows, columns)).astype(np.float16)
        w = (rng.standard_normal((columns, hidden)) / 16).astype(np.float16)
        u = (rng.standard_normal((hidden, columns)) / 8).astype(np.float16)
        y = np.empty_like(x)
        adapter(x, w, u, y)
        exact = reference(x, w, u)
        error = np.abs(y - exact).max() / np.abs(exact).max()
        good &= error < 1e-3
        print(f"{rows} x {columns} through {hidden}: relative error {error:.1e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
